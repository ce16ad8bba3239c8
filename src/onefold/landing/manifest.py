"""The manifest commits a landing: exactly these objects, of one attempt. Nothing lists a prefix to learn it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_serializer, field_validator

from onefold.dataset.layouts import LAYOUTS
from onefold.dataset.source import Origin
from onefold.kafka.transactions import Transactions
from onefold.landing.cuts import OffsetRange
from onefold.offsets import Range, TopicPartition
from onefold.vocabulary import HoleKind


class LandedObject(BaseModel):
    """One landed object."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="As the export called it")
    key: str = Field(description="Where it lies in the lake")
    size: int = Field(description="Bytes")
    sha256: str
    role: str = "values"
    topic: str | None = Field(default=None, description="Where the object's name tells")
    partition: int | None = None
    start: int | None = Field(default=None, description="The first offset, as the object's name has it")
    woken: str | None = Field(default=None, description="The batch that landed it first, undecided records in it")

    @property
    def digest(self) -> str:
        """Names the object's records wherever the object lies: what it is of, and its bytes."""
        words = f"{self.topic}+{self.partition}+{self.start}:{self.sha256}"
        return hashlib.sha256(words.encode()).hexdigest()[:32]


def _with(digest: str, companions: Sequence[str]) -> str:
    words = "+".join([digest, *sorted(companions)])
    return hashlib.sha256(words.encode()).hexdigest()[:32] if companions else digest


class Hole(BaseModel):
    """Offsets `[start, end)` of a plan that a landing does not hold, and why."""

    model_config = ConfigDict(frozen=True)

    topic_partition: TopicPartition
    start: int
    end: int
    kind: HoleKind


def in_order(holes: Iterable[Hole]) -> list[Hole]:
    """Holes by partition and offset."""
    return sorted(holes, key=lambda hole: (hole.topic_partition.key, hole.start))


class Cleared(BaseModel):
    """The landed bytes of a batch are gone, by the landing's retention: what it published stays."""

    model_config = ConfigDict(frozen=True)

    batch: str
    bytes: int
    at: datetime
    decision: str = Field(default="", description="The key of the decision; empty: of an earlier release")


class Replays(BaseModel):
    """A landing that copies nothing: records of another landing, which lie there."""

    model_config = ConfigDict(frozen=True)

    batch: str = Field(description="The batch that landed and rejected them")
    records: int
    lines: dict[str, list[Range]] = Field(
        default={}, description="By landed object's name, where positions are inferred"
    )


class Accepted(BaseModel):
    """A version of a key that needs no version before it, by a person's word (guard contiguous)."""

    model_config = ConfigDict(frozen=True)

    key: dict[str, Any] = Field(description="By the names of its parts")
    version: int


class Forgets(BaseModel):
    """Keys whose records count for nothing, by a person's word: those named, and those deleted before an instant."""

    model_config = ConfigDict(frozen=True)

    keys: list[str] = Field(description="Key digests, in hex")
    deleted_before: datetime | None
    erases: bool = Field(default=False, description="Every landed record of the keys is meant, and its bytes go")


class SegmentDamage(BaseModel):
    """What of a landed log segment is no record batch."""

    model_config = ConfigDict(frozen=True)

    topic_partition: TopicPartition
    places: list[str] = Field(description="The segment, its bytes, and what is wrong there")
    lost: list[Range] = Field(
        description="The offsets that are missing for it; none: the log goes on as if it were not"
    )


class Manifest(BaseModel):
    """What one batch landed. `ranges` and `holes` are those of a live topic: records outside are not the batch's.

    `transactions`, `damaged` and `damage` are those of log segments.
    """

    model_config = ConfigDict(frozen=True)

    batch: str
    source: str
    attempt: str
    objects: list[LandedObject]
    layout: str | None = Field(default=None, description="How the objects are laid out")
    origin: Origin | None = Field(default=None, description="What an export does not say of itself")
    ranges: list[OffsetRange] = []
    holes: list[Hole] = []
    examined: bool = Field(
        default=False,
        description="Whether holes name every missing offset of the ranges: another missing offset is unexplained",
    )
    transactions: list[Transactions] = []
    damaged: list[OffsetRange] = Field(default=[], description="Offsets of damaged batches: no `holes` explain them")
    damage: list[SegmentDamage] = Field(default=[], description="What of the landed segments is no record batch")
    replaced: list[OffsetRange] = Field(
        default=[], description="Landed before, and gone from a log that was cut: other records have these offsets now"
    )
    topics: dict[str, dict[str, str]] = Field(
        default={}, description="Settings of topics that it read to tell what holes are, by topic"
    )
    aged: list[OffsetRange] = Field(
        default=[],
        description="Compacted offsets where a tombstone may have been removed, and which an earlier landing is behind",
    )
    notes: list[str] = Field(
        default=[], description="What landing saw: offsets without evidence, damage, records woken, records left open"
    )

    replays: Replays | None = Field(default=None, description="Only these records are the batch's; of them, `ranges`")
    accepts: Accepted | None = Field(default=None, description="The batch has no record: it accepts a gap")
    forgets: Forgets | None = Field(default=None, description="The batch has no record: it forgets keys")

    # Every transaction leaves a marker: as JSON a hole is two numbers, not a partition's name and a kind.
    @field_serializer("holes")
    def _by_partition_and_kind(self, holes: list[Hole]) -> dict[str, dict[str, list[Range]]]:
        found: dict[str, dict[str, list[Range]]] = {}
        for hole in holes:
            found.setdefault(hole.topic_partition.key, {}).setdefault(hole.kind, []).append((hole.start, hole.end))
        return found

    @field_validator("holes", mode="before")
    @classmethod
    def _one_by_one(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        where = {key: TopicPartition.of(key) for key in value}
        return in_order(
            Hole(topic_partition=where[key], start=start, end=end, kind=kind)
            for key, kinds in value.items()
            for kind, ranges in kinds.items()
            for start, end in ranges
        )

    @property
    def size(self) -> int:
        """Landed bytes."""
        return sum(object_.size for object_ in self.objects)

    @property
    def bare(self) -> bool:
        """Whether the batch has no record: what it does is a person's word."""
        return self.accepts is not None or self.forgets is not None

    @property
    def landing(self) -> str:
        """The batch whose landing holds the objects."""
        return self.replays.batch if self.replays else self.batch

    @property
    def digests(self) -> dict[str, str]:
        """What names the records of each object of values, by its name: its bytes and those of its companions."""
        companions: dict[str, list[str]] = {}
        for object_ in self.objects:
            if object_.role != "values":
                companions.setdefault(self.group_of(object_.name), []).append(f"{object_.role}:{object_.sha256}")
        values = self.of_role("values")
        return {
            object_.name: _with(object_.digest, companions.get(self.group_of(object_.name), ())) for object_ in values
        }

    def group_of(self, name: str) -> str:
        """What an object of values shares with its companions, by its name."""
        return LAYOUTS[self.layout].group_of(name) if self.layout else name

    def of_role(self, role: str) -> list[LandedObject]:
        """The objects with a role: values, keys or headers."""
        return [object_ for object_ in self.objects if object_.role == role]
