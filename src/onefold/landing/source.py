"""Sources: what can be planned and landed. A live topic is another `Source`, not another path through the code."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from onefold.kafka.transactions import Transactions
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Hole, LandedObject, SegmentDamage
from onefold.landing.plan import Interval, ObjectsPlan, RangesPlan

AT_ONCE = 8
"""Objects that are copied, or read, at once."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What one attempt landed: objects, and of exact ranges every offset that the objects do not hold.

    Of log segments also what became of transactions, and what is damaged.
    """

    objects: list[LandedObject]
    ranges: list[OffsetRange] = field(default_factory=list)
    holes: list[Hole] = field(default_factory=list)
    transactions: list[Transactions] = field(default_factory=list)
    damaged: list[OffsetRange] = field(default_factory=list)
    damage: list[SegmentDamage] = field(default_factory=list)
    replaced: list[OffsetRange] = field(default_factory=list)
    """Offsets that earlier landings hold and other records have now"""
    epochs: dict[str, int] = field(default_factory=dict)
    """The newest leader epoch of each log, by TopicPartition.key"""
    topics: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings of topics that were read to tell what holes are"""
    aged: list[OffsetRange] = field(default_factory=list)
    """Compacted offsets where a tombstone may have been removed"""
    notes: list[str] = field(default_factory=list)


SourcePlan = TypeVar("SourcePlan", RangesPlan, ObjectsPlan)


class Source(Protocol[SourcePlan]):
    """Makes plans of what there is, and brings what a plan names into the landing."""

    def plan(self, interval: Interval | None, *, dry_run: bool = False) -> SourcePlan:
        """What an interval (or, without an interval, everything new) would read. With `dry_run` nothing is written."""
        ...

    def newest(self, count: int) -> SourcePlan:
        """A plan of about the newest `count` records, to look at them. Writes nothing but incarnations."""
        ...

    def land(self, plan: SourcePlan, batch: str, attempt: str) -> Landed:
        """Bring it, unchanged, below the attempt's own prefix; one entry an object."""
        ...

    def landed(self, landed: Landed) -> None:
        """Called once the manifest is durable."""
        ...


AnySource = Source[Any]
"""A source whose own plans are handed back to it."""
