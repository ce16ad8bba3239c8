"""A frame without its history has the same rows in the same partitions, and its planner sees no more."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.spark.cut import cut


def plan_of(rows: DataFrame) -> str:
    return str(rows._jdf.queryExecution().toString())


def test_the_plan_of_a_kept_frame_is_a_leaf_of_what_reads_it_and_its_partitions_are_known(spark: SparkSession) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")  # whose plans know no partitions before they run
    made = session.range(100).withColumn("key", F.col("id") % 7).repartition(3, "key")
    kept = made.withColumn("text", F.concat(F.lit("n"), F.col("id").cast("string"))).persist()
    try:
        rows = cut(kept)
        assert rows.schema == kept.schema
        assert sorted(rows.collect()) == sorted(kept.collect())
        counted = rows.groupBy("key").count()
        assert "Range" not in plan_of(counted)
        assert "Exchange" not in plan_of(counted), "rows of a key are together already"
        assert {row["key"]: row["count"] for row in counted.collect()} == {key: 15 - (key > 1) for key in range(7)}
        assert rows.join(rows.select("id", F.col("text").alias("again")), "id").where("text = again").count() == 100
    finally:
        kept.unpersist()
