"""Cuts: the offsets of all partitions of a source at an instant, written once.

The range of an interval `[start, end)` is `[cut(start), cut(end))`. Neighbours share a cut, so plans made in
any order leave no gap and no overlap.
"""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from onefold.lake import Lake
from onefold.landing.offsets import TopicPartition


class Cut(BaseModel):
    """Offsets at an instant: the first offset that belongs to the time after it, by partition."""

    model_config = ConfigDict(frozen=True)

    instant: datetime
    offsets: dict[str, int] = Field(description="TopicPartition.key to offset")


class OffsetsAt(Protocol):
    """What a live source knows: for each partition the first offset at or after an instant, at most the last
    stable offset; and where its log starts."""

    def offsets_at(self, instant: datetime) -> dict[str, int]: ...

    def log_starts(self) -> dict[str, int]: ...


class OffsetRange(BaseModel):
    """One partition's exact half-open range."""

    model_config = ConfigDict(frozen=True)

    topic_partition: TopicPartition
    start: int
    end: int


def cut_at(lake: Lake, source: str, instant: datetime, live: OffsetsAt) -> Cut:
    """The cut at an instant: the stored one, or a new one clamped between its stored neighbours."""
    key = f"{Lake.cuts(source)}{instant:%Y%m%dT%H%M%S%fZ}.json"
    if stored := lake.get(key, Cut):
        return stored
    cuts = [lake.get(info.key, Cut) for info in lake.storage.list(Lake.cuts(source))]
    stored_cuts = sorted((cut for cut in cuts if cut is not None), key=lambda cut: cut.instant)
    before = [cut for cut in stored_cuts if cut.instant < instant]
    after = [cut for cut in stored_cuts if cut.instant > instant]
    new = Cut(instant=instant, offsets=clamped(live.offsets_at(instant), before, after))
    return lake.put_first(key, new)


def clamped(offsets: dict[str, int], before: list[Cut], after: list[Cut]) -> dict[str, int]:
    """`offsets`, never below an earlier cut nor above a later one: timestamps may run backwards, cuts not."""
    out = dict(offsets)
    for cut in before:
        for partition, offset in cut.offsets.items():
            out[partition] = max(out.get(partition, offset), offset)
    for cut in after:
        # A partition that a later cut does not know begins behind that one, at its log's start.
        out = {partition: min(out[partition], cut.offsets[partition]) for partition in out if partition in cut.offsets}
    return out


def ranges_between(start: Cut, end: Cut, log_starts: dict[str, int]) -> list[OffsetRange]:
    """The ranges of `[start, end)`; a partition that `start` does not know begins at its log's start."""
    ranges = []
    for key, high in sorted(end.offsets.items()):
        low = start.offsets.get(key, min(log_starts.get(key, 0), high))
        ranges.append(OffsetRange(topic_partition=TopicPartition.of(key), start=low, end=max(low, high)))
    return ranges
