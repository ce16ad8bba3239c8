"""Questions about what was published, answered from the catalog and the lake without a JVM."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.expressions import And, BooleanExpression, EqualTo, In
from pyiceberg.table import Table

from onefold import instants, lake_keys
from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable, find_state
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.landing.plan import read_plan, taken_plans
from onefold.offsets import Coverage, TopicPartition, merged
from onefold.quality.documents import GateResult
from onefold.report.decisions import in_force
from onefold.report.status import status_of
from onefold.tables import state as S
from onefold.tables.names import STAGING
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.documents import Upserted
from onefold.vocabulary import RowState

POSITION = ("cluster", "topic", "incarnation", "partition", "offset")
"""A position whole, in the total order; the offsets of another cluster or incarnation are others."""
LOG = ("cluster", "incarnation")
"""What tells a log from another of the same topic and partition."""


VERDICT = ("verdict", "reason", "scope", "survivor", "finding", "detail", "object", "line")
"""What is reported of a record, next to its position."""


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
    found = table.scan(equal(S.STATE, RowState.LIVE), names, snapshot, limit)
    return [plain_row(row) for row in instants.rows_of(found.to_arrow().select(names))]


def _snapshot_at(lake: Lake, dataset: Dataset, table: StateTable, batch: str) -> int:
    record = next(
        (candidate for candidate in chain(lake, dataset, table.main.record) if candidate.batch == batch), None
    )
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

    `rows` are {inserted, updated, deleted} as readers see them; null where no gate has counted them.
    One that an operator has decided has a `decision` next to what every row has; one that was rolled back, or taken out
    by a rebuild, also has `state`, which is `rolled_back` or `discarded`; a replay has `replayed` records, not landed
    ones, and `replays`, the batch that rejected them; an accepted gap has `accepts`, its key and version; one that
    forgets keys has `forgets`, their digests.
    """
    published = {record.batch: record for record in records_of(lake, dataset)}
    taken = taken_plans(lake, dataset.name)
    ours = {*published, *(plan.batch for plan in taken)}
    listed = sorted(lake.storage.list(lake_keys.plans(dataset.source_id)), key=lambda info: (info.modified, info.key))
    plans = [plan for plan in taken if plan.source != dataset.source_id]  # of a source that it read before
    plans += [plan for info in listed if (plan := read_plan(lake, info.key))]
    rows = []
    for plan in plans:
        if plan.empty:
            continue
        manifest = lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest)
        if plan.batch not in ours and (manifest or plan.interval or plan.decided):
            continue  # another dataset's, of the same source
        record = published.get(plan.batch)
        latest = lake.get(lake_keys.latest(dataset, plan.batch), Upserted)
        attempt = record.attempt if record else (latest.attempt if latest else None)
        gate = lake.get(lake_keys.attempt(dataset, plan.batch, attempt, "gate"), GateResult) if attempt else None
        upserted = record or latest
        decision = record.decision if record else in_force(lake, dataset, plan.batch, latest)
        counts = upserted.counts if upserted else {}
        state = status_of(decision, gate, published=record is not None)
        interval = plan.interval.model_dump(mode="json") if plan.interval else None
        rows.append(
            {
                "batch": plan.batch,
                "interval": interval,
                "landed": upserted.landed if upserted else (0 if manifest is None or plan.decided else None),
                "verdicts": {verdict: sum(reasons.values()) for verdict, reasons in counts.items()},
                "rows": gate.readers.model_dump() if gate and gate.readers else None,
                "gate": None if gate is None else ("green" if gate.green else "red"),
                "published": record is not None,
            }
            | ({"replayed": upserted.replayed if upserted else None} if plan.origin else {})
            | plan.decides
            | ({"state": state} if state in ("rolled_back", "discarded") else {})
            | ({"decision": {"kind": decision.kind, **decision.attribution}} if decision else {})
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
    columns: tuple[str, ...] = VERDICT,
) -> tuple[Iterator[dict[str, Any]], bool]:
    """The same one by one, with only some columns next to the position.

    With a `limit` no more rows are held than that, without one all of them as Arrow has them.

    Raises:
        UsageError: the batch was never upserted, or the verdicts of its last attempt are gone.
    """
    from onefold.report.order import in_order, stream  # with it comes pandas, which most questions do without

    record = next((candidate for candidate in records_of(lake, dataset) if candidate.batch == batch), None)
    latest = lake.get(lake_keys.latest(dataset, batch), Upserted)
    attempt = record.attempt if record else (latest.attempt if latest else None)
    if attempt is None:
        raise UsageError(f"{dataset.name}: no verdicts for batch {batch} (see `onefold batches {dataset.name}`)")
    if record is None and latest and not has_verdicts(lake, dataset, latest):
        raise UsageError(f"{dataset.name}: batch {batch}: {lost_verdicts(dataset.name, batch)}")
    wanted: BooleanExpression = equal("attempt", attempt)
    if reason:
        wanted = And(wanted, equal("reason", reason))
    names = [*POSITION, *columns]
    found = stream(_verdict_table(lake, dataset).scan(row_filter=wanted, selected_fields=tuple(names)))
    rows = in_order((some.select(names) for some in found), ("topic", "partition", "offset"), limit)
    return (plain(_from_here(row)) for row in rows), record is not None


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
                "covered": [list(range_) for range_ in offsets.covered],
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
    return {where: [list(range_) for range_ in merged(ranges)] for where, ranges in found.items()}, count


def verdict_rows(
    lake: Lake, dataset: Dataset, wanted: BooleanExpression, names: tuple[str, ...], limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """Rows of the dataset's verdict table, with only some columns; JSON values."""
    found = _verdict_table(lake, dataset).scan(row_filter=wanted, selected_fields=names, limit=limit)
    for batch in found.to_arrow_batch_reader():
        ordered = pa.Table.from_batches([batch]).select(list(names))
        yield from (plain(_from_here(row)) for row in instants.rows_of(ordered))


def has_verdicts(lake: Lake, dataset: Dataset, attempt: Upserted) -> bool:
    """Whether the verdicts that an attempt gave are in the verdict table; one of no records has none to keep."""
    if not any(sum(reasons.values()) for reasons in attempt.counts.values()):
        return True
    try:
        table = _verdict_table(lake, dataset)
    except NoSuchTableError:
        return False
    return next(iter(table.scan(row_filter=equal("attempt", attempt.attempt)).plan_files()), None) is not None


def lost_verdicts(dataset: str, batch: str) -> str:
    """That the verdicts of a batch that is not published are gone, and how to get them again."""
    return (
        "the verdicts of its last attempt are not in the lake any more, so its records cannot be listed. Its landed "
        f"bytes are kept: `onefold discard {dataset} {batch} --reason …` and `onefold run {dataset}` judge them again."
    )


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


def plain_row(row: dict[str, Any]) -> dict[str, Any]:
    """The same of a row that readers see: its fields of type binary are in Base64, as in a record."""
    return {name: _value(value, _base64) for name, value in row.items()}


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _value(value: Any, text_of: Callable[[bytes], str] = bytes.hex) -> Any:
    match value:
        case Decimal():
            return f"{value:f}"
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return text_of(value)
        case dict():
            return {name: _value(part, text_of) for name, part in value.items()}
        case list():
            return [_value(item, text_of) for item in value]
        case _:
            return value
