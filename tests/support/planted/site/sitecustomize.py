"""Python imports this at its start wherever the folder is on PYTHONPATH: every process of a test gets the fault.

The variable has none of our own prefixes: tests start `onefold` without those of the run.
"""

import os

if os.environ.get("PLANTED_FAULT"):
    from tests.support.planted.plant import plant

    plant(os.environ["PLANTED_FAULT"])
