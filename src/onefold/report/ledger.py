"""Questions about what was published, answered from the catalog and the lake without a JVM."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In
from pyiceberg.table import Table

from onefold import instants
from onefold.catalog import StateTable, find_state, open_catalog, order_of
from onefold.dataset import Dataset
from onefold.dataset.columns import FLAT_ORDER, is_own
from onefold.errors import UsageError
from onefold.lake import STAGING, Lake
from onefold.landing.manifest import Manifest
from onefold.landing.offsets import Coverage, TopicPartition, merged
from onefold.landing.plan import DECIDED, read_plan, taken_plans
from onefold.quality.documents import GateResult
from onefold.records.key import values_of_sum
from onefold.report.decisions import in_force
from onefold.upsert import columns as U
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.documents import Upserted

POSITION = ("cluster", "topic", "incarnation", "partition", "offset")
"""A position whole, in the total order; the offsets of another cluster or incarnation are others."""
LOG = ("cluster", "incarnation")
"""What tells a log from another of the same topic and partition."""


VERDICT = ("verdict", "reason", "scope", "survivor", "finding", "detail", "object", "line")
"""What is told of a record beside its position."""


def records_of(lake: Lake, dataset: Dataset) -> list[CommitRecord]:
    """The published commit records, newest first."""
    table = find_state(lake, dataset)
    return list(chain(lake, dataset, table.main.record)) if table else []


def rows_of(lake: Lake, dataset: Dataset, batch: str | None = None, limit: int | None = None) -> list[dict[str, Any]]:
    """The published rows, now or as of a batch; JSON values, decimals as text, times in ISO 8601.

    Raises:
        UsageError: the batch is not published, or its snapshot is gone.
    """
    table = find_state(lake, dataset)
    if table is None and batch:
        raise _not_published(dataset, batch)
    if table is None:
        return []
    snapshot = _snapshot_at(lake, dataset, table, batch) if batch else table.main.snapshot
    names = table.published_columns(dataset)
    found = table.scan(equal(U.STATE, U.LIVE), names, snapshot, limit)
    return [plain(row) for row in instants.rows_of(found.to_arrow().select(names))]


def _snapshot_at(lake: Lake, dataset: Dataset, table: StateTable, batch: str) -> int:
    record = next((one for one in chain(lake, dataset, table.main.record) if one.batch == batch), None)
    if record is None:
        raise _not_published(dataset, batch)
    snapshot = table.snapshot_of(record.name)
    if snapshot is None:
        raise UsageError(f"{dataset.name}: the snapshot of batch {batch} has expired")
    return snapshot


def _not_published(dataset: Dataset, batch: str) -> UsageError:
    return UsageError(f"{dataset.name}: batch {batch} is not published (see `onefold batches {dataset.name}`)")


def batches_of(lake: Lake, dataset: Dataset) -> list[dict[str, Any]]:
    """Every batch of the dataset, in the order of planning: counts, gate, whether it is published.

    One that a person has decided has a `decision` beside what every row has; a replay has `replayed` records, not
    landed ones, and `replays`, the batch that rejected them; an accepted gap has `accepts`, its key and version;
    one that forgets keys has `forgets`, their digests.
    """
    published = {record.batch: record for record in records_of(lake, dataset)}
    taken = taken_plans(lake, dataset.name)
    ours = {*published, *(plan.batch for plan in taken)}
    listed = sorted(lake.storage.list(lake.plans(dataset.source_id)), key=lambda info: (info.modified, info.key))
    plans = [plan for plan in taken if plan.source != dataset.source_id]  # of a source that it read before
    plans += [plan for info in listed if (plan := read_plan(lake, info.key))]
    rows = []
    for plan in plans:
        if plan.empty:
            continue
        manifest = lake.get(lake.manifest(plan.source, plan.batch), Manifest)
        if plan.batch not in ours and (manifest or plan.interval or plan.kind in DECIDED):
            continue  # another dataset's, of the same source
        record = published.get(plan.batch)
        latest = lake.get(lake.latest(dataset, plan.batch), Upserted)
        attempt = record.attempt if record else (latest.attempt if latest else None)
        gate = lake.get(lake.attempt(dataset, plan.batch, attempt, "gate"), GateResult) if attempt else None
        upserted = record or latest
        decision = record.decision if record else in_force(lake, dataset, plan.batch, latest)
        counts = upserted.counts if upserted else {}
        interval = plan.interval.model_dump(mode="json") if plan.interval else None
        rows.append(
            {
                "batch": plan.batch,
                "interval": interval,
                "landed": upserted.landed if upserted else (0 if manifest is None or plan.kind in DECIDED else None),
                "verdicts": {verdict: sum(reasons.values()) for verdict, reasons in counts.items()},
                "gate": None if gate is None else ("green" if gate.green else "red"),
                "published": record is not None,
            }
            | (
                {"replayed": upserted.replayed if upserted else None, "replays": plan.origin}
                if plan.kind == "replay"
                else {}
            )
            | ({"accepts": {"key": plan.key, "version": plan.version}} if plan.kind == "gap" else {})
            | ({"forgets": plan.told} if plan.kind == "forget" else {})
            | ({"decision": {name: getattr(decision, name) for name in ("kind", "by", "reason")}} if decision else {})
        )
    return rows


def verdicts_of(
    lake: Lake, dataset: Dataset, batch: str, reason: str | None = None, limit: int | None = None
) -> tuple[list[dict[str, Any]], bool]:
    """The verdicts of a batch in the order of its positions, and whether they are published.

    A `survivor` is named by topic, partition and offset, and by cluster and incarnation where these are others than the
    record's own.

    Raises:
        UsageError: the batch was never upserted.
    """
    rows, published = each_verdict(lake, dataset, batch, reason, limit)
    return list(rows), published


def each_verdict(
    lake: Lake,
    dataset: Dataset,
    batch: str,
    reason: str | None = None,
    limit: int | None = None,
    told: tuple[str, ...] = VERDICT,
) -> tuple[Iterator[dict[str, Any]], bool]:
    """The same one by one, with only some columns beside the position.

    With a `limit` no more rows are held than that, without one all of them as Arrow has them.

    Raises:
        UsageError: the batch was never upserted.
    """
    from onefold.report.order import in_order, stream  # with it comes pandas, which most questions do without

    record = next((one for one in records_of(lake, dataset) if one.batch == batch), None)
    latest = lake.get(lake.latest(dataset, batch), Upserted)
    attempt = record.attempt if record else (latest.attempt if latest else None)
    if attempt is None:
        raise UsageError(f"{dataset.name}: no verdicts for batch {batch} (see `onefold batches {dataset.name}`)")
    wanted: BooleanExpression = equal("attempt", attempt)
    if reason:
        wanted = And(wanted, equal("reason", reason))
    names = [*POSITION, *told]
    found = stream(_verdict_table(lake, dataset).scan(row_filter=wanted, selected_fields=tuple(names)))
    rows = in_order((some.select(names) for some in found), ("topic", "partition", "offset"), limit)
    return (plain(_from_here(row)) for row in rows), record is not None


def explain(lake: Lake, dataset: Dataset, digest: bytes, period: str | None = None) -> list[dict[str, Any]]:
    """Every published record that touched a key, in the total order, with its verdicts in the order of batches.

    The record that stands has the row of its key as `row`: the columns that readers see, and `_state` (live, deleted).
    `period`: where the key's begins (`onefold.records.key.period_of_key`); nothing of other periods is opened.
    """
    periods = None if period is None else [period]
    return _touching(lake, dataset, records_of(lake, dataset), equal("key", digest), periods)


def explain_sum(lake: Lake, dataset: Dataset, key: dict[str, Any]) -> list[dict[str, Any]]:
    """Mode increment: every published record of the messages that a key's sum is made of, as `explain` tells them."""
    table = find_state(lake, dataset)
    if table is None:
        return []
    wanted = equal(U.STATE, U.ENTRY)
    for name, value in values_of_sum(dataset, key).items():
        wanted = And(wanted, equal(name, value))
    entries = table.table.scan(row_filter=wanted, selected_fields=("_key",), snapshot_id=table.main.snapshot)
    digests = entries.to_arrow()["_key"].to_pylist()
    if not digests:
        return []
    return _touching(lake, dataset, records_of(lake, dataset), one_of("key", digests))


def explain_position(lake: Lake, dataset: Dataset, topic: str, partition: int, offset: int) -> list[dict[str, Any]]:
    """What became of one position: every published record that touched a key which a record there had, as `explain`
    tells it, and what had no key; in every cluster and incarnation that has such a position."""
    records = records_of(lake, dataset)
    place = And(equal("topic", topic), And(equal("partition", partition), equal("offset", offset)))
    there = _judged(lake, dataset, records, place)
    rows = [row | {"row": None} for row in there if not row["key"]]
    for key in sorted({row["key"] for row in there if row["key"]}):
        periods = _shared_periods(records, {row["batch"] for row in there if row["key"] == key})
        rows += _touching(lake, dataset, records, equal("key", bytes.fromhex(key)), periods)
    return rows


def _shared_periods(records: list[CommitRecord], batches: set[str]) -> list[str] | None:
    """The periods that a key can lie in which these batches have; None: any."""
    known = [set(one.within) for one in records if one.batch in batches and one.within is not None]
    return sorted(set.intersection(*known)) if known else None


def _touching(
    lake: Lake,
    dataset: Dataset,
    records: list[CommitRecord],
    wanted: BooleanExpression,
    periods: list[str] | None = None,
) -> list[dict[str, Any]]:
    """The records that the batches of some periods judged, with the rows that they became."""
    if periods is not None:
        records = [one for one in records if one.within is None or not set(periods).isdisjoint(one.within)]
    rows = _judged(lake, dataset, records, wanted)
    standing = _rows_of_keys(lake, dataset, {row["key"] for row in rows if row["key"]}, periods)
    for row in rows:
        row["row"] = standing.get((row["key"], *(row[name] for name in POSITION)))
    return rows


def _judged(
    lake: Lake, dataset: Dataset, records: list[CommitRecord], wanted: BooleanExpression
) -> list[dict[str, Any]]:
    """What published batches said of records, in the total order, then in the order of batches."""
    if not records:
        return []
    batches = {record.batch: number for number, record in enumerate(reversed(records))}
    names = (
        "timestamp",
        *POSITION,
        "version",
        "message_id",
        "verdict",
        "reason",
        "scope",
        "survivor",
        "won",
        "finding",
        "detail",
        "batch",
        "key",
    )
    published = And(wanted, one_of("attempt", [record.attempt for record in records]))
    return sorted(
        verdict_rows(lake, dataset, published, names),
        key=lambda row: (str(row["timestamp"] or ""), *position(row, POSITION), batches[row["batch"]]),
    )


def _rows_of_keys(
    lake: Lake, dataset: Dataset, keys: set[str], periods: list[str] | None
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The table's rows of some keys, live or deleted, by key and the position of the record that stands."""
    table = find_state(lake, dataset)
    if table is None or not keys:
        return {}
    wanted = one_of("_key", [bytes.fromhex(key) for key in keys])
    if periods is not None:
        wanted = And(wanted, one_of("_within", [_begins(one) for one in periods]))
    found = {}
    there = table.scan(wanted, ("*",), table.main.snapshot).to_arrow()
    names = [name for name in there.column_names if not is_own(name) or name == U.STATE]
    for row in instants.rows_of(there.select([*names, "_key", *FLAT_ORDER.values()])):
        order = order_of(row)
        shown = {name: row[name] for name in names}
        found[row["_key"].hex(), *(order[name] for name in POSITION)] = plain(shown)
    return found


def _begins(period: str) -> date | datetime:
    """Where a period begins, of the type that the table has."""
    return datetime.fromisoformat(f"{period}+00:00") if " " in period else date.fromisoformat(period)


def offsets_of(lake: Lake, dataset: Dataset) -> list[dict[str, Any]]:
    """Per partition: covered ranges, holes by kind, quarantined offsets; per object where positions are inferred."""
    records = records_of(lake, dataset)
    coverage = records[0].coverage if records else Coverage()
    quarantined, refused = _quarantined(find_state(lake, dataset))
    rows: list[dict[str, Any]] = []
    for key, offsets in coverage.partitions.items():
        rows.append(
            TopicPartition.of(key).model_dump()
            | {
                "covered": [list(one) for one in offsets.covered],
                "holes": [{"start": start, "end": end, "kind": kind} for start, end, kind in offsets.holes],
                "quarantined": quarantined.get(key, []),
            }
        )
    if coverage.objects:
        records_there = sum(coverage.objects.values())
        rows.append({"objects": len(coverage.objects), "records": records_there, "quarantined": refused})
    return rows


def _quarantined(table: StateTable | None) -> tuple[dict[str, list[list[int]]], int]:
    """The offsets of records in quarantine by TopicPartition.key, and how many records there are."""
    found: dict[str, list[tuple[int, int]]] = {}
    count = 0
    for row in table.quarantined("_order") if table else ():
        at, count = row["_order"], count + 1
        if at["offset"] is not None:
            where = TopicPartition(**{part: at[part] for part in TopicPartition.model_fields})
            found.setdefault(where.key, []).append((at["offset"], at["offset"] + 1))
    return {where: [list(one) for one in merged(ranges)] for where, ranges in found.items()}, count


def verdict_rows(
    lake: Lake, dataset: Dataset, wanted: BooleanExpression, names: tuple[str, ...]
) -> Iterator[dict[str, Any]]:
    """Rows of the dataset's verdict table, with only some columns; JSON values."""
    for batch in _verdict_table(lake, dataset).scan(row_filter=wanted, selected_fields=names).to_arrow_batch_reader():
        ordered = pa.Table.from_batches([batch]).select(list(names))
        yield from (plain(_from_here(row)) for row in instants.rows_of(ordered))


def _verdict_table(lake: Lake, dataset: Dataset) -> Table:
    return open_catalog(lake).load_table((STAGING, f"{dataset.name}__verdicts_{dataset.generation}"))


def _from_here(row: dict[str, Any]) -> dict[str, Any]:
    """A verdict whose survivor has cluster and incarnation only where its log is not the record's own."""
    survivor = row.get("survivor")
    if survivor and all(survivor.get(name) in (None, row[name]) for name in LOG):
        row["survivor"] = {name: value for name, value in survivor.items() if name not in LOG}
    return row


# Their own signatures, which take term and literal by position, are not what mypy sees of a pydantic model.
_EQUAL_TO: Any = EqualTo
_IN: Any = In


def equal(name: str, value: Any) -> BooleanExpression:
    """`name = value`."""
    return cast(BooleanExpression, _EQUAL_TO(name, value))


def one_of(name: str, values: list[Any]) -> BooleanExpression:
    """`name in (values)`."""
    return cast(BooleanExpression, _IN(name, values))


def position(row: dict[str, Any], names: tuple[str, ...] = ("topic", "partition", "offset")) -> tuple[Any, ...]:
    """What rows are sorted by: topic, partition, offset (or `names`), nulls first."""
    return tuple((row[name] is not None, row[name]) for name in names)


def plain(row: dict[str, Any]) -> dict[str, Any]:
    """A row as JSON values: decimals as text, times in ISO 8601, bytes in hex."""
    return {name: _value(value) for name, value in row.items()}


def _value(value: Any) -> Any:
    match value:
        case Decimal():
            return f"{value:f}"
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return value.hex()
        case dict():
            return plain(value)
        case list():
            return [_value(one) for one in value]
        case _:
            return value
