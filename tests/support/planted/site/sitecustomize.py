"""Python imports this at its start wherever the folder is on PYTHONPATH: every process of a test gets the fault."""

import os

if os.environ.get("ONEFOLD_PLANTED"):
    from tests.support.planted.plant import plant

    plant(os.environ["ONEFOLD_PLANTED"])
