"""Gate: every check on the branch. Red means that `main` stays as it is and the branch is kept."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import LandingClearedError
from onefold.faults import fault_point
from onefold.generation import check_generation
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import check_bytes, manifest_of
from onefold.quality.documents import AUDIT, GateResult, gate_of
from onefold.quality.gate import judge_branch
from onefold.spark.job import main_of
from onefold.upsert.commit_record import find_record
from onefold.upsert.documents import Upserted, upserted_of


def run(session: SparkSession, lake: Lake, dataset: Dataset, batch: str, attempt: str | None = None) -> GateResult:
    """Judge an attempt (default: the batch's newest). A published batch is audited: it is judged again, and the
    audit is written next to the earlier result. Once `maintain` has removed its tables, the earlier result is returned.

    Raises:
        ChangedDatasetError: the table was folded with another dataset file.
        GateRedError: a blocking check failed or errored; the result is written.
        DataLossError: offsets are missing and nothing explains them.
        AuditRedError: a blocking check of a published batch failed or errored.
    """
    published = find_record(lake, dataset, batch)
    upserted = upserted_of(lake, dataset, batch, published.attempt if published else attempt)
    if published and not _can_be_judged(session, lake, dataset, upserted):
        return gate_of(lake, dataset, batch, published.attempt)
    if not published:  # the table's fields may have changed since upsert; an audit reads what it finds
        check_generation(lake, dataset, rebuilding=True)
    result = judge_branch(session, lake, dataset, upserted)
    lake.put(lake_keys.attempt(dataset, batch, upserted.attempt, AUDIT if published else "gate"), result)
    fault_point("after_gate")
    if not result.green:
        report = lake.where(lake_keys.report(dataset.name, batch, "html"))
        raise result.audit_error(dataset.name, report) if published else result.error(dataset.name, report)
    return result


def _can_be_judged(session: SparkSession, lake: Lake, dataset: Dataset, upserted: Upserted) -> bool:
    """Whether the gate's input exists: the attempt's tables, the table before and after it, its landed bytes."""
    tables = all(session.catalog.tableExists(name) for name in (upserted.staging, upserted.actions) if name)
    table = StateTable(lake, dataset).table
    if not tables or any(table.snapshot_by_id(snapshot) is None for snapshot in (upserted.base, upserted.head)):
        return False
    try:
        check_bytes(lake, manifest_of(lake, dataset, upserted.batch))
    except LandingClearedError:
        return False
    return True


def main(argv: list[str]) -> int:
    """Entry point of spark-submit."""
    return main_of(run, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
