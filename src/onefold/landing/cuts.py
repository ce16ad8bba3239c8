"""Cuts: the offsets of all partitions of a source at an instant, written once.

The range of an interval `[start, end)` is `[cut(start), cut(end))`. Neighbours share a cut, so plans made in
any order leave no gap and no overlap.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.lake import Lake
from onefold.offsets import TopicPartition


class Cut(BaseModel):
    """Offsets at an instant: the first offset that belongs to the time after it, by partition."""

    model_config = ConfigDict(frozen=True)

    instant: datetime
    offsets: dict[str, int] = Field(description="TopicPartition.key to offset")
    starts: dict[str, int] = Field(
        default_factory=dict,
        description="Where each log that was there then began (or what was landed of it) when a cut first knew it",
    )


class OffsetsAt(Protocol):
    """What a live source knows: for each partition the first offset at or after an instant, at most the last
    stable offset; and where it begins. What its log has lost counts where the source's landing has it. Offsets
    below `floors` are not asked for, nor where `known` partitions began, which spares a search."""

    def offsets_at(self, instant: datetime, floors: dict[str, int]) -> dict[str, int]: ...

    def beginnings(self, known: Collection[str]) -> dict[str, int]: ...


class OffsetRange(BaseModel):
    """One partition's exact half-open range."""

    model_config = ConfigDict(frozen=True)

    topic_partition: TopicPartition
    start: int
    end: int


def cut_at(lake: Lake, source: str, instant: datetime, live: OffsetsAt, *, dry_run: bool = False) -> Cut:
    """The cut at an instant: the stored cut, or a new cut clamped between its stored neighbours.

    Clamping by the two nearest is clamping by all: each of them was clamped by its own when it was written.
    """
    key = f"{lake_keys.cuts(source)}{_name(instant)}.json"
    if stored := lake.get(key, Cut):
        return stored
    names = sorted(info.key for info in lake.storage.list(lake_keys.cuts(source)))
    at = bisect.bisect(names, key)
    before, after = (lake.get(names[index], Cut) if 0 <= index < len(names) else None for index in (at - 1, at))
    floors = before.offsets if before else {}
    known = {partition for cut in (before, after) if cut for partition in cut.starts}
    starts = _first_known(live.beginnings(known), before, after)
    new = Cut(instant=instant, offsets=clamped(live.offsets_at(instant, floors), before, after), starts=starts)
    return new if dry_run else lake.put_first(key, new)


def cut_of(lake: Lake, source: str, instant: datetime) -> Cut | None:
    """The stored cut at an instant, or None."""
    return lake.get(f"{lake_keys.cuts(source)}{_name(instant)}.json", Cut)


def _first_known(starts: dict[str, int], *neighbours: Cut | None) -> dict[str, int]:
    """What retention took after a cut knew of it is missing, so it is not where a log begins."""
    known = [cut.starts for cut in neighbours if cut]
    return {
        key: min([start, *(known_starts[key] for known_starts in known if key in known_starts)])
        for key, start in starts.items()
    }


def _name(instant: datetime) -> str:
    return f"{instant.astimezone(UTC):%Y%m%dT%H%M%S%fZ}"


def clamped(offsets: dict[str, int], before: Cut | None, after: Cut | None) -> dict[str, int]:
    """`offsets`, never below the cut before nor above the cut after: timestamps may run backwards, cuts not."""
    out = dict(offsets)
    if before:
        for partition, offset in before.offsets.items():
            out[partition] = max(out.get(partition, offset), offset)
    if after:
        # A partition that a later cut does not know begins behind that cut, at its log's start.
        out = {
            partition: min(offset, after.offsets[partition])
            for partition, offset in out.items()
            if partition in after.offsets
        }
    return out


def ranges_between(start: Cut, end: Cut) -> list[OffsetRange]:
    """The ranges of `[start, end)`; a partition that `start` does not know begins where `end` saw its log begin."""
    ranges = []
    for key, high in sorted(end.offsets.items()):
        low = start.offsets.get(key, min(end.starts.get(key, 0), high))
        ranges.append(OffsetRange(topic_partition=TopicPartition.of(key), start=low, end=max(low, high)))
    return ranges
