"""The verdict table: a row a record of every attempt, appended."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.records import envelope as E
from onefold.spark.iceberg_tables import PROPERTIES, location_of
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables.names import verdict_table
from onefold.vocabulary import Finding, Verdict

_SORTED = {"write.parquet.row-group-size-bytes": str(4 << 20)}


def append_verdicts(actions: DataFrame, dataset: Dataset, batch: str, attempt: str) -> None:
    """Append one row a record of the batch to the verdict table."""
    table = verdict_table(dataset)
    other = F.col(U.OTHER)
    survivor = F.when(
        other.isNotNull() & ~F.col(C.VERDICT).isin(Verdict.APPLIED, Verdict.REJECTED, Verdict.FILTERED),
        F.struct(*(other[name].alias(name) for name in ("topic", "partition", "offset", "cluster", "incarnation"))),
    )
    version = F.col(C.VERSION).cast("string") if C.VERSION in actions.columns else F.lit(None).cast("string")
    message = F.col(C.MESSAGE_ID) if C.MESSAGE_ID in actions.columns else F.lit(None).cast("string")
    rows = actions.where(F.col(C.VERDICT).isNotNull()).select(
        F.lit(batch).alias("batch"),
        F.lit(attempt).alias("attempt"),
        *(
            F.col(f"{C.ORDER}.{name}").alias(name)
            for name in ("cluster", "topic", "incarnation", "partition", "offset")
        ),
        F.expr(C.stamp(C.sent_at(actions.columns))).alias("timestamp"),
        F.col(C.VERDICT).alias("verdict"),
        F.col(C.REASON).alias("reason"),
        F.col(U.SCOPE).alias("scope"),
        survivor.alias("survivor"),
        F.col(U.WON).alias("won"),
        _finding().alias("finding"),
        F.col(C.DETAIL).alias("detail"),
        F.col(C.KEY).alias("key"),
        (F.col(C.READABLE_KEY) if C.READABLE_KEY in actions.columns else F.lit(None).cast("binary")).alias(
            "readable_key"
        ),
        version.alias("version"),
        message.alias("message_id"),
        F.expr(C.position_content(actions.columns)).cast("binary").alias("content"),
        F.col(E.OBJECT).alias("object"),
        F.col(E.LINE).alias("line"),
        F.col(C.RAW_KEY).alias("raw_key"),
        F.col(C.RAW_VALUE).alias("raw_value"),
        F.col(C.RAW_HEADERS).alias("raw_headers"),
    )
    session = rows.sparkSession
    if not session.catalog.tableExists(table):
        ddl = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema.fields)
        place = location_of(session, table).replace("\\", "\\\\").replace("'", "\\'")
        properties = ", ".join(f"'{name}'='{value}'" for name, value in (PROPERTIES | _SORTED).items())
        session.sql(
            f"CREATE TABLE IF NOT EXISTS {table} ({ddl}) USING iceberg "
            f"PARTITIONED BY (attempt, bucket({dataset.target.buckets}, key), "
            f"bucket({dataset.target.buckets}, readable_key)) "
            f"LOCATION '{place}' TBLPROPERTIES ({properties})"
        )
    # A question for one key reads one bucket, and of its files the part where the key lies.
    rows.sortWithinPartitions("key", "topic", "partition", "offset").writeTo(table).append()


def _finding() -> Column:
    """`period_moved`, or `identity_reused` with the level; null: none."""
    level = F.col(U.FINDING)["level"]
    reused = F.concat(F.lit(f"{Finding.IDENTITY_REUSED}: "), level)
    return F.when(level == Finding.PERIOD_MOVED, level).otherwise(reused)
