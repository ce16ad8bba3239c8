"""Fold quarantined records again, after a fix outside of the dataset file: as a batch of its own.

The plan names where the records lie in the landing of the batch that rejected them; whatever follows is done by the
ordinary steps. Its id comes from what is replayed and from the code that shall judge it, which say the same again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from onefold.dataset import Dataset
from onefold.decisions import Decider, Replay
from onefold.dedup.code_digest import judged_by
from onefold.errors import UsageError
from onefold.generation import check_generation
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.land import check_not_cleared, land_batch
from onefold.landing.plan import ReplayPlan, find_plan, of_kind, take_plan
from onefold.offsets import Position, Range, TopicPartition, merged
from onefold.operations.own_batch import record_own_batch
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.vocabulary import Reason

Place = tuple[Any, ...]
"""Where a record lies: its exact position, or (landed object's name, line)."""
_KEPT = ("batch", "reason", "object", "line", "key")
"""What is read of an entry: not its value."""
_ASKED = "-asked-"
"""Between the code and the number of the batch's earlier replays, where a registry is asked once more."""


@dataclass(frozen=True, slots=True)
class Replayable:
    """What of a batch's quarantine can be folded again, and what of it stays without being asked."""

    plan: ReplayPlan
    reasons: dict[str, int]
    """Records to replay by the reason why they were rejected"""
    tried: int
    """Records that this code has rejected again already"""
    unplaced: int
    """Lines without a position: what is no record cannot be named"""


def plan_replay(
    lake: Lake, dataset: Dataset, batch: str, key: str | None = None, positions: Collection[Position] = ()
) -> Replayable:
    """What is in quarantine of a published batch: all, the records of a Kafka key, or those at positions.

    `key` is JSON, null for records without one. Writes nothing.

    Raises:
        UsageError: the batch is not published, or the key is no JSON.
        LandingClearedError: its landed bytes are gone.
    """
    check_generation(lake, dataset)
    table = find_state(lake, dataset)
    records = list(chain(lake, dataset, table.main.record)) if table else []
    if table is None or batch not in {record.batch for record in records}:
        raise UsageError(f"{dataset.name}: batch {batch} is not published (see `onefold batches {dataset.name}`)")
    origin, exact = find_plan(lake, dataset, batch), dataset.source.exact
    check_not_cleared(lake, origin.source, origin.landing)
    there = table.quarantined("_order", *(f"_quarantine.{name}" for name in _KEPT))
    entries = [(_place(row, exact), row) for row in there if row["_quarantine"]["batch"] == batch]
    wanted = _wanted(key, positions)
    chosen = {place for place, row in entries if wanted(row)}
    # What a registry does not know now it may know soon, and no code changes for it.
    asking = {place for place, row in entries if row["_quarantine"]["reason"] == Reason.SCHEMA_NOT_FOUND}
    tried = (_tried(lake, dataset, records, batch) & chosen) - asking
    left = chosen - tried
    replays = sum(1 for record in records if record.replays == batch)
    named = [row for place, row in entries if place and place in left]
    plan = ReplayPlan(
        source=origin.source,
        origin=batch,
        objects=sorted({row["_quarantine"]["object"] for row in named}),
        ranges=_ranges(_place(row, exact) for row in named) if exact else [],
        lines={} if exact else _lines(_place(row, exact) for row in named),
        records=len(named),
        code=f"{judged_by(dataset)}{_ASKED}{replays}" if left & asking else judged_by(dataset),
    )
    reasons = Counter(row["_quarantine"]["reason"] for row in named)
    unplaced = sum(1 for place, row in entries if place is None and wanted(row))
    return Replayable(plan, dict(sorted(reasons.items())), len(tried), unplaced)


def replay(
    lake: Lake, dataset: Dataset, plan: ReplayPlan, who: Decider, reason: str, *, dry_run: bool = False
) -> Replay:
    """Record that a plan's records are to be folded again, and make it a landed batch: its steps, or any run of the
    dataset, carry it out.
    """

    def details() -> dict[str, Any]:
        return {"origin": plan.origin, "records": plan.records}

    decision = record_own_batch(lake, dataset, plan, Replay, who, reason, details, dry_run=dry_run)
    if not dry_run:
        take_plan(lake, dataset.name, plan)  # before it is landed: it keeps the landing that it reads
        land_batch(lake, dataset, plan.batch)
    return decision


def _place(entry: dict[str, Any], exact: bool) -> Place | None:
    order, kept = entry["_order"], entry["_quarantine"]
    names = ("cluster", "topic", "incarnation", "partition", "offset")
    place = tuple(order[name] for name in names) if exact else (kept["object"], kept["line"])
    return None if None in place else place


def _wanted(key: str | None, positions: Collection[Position]) -> Callable[[dict[str, Any]], bool]:
    """Whether an entry is asked for."""
    asked = None if key is None else _json(key)
    if key is not None and asked is None:
        raise UsageError(f"--key {key!r} is not JSON")

    def wanted(entry: dict[str, Any]) -> bool:
        order, own = entry["_order"], entry["_quarantine"]["key"]
        if positions and not any(position.names(order) for position in positions):
            return False
        return asked is None or asked in (([None],) if own is None else (_json(own), _text(own)))

    return wanted


def _json(text: str | bytes) -> list[Any] | None:
    """A JSON value in a list, for it may be null; None: it is none."""
    try:
        return [json.loads(text)]
    except ValueError:
        return None


def _text(data: bytes) -> list[Any] | None:
    """Bytes as the JSON string that they would be; None: they are no text."""
    try:
        return [data.decode()]
    except UnicodeDecodeError:
        return None


def _tried(lake: Lake, dataset: Dataset, records: list[CommitRecord], batch: str) -> set[Place]:
    """Where the records lie that published replays of a batch have named for the code that is installed now."""
    plans = (find_plan(lake, dataset, record.batch) for record in records if record.replays == batch)
    code = judged_by(dataset)
    tried = (plan for plan in of_kind(plans, ReplayPlan) if plan.code.partition(_ASKED)[0] == code)
    return {place for plan in tried for place in _places(plan)}


def _places(plan: ReplayPlan) -> Iterator[Place]:
    for range_ in plan.ranges:
        where = range_.topic_partition
        for offset in range(range_.start, range_.end):
            yield where.cluster, where.topic, where.incarnation, where.partition, offset
    for name, lines in plan.lines.items():
        yield from ((name, line) for start, end in lines for line in range(start, end))


def _ranges(places: Iterator[Place | None]) -> list[OffsetRange]:
    found: dict[str, list[Range]] = {}
    for place in places:
        assert place
        cluster, topic, incarnation, partition, offset = place
        where = TopicPartition(cluster=cluster, topic=topic, incarnation=incarnation, partition=partition)
        found.setdefault(where.key, []).append((offset, offset + 1))
    return [
        OffsetRange(topic_partition=TopicPartition.of(key), start=start, end=end)
        for key, ranges in sorted(found.items())
        for start, end in merged(ranges)
    ]


def _lines(places: Iterator[Place | None]) -> dict[str, list[Range]]:
    found: dict[str, list[Range]] = {}
    for place in places:
        assert place
        name, line = place
        found.setdefault(name, []).append((line, line + 1))
    return {name: merged(ranges) for name, ranges in sorted(found.items())}
