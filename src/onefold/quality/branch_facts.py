"""Count the facts of a branch that the checks judge: with plain Spark, over the batch's keys and their buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial, reduce
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.expressions import parse
from onefold.dataset.masks import HIDDEN, masked, masked_json, masked_text
from onefold.decisions import LostContent
from onefold.decisions.accepted_gaps import Link
from onefold.dedup.lost_contents import put_lost_last
from onefold.dedup.staging import periods_of
from onefold.folding.positions import position_of
from onefold.folding.strategy import folding_of
from onefold.folding.ties import in_order
from onefold.folding.versions import are_apart
from onefold.lake import Lake
from onefold.landing.edge import edge_of, oldest_behind
from onefold.landing.land import manifest_of
from onefold.landing.plan import find_plan
from onefold.offsets import Coverage
from onefold.quality.checks.facts import BranchFacts, RowCounts
from onefold.quality.checks.freshness import ahead
from onefold.quality.checks.held import limit_exceeded
from onefold.quality.checks.rates import backwards_rate
from onefold.quality.examples import EXAMPLES
from onefold.quality.missed_deletes import missed_deletes
from onefold.quality.shared_keys import shared_keys
from onefold.records import envelope as E
from onefold.records.read import count_landed
from onefold.spark.counting import count_each
from onefold.spark.flat_structs import read_flat
from onefold.spark.key_filter import narrowed
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import CATALOG
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.counts import refused_delete, repeats_late
from onefold.upsert.documents import Upserted
from onefold.upsert.forgotten_keys import of_keys, without_keys
from onefold.upsert.leaving import entries_left, freed_entries
from onefold.upsert.merge import delivered_messages
from onefold.upsert.state import count_quarantined, read_appended, read_messages, read_state
from onefold.vocabulary import Action, Reason, RowState, Verdict, outcome_of

NAMED = 5
"""Records that a check names, of those that it counts."""
_PLACES = 1000
"""Positions with two contents of which is looked up who brought the other content."""


def changed_rows(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """The branch's rows of the keys of the actions, with what `Folding.changed` adds.

    Of the fields only those of the key are read (L8).
    """
    folding = folding_of(dataset)
    own = [*C.row_key(dataset), C.ORDER, S.STATE, *folding.row_columns()]
    rows = read_state(session, dataset, upserted.head, upserted.within)
    rows = rows.select(*dict.fromkeys([*own, *dataset.row_key_columns]))
    narrow = partial(narrowed, dataset=dataset, large=upserted.narrow)
    return folding.changed(rows, acting(session, upserted), narrow)


def acting(session: SparkSession, upserted: Upserted) -> DataFrame:
    """The actions that change a row."""
    return read_flat(session, upserted.actions).where(F.col(U.ACTION).isNotNull())


def written_rows(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """The branch's rows that the batch wrote, with all columns. Of other rows no field is read (L8), but where rows
    change in place (`Folding.written`)."""
    rows = read_state(session, dataset, upserted.head, upserted.within)
    written = folding_of(dataset).written(rows, acting(session, upserted))
    return read_appended(session, dataset, upserted.base, upserted.head) if written is None else written


def live_rows(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """The live rows among state rows, with the published columns."""
    return rows.where(F.col(S.STATE) == RowState.LIVE).select(*dataset.published_columns)


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
    keys = folding.keys(changed)
    repeated = keys.where("repeated")
    totals = keys.agg(F.count("*").alias("keys"), F.count_if("repeated").alias("repeated")).first()
    assert totals is not None
    faults = folding.faults(
        changed, _null(dataset, changed), acting(session, upserted), upserted.changes, int(totals.keys), links
    )
    counted = count_each(_before_and_after(session, dataset, upserted, forgotten))
    unapplied = faults.unapplied + _undelivered(session, dataset, upserted, lost)
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
        verdicts=session.table(upserted.verdicts).where(F.col("attempt") == upserted.attempt).count(),
        repeated_keys=int(totals.repeated),
        nulls=faults.nulls,
        regressions=faults.regressions,
        unapplied=unapplied,
        unknown_columns=len({field.simpleString() for field in branch} ^ {field.simpleString() for field in base}),
        unequal_sums=unequal_sums(session, dataset, upserted, forgotten),
        quarantined=quarantined,
        rejected=rejected,
        forgotten=_rows_left(session, dataset, upserted, list(forgotten)) if forgotten else None,
        failing_keys=_repeated_keys(changed, repeated, dataset) if totals.repeated else [],
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
    missed, first_missed = _count_missed(session, dataset, upserted)
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
        rejected_deletes=_first_deletes(session, dataset, upserted) if upserted.refused_deletes else (),
        backwards=(),
        first_late=_first_of(session, dataset, upserted, Verdict.DUPLICATE, Reason.LATE_COPY, "sent before at"),
        first_earlier=_first_of(session, dataset, upserted, Verdict.CONFLICT, Reason.EARLIER_DELIVERY, "later at"),
        ahead=(),
        damage=manifest.damage,
        first_late_repeats=_first_late_repeats(session, upserted) if upserted.late_repeats else (),
        conflicts=conflicts,
        of_database={reason: _first_of_database(session, upserted, reason) for reason in _OF_DATABASE},
        keys_of_topics=shared,
        first_keys_of_topics=first_shared,
    )
    if limit_exceeded(facts):
        facts = replace(facts, first_held=first_held(session, dataset, upserted.head, dataset.row_key_columns))
    if (went_back := backwards_rate(facts)) and not went_back.passed:
        facts = replace(facts, backwards=_first_backwards(session, dataset, upserted))
    if (stamped := ahead(facts)) and not stamped.passed:
        facts = replace(facts, ahead=_first_ahead(session, dataset, upserted, facts.judged))
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


def _first_deletes(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[str]:
    """Some rejected deletes by key and position, and how many more there are."""
    text = F.substring(F.col(C.RAW_KEY).cast("string"), 1, 80)
    key = F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("0x"), F.hex(F.substring(C.RAW_KEY, 1, 40))))
    place = _place(C.ORDER)
    shown = F.lit(HIDDEN) if dataset.mask else F.coalesce(key, F.lit("null"))
    rows = _first(read_flat(session, upserted.actions).where(refused_delete(dataset)))
    named = [f"key {row[0]} at {row[1]}" for row in rows.select(shown, place).collect()]
    return _and_more(named, upserted.refused_deletes)


def _count_missed(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, list[str]]:
    """How many deletes found no row in their period, and some of them by key and position."""
    missed = missed_deletes(session, dataset, upserted)
    count = missed.count() if missed is not None else 0
    if missed is None or not count:
        return 0, []
    rows = _first(missed).select(F.to_json(F.struct(*dataset.row_key_columns)), _place(C.ORDER)).collect()
    return count, _and_more([f"key {masked_json(dataset, row[0])} at {row[1]}" for row in rows], count)


def _first_late_repeats(session: SparkSession, upserted: Upserted) -> list[str]:
    """Some records that repeat an identity after more than a day, each by reason and position with the other record
    and the days between them; and how many more there are."""
    rows = _first(read_flat(session, upserted.actions).where(repeats_late()))
    apart = (
        F.abs(F.col(f"{C.ORDER}.timestamp") - F.col(f"{U.OTHER}.timestamp")) / timedelta(days=1).total_seconds() / 1000
    )
    found = rows.select(C.REASON, _place(C.ORDER), _position(U.OTHER), F.round(apart, 1)).collect()
    named = [f"{reason} at {at}, of {other}, {days} days apart" for reason, at, other, days in found]
    return _and_more(named, upserted.late_repeats)


_OF_DATABASE = (Reason.TRUNCATE, Reason.SCHEMA_CHANGE)


def _first_of_database(session: SparkSession, upserted: Upserted, reason: Reason) -> list[str]:
    """Some records that say what happened to a database as a whole, by position; and how many more there are."""
    count = upserted.counts.get(Verdict.CONTROL, {}).get(reason, 0)
    if not count:
        return []
    rows = _first(read_flat(session, upserted.actions).where(F.col(C.REASON) == reason))
    return _and_more([f"{row[0]}: {row[1]}" for row in rows.select(_place(C.ORDER), C.DETAIL).collect()], count)


def _first_backwards(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[str]:
    """Some records that went backwards, each with the record that it is below."""
    rows = read_flat(session, upserted.actions).where(F.col(C.REASON) == Reason.BACKWARDS)
    count = upserted.counts[Verdict.SUPERSEDED][Reason.BACKWARDS]
    return _named_with_other(session, dataset, upserted, rows, count, "below")


def _first_of(
    session: SparkSession, dataset: Dataset, upserted: Upserted, verdict: Verdict, reason: Reason, word: str
) -> list[str]:
    """Some records with a verdict, each by key and position, with `word` and the record that its verdict names."""
    count = upserted.counts.get(verdict, {}).get(reason, 0)
    rows = read_flat(session, upserted.actions).where((F.col(C.VERDICT) == verdict) & (F.col(C.REASON) == reason))
    return _named_with_other(session, dataset, upserted, rows, count, word) if count else []


def _named_with_other(
    session: SparkSession, dataset: Dataset, upserted: Upserted, rows: DataFrame, count: int, word: str
) -> list[str]:
    """Some rows of the actions, each by key and position, with `word` and the record that its verdict names; and how
    many more there are. The keys are those of the branch's rows: every such record has one."""
    rows = _first(rows)
    found = rows.select(C.KEY, _position(C.ORDER), _position(U.OTHER)).collect()
    branch = read_state(session, dataset, upserted.head, upserted.within)
    of_keys_found = branch.where(F.col(C.KEY).isin([row[0] for row in found]))
    key = F.to_json(F.struct(*dataset.row_key_columns)) if dataset.row_key_columns else F.lit("{}")
    keys = {bytes(row[0]): row[1] for row in of_keys_found.groupBy(C.KEY).agg(F.max(key)).collect()}
    named = [f"key {masked_json(dataset, keys[bytes(digest)])} at {at}, {word} {other}" for digest, at, other in found]
    return _and_more(named, count)


def _first_ahead(session: SparkSession, dataset: Dataset, upserted: Upserted, now: datetime) -> list[str]:
    """Some records whose log timestamp is too far after an instant, by position; and how many more there are."""
    assert dataset.max_ahead is not None
    actions, latest = read_flat(session, upserted.actions), (now + dataset.max_ahead).timestamp() * 1000
    stamp = C.sent_at(actions.columns)
    rows = actions.where(F.col(C.SURVIVOR).isNotNull() & (F.expr(stamp) > F.lit(int(latest))))
    shown = F.expr(C.stamp(stamp)).cast("string")
    named = [f"{row[0]} of {row[1]}" for row in _first(rows).select(_position(C.ORDER), shown).collect()]
    return _and_more(named, rows.count())


def filtered_newer(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, list[str]]:
    """How many records the filter left out that are newer than the live row that the branch has of their key, and some
    of them by key and position. What an earlier batch covers was counted there."""
    if not dataset.watches_filter or Verdict.FILTERED not in upserted.counts:
        return 0, []
    newer = newer_than_their_row(session, dataset, upserted).select(*_LOG, _SHOWN, _PLACE)
    newer = newer.distinct()  # an overlap of exports brings a record twice
    count = newer.count()
    first = newer.orderBy("topic", "partition", "offset", _PLACE).limit(NAMED).collect() if count else []
    return count, _and_more([f"key {masked_json(dataset, row[_SHOWN])} at {row[_PLACE]}" for row in first], count)


def newer_than_their_row(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """The filtered records that are newer than the live row that the branch has of their key: `_key`, `_version`,
    `_order`, and key and place as they are shown.

    Of the table only key, version and order are read, in the files of these records' buckets and periods (L8).
    """
    by, bucket = C.row_key(dataset), F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})")
    actions = read_flat(session, upserted.actions).where(F.col(C.FILTERED_KEY).isNotNull() & ~F.col(U.COVERED))
    left_out = actions.withColumn(C.KEY, F.col(C.FILTERED_KEY))
    left_out = left_out.select(*by, C.VERSION, C.ORDER, _place(C.ORDER).alias(_PLACE))
    rows = read_state(session, dataset, upserted.head, periods_of(left_out) if dataset.within else None)
    rows = rows.where(bucket.isin([row[0] for row in left_out.select(bucket).distinct().collect()]))
    rows = narrowed(rows.where(F.col(S.STATE) == RowState.LIVE), left_out, dataset, large=upserted.narrow)
    shown = F.to_json(F.struct(*dataset.row_key_columns), {"ignoreNullFields": "false"})
    of_row = [F.col(name).alias(U.BASE + name) for name in (C.VERSION, C.ORDER)]
    met = left_out.join(rows.select(*by, *of_row, shown.alias(_SHOWN)), by)
    apart = are_apart(F.lit(True), F.col(U.BASE + C.ORDER), dataset)
    return met.where((F.col(C.VERSION) > F.col(U.BASE + C.VERSION)) & ~apart)


def stale_rows(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, list[str]]:
    """How many rows that readers see have a key of which the batch rejects a record, and some of them by key. Records
    whose version can be read, and is not greater than the row's, make no row stale.

    Of the table only keys and versions are read, in the files of these records' buckets and periods (L8).
    """
    actions = read_flat(session, upserted.actions)
    by_identity = dataset.apply.KEYED_BY_IDENTITY and folding_of(dataset).group_key() is None
    if Verdict.REJECTED not in upserted.counts or by_identity:  # what has the identity of a row would change nothing
        return 0, []
    bucket = F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})")
    version = [C.VERSION] if C.VERSION in actions.columns else []
    refused = actions.where(F.col(C.READABLE_KEY).isNotNull() & F.expr(U.REFUSED))
    refused = refused.withColumn(C.KEY, F.col(C.READABLE_KEY)).select(*C.row_key(dataset), *version)
    rows = read_state(session, dataset, upserted.head, periods_of(refused) if dataset.within else None)
    rows = rows.where(bucket.isin([row[0] for row in refused.select(bucket).distinct().collect()]))
    seen = rows.where(F.col(S.STATE).isin(RowState.LIVE, RowState.HIDDEN))
    shown = F.to_json(F.struct(*dataset.row_key_columns), {"ignoreNullFields": "false"})
    of_row = [F.col(name).alias(U.BASE + name) for name in version]
    met = refused.join(
        narrowed(seen.select(C.KEY, *of_row, shown.alias(_SHOWN)), refused, dataset, large=upserted.narrow), C.KEY
    )
    if version:
        met = met.where(F.coalesce(F.col(C.VERSION) > F.col(U.BASE + C.VERSION), F.lit(True)))
    keys = met.select(C.KEY, _SHOWN).distinct()
    count = keys.count()
    first = keys.orderBy(_SHOWN).limit(NAMED).collect() if count else []
    return count, _and_more([f"key {masked_json(dataset, row[_SHOWN])}" for row in first], count)


_LOG = [f"{C.ORDER}.{name}" for name in ("topic", "partition", "offset")]
_PLACE, _SHOWN = "_fact_place", "_fact_key"


def _first(rows: DataFrame) -> DataFrame:
    """The records of the actions that a check names, in the log's order."""
    return rows.orderBy(*_LOG, E.OBJECT, E.LINE).limit(NAMED)


def _place(order: str) -> Column:
    """Where a record is, as text: `TOPIC-PARTITION@OFFSET`, or object and line."""
    return F.coalesce(_position(order), F.concat_ws(":", E.OBJECT, E.LINE))


def _position(order: str) -> Column:
    """An order as people name positions; null where it has none."""
    topic, partition, offset = (F.col(f"{order}.{name}") for name in ("topic", "partition", "offset"))
    return F.concat(topic, F.lit("-"), partition, F.lit("@"), offset)


def _and_more(named: list[str], count: int) -> list[str]:
    more = count - len(named)
    return [*named, f"and {more} more"] if more else named


def held_rows(session: SparkSession, dataset: Dataset, snapshot: int) -> tuple[int, int | None]:
    """How many records are held in the table, and the timestamp (milliseconds) of the oldest."""
    held = read_state(session, dataset, snapshot).where(F.col(S.STATE) == RowState.HELD)
    stamp = F.col(f"{C.ORDER}.timestamp")
    found = held.agg(F.count("*").alias("count"), F.min(F.when(stamp >= 0, stamp)).alias("oldest")).first()
    assert found is not None
    return int(found["count"]), None if found.oldest is None else int(found.oldest)


def first_held(session: SparkSession, dataset: Dataset, snapshot: int, keys: list[str]) -> list[str]:
    """The oldest held records, by key (its columns) and version, as a person reads them."""
    assert dataset.apply.version
    parts = [parse(text) for _, text in dataset.apply.version.expressions]
    held = read_state(session, dataset, snapshot).where(F.col(S.STATE) == RowState.HELD)
    oldest = held.orderBy(F.col(C.ORDER), C.VERSION).limit(NAMED)
    rows = oldest.select(F.to_json(F.struct(*keys)).alias("key"), C.VERSION).collect()
    return [
        f"version {masked_text(dataset, row[C.VERSION], *parts)} of {masked_json(dataset, row.key)}" for row in rows
    ]
