"""What checks count and name: some records of each kind, by key and position, and how many more there are."""

from __future__ import annotations

from datetime import datetime, timedelta

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse
from onefold.dataset.masks import HIDDEN, masked_json, masked_text
from onefold.dedup.staging import periods_of
from onefold.folding.strategy import folding_of
from onefold.folding.versions import are_apart
from onefold.quality.missed_deletes import missed_deletes
from onefold.records import envelope as E
from onefold.spark.flat_structs import read_flat
from onefold.spark.key_filter import narrowed
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import CATALOG
from onefold.upsert.counts import refused_delete, repeats_late
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.vocabulary import Reason, RowState, Verdict

NAMED = 5
"""Records that a check names, of those that it counts."""


def first_deletes(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[str]:
    """Some rejected deletes by key and position, and how many more there are."""
    text = F.substring(F.col(C.RAW_KEY).cast("string"), 1, 80)
    key = F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("0x"), F.hex(F.substring(C.RAW_KEY, 1, 40))))
    place = _place(C.ORDER)
    shown = F.lit(HIDDEN) if dataset.mask else F.coalesce(key, F.lit("null"))
    rows = _first(read_flat(session, upserted.actions).where(refused_delete(dataset)))
    named = [f"key {row[0]} at {row[1]}" for row in rows.select(shown, place).collect()]
    return _and_more(named, upserted.refused_deletes)


def count_missed(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, list[str]]:
    """How many deletes found no row in their period, and some of them by key and position."""
    missed = missed_deletes(session, dataset, upserted)
    count = missed.count() if missed is not None else 0
    if missed is None or not count:
        return 0, []
    rows = _first(missed).select(F.to_json(F.struct(*dataset.row_key_columns)), _place(C.ORDER)).collect()
    return count, _and_more([f"key {masked_json(dataset, row[0])} at {row[1]}" for row in rows], count)


def first_late_repeats(session: SparkSession, upserted: Upserted) -> list[str]:
    """Some records that repeat an identity after more than a day, each by reason and position with the other record
    and the days between them; and how many more there are."""
    rows = _first(read_flat(session, upserted.actions).where(repeats_late()))
    apart = (
        F.abs(F.col(f"{C.ORDER}.timestamp") - F.col(f"{U.OTHER}.timestamp")) / timedelta(days=1).total_seconds() / 1000
    )
    found = rows.select(C.REASON, _place(C.ORDER), _position(U.OTHER), F.round(apart, 1)).collect()
    named = [f"{reason} at {at}, of {other}, {days} days apart" for reason, at, other, days in found]
    return _and_more(named, upserted.late_repeats)


OF_DATABASE = (Reason.TRUNCATE, Reason.SCHEMA_CHANGE)


def first_of_database(session: SparkSession, upserted: Upserted, reason: Reason) -> list[str]:
    """Some records that say what happened to a database as a whole, by position; and how many more there are."""
    count = upserted.counts.get(Verdict.CONTROL, {}).get(reason, 0)
    if not count:
        return []
    rows = _first(read_flat(session, upserted.actions).where(F.col(C.REASON) == reason))
    return _and_more([f"{row[0]}: {row[1]}" for row in rows.select(_place(C.ORDER), C.DETAIL).collect()], count)


def first_backwards(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[str]:
    """Some records that went backwards, each with the record that it is below."""
    rows = read_flat(session, upserted.actions).where(F.col(C.REASON) == Reason.BACKWARDS)
    count = upserted.counts[Verdict.SUPERSEDED][Reason.BACKWARDS]
    return _named_with_other(session, dataset, upserted, rows, count, "below")


def first_of(
    session: SparkSession, dataset: Dataset, upserted: Upserted, verdict: Verdict, reason: Reason, word: str
) -> list[str]:
    """Some records with a verdict, each by key and position, with `word` and the record that its verdict names."""
    count = upserted.counts.get(verdict, {}).get(reason, 0)
    if not count:
        return []
    rows = read_flat(session, upserted.actions).where((F.col(C.VERDICT) == verdict) & (F.col(C.REASON) == reason))
    return _named_with_other(session, dataset, upserted, rows, count, word)


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


def first_ahead(session: SparkSession, dataset: Dataset, upserted: Upserted, now: datetime) -> list[str]:
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
    by_identity = dataset.apply.KEYED_BY_IDENTITY and folding_of(dataset).group_key() is None
    if Verdict.REJECTED not in upserted.counts or by_identity:  # what has the identity of a row would change nothing
        return 0, []
    actions = read_flat(session, upserted.actions)
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
