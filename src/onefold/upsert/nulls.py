"""Null values that no `delete_when` covers: none changes a row, and the row of its key says what it is.

Where that row is deleted after the batch, or was made later in the null's own partition, the null says nothing new:
`control/tombstone`, covered. Else it may be a delete that the dataset file does not know: `rejected/null_value`, and
`quality.max_rejected_deletes` counts it. An inferred position says nothing about later.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.documents import Staged, StagedPartition
from onefold.dedup.positions import lines_of, offsets_of
from onefold.folding.positions import partition_of
from onefold.folding.strategy import folding_of
from onefold.offsets import merged, minus
from onefold.spark.flat_structs import laid_flat, read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import CATALOG
from onefold.vocabulary import Action, Reason, RowState, Scope, Verdict

_ROW, _NEW, _OLD = "_fact_row", "_fact_row_of_batch", "_fact_row_of_table"


def nulls_of(rows: DataFrame) -> DataFrame:
    """The staged rows (with what `mark_known` adds) that are null values whose key can be read. What is covered has the
    verdict of its position."""
    return rows.where(F.col(C.NULL_KEY).isNotNull() & ~F.col(U.COVERED))


def without_nulls(rows: DataFrame) -> DataFrame:
    """The other staged rows."""
    if C.NULL_KEY not in rows.columns:
        return rows
    return rows.where(F.col(C.NULL_KEY).isNull() | F.col(U.COVERED)).drop(C.NULL_KEY)


def settle_nulls(
    session: SparkSession, dataset: Dataset, staged: Staged, nulls: DataFrame, actions: str, state: DataFrame
) -> Staged:
    """Append the batch's nulls, each with its verdict, to its actions; the staging document with what they cover.

    `state`: the base's rows that have a key.
    """
    buckets = F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.NULL_KEY})")
    touched = [row[0] for row in nulls.select(buckets).distinct().collect()]
    there = state.where(F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})").isin(touched))
    before = read_flat(session, actions)
    settled = judge_nulls(nulls, before, there, dataset).persist()
    try:
        columns = [
            (F.col(column.name) if column.name in settled.columns else F.lit(None))
            .cast(column.dataType)
            .alias(column.name)
            for column in before.schema
        ]
        laid_flat(settled.select(*columns)).writeTo(actions).append()
        return _covering(staged, settled, dataset)
    finally:
        settled.unpersist()


def judge_nulls(nulls: DataFrame, actions: DataFrame, state: DataFrame, dataset: Dataset) -> DataFrame:
    """Nulls with `_verdict`, `_reason`, `_detail`, `_scope` and `_other`, the order of the row that says so.

    `actions` are the batch's without its nulls, `state` the rows that the base has. Of a null that has become
    `control` or `duplicate` (it was rejected at its position before) the bytes go.
    """
    keys = nulls.select(F.col(C.NULL_KEY).alias(C.KEY)).distinct()
    made = folding_of(dataset).makes_row()
    changed = actions.where(F.col(U.ACTION).isin(Action.INSERT, Action.UPDATE, Action.WAKE) & made)
    stood = state.where(F.col(S.STATE).isin(RowState.LIVE, RowState.DELETED, RowState.HIDDEN))
    found = nulls
    for name, rows, deleted in ((_NEW, changed, F.col(C.DELETED)), (_OLD, stood, F.col(S.STATE) == RowState.DELETED)):
        row = F.struct(F.col(C.ORDER).alias("order"), deleted.alias("deleted"))
        some = rows.join(F.broadcast(keys), C.KEY, "left_semi").select(F.col(C.KEY).alias(C.NULL_KEY), row.alias(name))
        found = found.join(some, C.NULL_KEY, "left")
    found = found.withColumn(_ROW, F.coalesce(_NEW, _OLD))
    row = F.col(_ROW)
    behind = row["deleted"] | _made_later(row["order"], dataset)
    control = F.coalesce(behind, F.lit(False))
    again = ~control & F.col(U.AGAIN)
    rejected = ~control & ~again
    why = (
        F.when(control & row["deleted"], "the value is null, and the row of its key is deleted")
        .when(control, "the value is null, and a later record of its partition made the row of its key")
        .when(
            row.isNotNull(),
            F.concat(F.col(C.DETAIL), F.lit("; its key has a row, and no delete_when says what it does")),
        )
        .otherwise(F.concat(F.col(C.DETAIL), F.lit("; its key has no row, and no delete_when says what it does")))
    )
    columns = {
        C.VERDICT: F.when(again, Verdict.DUPLICATE).when(control, Verdict.CONTROL).otherwise(F.col(C.VERDICT)),
        C.REASON: F.when(again, Reason.POSITION).when(control, Reason.TOMBSTONE).otherwise(F.col(C.REASON)),
        C.DETAIL: F.when(~again, why),
        U.SCOPE: F.when(again | (F.col(_NEW).isNull() & row.isNotNull()), Scope.STORED).otherwise(Scope.IN_BATCH),
        U.OTHER: F.when(again, F.col(C.ORDER)).when(control, row["order"]),
        U.WON: F.lit(False),
        U.COVERED: again,
    }
    columns |= {name: F.when(rejected, F.col(name)) for name in (C.RAW_KEY, C.RAW_VALUE, C.RAW_HEADERS)}
    judged = found.withColumns({f"_new{name}": column for name, column in columns.items()}).drop(*columns)
    return judged.withColumnsRenamed({f"_new{name}": name for name in columns}).drop(
        _NEW, _OLD, _ROW, C.NULL_KEY, C.WITHIN
    )


def _made_later(order: Column, dataset: Dataset) -> Column:
    """Whether a row was made by a record that follows the null in its partition."""
    if not dataset.source.exact:
        return F.lit(False)
    own = F.col(C.ORDER)
    at, before = (F.struct(place["incarnation"], place["offset"]) for place in (order, own))
    return (partition_of(order) == partition_of(own)) & (at > before)


def _covering(staged: Staged, settled: DataFrame, dataset: Dataset) -> Staged:
    """The staging document, in which nulls that were not rejected count as present."""
    if not dataset.source.exact:
        kept = lines_of(settled.where(~F.expr(C.REFUSED) & ~F.col(U.COVERED)))
        refused = {name: minus(ranges, kept.get(name, [])) for name, ranges in staged.refused.items()}
        return staged.model_copy(update={"refused": {name: ranges for name, ranges in refused.items() if ranges}})
    partitions = dict(staged.partitions)
    for where, found in offsets_of(settled.where(~F.col(U.COVERED))).items():
        known = partitions[where.key]
        partitions[where.key] = StagedPartition(
            present=merged([*known.present, *found.present]),
            quarantined=minus(known.quarantined, found.present),
            undecided=known.undecided,
        )
    return staged.model_copy(update={"partitions": partitions})
