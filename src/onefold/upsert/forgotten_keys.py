"""Forget marks: records that count for nothing any more, by a person's word, whatever comes before or behind them.

A mark is found once, against the base of the attempt that publishes it: every record that the table has covered of its
keys, by position. From then on it is part of the commit record, so of what `main` is (L1). Each batch takes such
records out before survivors are chosen (they are `rejected/forgotten`, and covered). Behind a rollback, the first
batch that is published takes the keys' rows out again, whichever it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import Mark
from onefold.folding.strategy import folding_of
from onefold.iceberg.commits import Head
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.manifest import Forgets, Manifest
from onefold.offsets import Range, TopicPartition, merged
from onefold.spark.iceberg_tables import view_of
from onefold.spark.offset_ranges import ranges_by
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import branch_table, verdict_table
from onefold.upsert.commit_record import chain
from onefold.upsert.state import read_state
from onefold.vocabulary import RowState

_PARTITION = ("cluster", "topic", "incarnation", "partition")
_LITERAL = 1000
"""Keys that are named one by one in a condition, so that files are left unread; more are joined."""


def keys_to_forget(state: DataFrame, dataset: Dataset, asked: Forgets) -> list[bytes]:
    """The keys of a state table's rows that are asked for, once each, in order.

    A key may be that of a row that several messages make (`Folding.group_key`): all of them go.
    """
    wanted = _among([bytes.fromhex(one) for one in asked.keys], F.col(C.KEY))
    folding = folding_of(dataset)
    rows, group = folding.kept(state), folding.group_key()
    if group is not None:
        wanted = wanted | _among([bytes.fromhex(one) for one in asked.keys], group)
    found = rows.where(wanted).select(C.KEY)
    if asked.deleted_before:
        found = found.unionByName(_deleted(state, asked.deleted_before))
    return sorted(bytes(row[0]) for row in found.distinct().collect())


def _deleted(state: DataFrame, before: datetime) -> DataFrame:
    """The keys that were deleted before an instant, as their records tell time, and of which nothing is held."""
    at = F.col(f"{C.ORDER}.timestamp")
    old = (F.col(S.STATE) == RowState.DELETED) & (at >= 0) & (at < int(before.astimezone(UTC).timestamp() * 1000))
    held = state.where(F.col(S.STATE) == RowState.HELD).select(C.KEY)
    return state.where(old).select(C.KEY).join(held, C.KEY, "left_anti")


def _among(keys: list[bytes], column: Column) -> Column:
    return column.isin(keys) if keys else F.lit(False)


def find_mark(
    session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest, base: Head, attempt: str
) -> Mark:
    """What a batch forgets of a base: the rows' keys, and the records that published verdicts name for them."""
    assert manifest.forgets
    keys = keys_to_forget(read_state(session, dataset, base.snapshot), dataset, manifest.forgets)
    mark = Mark(batch=manifest.batch, attempt=attempt, keys=[one.hex() for one in keys], partitions={}, lines={})
    if not keys:
        return mark
    published = [record.attempt for record in chain(lake, dataset, base.record)]
    found = of_keys(session.table(verdict_table(dataset)).where(F.col("attempt").isin(published)), keys, "key")
    partitions: dict[str, list[Range]] = {}
    lines: dict[str, list[Range]] = {}
    if dataset.source.exact:
        for (cluster, topic, incarnation, number), ranges in ranges_by(found, [*_PARTITION], "offset").items():
            where = TopicPartition(cluster=cluster, topic=topic, incarnation=incarnation, partition=number)
            partitions[where.key] = ranges
    else:
        # What a later batch woke has no line of its own: the verdict of the batch that held it names it.
        lined = found.where(F.col("object").isNotNull()).withColumn("line", F.col("line").cast("long"))
        for (landed, name), ranges in ranges_by(lined, ["batch", "object"], "line").items():
            digest = manifest_of(lake, dataset, landed).digests[name]
            lines[digest] = merged([*lines.get(digest, []), *ranges])
    places = {"partitions": dict(sorted(partitions.items())), "lines": dict(sorted(lines.items()))}
    return mark.model_copy(update=places)


def of_keys(rows: DataFrame, keys: list[bytes], column: str = C.KEY) -> DataFrame:
    """The rows of some keys."""
    if len(keys) <= _LITERAL:
        return rows.where(_among(keys, F.col(column)))
    return rows.join(F.broadcast(_frame(rows.sparkSession, keys, column)), column, "left_semi")


def without_keys(rows: DataFrame, keys: list[bytes]) -> DataFrame:
    """The rows of all other keys, where they lie."""
    if not keys:
        return rows
    return rows.join(F.broadcast(_frame(rows.sparkSession, keys, C.KEY)), C.KEY, "left_anti")


def leave_table(session: SparkSession, dataset: Dataset, branch: str, keys: list[bytes]) -> None:
    """Delete, on a branch, every row of some keys, whatever its state."""
    table = branch_table(dataset, branch)
    if not keys:
        return
    if len(keys) <= _LITERAL:
        named = ", ".join(f"X'{key.hex()}'" for key in keys)
        session.sql(f"DELETE FROM {table} WHERE {C.KEY} IN ({named})")
        return
    with view_of(_frame(session, keys, C.KEY), "onefold_forgotten"):
        session.sql(f"DELETE FROM {table} WHERE {C.KEY} IN (SELECT {C.KEY} FROM onefold_forgotten)")


def _frame(session: SparkSession, keys: list[bytes], column: str) -> DataFrame:
    return session.createDataFrame([(key,) for key in keys], f"{column} binary")


def forgotten_keys(marks: Iterable[Mark]) -> list[bytes]:
    """The keys of some marks, once each, in order."""
    return sorted({bytes.fromhex(key) for mark in marks for key in mark.keys})
