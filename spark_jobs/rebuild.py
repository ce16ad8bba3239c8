"""Rebuild: fold every landed batch but one into a new table, and swap: what Airflow's decision `without` runs.

It works on a whole dataset: the batch is the batch that is taken out.
"""

from __future__ import annotations

import argparse
import json
import sys

from pydantic import BaseModel, ConfigDict
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.decisions import Decider
from onefold.lake import Lake
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.spark.job import main_of


class RebuiltWithout(BaseModel):
    """How a rebuild without a batch ended."""

    model_config = ConfigDict(frozen=True)

    batch: str
    folded: list[str]
    swapped: bool


def run(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    batch: str,
    attempt: str | None = None,
    *,
    who: Decider,
    reason: str,
) -> RebuiltWithout:
    """Take a published batch out; if readers already see the table without it, nothing is done.

    Raises:
        UsageError: the batch is not published, or cannot be taken out.
        GateRedError: a batch that readers see is red without it; readers see no change.
    """
    del attempt
    done = rebuild(lake, dataset, InSession(lake, session), print, without=[batch], who=who, reason=reason)
    if done.batches and not done.swapped and (error := done.batches[-1].error):
        raise error
    return RebuiltWithout(batch=batch, folded=[end.batch for end in done.batches], swapped=done.swapped)


def main(argv: list[str]) -> int:
    """Entry point of spark-submit; `--decided` is a JSON object: `who` decided it, and the `reason`."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--decided", type=json.loads, required=True)
    args, others = parser.parse_known_args(argv)

    who, reason = Decider(**args.decided["who"]), args.decided["reason"]

    def without(session: SparkSession, lake: Lake, dataset: Dataset, batch: str, attempt: str) -> RebuiltWithout:
        return run(session, lake, dataset, batch, attempt, who=who, reason=reason)

    return main_of(without, others)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
