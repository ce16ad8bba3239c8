"""A DAG behind a dataset: it runs when `web.page_views` was published, and counts the views that are new, by user.

A pattern to copy: put it beside your DAGs and change the two names. What it has read up to is one snapshot, kept in a
variable once the rows are safe. So each row is taken once, however many batches one run is for; a run that is
tried again takes the same rows, and one that finds nothing new does nothing.
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
        """How many views are new, and of whom; the batches that this run is for."""
        from onefold.orchestration.connections import open_dataset
        from onefold.report.changes import changes_of

        found = changes_of(*open_dataset(DATASET), since=Variable.get(READ, default=None))
        if found.until is None or not found.rows:
            raise AirflowSkipException("nothing new")
        views = Counter(str(change["row"]["user_id"]) for change in found.rows if change["change"] == "inserted")
        # Here the rows would go where they are wanted. Behind that, and only then:
        Variable.set(READ, str(found.until.snapshot))
        events = get_current_context()["triggering_asset_events"]
        return {"views": dict(views), "batches": [event.extra["batch"] for of in events.values() for event in of]}

    count()


views_by_user()
