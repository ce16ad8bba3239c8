"""Ties: two records of one version, of which one is the row.

With `last` and `first` the offset decides, never a timestamp. An offset orders the records of one partition only: where
records of a version are in several partitions, equal contents are duplicates, and the row of that version is
*placeless*: none of its copies is the first. Another content of that version does not compare with it, in a batch or
against the table, whichever comes first.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.positions import partition_of
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.vocabulary import Reason, Verdict

EARLIEST, FIRST, LAST, CONFLICT = "earliest", "first", "last", "conflict"
"""What `apply.version.tie` may be, and `EARLIEST`, which no file says: without versions the first record in the total
order is the row."""
_BY_OFFSET = ("cluster", "topic", "incarnation", "partition", "offset", "timestamp")
"""What decides a tie with `last` and `first`; a timestamp only between two copies of one position."""


def deciding_order(order: Column, tie: str) -> Column:
    """What decides a tie, of a record's total order; null where there is no record."""
    if tie not in (FIRST, LAST):
        return order
    return F.when(order.isNotNull(), F.struct(*(order[name] for name in _BY_OFFSET)))


def in_order(tie: str) -> list[Column]:
    """What sorts the records of a version, the winner first: of two contents at one position the smaller hash."""
    order = deciding_order(F.col(C.ORDER), tie)
    return [order.asc() if tie in (EARLIEST, FIRST) else order.desc(), F.col(C.HASH).asc()]


def is_preferred(order: Column, other: Column, tie: str) -> Column:
    """Whether a tie prefers a record with one order to a record with another."""
    mine, theirs = deciding_order(order, tie), deciding_order(other, tie)
    return mine < theirs if tie in (EARLIEST, FIRST) else mine > theirs


def is_placeless(dataset: Dataset, same_version: Column) -> Column:
    """Whether the records of a record's version are in several partitions; the table's row counts where it is of
    `same_version`."""
    if not dataset.ties_by_offset:
        return F.lit(False)
    own, base = F.col(C.PLACELESS), F.col(U.BASE + C.PLACELESS)
    return F.coalesce(own, F.lit(False)) | spans_partitions(same_version, F.col(U.BASE + C.ORDER), base)


def spans_partitions(same_version: Column, other_order: Column, other_placeless: Column) -> Column:
    """Whether another record of the version is in another partition, or is a placeless row."""
    elsewhere = partition_of(F.col(C.ORDER)) != partition_of(other_order)
    return F.coalesce(same_version & (elsewhere | F.coalesce(other_placeless, F.lit(False))), F.lit(False))


def loser_of(tie: str) -> Verdict:
    """The verdict of a record that lost to another of its version, with other content."""
    return Verdict.CONFLICT if tie == CONFLICT else Verdict.SUPERSEDED


def verdict_of(tie: str, wins: Column) -> Column:
    """The verdict of a record that meets the table's row of its version, with other content."""
    if tie == CONFLICT:
        return F.lit(Verdict.CONFLICT)
    return F.when(wins, Verdict.APPLIED).otherwise(Verdict.SUPERSEDED)


def reason_of(tie: str, wins: Column) -> Column:
    """The reason next to `verdict_of`."""
    if tie == CONFLICT:
        return F.lit(Reason.SAME_VERSION)
    return F.when(wins, Reason.REPLACE).otherwise(Reason.SAME_VERSION)


def is_before_winner(base_order: Column, tie: str) -> Column:
    """Whether a row of the table takes the place of the batch's winner of its version."""
    row, winner = deciding_order(base_order, tie), deciding_order(F.col(C.WINNER), tie)
    return row <= winner if tie in (EARLIEST, FIRST) else row >= winner


def answered(same: Column, tie: str, same_reason: str | Column) -> tuple[Column, Column]:
    """Verdict and reason of a loser of the batch that answers to the table's row of its version; `same` content."""
    was, reason = F.col(C.VERDICT), F.col(C.REASON)
    repeats = same | ((was == Verdict.DUPLICATE) & (reason == Reason.POSITION))  # read twice
    differs = F.when(was == Verdict.CONFLICT, was).otherwise(loser_of(tie))
    return F.when(repeats, Verdict.DUPLICATE).otherwise(differs), (
        F.when(repeats, F.when(was == Verdict.DUPLICATE, reason).otherwise(same_reason))
        .when(was == Verdict.CONFLICT, reason)
        .otherwise(Reason.SAME_VERSION)
    )
