"""Which batch a DAG run is of. For the API server: tasks have no way to Airflow's database."""

from __future__ import annotations

from typing import Any

DECIDE = "onefold_decide"
"""The DAG whose runs are of a dataset and a batch that somebody chose."""


def batch_of(dag_id: str, run_id: str) -> tuple[str, str] | None:
    """The dataset and the batch of a run; None where it has none, or none yet.

    A run that decides is of the batch that it was triggered with, until it has a batch to run (a replay's is another).
    """
    from airflow.models.dagrun import DagRun
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:

        def left(task: str) -> Any:
            query = XComModel.get_many(run_id=run_id, dag_ids=dag_id, task_ids=task, key="return_value")
            found = session.scalars(query).first()
            return XComModel.deserialize_value(found) if found else None

        if dag_id != DECIDE:
            planned = left("plan")
            return (dag_id, str(planned)) if planned else None
        asked = session.scalar(select(DagRun.conf).filter_by(dag_id=dag_id, run_id=run_id)) or {}
        batch = left("decide") or asked.get("batch")
        return (str(asked["dataset"]), str(batch).strip()) if batch and "dataset" in asked else None
