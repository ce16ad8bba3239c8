"""Iceberg tables as Onefold makes them: format 2, merge-on-read, by period (where it is declared) and bucket."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.spark.flat_structs import laid_flat
from onefold.spark.settings import PLACE
from onefold.tables.names import CATALOG, STAGING

PROPERTIES = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    # Rows are in their buckets before they are written: no exchange, and a file per bucket a task.
    "write.distribution-mode": "none",
    "write.merge.distribution-mode": "none",
    "write.delete.distribution-mode": "none",
    "write.spark.fanout.enabled": "true",
    "write.parquet.compression-codec": "zstd",
    "write.parquet.compression-level": "1",  # 3 is smaller by 1 %, and a step that writes takes a fifth longer
    # No two rows have the same: a dictionary is begun in vain, and read slower than what follows it.
    **{
        f"write.parquet.dict-encoding-enabled.column.{name}": "false"
        for name in ("_key", "_hash", "_compared", "_order_offset")
    },
}


def new_table(rows: DataFrame, table: str, dataset: Dataset) -> DataFrameWriterV2:
    """The writer of a new table, partitioned as all that a dataset's keys are joined with: nothing is shuffled."""
    periods = [F.col("_within")] if dataset.within else []
    by = [*periods, F.partitioning.bucket(dataset.target.buckets, "_key")]
    writer = rows.writeTo(table).using("iceberg").partitionedBy(*by)
    writer = writer.tableProperty("location", location_of(rows.sparkSession, table))
    for name, value in PROPERTIES.items():
        writer = writer.tableProperty(name, value)
    return writer


def location_of(session: SparkSession, table: str) -> str:
    """Where a table lies: in the lake, whatever a catalog's own place for new tables is."""
    below = session.conf.get(f"spark.sql.catalog.{CATALOG}.{PLACE}")
    return "/".join([str(below), *table.split(".")[1:]])


def bucketed(rows: DataFrame, table: str, dataset: Dataset) -> None:
    """Create `table` in the staging namespace from rows that have `_key` (and `_within`); `read_flat` reads it."""
    ensure_namespace(rows.sparkSession, STAGING)
    new_table(laid_flat(rows), table, dataset).create()


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


@contextmanager
def view_of(rows: DataFrame, name: str) -> Iterator[None]:
    """Rows as a view of the session, for a statement in SQL."""
    rows.createOrReplaceTempView(name)
    try:
        yield
    finally:
        rows.sparkSession.catalog.dropTempView(name)


@contextmanager
def commits_name(session: SparkSession, properties: Mapping[str, str]) -> Iterator[None]:
    """Statements in SQL whose snapshots have summary properties that name a commit record. What another thread writes
    meanwhile may have them, too; only of the state table anybody asks."""
    settings = {f"spark.sql.iceberg.snapshot-property.{name}": value for name, value in properties.items()}
    for name, value in settings.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name in settings:  # or they would name this record in every other table the session writes
            session.conf.unset(name)
