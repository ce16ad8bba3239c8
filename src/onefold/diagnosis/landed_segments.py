"""The newest record batches of landed log segments: one chunk of a segment from each of a few partitions."""

from __future__ import annotations

from collections.abc import Iterable

from onefold.kafka.condition import NewestBatches, RecordBatch
from onefold.kafka.newest_batches import PARTITIONS, SOME, described, headers_of
from onefold.lake import Lake
from onefold.landing.log_segments import find_index
from onefold.landing.manifest import LandedObject

BYTES = 32 << 20
"""Over all partitions."""
NOT_LANDED = "no segment has been landed yet"


def newest_of_segments(lake: Lake, source: str, landed: Iterable[LandedObject]) -> NewestBatches:
    """Those of landed segments: of each partition the last chunk of its newest segment."""
    newest: dict[tuple[str, int], LandedObject] = {}
    for segment in landed:
        assert segment.topic is not None
        assert segment.partition is not None
        where = (segment.topic, segment.partition)
        if where not in newest or _grown(newest[where]) < _grown(segment):
            newest[where] = segment
    found: list[RecordBatch] = []
    left, looked = BYTES, 0
    for (topic, partition), segment in sorted(newest.items(), key=lambda item: (-(item[1].start or 0), item[0])):
        index = find_index(lake, source, segment)
        if index is None or lake.storage.stat(segment.key) is None or looked == PARTITIONS:
            continue
        chunk = index.chunks[-1] if index.chunks else None
        if chunk and chunk.end - chunk.start > left:
            continue
        looked += 1
        if chunk:
            left -= chunk.end - chunk.start
            data = lake.storage.read_range(segment.key, chunk.start, chunk.end)
            found += (described(topic, partition, header) for header in headers_of(data))
    unseen = SOME.format(looked, len(newest)) if looked < len(newest) else ""
    return NewestBatches(tuple(found), unseen if newest else NOT_LANDED)


def _grown(segment: LandedObject) -> tuple[int, int]:
    """The newest segment starts last; of its copies the longest is the newest."""
    return segment.start or 0, segment.size
