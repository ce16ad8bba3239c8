"""Contents that lost a conflict by a release: they come last in the order, so that no other content loses to them.

The timestamp, the first part of `_order`, becomes the greatest that there is where the earlier record wins, else the
smallest. The ordinary rules do the rest, in every mode, in a batch and against the table: such a content is a row only
as long as no other content of its identity is there, and any other replaces it. So rows stay a function of the covered
records and the decisions (L1), and no row goes back (L4). The true timestamp is kept as `_true_timestamp`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import LostContent
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.vocabulary import DECIDABLE, Reason, Scope, Verdict

DETAIL = "this content lost a conflict that was released"
Judge = Callable[[DataFrame], DataFrame]
"""Judges staged rows against a table."""
_TEXT = "_fact_text"
_OF_BATCH = "_verdict_of_batch"
"""What the batch alone says of a record."""


def version_text(dataset: Dataset) -> Column:
    """A version as decisions name it; null where the mode has none."""
    if not dataset.apply.version:
        return F.lit(None).cast("string")
    return F.to_json(F.struct(F.col(C.VERSION).alias("v")))


def put_lost_last(records: DataFrame, dataset: Dataset, lost: Sequence[LostContent]) -> DataFrame:
    """Identified records; those whose content lost come last in `_order`. Adds `_true_timestamp`. No exchange."""
    if not lost:
        return records
    # Not a join: Spark follows the keys of a join down to what they are made of, which takes it minutes for a decoder.
    has_lost, order = _text(dataset).isin([_text_of(content) for content in lost]), F.col(C.ORDER)
    last = order.withField("timestamp", F.lit(_last(dataset)))
    true_timestamp = F.when(F.col(C.KEY).isNotNull() & has_lost, order["timestamp"])
    marked = records.withColumn(C.TRUE_TIMESTAMP, true_timestamp)
    return marked.withColumn(C.ORDER, F.when(F.col(C.TRUE_TIMESTAMP).isNotNull(), last).otherwise(order))


def lost_in(staged: DataFrame, dataset: Dataset, lost: Sequence[LostContent]) -> list[LostContent]:
    """Of contents that lost those that a staged batch has: one pass over narrow columns."""
    by_text = {_text_of(content): content for content in lost}
    texts = staged.sparkSession.createDataFrame([(text,) for text in by_text], f"{_TEXT} string")
    rows = staged.where(F.col(C.KEY).isNotNull()).select(_text(dataset).alias(_TEXT))
    found = rows.join(F.broadcast(texts), _TEXT, "left_semi").distinct().collect()
    return [by_text[text] for text in sorted(row[0] for row in found)]


def without_lost(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """Rows of an actions table, or of the state table, whose content did not lose."""
    kept = F.col(f"{C.ORDER}.timestamp") != _last(dataset)
    if C.TRUE_TIMESTAMP in rows.columns:
        kept &= F.col(C.TRUE_TIMESTAMP).isNull()
    return rows.where(kept)


def judge_with_lost(staged: DataFrame, dataset: Dataset, judge: Judge) -> DataFrame:
    """Staged rows judged under decisions (`Folding.judge`).

    A content that lost is a duplicate where it would be in conflict. What replaces one in the table is in conflict with
    nothing; what is in conflict with one and makes no row has the verdict that its batch gives it. Records that make no
    row have their timestamp again.
    """
    names = {C.VERDICT: "verdict", C.REASON: "reason", C.WITNESS: "witness"}
    of_batch = F.struct(*(F.col(column).alias(name) for column, name in names.items()))
    judged = judge(staged.withColumn(_OF_BATCH, of_batch))
    order, other, acts = F.col(C.ORDER), F.col(U.OTHER), F.col(U.ACTION).isNotNull()
    conflict = (F.col(C.VERDICT) == Verdict.CONFLICT) & F.col(C.REASON).isin(*DECIDABLE)
    has_lost = F.col(C.TRUE_TIMESTAMP).isNotNull() if C.TRUE_TIMESTAMP in judged.columns else F.lit(False)
    other_lost = F.coalesce(other["timestamp"] == _last(dataset), F.lit(False))
    repeats, beats = conflict & has_lost, conflict & ~has_lost & other_lost
    replaces, alone = beats & F.col(U.WON), beats & ~F.col(U.WON)
    again = F.when(F.col(C.REASON) == Reason.SAME_VERSION, Reason.KEY_VERSION).otherwise(F.lit(dataset.deciding))
    unknown = other.withField("timestamp", F.lit(-1).cast("bigint"))
    columns = {
        C.VERDICT: F.when(repeats, Verdict.DUPLICATE).when(replaces, Verdict.APPLIED),
        C.REASON: F.when(repeats, again).when(replaces, Reason.REPLACE),
        C.DETAIL: F.when(repeats, F.lit(DETAIL)),
        U.WON: F.when(repeats | replaces, F.lit(False)),
        U.OTHER: F.when(alone, F.col(C.WINNER)).when(other_lost & ~acts, unknown),
        U.SCOPE: F.when(alone, Scope.IN_BATCH),
    }
    if C.TRUE_TIMESTAMP in judged.columns:
        columns[C.ORDER] = F.when(has_lost & ~acts, order.withField("timestamp", F.col(C.TRUE_TIMESTAMP)))
    settled = {name: F.coalesce(of, F.col(name)) for name, of in columns.items()}
    for column, name in names.items():
        settled[column] = F.when(alone, F.col(_OF_BATCH)[name]).otherwise(settled.get(column, F.col(column)))
    return judged.withColumns(settled).drop(_OF_BATCH)


def _last(dataset: Dataset) -> int:
    """The timestamp with which a record comes after every other of its identity."""
    return C.LAST_OF_ALL if dataset.earliest_wins else C.FIRST_OF_ALL


def _text(dataset: Dataset) -> Column:
    """Key, content and version of a record, as one text."""
    digests = [F.lower(F.hex(column)) for column in (C.KEY, C.compared(dataset))]
    return F.concat_ws(" ", *digests, version_text(dataset))


def _text_of(lost: LostContent) -> str:
    return " ".join([lost.key, lost.content, *([] if lost.version is None else [lost.version])])
