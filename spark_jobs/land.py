"""Land: bring the planned offsets of live topics into the lake, unchanged. (Export files are copied without Spark.)"""

from __future__ import annotations

import sys
from functools import partial

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import land_batch
from onefold.landing.manifest import Manifest
from onefold.records.layouts.kafka import write_topics
from onefold.spark.job import main_of


def run(session: SparkSession, lake: Lake, dataset: Dataset, batch: str, attempt: str | None = None) -> Manifest:
    """Land a planned batch, or find its landing."""
    return land_batch(lake, dataset, batch, attempt, partial(write_topics, session))


def main(argv: list[str]) -> int:
    """Entry point of spark-submit."""
    return main_of(run, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
