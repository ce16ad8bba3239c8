"""Iceberg tables as Onefold makes them: format 2, merge-on-read, bucketed by the key's digest."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.lake import CATALOG, STAGING

PROPERTIES = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # Rows are in their buckets before they are written: no exchange, and a file per bucket a task.
    "write.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.parquet.compression-codec": "zstd",
}


def scratch_table(dataset: str, kind: str, attempt: str) -> str:
    """The full name of a table that belongs to one attempt."""
    return f"{CATALOG}.{STAGING}.{dataset}__{kind}_{attempt}"


def bucketed(rows: DataFrame, table: str, buckets: int, column: str = "_key") -> None:
    """Create `table` from rows, bucketed by `column`."""
    ensure_namespace(rows.sparkSession, STAGING)
    writer = rows.writeTo(table).using("iceberg").partitionedBy(F.partitioning.bucket(buckets, column))
    for name, value in PROPERTIES.items():
        writer = writer.tableProperty(name, value)
    writer.create()


def ensure_namespace(session: SparkSession, namespace: str) -> None:
    """Create a namespace where there is none; two drivers may race."""
    try:
        session.sql(f"CREATE NAMESPACE IF NOT EXISTS {CATALOG}.`{namespace}`")
    except Exception:  # the other driver's insert of the same row
        if namespace not in [row[0] for row in session.sql(f"SHOW NAMESPACES IN {CATALOG}").collect()]:
            raise


def drop(session: SparkSession, table: str) -> None:
    """Drop a table and its files."""
    session.sql(f"DROP TABLE IF EXISTS {table} PURGE")
