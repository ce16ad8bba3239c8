"""Which offsets the landings of a source have read, or found to be gone: what lag monitors are to see."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.offsets import Range, merged


class LandedRanges(BaseModel):
    """The ranges of some manifests, put together. One that is lost to a race is read again the next time."""

    model_config = ConfigDict(frozen=True)

    manifests: list[str] = Field(default=[], description="Keys of the manifests that are in it")
    ranges: dict[str, list[Range]] = Field(default={}, description="By TopicPartition.key")


def landed_ranges(lake: Lake, source: str) -> dict[str, list[Range]]:
    """Every range of live topics that the source has landed, by TopicPartition.key; only new manifests are read."""
    known = lake.get(lake_keys.landed_ranges(source), LandedRanges) or LandedRanges()
    listed = [info.key for info in lake.storage.list(lake_keys.manifests(source))]
    new = sorted({*listed} - {*known.manifests})
    ranges = {key: list(found) for key, found in known.ranges.items()}
    for name in new:
        manifest = lake.get(name, Manifest)
        for range_ in manifest.ranges if manifest and not manifest.replays else ():
            ranges.setdefault(range_.topic_partition.key, []).append((range_.start, range_.end))
    together = {key: merged(found) for key, found in ranges.items()}
    if new:
        lake.put(lake_keys.landed_ranges(source), LandedRanges(manifests=listed, ranges=together))
    return together


def unbroken_ends(landed: dict[str, list[Range]], starts: dict[str, int]) -> dict[str, int]:
    """Up to where each log was read without a gap, from a start on; a log of which the start was not read is left
    out."""
    ends = {}
    for key, start in starts.items():
        for low, high in landed.get(key, []):
            if low <= start < high:
                ends[key] = high
    return ends
