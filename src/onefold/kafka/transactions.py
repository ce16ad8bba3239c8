"""Which records of a partition are aborted, and which are not decided yet: from markers alone.

The records of a producer id up to its next marker share that marker's fate (the rule of the broker's own
transaction index, by which a consumer that reads committed records goes). A marker of an older epoch than the
records is none of theirs. Where it is not known what the log holds between a record and the marker, an earlier
marker may lie there: the record is open.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from onefold.kafka.segment_index import Marker, SegmentIndex, Span, known
from onefold.offsets import Range, TopicPartition, merged, minus

END = (1 << 63) - 1
"""Behind every offset."""
OfProducer = tuple[int, int, int]
"""`(producer id, start, end)`"""


class Transactions(BaseModel):
    """Undecided and aborted records of one partition in a landing; its other transactional records are committed."""

    model_config = ConfigDict(frozen=True)

    topic_partition: TopicPartition
    aborted: list[OfProducer]
    open: list[OfProducer] = Field(description="No known marker decides them")


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a source knows of a partition: markers by producer id in their order, and offsets that it does not know."""

    markers: dict[int, list[Marker]]
    gaps: list[Range]

    @classmethod
    def of(cls, indexes: Iterable[SegmentIndex], *, compacted: bool) -> Knowledge:
        """All that some segments tell; with `compacted` an offset that is not in them was taken by compaction."""
        given = list(indexes)
        markers: dict[int, list[Marker]] = {}
        for marker in sorted({marker for index in given for marker in index.markers}, key=lambda marker: marker[2]):
            markers.setdefault(marker[0], []).append(marker)
        return cls(markers, minus(_unknown(given) if compacted else [(0, END)], known(given)))

    def last_gap(self, start: int, end: int) -> Range | None:
        """The last unknown range that meets `[start, end)`."""
        at = bisect_left(self.gaps, (end, -1)) - 1
        return self.gaps[at] if at >= 0 and self.gaps[at][1] > start else None


def _unknown(indexes: list[SegmentIndex]) -> list[Range]:
    """Offsets that no compaction explains: of what is damaged, and behind what is not whole."""
    ends = [(index.end, END) for index in indexes if index.open_end]
    return merged([*(lost for index in indexes for lost in index.lost), *ends])


@dataclass
class Fates:
    """Ranges of transactional records by producer id."""

    aborted: dict[int, list[Range]] = field(default_factory=dict)
    committed: dict[int, list[Range]] = field(default_factory=dict)
    open: dict[int, list[Range]] = field(default_factory=dict)

    @property
    def decided(self) -> dict[int, list[Range]]:
        """Aborted or committed."""
        both = {*self.aborted, *self.committed}
        return {
            producer: merged([*self.aborted.get(producer, []), *self.committed.get(producer, [])]) for producer in both
        }


def resolve(spans: Iterable[Span], knowledge: Knowledge) -> Fates:
    """The fate of each span, cut where its producer's markers and unknown offsets cut it."""
    fates = Fates()
    for producer, epoch, start, end in set(spans):
        at = start
        markers = knowledge.markers.get(producer, [])
        for _, of_epoch, offset, commits in markers[bisect_left(markers, start, key=lambda marker: marker[2]) :]:
            if of_epoch < epoch:
                continue
            stop = min(end, offset)
            gap = knowledge.last_gap(at, offset)
            clear = min(stop, max(at, gap[1])) if gap else at
            fates.open.setdefault(producer, []).append((at, clear))
            (fates.committed if commits else fates.aborted).setdefault(producer, []).append((clear, stop))
            at = offset + 1
            if at >= end:
                break
        fates.open.setdefault(producer, []).append((at, end))
    return Fates(*({producer: merged(ranges) for producer, ranges in kind.items()} for kind in _kinds(fates)))


def _kinds(fates: Fates) -> tuple[dict[int, list[Range]], ...]:
    return fates.aborted, fates.committed, fates.open


def listed(ranges: dict[int, list[Range]]) -> list[OfProducer]:
    """By producer id and offset."""
    return [(producer, *range_) for producer in sorted(ranges) for range_ in ranges[producer]]
