"""Which compacted offsets may have held deletes: a tombstone is removed, too, `delete.retention.ms` after the cleaner
has passed it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from onefold.errors import ClusterRefusedError, ClusterUnavailableError, UnknownTopicError
from onefold.instants import millis_from
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.earlier_landings import landed_before
from onefold.landing.manifest import Hole
from onefold.offsets import TopicPartition, meet
from onefold.vocabulary import HoleKind

RETENTION = "delete.retention.ms"
POLICY = "cleanup.policy"
KAFKAS_OWN = timedelta(days=1)
"""`delete.retention.ms` where no one has set it."""
LONGEST = timedelta(days=36_500)
"""What is kept longer is kept for ever."""
_MOST = int(LONGEST.total_seconds() * 1000)


class TopicSettings:
    """The settings of topics by which compacted holes are judged, as far as the brokers tell this user; each topic is
    asked for once, when it is needed."""

    def __init__(self, ask: Callable[[str], Mapping[str, str]]) -> None:
        self._ask = ask
        self.read: dict[str, dict[str, str]] = {}
        """By topic, what was read"""

    def tombstone_retention(self, topic: str) -> timedelta:
        """How long the log of a topic keeps a tombstone that the cleaner has passed; a day where it is not known."""
        if topic not in self.read:
            settings: Mapping[str, str] = {}
            with contextlib.suppress(ClusterUnavailableError, ClusterRefusedError, UnknownTopicError):
                settings = self._ask(topic)
            self.read[topic] = {name: settings[name] for name in (POLICY, RETENTION) if name in settings}
        found = self.read[topic].get(RETENTION, "")
        return timedelta(milliseconds=min(int(found), _MOST)) if found.isdigit() else KAFKAS_OWN


@dataclass(frozen=True, slots=True)
class CompactedHole:
    """Offsets `[start, end)` that the cleaner took, and the newest timestamp (milliseconds since 1970) of the record
    batch that spans or follows them."""

    topic_partition: TopicPartition
    start: int
    end: int
    followed_by: int


def maybe_deletes(
    lake: Lake,
    source: str,
    holes: Iterable[CompactedHole],
    retention: Callable[[str], timedelta],
    now: datetime | None = None,
) -> list[OffsetRange]:
    """The holes where a tombstone may have been removed before it was landed.

    That takes two things. What follows the hole is older than `retention` (of a topic) keeps tombstones. And an earlier
    landing of the source, older than that, too, has offsets before the hole: a record that was landed since had its
    tombstone still in the log.
    """
    now = now or datetime.now(UTC)
    by_limit: dict[datetime, list[CompactedHole]] = {}
    for hole in holes:
        limit = now - retention(hole.topic_partition.topic)
        if hole.followed_by < millis_from(limit):
            by_limit.setdefault(limit, []).append(hole)
    found = []
    for limit, old in by_limit.items():
        lowest = _lowest_landed(lake, source, limit, {hole.topic_partition.key for hole in old})
        found += [
            OffsetRange(topic_partition=hole.topic_partition, start=hole.start, end=hole.end)
            for hole in old
            if lowest.get(hole.topic_partition.key, hole.start) < hole.start
        ]
    return found


def _lowest_landed(lake: Lake, source: str, limit: datetime, wanted: set[str]) -> dict[str, int]:
    """The first offset of each of some partitions in landings of before an instant, as far as it has to look: the
    oldest landing that has the partition."""
    lowest: dict[str, int] = {}
    for manifest in landed_before(lake, source, limit):
        for range_ in manifest.ranges:
            key = range_.topic_partition.key
            if key in wanted and range_.start < range_.end:
                lowest[key] = min(range_.start, lowest.get(key, range_.start))
        if lowest.keys() >= wanted:
            break
    return lowest


def taken_over(lake: Lake, source: str, holes: Iterable[Hole]) -> list[OffsetRange]:
    """Of holes that other landings of a source explain, the compacted ones where these saw that a tombstone may have
    been removed."""
    wanted = [hole for hole in holes if hole.kind is HoleKind.COMPACTED]
    return [
        OffsetRange(topic_partition=aged.topic_partition, start=start, end=end)
        for manifest in (landed_before(lake, source, datetime.now(UTC)) if wanted else ())
        for aged in manifest.aged
        for hole in wanted
        if hole.topic_partition == aged.topic_partition
        for start, end in meet([(aged.start, aged.end)], [(hole.start, hole.end)])
    ]
