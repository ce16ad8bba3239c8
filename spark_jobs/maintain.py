"""Maintain: prove that no key is live twice, remove ended attempts, look for identities of two rows or periods.

It works on a whole dataset, not on a batch.
"""

from __future__ import annotations

import argparse
import json
import sys

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.generation import check_generation
from onefold.lake import Lake
from onefold.maintenance.keep import Keep, Maintained, keep_of
from onefold.maintenance.maintain import maintain
from onefold.maintenance.uniqueness import find_reused, prove_unique
from onefold.spark.job import main_of
from onefold.vocabulary import Finding


def run(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    batch: str | None = None,
    attempt: str | None = None,
    *,
    keep: Keep | None = None,
    dry_run: bool = False,
) -> Maintained:
    """Prove and tidy a dataset's tables; batch and attempt are not used.

    Raises:
        ChangedDatasetError: the published table is not this dataset's; nothing was read.
        RepeatedKeysError: a key exists more than once; nothing was removed.
    """
    del batch, attempt
    check_generation(lake, dataset)
    proved = prove_unique(session, lake, dataset)
    done = maintain(session, lake, dataset, keep or Keep(), dry_run=dry_run)
    found = find_reused(session, lake, dataset)
    moved = [identity for identity in found if identity.level == Finding.PERIOD_MOVED]
    reused = [identity for identity in found if identity.level != Finding.PERIOD_MOVED]
    return done.model_copy(update={"rows_proved": proved, "reused": reused, "moved": moved})


def main(argv: list[str]) -> int:
    """Entry point of spark-submit; `--keep` is a JSON object of ages, as `onefold maintain` takes them."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--keep", type=json.loads, default={})
    args, others = parser.parse_known_args(argv)

    def tidy(session: SparkSession, lake: Lake, dataset: Dataset, batch: str, attempt: str) -> Maintained:
        return run(session, lake, dataset, batch, attempt, keep=keep_of(args.keep))

    return main_of(tidy, others)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
