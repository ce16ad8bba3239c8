"""Forget marks: records that count for nothing any more, by a person's word, whatever comes before or behind them.

A mark is found once (`onefold.upsert.find_mark`), against the base of the attempt that publishes it. From then on it is
part of the commit record, so of what `main` is (L1). Each batch takes the records that it names out before survivors
are chosen (they are `rejected/forgotten`, and covered). After a rollback, the first batch that is published takes the
keys' rows out again, whichever it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import Mark
from onefold.folding.strategy import folding_of
from onefold.landing.manifest import Forgets
from onefold.spark.iceberg_tables import view_of
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import branch_table
from onefold.vocabulary import RowState

_LITERAL = 1000
"""Keys that are named one by one in a condition, so that files are left unread; more are joined."""


def keys_to_forget(state: DataFrame, dataset: Dataset, asked: Forgets) -> list[bytes]:
    """The keys of a state table's rows that are asked for, once each, in order.

    A key may be that of a row that several messages make (`Folding.group_key`): all of them go.
    """
    wanted = _among([bytes.fromhex(key) for key in asked.keys], F.col(C.KEY))
    folding = folding_of(dataset)
    rows, group = folding.kept(state), folding.group_key()
    if group is not None:
        wanted = wanted | _among([bytes.fromhex(key) for key in asked.keys], group)
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
