"""Positions, half-open offset ranges and their algebra; what a batch covers and what a table has covered."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field

Range = tuple[int, int]
"""`(start, end)`: start in, end out."""

K = TypeVar("K")


def merged(ranges: Iterable[Range]) -> list[Range]:
    """The union, sorted, without empty ranges; neighbours are joined."""
    out: list[Range] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((start, end))
    return out


def minus(ranges: Iterable[Range], taken: Iterable[Range]) -> list[Range]:
    """What of `ranges` is not in `taken`."""
    out: list[Range] = []
    cuts, next_ = merged(taken), 0
    for start, end in merged(ranges):
        at = start
        while next_ < len(cuts) and cuts[next_][0] < end:
            low, high = cuts[next_]
            if low > at:
                out.append((at, low))
            at = max(at, high)
            if high > end:  # it reaches into the next range, too
                break
            next_ += 1
        if at < end:
            out.append((at, end))
    return out


def meet(ranges: Iterable[Range], others: Iterable[Range]) -> list[Range]:
    """What is in both."""
    mine = merged(ranges)
    return minus(mine, minus(mine, others))


def size(ranges: Iterable[Range]) -> int:
    """How many offsets there are."""
    return sum(end - start for start, end in ranges)


def newest_of(logs: Mapping[K, Range], count: int) -> dict[K, Range]:
    """The newest offsets of each log, `count` in all; what a short log does not need goes to the others."""
    by_length = sorted(logs.items(), key=lambda item: item[1][1] - item[1][0])
    found: dict[K, Range] = {}
    for number, (where, (start, end)) in enumerate(by_length):
        share = max(1, count // (len(by_length) - number))
        if end > start:
            found[where] = max(start, end - share), end
            count -= end - found[where][0]
    return found


class TopicPartition(BaseModel):
    """A partition of one incarnation of a topic."""

    model_config = ConfigDict(frozen=True)

    cluster: str
    topic: str
    incarnation: int
    partition: int

    def __str__(self) -> str:
        """For people."""
        return f"{self.topic}, partition {self.partition}"

    @property
    def key(self) -> str:
        """As a key of a JSON object."""
        return f"{self.cluster}/{self.topic}/{self.incarnation}/{self.partition}"

    @classmethod
    def of(cls, key: str) -> TopicPartition:
        """The inverse of `key`; a topic that a line of an export says may hold slashes, a cluster's name may not."""
        log, incarnation, partition = key.rsplit("/", 2)
        cluster, _, topic = log.partition("/")
        return cls(cluster=cluster, topic=topic, incarnation=int(incarnation), partition=int(partition))


_PLACE = re.compile(r"(?P<topic>[^/@]+)(?:-(?P<partition>\d+)@(?P<offset>\d+)|/(?P<partition_>\d+)/(?P<offset_>\d+))")
_IN_LOG = re.compile(r"(?P<cluster>[^/]+)/(?P<topic>[^/@]+)/(?P<incarnation>\d+)/(?P<partition>\d+)/(?P<offset>\d+)")


@dataclass(frozen=True, slots=True)
class Position:
    """A record's place as people write it; without cluster and incarnation, in whichever log has such a place."""

    topic: str
    partition: int
    offset: int
    cluster: str | None = None
    incarnation: int | None = None

    @classmethod
    def parse(cls, text: str) -> Position:
        """`TOPIC-PARTITION@OFFSET`, or of one log `CLUSTER/TOPIC/INCARNATION/PARTITION/OFFSET`.

        Raises:
            ValueError: it is neither.
        """
        if found := _IN_LOG.fullmatch(text):
            place = found["topic"], int(found["partition"]), int(found["offset"])
            return cls(*place, found["cluster"], int(found["incarnation"]))
        if found := _PLACE.fullmatch(text):
            partition, offset = found["partition"] or found["partition_"], found["offset"] or found["offset_"]
            return cls(found["topic"], int(partition), int(offset))
        raise ValueError(
            f"{text!r} is no TOPIC-PARTITION@OFFSET, such as payments.entries-0@17, and no "
            "CLUSTER/TOPIC/INCARNATION/PARTITION/OFFSET"
        )

    @classmethod
    def of(cls, row: Mapping[str, Any] | None) -> Position | None:
        """The place that a row of a table or a document names by topic, partition and offset; None: it names none."""
        if not row or row["topic"] is None:
            return None
        return cls(row["topic"], row["partition"], row["offset"])

    def __str__(self) -> str:
        if self.cluster is None:
            return f"{self.topic}-{self.partition}@{self.offset}"
        return f"{self.cluster}/{self.topic}/{self.incarnation}/{self.partition}/{self.offset}"

    def names(self, order: Mapping[str, Any]) -> bool:
        """Whether it is the place of a record's `_order`."""
        return all(value in (None, order[name]) for name, value in asdict(self).items())


class Present(BaseModel):
    """The offsets of one partition that were landed, and those that are explained as missing."""

    model_config = ConfigDict(frozen=True)

    present: list[Range] = Field(default_factory=list, description="Landed and judged, without the quarantined")
    holes: list[tuple[int, int, str]] = Field(default_factory=list, description="(start, end, kind)")
    uncovered: list[Range] = Field(
        default_factory=list, description="Landed and not covered: rejected, or of transactions that were open"
    )

    def with_(self, other: Present) -> Present:
        """The union. An offset is landed or a hole, never both: landed wins. Covered once, it is covered."""
        present = merged([*self.present, *other.present])
        uncovered = minus([*self.uncovered, *other.uncovered], present)
        holes: list[tuple[int, int, str]] = []
        taken, all_holes = merged([*present, *uncovered]), [*self.holes, *other.holes]
        for kind in sorted({kind for _, _, kind in all_holes}):  # of two kinds the first by name, in any order
            free = minus([(start, end) for start, end, named in all_holes if named == kind], taken)
            holes += [(start, end, kind) for start, end in free]
            taken = merged([*taken, *free])
        return Present(present=present, holes=sorted(holes), uncovered=uncovered)

    @property
    def landed(self) -> list[Range]:
        """Covered or not."""
        return merged([*self.present, *self.uncovered])

    @property
    def covered(self) -> list[Range]:
        """Landed and judged, or explained."""
        return merged([*self.present, *((start, end) for start, end, _ in self.holes)])


class Coverage(BaseModel):
    """What a table has processed: offsets where they are exact, objects where they are inferred."""

    model_config = ConfigDict(frozen=True)

    partitions: dict[str, Present] = Field(default_factory=dict, description="By TopicPartition.key")
    objects: dict[str, int] = Field(default_factory=dict, description="Object digest to its records")
    refused: dict[str, list[Range]] = Field(
        default_factory=dict, description="Object digest to the lines of it that are not covered: rejected"
    )

    def known(self, key: str) -> list[Range]:
        """What the table has judged, or explained, of a partition (TopicPartition.key); rejected records, too."""
        there = self.partitions.get(key, Present())
        return merged([*there.covered, *there.uncovered])

    def with_(self, other: Coverage) -> Coverage:
        """The union of two coverages: commutative, associative, idempotent."""
        keys = sorted({*self.partitions, *other.partitions})
        empty = Present()
        partitions = {key: self.partitions.get(key, empty).with_(other.partitions.get(key, empty)) for key in keys}
        objects = {
            digest: max(coverage.objects.get(digest, 0) for coverage in (self, other))
            for digest in sorted({*self.objects, *other.objects})
        }
        # A line is covered where either covers it.
        left = {
            digest: reduce(
                meet, (coverage.refused.get(digest, []) for coverage in (self, other) if digest in coverage.objects)
            )
            for digest in objects
            if digest in self.refused or digest in other.refused
        }
        refused = {digest: lines for digest, lines in left.items() if lines}
        return Coverage(partitions=partitions, objects=objects, refused=refused)
