"""Append: of the records of an identity the smallest in the total order is the row, of two contents at one position the
one of the smaller hash."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.judging import Facts, Judged, judge_by
from onefold.folding.levels import LEVEL, RESENT, narrowest, with_levels
from onefold.folding.positions import NEIGHBOUR, clashes, neighbour, repeats
from onefold.folding.strategy import BASE_ORDER, PLACED, Folding, Placing
from onefold.folding.ties import EARLIEST, in_order
from onefold.folding.witness import witness_of
from onefold.tables import staging as C
from onefold.vocabulary import Action, Reason, Scope, Verdict


def winner(f: Facts, dataset: Dataset) -> Judged:
    """A survivor of the batch against the row that the base has of its identity."""
    smaller_hash = ~f.identical & (F.col(C.HASH) < f.base_hash)
    better = f.preferred | (f.same_order & smaller_hash)
    # An inferred position orders and names, but never says that a position has two contents.
    exact = F.lit(dataset.source.exact)
    clash = F.when(f.same_order & exact, Reason.INCONSISTENT_POSITION).otherwise(F.lit(Reason.SAME_IDENTITY))
    again = narrowest(dataset, f.same_levels, f.same_order, dataset.deciding)
    return Judged(
        verdict=F.when(~f.has, Verdict.APPLIED).when(f.same, Verdict.DUPLICATE).otherwise(Verdict.CONFLICT),
        reason=F.when(~f.has, Reason.INSERT).when(f.same, again).otherwise(clash),
        scope=F.when(f.has, Scope.STORED).otherwise(Scope.IN_BATCH),
        other=F.when(f.has, f.base_order),
        won=f.has & ~f.same & better,
        action=F.when(~f.has, Action.INSERT).when(better, Action.UPDATE),
    )


def loser(f: Facts, dataset: Dataset) -> Judged:
    """A loser of the batch: it answers to the base's row, where that one is the row of its identity in the end."""
    was, reason = F.col(C.VERDICT), F.col(C.REASON)
    against_base = f.has & f.stays & F.col(C.KEY).isNotNull()
    same = f.same | ((was == Verdict.DUPLICATE) & (reason == Reason.POSITION))  # read twice
    verdict = F.when(same, Verdict.DUPLICATE).otherwise(Verdict.CONFLICT)
    again = narrowest(dataset, f.same_levels, f.same_order, dataset.deciding)
    repeated = F.when(was == Verdict.DUPLICATE, reason).otherwise(again)
    clash = F.when(was == Verdict.CONFLICT, reason).otherwise(F.lit(Reason.SAME_IDENTITY))
    return Judged(
        verdict=F.when(against_base, verdict).otherwise(was),
        reason=F.when(against_base, F.when(same, repeated).otherwise(clash)).otherwise(reason),
        scope=F.when(against_base & (verdict != was), Scope.STORED).otherwise(Scope.IN_BATCH),
        other=F.when(against_base, f.base_order).otherwise(F.col(C.WINNER)),
        won=F.lit(False),
        action=F.lit(None).cast("string"),
    )


_OF_FIRST = (_NUMBER, _CONTENT, _ORDER, _WITNESS) = ("_number", "_fact_content", "_fact_order", "_fact_witness")
"""A record's place among those of its identity, and what the first of them has."""


class Fold(Folding):
    """Mode append."""

    def survivors(self, records: DataFrame, within: tuple[str, ...] = ()) -> DataFrame:
        """The first record of each identity, and for every other one its verdict."""
        dataset, preference = self.dataset, in_order(EARLIEST)
        levelled = with_levels(records, dataset, within, preference)
        group = Window.partitionBy(C.KEY, *within).orderBy(*preference)
        rows = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        content = C.compared(dataset)
        ranked = levelled.withColumns(
            {
                _NUMBER: F.row_number().over(group),
                _CONTENT: F.first(content).over(rows),
                _ORDER: F.first(C.ORDER).over(rows),
                _WITNESS: F.first(witness_of(records)).over(rows),
                **neighbour(group),
            }
        )
        lost = F.col(_NUMBER) > 1
        # Equal positions are folded first: a record read twice says nothing new, whichever record survives.
        repeated = repeats()
        same = (F.col(content) == F.col(_CONTENT)) | repeated
        reason = F.coalesce(F.when(repeated, F.lit(Reason.POSITION)), F.col(LEVEL), F.lit(dataset.deciding))
        clash = F.when(clashes(dataset), Reason.INCONSISTENT_POSITION).otherwise(Reason.SAME_IDENTITY)
        return ranked.withColumns(
            {
                C.SURVIVOR: ~lost,
                C.VERDICT: F.when(lost, F.when(same, Verdict.DUPLICATE).otherwise(Verdict.CONFLICT)),
                C.REASON: F.when(lost, F.when(same, reason).otherwise(clash)),
                C.WINNER: F.when(lost, F.col(_ORDER)),
                C.WITNESS: F.when(lost, F.col(_WITNESS)),
            }
        ).drop(LEVEL, RESENT, *_OF_FIRST, *NEIGHBOUR)

    def judge(self, staged: DataFrame, base: DataFrame, placing: Placing = PLACED) -> DataFrame:
        """By a join of each record with the row of its identity."""
        del placing
        return judge_by(winner, loser, EARLIEST, staged, base, self.dataset)

    def went_back(self) -> Column:
        """Whether a later record took the row."""
        base = F.col(BASE_ORDER)
        return base.isNotNull() & (F.col(C.ORDER) > base)
