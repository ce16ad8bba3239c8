"""A session for many small jobs: plans are new each time, so compiling them costs more than it gives."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.launchers import planned_once


@pytest.fixture(scope="session")
def plain(spark: SparkSession) -> SparkSession:
    """The shared SparkSession, without code generation and adaptive execution."""
    return planned_once(spark.newSession())
