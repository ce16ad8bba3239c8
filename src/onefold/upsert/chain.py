"""Guard contiguous: a version is applied only behind the one before it, whatever order they arrive in.

The row of a key is the winner at version n, where n ends the unbroken run from `first` on; or, where a gap was accepted
(`onefold.upsert.gaps`), from the highest version that is there and needs none before it. Winners above a gap are
*held*: rows of the state table that readers do not see. So the table has of each key at most one row that is live or
deleted (its *head*), and at most one held row a version above it; all of it is a function of the set of records.

What is judged are the batch's winners together with the head and the held rows of their keys: one window by key, in the
order of versions. Nobody knows the winners below the head any more; a record there is superseded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.gaps import Link, keys_of, mark_links
from onefold.upsert.judge import answered, stands_above_winner
from onefold.values.canonical import same_content
from onefold.vocabulary import Action, Level, Reason, RowState, Scope, Verdict

STANDS = (RowState.LIVE, RowState.DELETED)


def chain_columns(base: DataFrame, dataset: Dataset) -> DataFrame:
    """What the look-up reads of the table: as `base_columns`, by the names that staging has, and `_state`."""
    levels = [name for name in C.LEVELS.values() if name in base.columns]
    period = [C.WITHIN] if dataset.within else []
    content = dict.fromkeys((C.HASH, C.compared(dataset)))
    return base.select(C.KEY, *period, C.VERSION, C.ORDER, *content, C.DELETED, U.STATE, *levels)


def judge_chain(
    staged: DataFrame,
    base: DataFrame,
    dataset: Dataset,
    place: Callable[[DataFrame], DataFrame] = lambda rows: rows,
    within: tuple[str, ...] = (),
    links: Sequence[Link] = (),
) -> DataFrame:
    """Judge staged rows (with `_covered`) and the base's rows of their keys (`chain_columns`), and of `links` that the
    batch itself accepts.

    Gives the staging columns with the final verdict, as `judge` does, and `_becomes`. Beside the batch's records there
    is a row for each row of the base that changes (`_survivor` is null): with a verdict where a held record becomes a
    link or the head (it is *woken*), without one where a row only goes. `place` puts the rows of a key together;
    `within` columns, which it may add, are part of every group.
    """
    by = C.row_key(dataset)
    fresh = F.col(C.SURVIVOR) & ~F.col(U.COVERED)
    keys = staged.where(fresh).select(*by).distinct()
    if own := [one for one in links if one.own]:
        keys = keys.unionByName(keys_of(base.sparkSession, own, base)).distinct()
    standing = base.join(keys, by, "left_semi").withColumn(_BASE, F.lit(True))
    winners = staged.where(fresh).withColumns({_BASE: F.lit(False), U.STATE: F.lit(None).cast("string")})
    rows = place(winners.unionByName(standing, allowMissingColumns=True))
    rows = mark_links(rows, _LINKED, links)
    judged = _decided(_placed(rows, dataset, within), dataset).drop(*within)
    others = _others(staged.where(~fresh), base, by, dataset)
    return judged.unionByName(others, allowMissingColumns=True)


_BASE, _ROWS, _LINKED = "_is_base", "_rows", "_linked"
_HEAD, _TWIN, _FIRST, _RUN, _END = "_chain_head", "_chain_twin", "_chain_first", "_chain_run", "_chain_end"


def _placed(rows: DataFrame, dataset: Dataset, within: tuple[str, ...]) -> DataFrame:
    """Where each link stands: the head, the base's row of its version, whether it wins its version, and the run."""
    assert dataset.apply.version
    version, first = F.col(C.VERSION), F.lit(dataset.apply.version.begins)
    own = [C.ORDER, C.HASH, C.compared(dataset), C.VERSION, U.STATE]
    known = dict.fromkeys([*own, *(name for name in C.LEVELS.values() if name in rows.columns)])
    row = F.struct(*(F.col(name).alias(name.removeprefix("_")) for name in known))
    ordered = Window.partitionBy(C.KEY, *within).orderBy(version.asc(), *_preference(dataset))
    is_head = F.col(_BASE) & F.col(U.STATE).isin(*STANDS)
    placed = rows.withColumns(
        {
            _LINKED: F.max(F.when(F.col(_LINKED), version)).over(_whole(ordered)),
            _HEAD: F.first(F.when(is_head, row), ignorenulls=True).over(_whole(ordered)),
            _FIRST: F.coalesce(F.lag(C.VERSION).over(ordered) != version, F.lit(True)),
            _TWIN: F.first(F.when(F.col(_BASE), row), ignorenulls=True).over(
                _whole(Window.partitionBy(C.KEY, *within, C.VERSION).orderBy(*_preference(dataset)))
            ),
        }
    )
    head = F.greatest(F.coalesce(F.col(_HEAD)["version"], first - 1), F.col(_LINKED))
    above = F.col(_FIRST) & (version > head)
    rows_before = ordered.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    number = F.count(F.when(above, True)).over(rows_before)
    counted = placed.withColumn(_RUN, (version > head) & (version == head + number))
    end = F.max(F.when(F.col(_RUN), version)).over(_whole(ordered))
    return counted.withColumn(_END, F.coalesce(end, head))


def _preference(dataset: Dataset) -> list[Column]:
    """Of one version the winner first; of equals the one that stands."""
    assert dataset.apply.version
    order = F.col(C.ORDER)
    own = order.asc() if dataset.apply.version.tie == "first" else order.desc()
    return [own, F.col(C.HASH).asc(), F.col(_BASE).desc()]


def _whole(window: WindowSpec) -> WindowSpec:
    return window.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)


def _decided(rows: DataFrame, dataset: Dataset) -> DataFrame:
    assert dataset.apply.version
    tie, exact = dataset.apply.version.tie, F.lit(dataset.source.exact)
    head, twin, version, end = F.col(_HEAD), F.col(_TWIN), F.col(C.VERSION), F.col(_END)
    base, wins = F.col(_BASE), F.col(_FIRST)
    has_head, met = head["version"].isNotNull(), twin["version"].isNotNull()
    same, same_order = _same_content(dataset, twin), F.col(C.ORDER) == twin["order"]
    at_end, above = version == end, version > end
    fresh = (
        F.when(F.col(C.DELETED), Reason.DELETE)
        .when(has_head & (head["state"] == RowState.LIVE), Reason.UPDATE)
        .otherwise(Reason.INSERT)
    )
    becomes = (
        F.when(above, RowState.HELD).when(F.col(C.DELETED), RowState.DELETED).otherwise(RowState.LIVE)
    )  # of a row that is the head, or stays above a gap

    # Of the batch.
    inconsistent = met & same_order & ~same & exact
    settled = F.when(wins, Reason.REPLACE).otherwise(Reason.SAME_VERSION)
    new = version > F.coalesce(head["version"], F.lit(dataset.apply.version.begins) - 1)
    verdict = (
        F.when(met & same, Verdict.DUPLICATE)
        .when(inconsistent, Verdict.CONFLICT)
        .when(
            met, Verdict.CONFLICT if tie == "conflict" else F.when(wins, Verdict.APPLIED).otherwise(Verdict.SUPERSEDED)
        )
        .when(~new, Verdict.SUPERSEDED)
        .when(above, Verdict.HELD)
        .otherwise(Verdict.APPLIED)
    )
    reason = (
        F.when(met & same, _narrowest(dataset, twin, rows))
        .when(inconsistent, Reason.INCONSISTENT_POSITION)
        .when(met, Reason.SAME_VERSION if tie == "conflict" else settled)
        .when(~new, Reason.STORED)
        .when(above, Reason.VERSION_GAP)
        .when(at_end, fresh)
        .otherwise(Reason.FOLDED)
    )
    acts = wins & (at_end | above)
    # Of the base: a head that another row follows, a held row that is a link or the head now, and what was beaten.
    stood = F.col(U.STATE).isin(*STANDS)
    goes = ~wins | (version < end)
    woken = base & ~stood & wins & ~above
    change = F.when(goes, Action.REMOVE).when(woken, Action.WAKE)
    decided = rows.withColumns(
        {
            C.VERDICT: F.when(base, F.when(woken, Verdict.APPLIED)).otherwise(verdict),
            C.REASON: F.when(base, F.when(woken, F.when(at_end, fresh).otherwise(Reason.FOLDED))).otherwise(reason),
            U.SCOPE: F.when(base | has_head | met, Scope.STORED).otherwise(Scope.IN_BATCH),
            U.OTHER: F.when(~base, F.coalesce(twin["order"], F.when(~above, head["order"]))),
            U.WON: ~base & met & ~same & wins,
            U.ACTION: F.when(base, change).otherwise(F.when(acts, Action.INSERT)),
            U.BECOMES: becomes,
            U.BASE + C.ORDER: head["order"],
            U.BASE + C.VERSION: head["version"],
            U.COVERED: F.when(base, False).otherwise(F.col(U.COVERED)),
            U.FINDING: F.when(~base, F.coalesce(F.col(U.FINDING), _finding(dataset, head, rows))),
            C.WITNESS: F.when(~base & (met | has_head), _witness(F.coalesce(twin, head), rows)),
        }
    )
    changed = ~base | F.col(U.ACTION).isNotNull()
    return decided.where(changed).drop(_BASE, _LINKED, _HEAD, _TWIN, _FIRST, _RUN, _END, U.STATE)


def _others(rows: DataFrame, base: DataFrame, by: list[str], dataset: Dataset) -> DataFrame:
    """Records that are no winners, have no key, or are covered: the table tells only of positions contradicted."""
    assert dataset.apply.version
    known = [name for name in (C.ORDER, C.VERSION, C.HASH, C.COMPARED, C.PRODUCER) if name in base.columns]
    row = F.struct(*(F.col(name).alias(name.removeprefix("_")) for name in known))
    stood = base.groupBy(*by).agg(F.collect_list(row).alias(_ROWS))
    met = [rows[name] == stood[name] for name in by]
    found = rows.join(stood, met, "left").select(*(rows[name] for name in rows.columns), _ROWS)
    contradicts = F.lit(False)
    if dataset.source.exact:  # an inferred position contradicts nothing, and may be that of several rows
        here = F.filter(_ROWS, lambda one: one["order"] == F.col(C.ORDER))
        differs = F.exists(here, lambda one: ~same_content(one["hash"], F.col(C.HASH)))
        # Its effect stands: as a row of its version, or under the head.
        told = F.exists(_ROWS, lambda one: one["version"] >= F.col(C.VERSION))
        contradicts = F.coalesce(differs, F.lit(False)) | ~F.coalesce(told, F.lit(False))
    stands = F.col(U.COVERED) & F.col(C.KEY).isNotNull()
    repeated = F.when(contradicts, Reason.INCONSISTENT_POSITION).otherwise(Reason.POSITION)
    # A loser of the batch answers to the row that the table has of its version, where the batch's winner does.
    twin = F.get(F.filter(_ROWS, lambda one: one["version"] == F.col(C.VERSION)), F.lit(0))
    tie = dataset.apply.version.tie
    answers = F.coalesce(stands_above_winner(twin["order"], tie), F.lit(False))
    verdict, reason = answered(_same_content(dataset, twin), tie, Reason.KEY_VERSION)
    was = F.col(C.VERDICT)
    return found.withColumns(
        {
            C.VERDICT: F.when(stands, F.when(contradicts, Verdict.CONFLICT).otherwise(Verdict.DUPLICATE))
            .when(answers, verdict)
            .otherwise(was),
            C.REASON: F.when(stands, repeated).when(answers, reason).otherwise(F.col(C.REASON)),
            U.SCOPE: F.when(stands | (answers & (verdict != was)), Scope.STORED).otherwise(Scope.IN_BATCH),
            U.OTHER: F.when(stands, F.col(C.ORDER)).when(answers, twin["order"]).otherwise(F.col(C.WINNER)),
            C.WITNESS: F.when(answers & ~stands, _witness(twin, rows)).otherwise(F.col(C.WITNESS)),
            U.WON: F.lit(False),
            U.ACTION: F.lit(None).cast("string"),
            U.BECOMES: F.lit(None).cast("string"),
        }
    ).drop(_ROWS)


def _same_content(dataset: Dataset, other: Column) -> Column:
    """Whether a record's content is that of another, a struct, as the dataset compares them."""
    content = C.compared(dataset)
    return same_content(F.col(content), other[content.removeprefix("_")])


def _narrowest(dataset: Dataset, twin: Column, rows: DataFrame) -> Column:
    reason = F.when(F.col(C.ORDER) == twin["order"], Reason.POSITION)
    for level in dataset.narrow:
        reason = reason.when(_same_level(level, twin, rows), level)
    return reason.otherwise(Reason.KEY_VERSION)


def _same_level(level: str, other: Column, rows: DataFrame) -> Column:
    name = C.LEVELS[level]
    if name not in rows.columns:
        return F.lit(False)
    same = F.coalesce(F.col(name) == other[name.removeprefix("_")], F.lit(False))
    if level == Level.PRODUCER:  # it counts for each partition anew
        for part in E.POSITION[:-1]:
            same &= F.col(C.ORDER)[part.removeprefix("_")] == other["order"][part.removeprefix("_")]
    return same


def _finding(dataset: Dataset, head: Column, rows: DataFrame) -> Column:
    """The level at which the head, of another version and content, has the same identity."""
    reused = (head["version"] != F.col(C.VERSION)) & ~_same_content(dataset, head)
    level = F.coalesce(
        *(F.when(_same_level(level, head, rows), level) for level in dataset.narrow), F.lit(None).cast("string")
    )
    return F.when(reused & level.isNotNull(), F.struct(level.alias("level"), F.lit(Scope.STORED).alias("scope")))


def _witness(other: Column, rows: DataFrame) -> Column:
    known = C.PRODUCER in rows.columns
    name, epoch = (other["producer"][part] if known else F.lit(None) for part in ("name", "epoch"))
    return F.struct(
        name.cast("string").alias("name"), epoch.cast("int").alias("epoch"), F.lit(None).cast("string").alias("object")
    )
