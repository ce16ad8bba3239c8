"""Where Airflow's UI shows Onefold's pages; `plugins/onefold_plugin.py` mounts them."""

from __future__ import annotations

from airflow.sdk.configuration import conf


def dataset_link(dataset: str) -> str:
    """A dataset's page."""
    return f"{_base()}/onefold/datasets/{dataset}"


def report_link(dataset: str, batch: str) -> str:
    """A batch's report."""
    return f"{_base()}/onefold/reports/{dataset}/{batch}"


def _base() -> str:
    return (conf.get("api", "base_url", fallback="") or "").rstrip("/")
