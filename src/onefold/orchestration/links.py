"""Where Airflow's UI shows Onefold's pages; `plugins/onefold_plugin.py` mounts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperatorLink
from airflow.sdk.configuration import conf

if TYPE_CHECKING:
    from airflow.sdk.types import TaskInstanceKey


def dataset_link(dataset: str) -> str:
    """A dataset's page."""
    return f"{_base()}/onefold/datasets/{dataset}"


def report_link(dataset: str, batch: str) -> str:
    """A batch's report."""
    return f"{_base()}/onefold/reports/{dataset}/{batch}"


class ReportLink(BaseOperatorLink):
    """A task's button that leads to the report of its batch.

    Airflow asks for the place when a try has ended, and keeps it as the task's XCom: so an operator names it in
    `operator_extra_links`. (A plugin's own link would be asked in the API server, where no field is rendered.)
    """

    name = "Report"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """The report's page; empty, so no button, where a try ended before its batch was known."""
        del ti_key
        return "" if "{{" in operator.dataset + operator.batch else report_link(operator.dataset, operator.batch)


class SparkLink(BaseOperatorLink):
    """A task's button that leads to the last Spark application that it started, on Spark's history server."""

    name = "Spark"

    def get_link(self, operator: Any, *, ti_key: TaskInstanceKey) -> str:
        """The application's page; empty, so no button, where a try ended before Spark named it."""
        del ti_key
        return f"{operator.history.rstrip('/')}/history/{operator.spark_id}/" if operator.spark_id else ""


def _base() -> str:
    return (conf.get("api", "base_url", fallback="") or "").rstrip("/")
