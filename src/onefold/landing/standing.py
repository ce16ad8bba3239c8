"""What other plans of a source have landed: it serves an interval whose offsets the log holds no more."""

from __future__ import annotations

from dataclasses import dataclass

from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Hole, Manifest
from onefold.landing.offsets import LOST, Range, TopicPartition, meet, minus


@dataclass(frozen=True, slots=True)
class Standing:
    """A part of another batch's landing: where its objects lie, and the ranges that are wanted of them.

    `examined`: whether every offset of the ranges is in the objects, as that landing has found out.
    """

    uris: list[str]
    ranges: list[OffsetRange]
    examined: bool = False


def standing_for(lake: Lake, source: str, gone: list[Hole]) -> tuple[list[Standing], list[Hole]]:
    """What of offsets that are gone other plans of the source have landed, each offset once; and what nobody has.

    What another landing saw to be no record (a marker, say) is a hole of that kind here, too.
    """
    found, told, left = [], [], gone
    manifests = lake.storage.list(f"sources/{source}/manifests/") if gone else ()
    for info in manifests:
        manifest = lake.get(info.key, Manifest)
        if not left or not manifest or manifest.replays or lake.storage.stat(Lake.cleared(source, manifest.batch)):
            continue
        ranges: list[OffsetRange] = []
        rest: list[Hole] = []
        for hole in left:
            where, span = hole.topic_partition, [(hole.start, hole.end)]
            landed = meet(span, _landed(manifest, where))
            ranges += [OffsetRange(topic_partition=where, start=start, end=end) for start, end in landed]
            seen = _within(hole, [one for one in manifest.holes if one.kind not in LOST])
            told += seen
            known = [*landed, *((one.start, one.end) for one in seen)]
            rest += [
                Hole(topic_partition=where, start=start, end=end, kind=hole.kind) for start, end in minus(span, known)
            ]
        left = rest
        if ranges:
            uris = [lake.storage.uri_of(one.key) for one in manifest.objects]
            found.append(Standing(uris, ranges, manifest.examined))
    return found, [*told, *left]


def _within(hole: Hole, others: list[Hole]) -> list[Hole]:
    """The parts of other holes that lie in one, as their own kinds."""
    return [
        Hole(topic_partition=one.topic_partition, start=start, end=end, kind=one.kind)
        for one in others
        if one.topic_partition == hole.topic_partition
        for start, end in meet([(one.start, one.end)], [(hole.start, hole.end)])
    ]


def _landed(manifest: Manifest, where: TopicPartition) -> list[Range]:
    """The ranges of a partition that a landing read."""
    read = [(one.start, one.end) for one in manifest.ranges if one.topic_partition == where]
    return minus(read, [(one.start, one.end) for one in manifest.holes if one.topic_partition == where])
