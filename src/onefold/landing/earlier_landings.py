"""Earlier landings of a source: they serve an interval whose offsets the log does not hold any more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from operator import and_, or_
from typing import Any

from onefold import lake_keys
from onefold.instants import millis_from
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Hole, Manifest
from onefold.offsets import Range, TopicPartition, meet, minus
from onefold.storage.objects import Seekable
from onefold.vocabulary import LOST

_WHERE = list(TopicPartition.model_fields)


@dataclass(frozen=True, slots=True)
class EarlierLanding:
    """A part of another batch's landing: the URIs of its objects, and the ranges to read from them.

    `examined`: whether every offset of the ranges is in the objects, as that landing found out.
    """

    uris: list[str]
    ranges: list[OffsetRange]
    examined: bool = False


def find_earlier_landings(lake: Lake, source: str, gone: list[Hole]) -> tuple[list[EarlierLanding], list[Hole]]:
    """Find offsets that are gone from the log in other landings of the source, each offset once; and the holes left.

    What another landing saw to be no record (a marker, say) is a hole of that kind here, too.
    """
    landings, explained, left = [], [], gone
    for manifest in _manifests(lake, source) if gone else ():
        if not left:
            break
        ranges: list[OffsetRange] = []
        rest: list[Hole] = []
        for hole in left:
            where, span = hole.topic_partition, [(hole.start, hole.end)]
            landed = meet(span, _landed(manifest, where))
            ranges += [OffsetRange(topic_partition=where, start=start, end=end) for start, end in landed]
            seen = _within(hole, [other for other in manifest.holes if other.kind not in LOST])
            explained += seen
            known = [*landed, *((part.start, part.end) for part in seen)]
            rest += [
                Hole(topic_partition=where, start=start, end=end, kind=hole.kind) for start, end in minus(span, known)
            ]
        left = rest
        if ranges:
            uris = [lake.storage.uri_of(object_.key) for object_ in manifest.objects]
            landings.append(EarlierLanding(uris, ranges, manifest.examined))
    return landings, [*explained, *left]


def first_landed(
    lake: Lake, source: str, lost: list[OffsetRange], stamped: tuple[datetime, datetime] | None = None
) -> dict[str, int]:
    """The first offset of each of some ranges, of as many partitions, that a plan of the source has landed.

    By TopicPartition.key. `stamped`: of the records whose timestamp lies there, both ends in.
    """
    wanted = {range_.topic_partition.key: range_ for range_ in lost}
    holding = []
    for manifest in _manifests(lake, source) if lost else ():
        firsts = {key: first for key, range_ in wanted.items() if (first := _first(manifest, range_)) is not None}
        if firsts:
            holding.append((min(firsts.values()), firsts, manifest))
    found: dict[str, int] = {}
    for _, firsts, manifest in sorted(holding, key=lambda held: held[0]):
        sooner = {key: first for key, first in firsts.items() if first < found.get(key, first + 1)}
        if sooner and stamped:
            sooner = _stamped(lake, manifest, [wanted[key] for key in sooner], *stamped)
        for key, first in sooner.items():
            found[key] = min(first, found.get(key, first))
    return found


def undated(lake: Lake, source: str, below: list[OffsetRange]) -> dict[str, int]:
    """Where the offsets begin that end at the end of a range, and that no plan of the source has landed.

    By TopicPartition.key, of ranges that the logs do not hold any more; without such offsets it is the range's end.
    """
    landed: dict[str, list[Range]] = {}
    for manifest in _manifests(lake, source) if below else ():
        for range_ in below:
            landed.setdefault(range_.topic_partition.key, []).extend(_landed(manifest, range_.topic_partition))
    found = {}
    for range_ in below:
        key = range_.topic_partition.key
        left = minus([(range_.start, range_.end)], landed.get(key, []))
        found[key] = left[-1][0] if left and left[-1][1] == range_.end else range_.end
    return found


def landed_before(lake: Lake, source: str, instant: datetime) -> Iterator[Manifest]:
    """The landings of a source that ended before an instant, the oldest first; also those whose bytes were cleared."""
    infos = [info for info in lake.storage.list(f"sources/{source}/manifests/") if info.modified < instant]
    for info in sorted(infos, key=lambda info: (info.modified, info.key)):
        manifest = lake.get(info.key, Manifest)
        if manifest and not manifest.replays:
            yield manifest


def _first(manifest: Manifest, of: OffsetRange) -> int | None:
    """The first offset of a range that a landing holds."""
    held = meet([(of.start, of.end)], _landed(manifest, of.topic_partition))
    return held[0][0] if held else None


def _stamped(
    lake: Lake, manifest: Manifest, ranges: list[OffsetRange], since: datetime, until: datetime
) -> dict[str, int]:
    """The first offset of each range whose record has a timestamp in `[since, until]`, as a landing has it.

    Of its objects only the columns that tell are read, and only where their bounds do not rule it out.
    """
    import pyarrow as pa  # which most cuts do without
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    def of(range_: OffsetRange) -> Any:
        where = range_.topic_partition.model_dump().items()
        here = reduce(and_, (pc.field(name) == value for name, value in where))
        return here & (pc.field("offset") >= range_.start) & (pc.field("offset") < range_.end)

    millis = pc.field("timestamp")
    wanted = reduce(or_, map(of, ranges)) & (millis >= millis_from(since)) & (millis <= millis_from(until))
    found: dict[str, int] = {}
    for object_ in manifest.objects:
        file = pa.PythonFile(Seekable(lake.storage, object_.key, object_.size), mode="r")
        rows = pq.read_table(file, columns=[*_WHERE, "offset"], filters=wanted)
        for row in rows.group_by(_WHERE).aggregate([("offset", "min")]).to_pylist():
            key, first = TopicPartition(**{name: row[name] for name in _WHERE}).key, row["offset_min"]
            found[key] = min(first, found.get(key, first))
    return found


def _manifests(lake: Lake, source: str) -> Iterator[Manifest]:
    """Landings of a source that have bytes of their own, and still have them."""
    for info in lake.storage.list(lake_keys.manifests(source)):
        manifest = lake.get(info.key, Manifest)
        if manifest and not manifest.replays and not lake.storage.stat(lake_keys.cleared(source, manifest.batch)):
            yield manifest


def _within(hole: Hole, others: list[Hole]) -> list[Hole]:
    """The parts of other holes that lie in a hole, as their own kinds."""
    return [
        Hole(topic_partition=other.topic_partition, start=start, end=end, kind=other.kind)
        for other in others
        if other.topic_partition == hole.topic_partition
        for start, end in meet([(other.start, other.end)], [(hole.start, hole.end)])
    ]


def _landed(manifest: Manifest, where: TopicPartition) -> list[Range]:
    """The ranges of a partition that a landing read."""
    read = [(range_.start, range_.end) for range_ in manifest.ranges if range_.topic_partition == where]
    return minus(read, [(hole.start, hole.end) for hole in manifest.holes if hole.topic_partition == where])
