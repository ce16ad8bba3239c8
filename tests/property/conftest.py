"""A session for many small jobs: plans are new each time, so compiling them costs more than it gives."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.support.jvm import INTERPRETED, UNCHECKED


@pytest.fixture(scope="session")
def plain(spark: SparkSession) -> SparkSession:
    """The shared SparkSession, without code generation and adaptive execution."""
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")
    for name, value in {**INTERPRETED, **UNCHECKED}.items():
        session.conf.set(name, value)
    return session
