"""A batch's figures for Airflow's metrics: StatsD or OpenTelemetry, whichever Airflow is set to."""

from __future__ import annotations

from datetime import datetime

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.document import Report, describe
from onefold.upsert.documents import Upserted
from onefold.vocabulary import Level, Verdict


def send_figures(lake: Lake, dataset: Dataset, batch: str, published: datetime | None) -> dict[str, float]:
    """Send a batch's figures as gauges `onefold.<dataset>.<figure>`; what was sent.

    `published` is when this run moved `main`; None if it did not.
    """
    from airflow.sdk.observability import stats

    report = describe(lake, dataset, batch)
    newest = None
    if report.attempt:
        upserted = lake.get(lake_keys.attempt(dataset, batch, report.attempt, "upsert"), Upserted)
        newest = upserted.newest_used if upserted else None
    found = figures_of(report, published, newest)
    for name, value in found.items():
        stats.gauge(f"onefold.{dataset.name}.{name}", value)
    return found


def figures_of(report: Report, published: datetime | None, newest: int | None) -> dict[str, float]:
    """Records by what became of them, and, of a batch that was just published, seconds.

    Gauges and not counters: a report that is written again says the same again. `newest` is the timestamp of
    the newest record that is applied, superseded or held, in milliseconds.
    """
    counts = report.counts
    found: dict[str, float] = {
        "landed": report.landed or 0,
        **{name: sum(counts.get(name, {}).values()) for name in (Verdict.APPLIED, Verdict.REJECTED)},
        **{f"duplicates.{level}": counts.get(Verdict.DUPLICATE, {}).get(level, 0) for level in Level},
        "conflicts": sum(counts.get(Verdict.CONFLICT, {}).values()) + report.findings,
        "unexplained": sum(end - start for account in report.accounts for start, end in account.unexplained),
        "red": float(report.status == "red"),
    }
    if report.readers:
        found |= {f"rows.{change}": count for change, count in report.readers.model_dump().items()}
    if report.held is not None:
        found["held"] = report.held
    if published and report.interval:
        found["lag"] = (published - report.interval.end).total_seconds()
    if published and newest is not None:
        found["age"] = published.timestamp() - newest / 1000
    return found
