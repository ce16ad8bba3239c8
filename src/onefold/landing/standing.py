"""What other plans of a source have landed: it serves an interval whose offsets the log holds no more."""

from __future__ import annotations

from dataclasses import dataclass

from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Hole, Manifest
from onefold.landing.offsets import Range, TopicPartition, meet, minus


@dataclass(frozen=True, slots=True)
class Standing:
    """A part of another batch's landing: where its objects lie, and the ranges that are wanted of them."""

    uris: list[str]
    ranges: list[OffsetRange]


def standing_for(lake: Lake, source: str, gone: list[Hole]) -> tuple[list[Standing], list[Hole]]:
    """What of offsets that are gone other plans of the source have landed, each offset once; and what nobody has."""
    found, left = [], gone
    manifests = lake.storage.list(f"sources/{source}/manifests/") if gone else ()
    for info in manifests:
        manifest = lake.get(info.key, Manifest)
        if not left or not manifest or lake.storage.stat(Lake.cleared(source, manifest.batch)):
            continue
        ranges: list[OffsetRange] = []
        rest: list[Hole] = []
        for hole in left:
            where = hole.topic_partition
            landed = meet([(hole.start, hole.end)], _landed(manifest, where))
            ranges += [OffsetRange(topic_partition=where, start=start, end=end) for start, end in landed]
            rest += [
                Hole(topic_partition=where, start=start, end=end, kind=hole.kind)
                for start, end in minus([(hole.start, hole.end)], landed)
            ]
        left = rest
        if ranges and manifest.objects:
            found.append(Standing([lake.storage.uri_of(one.key) for one in manifest.objects], ranges))
    return found, left


def _landed(manifest: Manifest, where: TopicPartition) -> list[Range]:
    """The ranges of a partition that a landing read."""
    read = [(one.start, one.end) for one in manifest.ranges if one.topic_partition == where]
    return minus(read, [(one.start, one.end) for one in manifest.holes if one.topic_partition == where])
