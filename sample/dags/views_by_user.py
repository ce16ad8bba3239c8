"""A DAG that depends on a dataset: it runs after each publication of `web.page_views` and counts new views by user.

A pattern to copy: put it next to your DAGs and change the two names. After the rows are safe, it saves the snapshot up
to which it has read in a variable. So it reads each row once, even if one run is for several batches. A run that is
tried again reads the same rows, and a run without new rows does nothing.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from airflow.sdk import Asset, Variable, dag, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

DATASET, TABLE = "page_views", "web.page_views"
READ = f"{DATASET}_read_up_to"


@dag(schedule=Asset(name=TABLE, uri=f"onefold://{TABLE}", group="onefold"), max_active_runs=1, tags=["example"])
def views_by_user() -> None:
    """Count the views of each publication by user."""

    @task
    def count() -> dict[str, Any]:
        """The number of new views by user, and the batches of this run."""
        from onefold.orchestration.connections import open_dataset
        from onefold.report.changes import changes_of

        found = changes_of(*open_dataset(DATASET), since=Variable.get(READ, default=None))
        if found.until is None or not found.rows:
            raise AirflowSkipException("nothing new")
        views = Counter(str(change["row"]["user_id"]) for change in found.rows if change["change"] == "inserted")
        # Write the rows to their destination here. After that, and only then:
        Variable.set(READ, str(found.until.snapshot))
        events = get_current_context()["triggering_asset_events"]
        return {"views": dict(views), "batches": [event.extra["batch"] for of in events.values() for event in of]}

    count()


views_by_user()
