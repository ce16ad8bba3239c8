"""Write the password of Airflow's only user to the file of its simple login."""

import json
import os
from pathlib import Path

place = Path(os.environ["AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE"])
place.touch(mode=0o600)
place.write_text(json.dumps({"admin": os.environ["AIRFLOW_ADMIN_PASSWORD"]}))
