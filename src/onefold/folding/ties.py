"""Ties: two records of one version, of which one is the row."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.tables import staging as C
from onefold.vocabulary import Reason, Verdict

FIRST, CONFLICT = "first", "conflict"
"""What `apply.version.tie` may be, next to `last`. Without versions the first record is the row."""


def in_order(tie: str) -> list[Column]:
    """What sorts the records of a version, the winner first: of two contents at one position the smaller hash."""
    order = F.col(C.ORDER)
    return [order.asc() if tie == FIRST else order.desc(), F.col(C.HASH).asc()]


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
    return base_order <= F.col(C.WINNER) if tie == FIRST else base_order >= F.col(C.WINNER)


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
