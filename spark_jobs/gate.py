"""Gate: every check on the branch. Red means that `main` stays as it is and the branch is kept."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.faults import fault_point
from onefold.lake import Lake
from onefold.quality.documents import GateResult, gate_of
from onefold.quality.gate import judge_branch
from onefold.spark.job import main_of
from onefold.upsert.commit_record import find_record
from onefold.upsert.documents import upserted_of
from onefold.upsert.generation import check_generation


def run(session: SparkSession, lake: Lake, dataset: Dataset, batch: str, attempt: str | None = None) -> GateResult:
    """Judge an attempt (default: the batch's newest); of a published batch, what was judged before it was published.

    Raises:
        ChangedDatasetError: the dataset file is not what the table was folded with.
        GateRedError: a blocking check failed or errored; the result is written all the same.
        DataLossError: offsets are missing and nothing explains them.
    """
    if published := find_record(lake, dataset, batch):  # whatever has become of its branch and its actions
        return gate_of(lake, dataset, batch, published.attempt)
    upserted = upserted_of(lake, dataset, batch, attempt)
    check_generation(lake, dataset, rebuilding=True)  # the table's fields may have changed since upsert
    result = judge_branch(session, lake, dataset, upserted)
    lake.put(lake.attempt(dataset, batch, upserted.attempt, "gate"), result)
    fault_point("after_gate")
    if not result.green:
        raise result.error(dataset.name, lake.where(lake.report(dataset.name, batch, "html")))
    return result


def main(argv: list[str]) -> int:
    """Entry point of spark-submit."""
    return main_of(run, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
