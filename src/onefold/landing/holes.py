"""Every offset of a live landing's ranges is landed, or is a hole with its evidence, or the landing is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import groupby
from typing import TYPE_CHECKING

from onefold.errors import OnefoldError
from onefold.jvm_errors import cause_of
from onefold.landing.compaction import CompactedHole
from onefold.landing.cuts import OffsetRange
from onefold.landing.earlier_landings import EarlierLanding
from onefold.landing.manifest import Hole
from onefold.offsets import Range, TopicPartition, meet, merged, minus, size
from onefold.vocabulary import HoleKind

if TYPE_CHECKING:
    from onefold.kafka.missing_offsets import Found
    from onefold.kafka.raw_log import RawLog

EXPIRED = "the log did not hold them any more when they were looked at"
UNEXAMINED = "they are gone from the log, and the landing that was read in its place does not say what they were"
Policy = Callable[[str], str]
"""How a topic is cleaned: its `cleanup.policy`."""


@dataclass(slots=True)
class Missing:
    """The offsets of one partition that should have been landed and are not."""

    where: TopicPartition
    ranges: list[Range]


@dataclass(slots=True)
class Explained:
    """Missing offsets by what they are."""

    holes: list[Hole] = field(default_factory=list)
    lost: list[OffsetRange] = field(default_factory=list)
    """The log holds committed records there."""
    unknown: dict[str, list[OffsetRange]] = field(default_factory=dict)
    """By reason; they are holes of the kind `log_gap` as well."""
    compacted: list[CompactedHole] = field(default_factory=list)
    """Those that the cleaner took; they are `holes`, too."""

    def take(self, where: TopicPartition, found: Found) -> None:
        """Add what was found in one partition."""
        self.holes += [_hole(where, *range_) for range_ in found.holes]
        self.compacted += [CompactedHole(where, *hole) for hole in found.followed_by]
        self.lose(where, merged(found.lost))
        for reason, ranges in found.unknown.items():
            self.leave(where, merged(ranges), reason)

    def lose(self, where: TopicPartition, ranges: list[Range]) -> None:
        """Tell of records that were not landed."""
        self.lost += [OffsetRange(topic_partition=where, start=start, end=end) for start, end in ranges]

    def leave(self, where: TopicPartition, ranges: list[Range], reason: str) -> None:
        """Call offsets `log_gap`, for there is no evidence of what they are."""
        if ranges:
            self.holes += [_hole(where, start, end, HoleKind.LOG_GAP) for start, end in ranges]
            left = [OffsetRange(topic_partition=where, start=start, end=end) for start, end in ranges]
            self.unknown.setdefault(reason, []).extend(left)

    def add(self, other: Explained) -> None:
        """Add what was found of other offsets."""
        self.holes += other.holes
        self.lost += other.lost
        self.compacted += other.compacted
        for reason, ranges in other.unknown.items():
            self.unknown.setdefault(reason, []).extend(ranges)

    @property
    def notes(self) -> list[str]:
        """A sentence a reason."""
        return [
            f"{counted(ranges)} are holes without evidence (log_gap): {reason}"
            for reason, ranges in self.unknown.items()
        ]


def missing_of(ranges: list[OffsetRange], present: dict[str, list[Range]], known: list[Hole]) -> list[Missing]:
    """What of some ranges a landing does not hold and nothing explains yet, by partition.

    `present` are the offsets that it holds, by TopicPartition.key.
    """
    found = []
    for key, ours in groupby(sorted(ranges, key=_key), _key):
        own = list(ours)
        there = [*present.get(key, []), *((hole.start, hole.end) for hole in known if hole.topic_partition.key == key)]
        if missing := minus(((range_.start, range_.end) for range_ in own), there):
            found.append(Missing(own[0].topic_partition, missing))
    return found


def explain(missing: list[Missing], starts: dict[str, int], log: RawLog, policy: Policy) -> Explained:
    """Say of missing offsets what they are, by the raw record batches around them; nothing is guessed, and no error.

    `starts` are the first offsets that the logs hold now, by TopicPartition.key.
    """
    from onefold.kafka.missing_offsets import classify  # and kafka-python, which most landings do without

    explained = Explained()
    not_cleaned = cache(partial(_not_cleaned, policy))
    for gap in missing:
        where = gap.where
        expired = meet(gap.ranges, [(0, starts.get(where.key, 0))])
        explained.leave(where, expired, EXPIRED)
        fetch = partial(log.fetch, where.topic, where.partition)
        explained.take(where, classify(minus(gap.ranges, expired), fetch, partial(not_cleaned, where.topic)))
    return explained


def explain_earlier_landings(
    landings: list[EarlierLanding], present: dict[str, list[Range]], known: list[Hole]
) -> Explained:
    """Say what the offsets are that were to be read from other landings and were not there."""
    explained = Explained()
    for landing in landings:
        for missing in missing_of(landing.ranges, present, known):
            if landing.examined:
                explained.lose(missing.where, missing.ranges)
            else:
                explained.leave(missing.where, missing.ranges, UNEXAMINED)
    return explained


def _not_cleaned(policy: Policy, topic: str) -> str:
    """Why it is not compaction that took what lies between two batches, or nothing."""
    skipped = f"the log of {topic} goes on behind them"
    try:
        found = policy(topic)
    except OnefoldError as error:
        return f"{skipped}, and its cleanup.policy could not be read: {cause_of(error)}"
    return "" if "compact" in found else f"{skipped}, and its cleanup.policy is {found}, which leaves no gaps"


def counted(ranges: list[OffsetRange]) -> str:
    """How many offsets there are, and where the first is."""
    first = min(ranges, key=lambda range_: (range_.topic_partition.key, range_.start))
    where, many = first.topic_partition, size((range_.start, range_.end) for range_ in ranges)
    some = "1 offset" if many == 1 else f"{many} offsets"
    return f"{some} (the first: {where.topic}, partition {where.partition}, offset {first.start})"


def _key(range_: OffsetRange) -> str:
    return range_.topic_partition.key


def _hole(where: TopicPartition, start: int, end: int, kind: HoleKind) -> Hole:
    return Hole(topic_partition=where, start=start, end=end, kind=kind)
