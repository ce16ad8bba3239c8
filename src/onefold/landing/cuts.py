"""Cuts: the offsets of all partitions of a source at an instant, written once.

The range of an interval `[start, end)` is `[cut(start), cut(end))`. Neighbours share a cut, so plans made in
any order leave no gap and no overlap.
"""

from __future__ import annotations

import bisect
from datetime import datetime
from typing import Protocol

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.lake import Lake
from onefold.landing.looks import NOTHING, Look, newest_look
from onefold.offsets import Coverage, TopicPartition, minus


class Cut(BaseModel):
    """Offsets at an instant: the first offset that belongs to the time after it, by partition."""

    model_config = ConfigDict(frozen=True)

    instant: datetime
    offsets: dict[str, int] = Field(description="TopicPartition.key to offset")
    starts: dict[str, int] = Field(
        default_factory=dict, description="Where each log (or what was landed of it) began when it was first known"
    )
    gone: list[str] = Field(default=[], description="Logs that were seen before the instant and are not there any more")
    held_back: dict[str, datetime] = Field(
        default={},
        description="Partitions with older records behind the cut, held back by an open transaction or by a clock that "
        "runs ahead: when the oldest of them was written, as far as it is known",
    )

    def oldest_behind(self, coverage: Coverage) -> datetime | None:
        """When the oldest record was written that lies behind the cut and that a table of this coverage lacks."""
        lacking = (
            since
            for key, since in self.held_back.items()
            if minus([(self.offsets[key], self.offsets[key] + 1)], coverage.known(key))
        )
        return min(lacking, default=None)


class OffsetsAt(Protocol):
    """What a live source knows of its logs."""

    def look(self) -> Look:
        """Where they begin and end now, and what earlier looks knew of them."""
        ...

    def offsets_at(
        self, instant: datetime, floors: dict[str, int], firsts: dict[str, int]
    ) -> tuple[dict[str, int], dict[str, datetime]]:
        """For each partition that is there the first offset at or after an instant, at most the last stable offset; and
        `Cut.held_back`.

        What a log has lost counts where the source's landing has it. Offsets below `floors` are not asked for. Of
        partitions without a floor, `firsts` says where they began: what is gone from there on and cannot be dated lies
        behind the cut.
        """
        ...


class OffsetRange(BaseModel):
    """One partition's exact half-open range."""

    model_config = ConfigDict(frozen=True)

    topic_partition: TopicPartition
    start: int
    end: int


def cut_at(lake: Lake, source: str, instant: datetime, live: OffsetsAt, *, dry_run: bool = False) -> Cut:
    """The cut at an instant: the stored cut, or a new cut clamped between its stored neighbours.

    Clamping by the two nearest is clamping by all: each of them was clamped by its own when it was written. What was in
    a log when a run looked at or before the instant lies before the cut.
    """
    if stored := cut_of(lake, source, instant):
        return stored
    key = lake_keys.cut(source, instant)
    names = sorted(info.key for info in lake.storage.list(lake_keys.cuts(source)))
    at = bisect.bisect(names, key)
    before, after = (lake.get(names[index], Cut) if 0 <= index < len(names) else None for index in (at - 1, at))
    now, seen = live.look(), newest_look(lake, source, instant)
    floors = _floors(before, seen, now)
    firsts = {partition: start for partition, start in now.starts.items() if partition not in floors}
    found, behind = live.offsets_at(instant, floors, firsts)
    first_of_gone = {partition: start for partition, start in firsts.items() if partition in now.gone}
    offsets = clamped(first_of_gone | found, floors, after.offsets if after else None)
    new = Cut(
        instant=instant,
        offsets=offsets,
        starts=_first_known(now.starts, before, after),
        gone=sorted(partition for partition, last_seen in now.gone.items() if last_seen <= instant),
        held_back={
            partition: since for partition, since in behind.items() if offsets.get(partition) == found[partition]
        },
    )
    return new if dry_run else lake.put_first(key, new)


def cut_of(lake: Lake, source: str, instant: datetime) -> Cut | None:
    """The stored cut at an instant, or None."""
    return lake.get(lake_keys.cut(source, instant), Cut)


def known_before(lake: Lake, source: str) -> Look:
    """What is known of a source before it is looked at: by the newest look, else by the newest cut."""
    if before := newest_look(lake, source):
        return before
    newest = max((info.key for info in lake.storage.list(lake_keys.cuts(source))), default=None)
    cut = lake.get(newest, Cut) if newest else None
    if cut is None:
        return NOTHING
    ends = {partition: cut.offsets.get(partition, start) for partition, start in cut.starts.items()}
    return Look(at=cut.instant, starts=cut.starts, ends=ends)


def _floors(before: Cut | None, seen: Look | None, now: Look) -> dict[str, int]:
    """Below which offsets no cut can lie: that of the cut before, and what was seen, as far as it is still there."""
    floors = dict(before.offsets) if before else {}
    for partition, end in seen.ends.items() if seen else ():
        floors[partition] = max(floors.get(partition, 0), min(end, now.ends.get(partition, end)))
    return floors


def _first_known(starts: dict[str, int], *neighbours: Cut | None) -> dict[str, int]:
    """What retention took after a cut knew of it is missing, so it is not where a log begins."""
    known = [cut.starts for cut in neighbours if cut]
    return {
        key: min([start, *(known_starts[key] for known_starts in known if key in known_starts)])
        for key, start in starts.items()
    }


def clamped(offsets: dict[str, int], floors: dict[str, int], ceilings: dict[str, int] | None) -> dict[str, int]:
    """`offsets`, never below `floors` nor above `ceilings`, the cut after: timestamps may run backwards, cuts not."""
    out = {partition: max(offset, floors.get(partition, offset)) for partition, offset in (floors | offsets).items()}
    if ceilings is None:
        return out
    # A partition that a later cut does not know begins behind that cut, at its log's start.
    return {partition: min(offset, ceilings[partition]) for partition, offset in out.items() if partition in ceilings}


def ranges_between(start: Cut, end: Cut) -> list[OffsetRange]:
    """The ranges of `[start, end)`; a partition that `start` does not know begins where `end` saw its log begin."""
    ranges = []
    for key, high in sorted(end.offsets.items()):
        low = start.offsets.get(key, min(end.starts.get(key, 0), high))
        ranges.append(OffsetRange(topic_partition=TopicPartition.of(key), start=low, end=max(low, high)))
    return ranges
