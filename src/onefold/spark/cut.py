"""A frame without its history."""

from __future__ import annotations

from pyspark.sql import DataFrame


def cut(rows: DataFrame) -> DataFrame:
    """The same rows and columns, lying in the same partitions, of which Spark's planner sees nothing else.

    Spark goes over the whole plan of a frame again for each column that is added to it, and once more for each use of
    the frame: what is long and is used several times costs seconds, however few its rows are. What made the rows is
    planned here, and is run by the tasks that read them: the frame should be persisted.
    """
    session, query = rows.sparkSession, rows._jdf.queryExecution()
    jvm = session._jvm
    assert jvm
    plans = getattr(jvm.org.apache.spark.sql.execution, "LogicalRDD$").__getattr__("MODULE$")
    plan = plans.fromDataset(query.toRdd(), rows._jdf, False)
    return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(session._jsparkSession, plan), session)
