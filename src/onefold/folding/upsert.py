"""Upsert, guard newer: the record of the largest (version, order) is the row; of equal versions the tie decides."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset import Dataset
from onefold.dataset.modes.version import Version
from onefold.folding.backwards import AHEAD, BEHIND, lies_behind, with_ahead
from onefold.folding.deliveries import (
    FIRST_SENT,
    LOWERED,
    known_messages,
    settle_copies,
    settle_deliveries,
    with_copies,
    with_lowered,
    with_messages,
)
from onefold.folding.judging import Facts, Judged, judge_by
from onefold.folding.levels import LEVEL, RESENT, RETRIES, finding, narrowest, no_level, with_levels
from onefold.folding.positions import NEIGHBOUR, clashes, neighbour, partition_of, repeats
from onefold.folding.strategy import BASE_ORDER, BASE_VERSION, LOWERS, PLACED, Folding, Placing
from onefold.folding.ties import (
    answered,
    in_order,
    is_placeless,
    is_preferred,
    loser_of,
    reason_of,
    verdict_of,
)
from onefold.folding.versions import ahead_of_log, are_apart, set_apart, version_of
from onefold.folding.witness import with_witness
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import Action, Reason, RowState, Scope, Verdict


def winner(f: Facts, dataset: Dataset) -> Judged:
    """A survivor of the batch against the row that the base has of its key."""
    tie = version_in(dataset).tie
    version, base_version = F.col(C.VERSION), F.col(U.BASE + C.VERSION)
    newer, tied = version > base_version, version == base_version
    placeless = f.has & tied & is_placeless(dataset, tied)
    inconsistent = tied & f.same_order & ~f.same & F.lit(dataset.source.exact)
    apart = ~inconsistent & (are_apart(f.has, f.base_order, dataset) | (placeless & ~f.same))
    smaller_hash = f.same_order & ~f.identical & (F.col(C.HASH) < f.base_hash)
    better = newer | (tied & (f.preferred | smaller_hash))
    again = F.coalesce(
        *(F.when(f.same_levels[level], level) for level in RETRIES if level in f.same_levels), no_level()
    )
    retry = again.isNotNull() & f.same
    fresh = _fresh(dataset)
    change = F.when(better & ~apart, Action.UPDATE)
    if dataset.ties_by_offset:
        known = F.coalesce(F.col(U.BASE + C.PLACELESS), F.lit(False))
        change = change.when(placeless & f.same & ~known, Action.UNPLACE)
    return Judged(
        verdict=F.when(~f.has, Verdict.APPLIED)
        .when(apart, Verdict.CONFLICT)
        .when((tied & f.same) | retry, Verdict.DUPLICATE)
        .when(inconsistent, Verdict.CONFLICT)
        .when(tied, verdict_of(tie, f.preferred))
        .when(newer, Verdict.APPLIED)
        .otherwise(Verdict.SUPERSEDED),
        reason=F.when(~f.has, fresh)
        .when(apart, Reason.INCOMPARABLE_VERSION)
        .when(tied & f.same, narrowest(dataset, f.same_levels, f.same_order, Reason.KEY_VERSION))
        .when(retry, again)
        .when(inconsistent, Reason.INCONSISTENT_POSITION)
        .when(tied, reason_of(tie, f.preferred))
        .when(newer, fresh)
        .when(lies_behind(f.base_order, dataset), Reason.BACKWARDS)
        .otherwise(Reason.STORED),
        scope=F.when(f.has, Scope.STORED).otherwise(Scope.IN_BATCH),
        other=F.when(f.has, f.base_order),
        won=f.has & ~apart & tied & ~f.same & better,
        action=F.when(~f.has, Action.INSERT).otherwise(change),
    )


def _fresh(dataset: Dataset) -> Column:
    """The reason of a record that makes a row."""
    return (
        F.when(F.col(C.DELETED), Reason.DELETE)
        .when(is_hidden(dataset), Reason.HIDE)
        .when(F.coalesce(F.col(U.BASE + S.STATE) != RowState.LIVE, F.lit(True)), Reason.INSERT)
        .otherwise(Reason.UPDATE)
    )


def loser(f: Facts, dataset: Dataset) -> Judged:
    """A loser of the batch: a lower version may still meet its own version in the table; a record that lost to one of
    its own version answers to the table's row of that version, where that record does; the table's row may be a newer
    version that lies before it in its partition; and it may be another content of a row of its version, of which the
    copies are in several partitions."""
    tie, was, why = version_in(dataset).tie, F.col(C.VERDICT), F.col(C.REASON)
    version, base_version = F.col(C.VERSION), F.col(U.BASE + C.VERSION)
    tied = version == base_version
    # What went backwards within the batch is no other content of the table's version.
    lower = (why == Reason.IN_BATCH) | ((why == Reason.BACKWARDS) & f.same)
    meets = f.has & tied & (was == Verdict.SUPERSEDED) & lower
    answers = meets | (f.has & tied & ((F.col(C.TIED) & f.stays) | ~F.col(C.TIED)))
    answers &= why != Reason.INCOMPARABLE_VERSION
    read_twice = (was == Verdict.DUPLICATE) & (why == Reason.POSITION)
    apart = f.has & tied & F.col(C.TIED) & ~f.same & ~read_twice & is_placeless(dataset, tied)
    apart = F.coalesce(apart & (why != Reason.INCOMPARABLE_VERSION), F.lit(False))
    ordered = (was == Verdict.SUPERSEDED) | (why == Reason.SAME_VERSION)
    backwards = f.has & (base_version > version) & ordered & (why != Reason.BACKWARDS)
    backwards &= lies_behind(f.base_order, dataset)
    same_reason = narrowest(dataset, f.same_levels, f.same_order, Reason.KEY_VERSION)
    verdict, reason = answered(f.same, tie, same_reason)
    stored = apart | meets | backwards | (answers & (verdict != was))
    return Judged(
        verdict=F.when(apart, Verdict.CONFLICT)
        .when(backwards, Verdict.SUPERSEDED)
        .when(answers, verdict)
        .otherwise(was),
        reason=F.when(apart, Reason.INCOMPARABLE_VERSION)
        .when(backwards, Reason.BACKWARDS)
        .when(answers, reason)
        .otherwise(why),
        scope=F.when(stored, Scope.STORED).otherwise(Scope.IN_BATCH),
        other=F.when(apart | answers | backwards, f.base_order).otherwise(F.col(C.WINNER)),
        won=F.lit(False),
        action=F.lit(None).cast("string"),
    )


def version_in(dataset: Dataset) -> Version:
    """The version that the file declares, as the mode requires."""
    assert dataset.apply.version
    return dataset.apply.version


def is_hidden(dataset: Dataset) -> Column:
    """Whether readers do not see the row that a record makes, which is no delete."""
    return F.col(C.HIDDEN) if dataset.where else F.lit(False)


_STAGED, _PART = "_fact_staged", "_fact_part"
_SPREAD = 64


class Fold(Folding):
    """Mode upsert, guard newer."""

    EVERY_VERSION = False
    """Whether each version of a key survives the batch, and not the highest alone."""
    KEPT: tuple[str, ...] = (C.PLACELESS,)

    @property
    def version(self) -> Version:
        """What orders the versions of a key."""
        return version_in(self.dataset)

    def own_columns(self) -> tuple[dict[str, Column], list[Column]]:
        """The version."""
        version, refused = version_of(self.version)
        return {C.VERSION: version}, [*refused, *ahead_of_log(self.dataset)]

    def survivors(self, records: DataFrame, within: tuple[str, ...] = ()) -> DataFrame:
        """Of each (key, version) the winner by the tie, and of a key the highest version; for the others a verdict."""
        return self._chosen(set_apart(records, self.dataset, within), within).drop(FIRST_SENT, S.MESSAGE)

    def known_messages(self, messages: DataFrame) -> DataFrame:
        """By message, with which of them makes the row of its key (and version, where each survives)."""
        of_row = (*C.row_key(self.dataset), *([C.VERSION] if self.EVERY_VERSION else []))
        return known_messages(messages, self.dataset, self.version.tie, of_row)

    def meet_messages(self, staged: DataFrame, known: DataFrame) -> DataFrame:
        """By a join of each record with its message in the ledger, and the windows of `survivors`. No exchange: what
        has no key is spread, and stays as it is."""
        spread = F.when(F.col(C.KEY).isNull(), F.pmod(F.xxhash64(C.ORDER), F.lit(_SPREAD)))
        settled = [C.SURVIVOR, C.VERDICT, C.REASON, C.WINNER, C.WITNESS, C.TIED, C.COPY]
        settled += [C.PLACELESS] if self.dataset.ties_by_offset else []
        before = F.struct(*settled)
        rows = staged.withColumns({_STAGED: before, _PART: spread})
        folded = self._chosen(with_messages(rows, known, self.dataset), (_PART,))
        by = self._of_deliveries((_PART,))
        lowered = with_lowered(folded, self.dataset, self.version.tie, by)
        keyed = F.col(C.KEY).isNotNull()
        columns = {name: F.when(keyed, F.col(name)).otherwise(F.col(_STAGED)[name]) for name in settled}
        return lowered.withColumns(columns).drop(_STAGED, _PART)

    def _of_deliveries(self, within: tuple[str, ...]) -> tuple[str, ...]:
        """What all deliveries of a message have in common."""
        return (C.KEY, *within, *([C.VERSION] if self.EVERY_VERSION else []))

    def _chosen(self, records: DataFrame, within: tuple[str, ...]) -> DataFrame:
        dataset, tie = self.dataset, self.version.tie
        records = with_copies(records, dataset, tie, self._of_deliveries(within))
        copy = F.col(C.COPY) if dataset.versions_by_delivery else F.lit(False)
        # Where every version is a link, a lower one that comes later is none that another supersedes.
        records = with_ahead(records, dataset, within, ~copy, asked=not self.EVERY_VERSION)
        # What went backwards comes last of its version, so that it is no other content of it; none of it is a row.
        # Copies come last of all.
        behind = F.col(BEHIND)
        preference = [F.col(C.VERSION).desc(), behind.asc(), *in_order(tie)]
        if dataset.versions_by_delivery:
            preference = [copy.asc(), *preference]
        levelled = with_levels(records, dataset, within, preference, of_version=True, retries=not self.EVERY_VERSION)
        group = Window.partitionBy(C.KEY, *within).orderBy(*preference)
        rows = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        # One sort serves both the key and its versions: a version starts where it differs from the row before.
        starts = F.coalesce(F.lag(C.VERSION).over(group) != F.col(C.VERSION), F.lit(True))
        if dataset.versions_by_delivery:
            starts |= F.lag(C.COPY).over(group) != copy
        with_starts = levelled.withColumns(
            {
                "_number": F.row_number().over(group),
                "_starts": starts,
                **neighbour(group),
                "_top": F.first(with_witness(records, C.ORDER)).over(rows),
            }
        )
        content = C.compared(dataset)
        head = F.when(F.col("_starts"), with_witness(records, C.ORDER, content))
        ranked = with_starts.withColumn("_head", F.last(head, ignorenulls=True).over(rows))
        ranked = self._with_places(ranked, group, within)
        tied = ~F.col("_starts")
        lost = copy | (tied if self.EVERY_VERSION else F.col("_number") > 1)
        same = F.col(content) == F.col("_head")[content.removeprefix("_")]
        retry = F.col(RESENT).isNotNull()
        duplicate, clashing = tied & (same | repeats()), tied & clashes(dataset)
        apart = tied & F.col(C.PLACELESS) if dataset.ties_by_offset else F.lit(False)
        reason = F.coalesce(F.when(repeats(), F.lit(Reason.POSITION)), F.col(LEVEL), F.lit(Reason.KEY_VERSION))
        decided = ranked.withColumns(
            {
                C.SURVIVOR: ~lost,
                C.TIED: F.when(tied & (duplicate | ~(retry | behind)), F.col("_head.order") == F.col("_top.order")),
                C.VERDICT: F.when(duplicate | (lost & retry), Verdict.DUPLICATE)
                .when(clashing | apart, Verdict.CONFLICT)
                .when(behind, Verdict.SUPERSEDED)
                .when(tied, loser_of(tie))
                .when(lost, Verdict.SUPERSEDED),
                C.REASON: F.when(duplicate, reason)
                .when(lost & retry, F.col(RESENT)["level"])
                .when(clashing, Reason.INCONSISTENT_POSITION)
                .when(apart, Reason.INCOMPARABLE_VERSION)
                .when(behind, Reason.BACKWARDS)
                .when(tied, Reason.SAME_VERSION)
                .when(lost, Reason.IN_BATCH),
                **{
                    name: F.when(~duplicate & lost & retry, F.col(RESENT)[part])  # the message that it repeats
                    .when(behind & ~duplicate & ~clashing, F.col(AHEAD)[part])
                    .when(tied, F.col("_head")[part])
                    .when(lost, F.col("_top")[part])
                    for name, part in ((C.WINNER, "order"), (C.WITNESS, "witness"))
                },
            }
        ).drop("_number", "_starts", *NEIGHBOUR, "_top", "_head", AHEAD, BEHIND, LEVEL, RESENT)
        return settle_copies(decided) if dataset.versions_by_delivery else decided

    def _with_places(self, ranked: DataFrame, group: WindowSpec, within: tuple[str, ...]) -> DataFrame:
        """Add `_placeless` where offsets decide ties: of each version that may be a row, whether its records are in
        several partitions."""
        if not self.dataset.ties_by_offset:
            return ranked
        of_row, everything = F.lit(True), (Window.unboundedPreceding, Window.unboundedFollowing)
        if self.EVERY_VERSION:
            whole = Window.partitionBy(C.KEY, *within, C.VERSION).rowsBetween(*everything)
        else:  # the sort of the key is enough: only the highest version is a row
            of_row, whole = F.col("_head.order") == F.col("_top.order"), group.rowsBetween(*everything)
        elsewhere = partition_of(F.col(C.ORDER)) != partition_of(F.col("_head.order"))
        if self.dataset.versions_by_delivery:
            elsewhere &= ~F.col(C.COPY)
        spans = F.bool_or(F.coalesce(of_row & elsewhere, F.lit(False))).over(whole)
        return ranked.withColumn(C.PLACELESS, F.coalesce(F.col(C.KEY).isNotNull() & of_row & spans, F.lit(False)))

    def further_columns(self) -> list[T.StructField]:
        """What rows of the ledger have, where a delivery decides."""
        return [T.StructField(S.MESSAGE, T.BinaryType())] if self.dataset.versions_by_delivery else []

    def apart(self) -> tuple[str, ...]:
        """The key; the version and the content."""
        return (*super().apart(), C.VERSION, C.compared(self.dataset))

    def are_two(self, differ: Mapping[str, Column]) -> Column:
        """Two keys; or of one key two versions and two contents, so that two records differ in both."""
        return super().are_two(differ) | reduce(Column.__and__, (differ[name] for name in self.apart()[1:]))

    def base_columns(self, state: DataFrame) -> DataFrame:
        """With the version, and whether the row is placeless."""
        return self.named_columns(state, C.VERSION, *([C.PLACELESS] if self.dataset.ties_by_offset else []))

    def judge(self, staged: DataFrame, base: DataFrame, placing: Placing = PLACED) -> DataFrame:
        """By a join of each record with the row of its key."""
        del placing
        judged = judge_by(winner, loser, self.version.tie, staged, base, self.dataset, self._finding)
        if self.dataset.ties_by_offset:
            tied = F.coalesce(F.col(C.VERSION) == F.col(U.BASE + C.VERSION), F.lit(False))
            judged = judged.withColumn(C.PLACELESS, is_placeless(self.dataset, tied))
        return settle_deliveries(judged, _fresh(self.dataset)) if LOWERED in staged.columns else judged

    def _finding(self, f: Facts) -> Column:
        """The table's row of another version of the key, and of other content, has the same narrow identity."""
        other_version = F.col(C.VERSION) != F.col(U.BASE + C.VERSION)
        return finding(self.dataset, f.same_levels, f.has & other_version & ~f.same)

    def state_of_row(self) -> Column:
        """Deleted, hidden or live."""
        return F.when(is_hidden(self.dataset), RowState.HIDDEN).otherwise(super().state_of_row())

    def row_columns(self) -> list[str]:
        """The version, and whether the row is placeless."""
        return [C.VERSION, *([C.PLACELESS] if self.dataset.ties_by_offset else [])]

    def went_back(self) -> Column:
        """Whether (version, order) of the row went down."""
        base, version, before = F.col(BASE_ORDER), F.col(C.VERSION), F.col(BASE_VERSION)
        order_down = is_preferred(base, F.col(C.ORDER), self.version.tie)
        down = base.isNotNull() & ((version < before) | ((version == before) & order_down))
        return down & ~F.col(LOWERS) if self.dataset.versions_by_delivery else down
