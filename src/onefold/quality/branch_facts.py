"""Count the facts of a branch that the checks judge: with plain Spark, over the batch's keys and their buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import masked
from onefold.decisions import LostContent
from onefold.decisions.accepted_gaps import Link
from onefold.dedup.lost_contents import put_lost_last
from onefold.folding.positions import position_of
from onefold.folding.strategy import NULLS, REGRESSIONS, REPEATED, UNAPPLIED, folding_of
from onefold.folding.ties import in_order
from onefold.lake import Lake
from onefold.landing.edge import edge_of, oldest_behind
from onefold.landing.land import manifest_of
from onefold.landing.plan import find_plan
from onefold.offsets import Coverage
from onefold.quality.branch_rows import acting
from onefold.quality.checks.facts import BranchFacts, RowCounts
from onefold.quality.checks.freshness import ahead
from onefold.quality.checks.held import limit_exceeded
from onefold.quality.checks.rates import backwards_rate
from onefold.quality.examples import EXAMPLES
from onefold.quality.first_records import (
    OF_DATABASE,
    count_missed,
    filtered_newer,
    first_ahead,
    first_backwards,
    first_deletes,
    first_held,
    first_late_repeats,
    first_of,
    first_of_database,
    stale_rows,
)
from onefold.quality.shared_keys import shared_keys
from onefold.records.read import count_landed
from onefold.spark.counting import count_each
from onefold.spark.flat_structs import read_flat
from onefold.spark.key_filter import narrowed
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import CATALOG
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.documents import Upserted
from onefold.upsert.forgotten_keys import of_keys, without_keys
from onefold.upsert.leaving import entries_left, freed_entries
from onefold.upsert.merge import delivered_messages
from onefold.upsert.state import count_quarantined, read_messages, read_state
from onefold.vocabulary import Action, Reason, RowState, Verdict, outcome_of

_PLACES = 1000
"""Positions with two contents of which is looked up who brought the other content."""


def count_rows(
    session: SparkSession,
    dataset: Dataset,
    upserted: Upserted,
    changed: DataFrame,
    forgotten: Sequence[bytes] = (),
    links: Sequence[Link] = (),
    lost: Sequence[LostContent] = (),
) -> RowCounts:
    """Count the rows that the checks judge.

    `changed`: `changed_rows`, cached if possible. `forgotten`: digests of the keys that this attempt forgets, of which
    the base's rows do not count. `links`: versions that need none before them. `lost`: contents that lost a conflict
    before the batch.
    """
    folding = folding_of(dataset)
    keys = folding.faults_by_key(changed, _null(dataset, changed), links)
    wrong = {REPEATED: F.count_if(REPEATED), **{name: F.sum(name) for name in (NULLS, REGRESSIONS, UNAPPLIED)}}
    found = keys.agg(F.count("*").alias("keys"), *(of.alias(name) for name, of in wrong.items())).first()
    assert found is not None
    totals = {name: count or 0 for name, count in found.asDict().items()}  # of no row there is no sum
    unapplied = totals[UNAPPLIED] + _undelivered(session, dataset, upserted, lost)
    unapplied += folding.count_missing(changed, acting(session, upserted), upserted.changes, totals["keys"])
    counted = count_each(_before_and_after(session, dataset, upserted, forgotten))
    if _only_adds_messages(upserted):
        came = counted.get("messages after", 0) - counted.get("messages before", 0)
        unapplied += abs(came - sum(upserted.delivered.values()))
    quarantined, rejected = _quarantined(session, dataset, upserted)
    base, branch = (read_state(session, dataset, at).schema for at in (upserted.base, upserted.head))
    return RowCounts(
        rows_before=counted.get("rows before", 0),
        rows_after=counted.get("rows after", 0),
        added=sum(upserted.changes.get(action, 0) for action in (Action.INSERT, Action.ENTER))
        - upserted.changes.get(Action.REMOVE, 0),
        # A job of its own, for which Iceberg reads no file of verdicts.
        verdicts=session.table(upserted.verdicts).where(F.col("attempt") == upserted.attempt).count(),
        repeated_keys=totals[REPEATED],
        nulls=totals[NULLS],
        regressions=totals[REGRESSIONS],
        unapplied=unapplied,
        unknown_columns=len({field.simpleString() for field in branch} ^ {field.simpleString() for field in base}),
        unequal_sums=unequal_sums(session, dataset, upserted, forgotten),
        quarantined=quarantined,
        rejected=rejected,
        forgotten=_rows_left(session, dataset, upserted, list(forgotten)) if forgotten else None,
        failing_keys=_repeated_keys(changed, keys.where(REPEATED), dataset) if totals[REPEATED] else [],
    )


def gather_facts(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    upserted: Upserted,
    counts: RowCounts,
    conflicts: Sequence[dict[str, Any]],
) -> BranchFacts:
    """Everything that the checks judge. `conflicts`: some, as `examples.examples_of` shows them."""
    manifest = manifest_of(lake, dataset, upserted.batch)
    plan = find_plan(lake, dataset, upserted.batch)
    base = lake.get(lake_keys.record(dataset, upserted.base_record), CommitRecord)
    held, oldest_held = held_rows(session, dataset, upserted.head) if dataset.apply.HOLDS else (None, None)
    filtered, first_filtered = filtered_newer(session, dataset, upserted)
    shared, first_shared = shared_keys(session, dataset, upserted)
    missed, first_missed = count_missed(session, dataset, upserted)
    stale, first_stale = stale_rows(session, dataset, upserted)
    facts = BranchFacts(
        dataset=dataset,
        upserted=upserted,
        counts=counts,
        landed=0 if upserted.unreadable else count_landed(session, lake, dataset, manifest),
        bare=manifest.bare,
        interval_end=plan.interval.end if plan.interval else None,
        gone=plan.gone,
        held_back=plan.held_back,
        edge=edge_of(lake, dataset, plan),
        newest_before=base.newest_used if base else None,
        oldest_behind=oldest_behind(lake, plan, base.coverage if base else Coverage()),
        judged=datetime.now(UTC),
        held=held,
        oldest_held=oldest_held,
        first_held=(),
        filtered_newer=filtered,
        first_filtered=first_filtered,
        missed_deletes=missed,
        first_missed=first_missed,
        stale_rows=stale,
        first_stale=first_stale,
        rejected_deletes=first_deletes(session, dataset, upserted) if upserted.refused_deletes else (),
        backwards=(),
        first_late=first_of(session, dataset, upserted, Verdict.DUPLICATE, Reason.LATE_COPY, "sent before at"),
        first_earlier=first_of(session, dataset, upserted, Verdict.CONFLICT, Reason.EARLIER_DELIVERY, "later at"),
        ahead=(),
        damage=manifest.damage,
        first_late_repeats=first_late_repeats(session, upserted) if upserted.late_repeats else (),
        conflicts=conflicts,
        of_database={reason: first_of_database(session, upserted, reason) for reason in OF_DATABASE},
        keys_of_topics=shared,
        first_keys_of_topics=first_shared,
    )
    if limit_exceeded(facts):
        facts = replace(facts, first_held=first_held(session, dataset, upserted.head, dataset.row_key_columns))
    if (went_back := backwards_rate(facts)) and not went_back.passed:
        facts = replace(facts, backwards=first_backwards(session, dataset, upserted))
    if (stamped := ahead(facts)) and not stamped.passed:
        facts = replace(facts, ahead=first_ahead(session, dataset, upserted, facts.judged))
    return facts


def contradicted_batches(session: SparkSession, lake: Lake, dataset: Dataset, upserted: Upserted) -> list[str]:
    """The published batches that brought other contents to positions of this batch, as far as the first positions tell;
    none where no position has two contents, or both are the batch's own."""
    if Reason.INCONSISTENT_POSITION not in upserted.counts.get(Verdict.CONFLICT, {}):
        return []
    attempts = {record.attempt: record.batch for record in chain(lake, dataset, upserted.base_record)}
    named = ["cluster", "topic", "incarnation", "partition", "offset"]
    inconsistent = F.col(C.REASON) == Reason.INCONSISTENT_POSITION
    places = read_flat(session, upserted.actions).where(inconsistent).select(*(f"{C.ORDER}.{name}" for name in named))
    verdicts = session.table(upserted.verdicts).where(F.col("attempt").isin(list(attempts)))
    brought = verdicts.where(F.col("verdict") != Verdict.DUPLICATE).select(*named, "attempt")
    found = brought.join(F.broadcast(places.limit(_PLACES)), named, "left_semi").select("attempt").distinct().collect()
    return sorted(attempts[row["attempt"]] for row in found)


def _before_and_after(
    session: SparkSession, dataset: Dataset, upserted: Upserted, forgotten: Sequence[bytes]
) -> dict[str, DataFrame]:
    """What lies in the batch's buckets before it and after it: rows, of which those before that are `forgotten` do not
    count, and the ledger of messages, where the batch only adds to it."""
    if not upserted.buckets:
        return {}
    frames = {
        "rows before": without_keys(read_state(session, dataset, upserted.base, upserted.within), list(forgotten)),
        "rows after": read_state(session, dataset, upserted.head, upserted.within),
    }
    if _only_adds_messages(upserted):
        frames["messages before"] = read_messages(session, dataset, upserted.base, upserted.within)
        frames["messages after"] = read_messages(session, dataset, upserted.head, upserted.within)
    return {name: frame.where(_of_batch(dataset, upserted)) for name, frame in frames.items()}


def _only_adds_messages(upserted: Upserted) -> bool:
    """Whether no message leaves the ledger with the batch: none by an earlier delivery, and none that is forgotten."""
    return bool(upserted.delivered) and Action.LOWER not in upserted.delivered and not upserted.carried_out


def _of_batch(dataset: Dataset, upserted: Upserted) -> Column:
    """Whether a row lies in a bucket that the batch has."""
    return F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})").isin(upserted.buckets)


def _quarantined(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, int]:
    """Entries that the branch has of the batch, and of what the batch covers; and how many it must have."""
    if upserted.replays:
        return entries_left(session, dataset, upserted)
    counts = upserted.counts.get(Verdict.REJECTED, {})
    rejected = sum(count for reason, count in counts.items() if outcome_of(Verdict.REJECTED, reason).quarantined)
    rejected -= upserted.known.get(Verdict.REJECTED, 0)
    entries = count_quarantined(session, dataset, upserted.head, upserted.batch) if rejected else 0
    return entries + freed_entries(session, dataset, upserted), rejected


def _undelivered(session: SparkSession, dataset: Dataset, upserted: Upserted, lost: Sequence[LostContent]) -> int:
    """What of the batch the branch's ledger of messages does not have once, or has next to a later delivery of the same
    message; and rows that were lowered and are not the greatest message of their key. Of the ledger only the batch's
    buckets are read."""
    if not upserted.delivered:
        return 0
    actions = read_flat(session, upserted.actions)
    new = delivered_messages(actions, dataset)
    ledger = read_messages(session, dataset, upserted.head, upserted.within).where(_of_batch(dataset, upserted))
    by, content = C.row_key(dataset), C.compared(dataset)
    place = [*by, S.MESSAGE, C.VERSION, C.ORDER, content]
    branch = narrowed(ledger, new.select(*by), dataset, large=upserted.narrow)
    entries = new.select(*place).groupBy(*place).agg(F.count("*").alias("meant"))
    found = branch.groupBy(*place).agg(F.count("*").alias("found"))
    same = [entries[name].eqNullSafe(found[name]) for name in place]
    wrong = entries.join(found, reduce(Column.__and__, same), "left").where("found IS NULL OR found <> 1").count()
    if Action.LOWER in upserted.changes:
        tie = in_order(dataset.apply.version.tie if dataset.apply.version else "")[0]
        greatest = Window.partitionBy(*by).orderBy(F.col(C.VERSION).desc(), tie)
        ranked = put_lost_last(branch, dataset, lost)
        leading = ranked.withColumn("_number", F.row_number().over(greatest)).where("_number = 1").drop("_number")
        lowered = actions.where(F.col(U.ACTION) == Action.LOWER)
        at = [*by, C.VERSION, "at"]
        rows = (some.select(*by, C.VERSION, position_of(F.col(C.ORDER)).alias("at")) for some in (lowered, leading))
        wrong += next(rows).join(next(rows), at, "left_anti").count()
    return wrong


def _rows_left(session: SparkSession, dataset: Dataset, upserted: Upserted, forgotten: list[bytes]) -> int:
    """Rows that the branch has of forgotten keys, and that no action wrote."""
    actions = session.table(upserted.actions)
    written = actions.where(F.col(U.ACTION).isNotNull()).select(C.KEY)
    left = of_keys(read_state(session, dataset, upserted.head), forgotten).join(written, C.KEY, "left_anti").count()
    if dataset.versions_by_delivery:
        kept = actions.where(F.col(U.DELIVERED).isNotNull()).select(C.KEY)
        messages = of_keys(read_messages(session, dataset, upserted.head), forgotten)
        left += messages.join(kept, C.KEY, "left_anti").count()
    return left


def unequal_sums(session: SparkSession, dataset: Dataset, upserted: Upserted, gone: Sequence[bytes] = ()) -> int | None:
    """Keys whose row did not move by what its entries moved, by two snapshots and not by the actions; None: the mode
    makes no row of entries.

    Of both snapshots only rows of the batch's keys count, and entries that are `gone` with it.
    """
    if not dataset.apply.KEEPS_ENTRIES:
        return None
    touched = acting(session, upserted).select(C.KEY)
    if gone:
        touched = touched.unionByName(session.createDataFrame([(key,) for key in gone], f"{C.KEY} binary"))
    snapshots = ((upserted.head, 1), (upserted.base, -1))
    read = [
        (narrowed(read_state(session, dataset, snapshot), touched, dataset, large=upserted.narrow), by)
        for snapshot, by in snapshots
    ]
    unmoved = folding_of(dataset).unmoved([(rows.join(touched, C.KEY, "left_semi"), sign) for rows, sign in read])
    return None if unmoved is None else unmoved.count()


def _null(dataset: Dataset, changed: DataFrame) -> Column:
    """A row without its key or a part of its version, or a live one without a column of its key."""
    always = [F.col(C.KEY)]
    if version := dataset.apply.version:
        several = len(version.parts) > 1
        parts = changed.select(f"{C.VERSION}.*").columns if several else []
        always += [F.col(C.VERSION)[part] for part in parts] or [F.col(C.VERSION)]
    live = [F.col(name).isNull() & (F.col(S.STATE) == RowState.LIVE) for name in dataset.row_key_columns]
    return reduce(Column.__or__, [*(column.isNull() for column in always), *live])


def _repeated_keys(changed: DataFrame, repeated: DataFrame, dataset: Dataset) -> list[dict[str, str]]:
    """Some keys that have several rows, as readers see them."""
    digests = [row[C.KEY] for row in repeated.select(C.KEY).limit(EXAMPLES).collect()]
    names = dataset.row_key_columns or [C.KEY]
    shown = changed.where(F.col(C.KEY).isin(digests)).select(*(F.col(name).cast("string") for name in names))
    return [masked(dataset, row.asDict()) for row in shown.distinct().limit(EXAMPLES).collect()]


def held_rows(session: SparkSession, dataset: Dataset, snapshot: int) -> tuple[int, int | None]:
    """How many records are held in the table, and the timestamp (milliseconds) of the oldest."""
    held = read_state(session, dataset, snapshot).where(F.col(S.STATE) == RowState.HELD)
    stamp = F.col(f"{C.ORDER}.timestamp")
    found = held.agg(F.count("*").alias("count"), F.min(F.when(stamp >= 0, stamp)).alias("oldest")).first()
    assert found is not None
    return int(found["count"]), None if found.oldest is None else int(found.oldest)
