"""Guard contiguous: a version is applied only behind the one before it, whatever order they arrive in.

The row of a key is the winner at version n, where n ends the unbroken run from `first` on; or, where a gap was accepted
(`onefold.decisions.accepted_gaps`), from the highest version that is there and needs none before it. Winners above a
gap are *held*: rows of the state table that readers do not see. So the table has of each key at most one row that is
live, deleted or hidden (its *head*), and at most one held row a version above it; all of it is a function of the set of
records.

What is judged are the batch's winners together with the head and the held rows of their keys: one window by key, in the
order of versions. The winners below the head are not known any more; a record there is superseded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window, WindowSpec
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.decisions.accepted_gaps import Link
from onefold.folding import upsert
from onefold.folding.backwards import lies_behind
from onefold.folding.deliveries import LOWERED, settle_deliveries, takes_row, where_row_lies
from onefold.folding.levels import finding, narrowest, same_levels
from onefold.folding.positions import partition_of
from onefold.folding.strategy import (
    BASE_VERSION,
    NEW_PLACELESS,
    NULLS,
    PLACED,
    REGRESSIONS,
    REPEATED,
    UNAPPLIED,
    Narrow,
    Placing,
)
from onefold.folding.ties import (
    answered,
    in_order,
    is_before_winner,
    reason_of,
    spans_partitions,
    verdict_of,
)
from onefold.folding.upsert import is_hidden, version_in
from onefold.folding.witness import witness_in
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.values.canonical import same_content
from onefold.values.rejection import rejected
from onefold.vocabulary import Action, Reason, RowState, Scope, Verdict

HEADS = (RowState.LIVE, RowState.DELETED, RowState.HIDDEN)
"""States of the row that ends a key's unbroken run."""


class Fold(upsert.Fold):
    """Mode upsert, guard contiguous."""

    EVERY_VERSION = True  # each is a link of its key's chain
    MEETS_KEYS_ALONE = False
    KEPT = (C.DELETED, C.HIDDEN, C.PLACELESS)

    def own_columns(self) -> tuple[dict[str, Column], list[Column]]:
        """The version, which is not below the first of a key."""
        columns, refused = super().own_columns()
        first = self.version.begins
        below = F.when(
            columns[C.VERSION] < first, rejected(Reason.BEFORE_FIRST, F.lit(f"the first version of a key is {first}"))
        )
        return columns, [*refused, below]

    def base_columns(self, state: DataFrame) -> DataFrame:
        """By the names that staging has, for the rows are judged together."""
        levels = [name for name in C.LEVELS.values() if name in state.columns]
        content = dict.fromkeys((C.HASH, C.compared(self.dataset)))
        by = C.row_key(self.dataset)
        kept = [name for name in self.KEPT if name in state.columns]
        return state.select(*by, C.VERSION, C.ORDER, *content, *kept, S.STATE, *levels)

    def judge(self, staged: DataFrame, base: DataFrame, placing: Placing = PLACED) -> DataFrame:
        """Next to the batch's records there is a row for each row of the base that changes (`_survivor` is null): with
        a verdict where a held record becomes a link or the head (it is *woken*), without one where a row only goes.

        The keys of accepted gaps that the batch itself accepts are judged, too.
        """
        dataset = self.dataset
        by = C.row_key(dataset)
        fresh = F.col(C.SURVIVOR) & ~F.col(U.COVERED)
        # A covered winner may have copies in the batch that are not covered, and in other partitions.
        linked = fresh | (F.col(C.SURVIVOR) & F.col(C.PLACELESS)) if dataset.ties_by_offset else fresh
        keys = staged.where(linked).select(*by).distinct()
        if own := [link for link in placing.links if link.own]:
            keys = keys.unionByName(_keys_of(base.sparkSession, own, base)).distinct()
        known = base.join(keys, by, "left_semi").withColumn(_BASE, F.lit(True))
        winners = staged.where(linked).withColumns({_BASE: F.lit(False), S.STATE: F.lit(None).cast("string")})
        rows = placing.place(winners.unionByName(known, allowMissingColumns=True))
        rows = mark_links(rows, _LINKED, placing.links)
        judged = _decided(_placed(rows, dataset, placing.within), dataset).drop(*placing.within)
        others = _others(staged.where(~fresh), base, by, dataset)
        judged = judged.unionByName(others, allowMissingColumns=True)
        return settle_deliveries(judged, F.lit(Reason.UPDATE)) if LOWERED in staged.columns else judged

    def state_of_row(self) -> Column:
        """As it was judged: a row may wait."""
        return F.col(U.BECOMES)

    def makes_row(self) -> Column:
        """Whether the row is a head."""
        return F.col(U.BECOMES).isin(*HEADS)

    def merge_statement(
        self, target: str, source: str, same_key: Sequence[str], columns: Sequence[str], changes: Collection[str]
    ) -> str | None:
        """A held row that wakes keeps what it has, and no payload of it is carried."""
        if not {*changes} - {Action.INSERT}:
            return None
        names, values = ", ".join(f"`{name}`" for name in columns), ", ".join(f"s.`{name}`" for name in columns)
        same = [*same_key, *(f"t.{name} <=> s.{name}" for name in (C.VERSION, *FLAT_ORDER.values()))]
        same.append(f"s.{U.ACTION} <> '{Action.INSERT}'")
        changing = [S.STATE, *([C.PLACELESS] if C.PLACELESS in columns else [])]
        return (
            f"MERGE INTO {target} t USING {source} s ON {' AND '.join(same)} "
            f"WHEN MATCHED AND s.{U.ACTION} = '{Action.REMOVE}' THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET {', '.join(f't.{name} = s.{name}' for name in changing)} "
            f"WHEN NOT MATCHED THEN INSERT ({names}) VALUES ({values})"
        )

    def changed(self, rows: DataFrame, actions: DataFrame, narrowed: Narrow) -> DataFrame:
        """Heads and held rows of the keys of the actions. Adds `_base_version`, of the head."""
        del narrowed
        by = C.row_key(self.dataset)
        return rows.join(actions.groupBy(*by).agg(F.max(U.BASE + C.VERSION).alias(BASE_VERSION)), by)

    def written(self, rows: DataFrame, actions: DataFrame) -> DataFrame | None:
        """All rows of the keys of the actions, for held rows wake in place."""
        return self.changed(rows, actions, lambda some, _: some)

    def faults_by_key(self, changed: DataFrame, null: Column, links: Sequence[Link]) -> DataFrame:
        """`repeated`: two heads, or a version twice. `unapplied`: held rows whose gap was accepted, and the lowest one,
        where it has no gap below it."""
        version, is_head = F.col(C.VERSION), F.col(S.STATE).isin(*HEADS)
        head = F.coalesce(F.max(F.when(is_head, version)), F.lit(self.version.begins - 1))
        no_gap = F.min(F.when(~is_head, version)) <= head + 1
        counted = {
            REPEATED: (F.count_if(is_head) > 1) | (F.count_distinct(version) < F.count("*")),
            NULLS: F.count_if(null),
            REGRESSIONS: F.when(head < F.max(BASE_VERSION), 1).otherwise(0),
            UNAPPLIED: F.count_if(~is_head & F.col(_LINKED)) + F.when(no_gap, 1).otherwise(0),
        }
        linked = mark_links(changed, _LINKED, links)
        return linked.groupBy(C.KEY).agg(*(of.alias(name) for name, of in counted.items()))

    def count_missing(self, changed: DataFrame, actions: DataFrame, meant: Mapping[str, int], keys: int) -> int:
        """Actions that have no row on the branch, or one in another state."""
        del meant, keys
        place = [C.KEY, C.VERSION, C.ORDER]
        # Where positions are inferred, what goes and what comes may have one place; what only goes leaves none there.
        becomes = F.max(F.when(F.col(U.ACTION) != Action.REMOVE, F.col(U.BECOMES)))
        meant_rows, found = {U.BECOMES: becomes}, [S.STATE]
        right = F.col(S.STATE).eqNullSafe(F.col(U.BECOMES))
        if C.PLACELESS in self.row_columns():
            stays = F.col(U.ACTION) != Action.REMOVE
            meant_rows[NEW_PLACELESS] = F.max(F.when(stays, F.col(C.PLACELESS)))
            found.append(C.PLACELESS)
            right &= F.col(C.PLACELESS).eqNullSafe(F.col(NEW_PLACELESS))
        rows = actions.groupBy(*place).agg(*(of.alias(name) for name, of in meant_rows.items()))
        return rows.join(changed.select(*place, *found), place, "left").where(~right).count()


_BASE, _ROWS, _LINKED = "_is_base", "_rows", "_linked"
_HEAD, _TWIN, _FIRST, _RUN, _END = "_chain_head", "_chain_twin", "_chain_first", "_chain_run", "_chain_end"
_SPANS = "_chain_spans"
_FACTS = (_MET, _SAME, _SAME_ORDER, _AT_END, _ABOVE, _NEW, _INCONSISTENT, _APART) = tuple(
    f"_fact_{name}" for name in ("met", "same", "same_order", "at_end", "above", "new", "inconsistent", "apart")
)


def _placed(rows: DataFrame, dataset: Dataset, within: tuple[str, ...]) -> DataFrame:
    """Where each link is: the head, the base's row of its version, whether it wins its version, and the run."""
    version, first = F.col(C.VERSION), F.lit(version_in(dataset).begins)
    own = [C.ORDER, C.HASH, C.compared(dataset), C.VERSION, S.STATE]
    known = dict.fromkeys([*own, *(name for name in C.LEVELS.values() if name in rows.columns)])
    row = F.struct(*(F.col(name).alias(name.removeprefix("_")) for name in known))
    preferred = _preference(dataset, rows)
    ordered = Window.partitionBy(C.KEY, *within).orderBy(version.asc(), *preferred)
    is_head = F.col(_BASE) & F.col(S.STATE).isin(*HEADS)
    of_version = _whole(Window.partitionBy(C.KEY, *within, C.VERSION).orderBy(*preferred))
    placed = rows.withColumns(
        {
            _LINKED: F.max(F.when(F.col(_LINKED), version)).over(_whole(ordered)),
            _HEAD: F.first(F.when(is_head, row), ignorenulls=True).over(_whole(ordered)),
            _FIRST: F.coalesce(F.lag(C.VERSION).over(ordered) != version, F.lit(True)),
            _TWIN: F.first(F.when(F.col(_BASE), row), ignorenulls=True).over(of_version),
            _SPANS: _spans(dataset, of_version),
        }
    )
    head = F.greatest(F.coalesce(F.col(_HEAD)["version"], first - 1), F.col(_LINKED))
    above = F.col(_FIRST) & (version > head)
    rows_before = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    number = F.count(F.when(above, True)).over(rows_before)
    counted = placed.withColumn(_RUN, (version > head) & (version == head + number))
    end = F.max(F.when(F.col(_RUN), version)).over(_whole(ordered))
    return counted.withColumn(_END, F.coalesce(end, head))


def _spans(dataset: Dataset, of_version: WindowSpec) -> Column:
    """Whether the records of a version, known ones included, are in several partitions, where offsets decide ties."""
    if not dataset.ties_by_offset:
        return F.lit(False)
    partition = partition_of(F.col(C.ORDER))
    return F.coalesce(F.bool_or(F.col(C.PLACELESS)).over(of_version), F.lit(False)) | (
        F.min(partition).over(of_version) != F.max(partition).over(of_version)
    )


def _preference(dataset: Dataset, rows: DataFrame) -> list[Column]:
    """Of one version the winner first; of equals the one that the base has."""
    lowers = [takes_row().desc()] if LOWERED in rows.columns else []
    return [*lowers, *in_order(version_in(dataset).tie), F.col(_BASE).desc()]


def _whole(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)


def _decided(rows: DataFrame, dataset: Dataset) -> DataFrame:
    tie, rows = version_in(dataset).tie, _with_facts(rows, dataset)
    head, twin, version, end = F.col(_HEAD), F.col(_TWIN), F.col(C.VERSION), F.col(_END)
    base, wins = F.col(_BASE), F.col(_FIRST)
    has_head, new = head["version"].isNotNull(), F.col(_NEW)
    met, same, same_order, at_end, above = map(F.col, (_MET, _SAME, _SAME_ORDER, _AT_END, _ABOVE))
    spans, inconsistent, apart = map(F.col, (_SPANS, _INCONSISTENT, _APART))
    fresh = (
        F.when(F.col(C.DELETED), Reason.DELETE)
        .when(is_hidden(dataset), Reason.HIDE)
        .when(has_head & (head["state"] == RowState.LIVE), Reason.UPDATE)
        .otherwise(Reason.INSERT)
    )
    becomes = (
        F.when(above, RowState.HELD)
        .when(F.col(C.DELETED), RowState.DELETED)
        .when(is_hidden(dataset), RowState.HIDDEN)
        .otherwise(RowState.LIVE)
    )  # of a row that is the head, or stays above a gap

    # Of the batch.
    verdict = (
        F.when(met & same, Verdict.DUPLICATE)
        .when(inconsistent | apart, Verdict.CONFLICT)
        .when(met, verdict_of(tie, wins))
        .when(~new, Verdict.SUPERSEDED)
        .when(above, Verdict.HELD)
        .otherwise(Verdict.APPLIED)
    )
    reason = (
        F.when(met & same, narrowest(dataset, _same_levels(twin, rows), same_order, Reason.KEY_VERSION))
        .when(inconsistent, Reason.INCONSISTENT_POSITION)
        .when(apart, Reason.INCOMPARABLE_VERSION)
        .when(met, reason_of(tie, wins))
        .when(~new, F.when(lies_behind(head["order"], dataset), Reason.BACKWARDS).otherwise(Reason.STORED))
        .when(above, Reason.VERSION_GAP)
        .when(at_end, fresh)
        .otherwise(Reason.FOLDED)
    )
    acts = wins & (at_end | above)
    # Of the base: a head that another row follows, a held row that is a link or the head now, and what was beaten.
    was_head = F.col(S.STATE).isin(*HEADS)
    goes = ~wins | (version < end)
    woken = base & ~was_head & wins & ~above
    change = F.when(goes, Action.REMOVE).when(woken, Action.WAKE)
    places = {}
    if dataset.ties_by_offset:
        change = change.when(spans & ~F.coalesce(F.col(C.PLACELESS), F.lit(False)), Action.UNPLACE)
        places[C.PLACELESS] = spans
    decided = rows.withColumns(
        {
            **places,
            C.VERDICT: F.when(base, F.when(woken, Verdict.APPLIED)).otherwise(verdict),
            C.REASON: F.when(base, F.when(woken, F.when(at_end, fresh).otherwise(Reason.FOLDED))).otherwise(reason),
            U.SCOPE: F.when(base | has_head | met, Scope.STORED).otherwise(Scope.IN_BATCH),
            U.OTHER: F.when(~base, F.coalesce(twin["order"], F.when(~above, head["order"]))),
            U.WON: ~base & met & ~same & ~apart & wins,
            U.ACTION: F.when(base, change).otherwise(F.when(acts, Action.INSERT)),
            U.BECOMES: becomes,
            U.BASE + C.ORDER: head["order"],
            U.BASE + C.VERSION: head["version"],
            U.COVERED: F.when(base, False).otherwise(F.col(U.COVERED)),
            U.FINDING: F.when(~base, F.coalesce(F.col(U.FINDING), _finding(dataset, head, rows))),
            C.WITNESS: F.when(~base & (met | has_head), witness_in(F.coalesce(twin, head), rows)),
        }
    )
    decided = where_row_lies(decided, met)
    changed = (~base | F.col(U.ACTION).isNotNull()) & ~F.col(U.COVERED)
    return decided.where(changed).drop(_BASE, _LINKED, _HEAD, _TWIN, _SPANS, _FIRST, _RUN, _END, S.STATE, *_FACTS)


def _with_facts(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """With what the rules ask of a link, next to the head and the base's row of its version: columns, or Spark would
    compute each once more in every rule."""
    head, twin, version, end = F.col(_HEAD), F.col(_TWIN), F.col(C.VERSION), F.col(_END)
    known = rows.withColumns(
        {
            _MET: twin["version"].isNotNull(),
            _SAME: _same_content(dataset, twin),
            _SAME_ORDER: F.col(C.ORDER) == twin["order"],
            _AT_END: version == end,
            _ABOVE: version > end,
            _NEW: version > F.coalesce(head["version"], F.lit(version_in(dataset).begins) - 1),
        }
    )
    differs = F.col(_MET) & ~F.col(_SAME)
    inconsistent = F.coalesce(differs & F.col(_SAME_ORDER) & F.lit(dataset.source.exact), F.lit(False))
    apart = F.coalesce(differs & ~inconsistent & F.col(_SPANS), F.lit(False))
    return known.withColumns({_INCONSISTENT: inconsistent, _APART: apart})


def _others(rows: DataFrame, base: DataFrame, by: list[str], dataset: Dataset) -> DataFrame:
    """Records that are no winners, have no key, or are covered."""
    asked = (C.ORDER, C.VERSION, C.HASH, C.COMPARED, C.PRODUCER, C.PLACELESS, S.STATE)
    known = [name for name in asked if name in base.columns]
    row = F.struct(*(F.col(name).alias(name.removeprefix("_")) for name in known))
    known_rows = base.groupBy(*by).agg(F.collect_list(row).alias(_ROWS))
    met = [rows[name] == known_rows[name] for name in by]
    found = rows.join(known_rows, met, "left").select(*(rows[name] for name in rows.columns), _ROWS)
    # A loser of the batch answers to the row that the table has of its version, where the batch's winner does.
    of_version = F.filter(_ROWS, lambda row: row["version"] == F.col(C.VERSION))
    heads = F.filter(_ROWS, lambda row: row["state"].isin(*HEADS))
    found = found.withColumns({_TWIN: F.get(of_version, F.lit(0)), _HEAD: F.get(heads, F.lit(0))})
    twin, head, tie = F.col(_TWIN), F.col(_HEAD), version_in(dataset).tie
    answers = F.coalesce(is_before_winner(twin["order"], tie), F.lit(False))
    verdict, reason = answered(_same_content(dataset, twin), tie, Reason.KEY_VERSION)
    was, why = F.col(C.VERDICT), F.col(C.REASON)
    apart = F.lit(False)
    if dataset.ties_by_offset:
        spans = F.col(C.PLACELESS) | spans_partitions(twin["order"].isNotNull(), twin["order"], twin["placeless"])
        apart = twin["order"].isNotNull() & ~_same_content(dataset, twin) & spans & (why != Reason.POSITION)
    settled = F.coalesce(why == Reason.INCOMPARABLE_VERSION, F.lit(False))
    if dataset.versions_by_delivery:
        settled |= F.coalesce(C.COPY, F.lit(False))
    apart = F.coalesce(apart, F.lit(False)) & ~settled
    answers &= ~settled
    # Or to the head, where that is a newer version and lies before it in its partition.
    newer = F.coalesce(head["version"] > F.col(C.VERSION), F.lit(False))
    backwards = newer & (F.col(C.REASON) == Reason.SAME_VERSION) & lies_behind(head["order"], dataset)
    backwards = F.coalesce(backwards, F.lit(False))
    stored = apart | (answers & (verdict != was)) | backwards
    found = where_row_lies(found, twin["order"].isNotNull())
    return found.withColumns(
        {
            C.VERDICT: F.when(apart, Verdict.CONFLICT)
            .when(answers, verdict)
            .when(backwards, Verdict.SUPERSEDED)
            .otherwise(was),
            C.REASON: F.when(apart, Reason.INCOMPARABLE_VERSION)
            .when(answers, reason)
            .when(backwards, Reason.BACKWARDS)
            .otherwise(why),
            U.SCOPE: F.when(stored, Scope.STORED).otherwise(Scope.IN_BATCH),
            U.OTHER: F.when(answers | apart, twin["order"]).when(backwards, head["order"]).otherwise(F.col(C.WINNER)),
            C.WITNESS: F.when(answers | apart, witness_in(twin, rows))
            .when(backwards, witness_in(head, rows))
            .otherwise(F.col(C.WITNESS)),
            U.WON: F.lit(False),
            U.ACTION: F.lit(None).cast("string"),
            U.BECOMES: F.lit(None).cast("string"),
        }
    ).drop(_ROWS, _TWIN, _HEAD)


def _same_content(dataset: Dataset, other: Column) -> Column:
    """Whether a record's content is that of another, a struct, as the dataset compares them."""
    content = C.compared(dataset)
    return same_content(F.col(content), other[content.removeprefix("_")])


def _same_levels(other: Column, rows: DataFrame) -> dict[str, Column]:
    """Of each level that rows have, whether another row, a struct of their columns, has the same identity."""
    return same_levels(rows, lambda name: other[name.removeprefix("_")], lambda name: name in rows.columns)


def _finding(dataset: Dataset, head: Column, rows: DataFrame) -> Column:
    """The level at which the head, of another version and content, has the same identity."""
    differs = (head["version"] != F.col(C.VERSION)) & ~_same_content(dataset, head)
    return finding(dataset, _same_levels(head, rows), differs)


def _keys_of(session: SparkSession, links: Sequence[Link], like: DataFrame) -> DataFrame:
    """The keys (and periods) of links, with the types that another frame has."""
    rows = session.createDataFrame([(link.key, link.period) for link in links], f"{C.KEY} binary, {C.WITHIN} string")
    if C.WITHIN not in like.columns:
        return rows.select(C.KEY)
    return rows.withColumn(C.WITHIN, F.col(C.WITHIN).cast(like.schema[C.WITHIN].dataType))


_LINK, _LINKS_TO = "_chain_link", "_chain_links_to"


def mark_links(rows: DataFrame, name: str, links: Sequence[Link]) -> DataFrame:
    """Add a column: whether a row's version of its key needs none before it. No exchange."""
    if not links:
        return rows.withColumn(name, F.lit(False))
    shape = f"{_LINK} binary, {_LINKS_TO} bigint"
    known = rows.sparkSession.createDataFrame([(link.key, link.version) for link in links], shape)
    same = (rows[C.KEY] == F.col(_LINK)) & (rows[C.VERSION] == F.col(_LINKS_TO))
    marked = rows.join(F.broadcast(known.distinct()), same, "left")
    return marked.withColumn(name, F.col(_LINK).isNotNull()).drop(_LINK, _LINKS_TO)
