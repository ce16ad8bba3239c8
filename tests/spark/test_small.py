"""Small batches are interpreted, others compiled; what a user set stays as it is."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from onefold.spark.codegen import sized
from onefold.spark.settings import SMALL_BYTES

WHOLE, FACTORY = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"


def compiled(session: SparkSession) -> bool:
    """Whether Spark compiled a plan."""
    plan = session.range(7).selectExpr("id + 1 AS n").where("n > 2")
    plan.collect()
    return "*(1)" in plan._jdf.queryExecution().executedPlan().toString()


@pytest.fixture
def fresh(spark: SparkSession) -> SparkSession:
    """A session with Spark's own settings."""
    return spark.newSession()


@pytest.mark.parametrize(("landed", "wanted"), [(SMALL_BYTES, False), (SMALL_BYTES + 1, True)])
def test_a_small_batch_is_interpreted(fresh: SparkSession, landed: int, wanted: bool) -> None:
    before = fresh.conf.get(WHOLE), fresh.conf.get(FACTORY)
    assert compiled(fresh)
    with sized(fresh, landed):
        assert compiled(fresh) is wanted
    assert compiled(fresh)
    assert (fresh.conf.get(WHOLE), fresh.conf.get(FACTORY)) == before


def test_a_setting_of_the_user_is_kept(fresh: SparkSession) -> None:
    fresh.conf.set(FACTORY, "CODEGEN_ONLY")
    with sized(fresh, 0):
        assert (compiled(fresh), fresh.conf.get(FACTORY)) == (True, "CODEGEN_ONLY")
    assert fresh.conf.get(FACTORY) == "CODEGEN_ONLY"
