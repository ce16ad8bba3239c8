"""The logs of a live source as its brokers show them now, and what cuts ask of them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from onefold.dataset import Dataset
from onefold.dataset.schedule import PATIENCE
from onefold.errors import HeldBackError
from onefold.instants import span_text
from onefold.kafka.condition import Activity, Where
from onefold.kafka.connection import client_settings
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange, known_before
from onefold.landing.earlier_landings import first_landed, undated
from onefold.landing.incarnations import incarnation_of
from onefold.landing.looks import Look, keep_look, newest_look
from onefold.offsets import TopicPartition

if TYPE_CHECKING:
    from onefold.kafka.cluster import Cluster

_EDGE = timedelta(days=1)
"""How old an instant may be for which older records are looked for behind its cut: the newest intervals are younger."""
_BEHIND = 1_000
"""Records of a partition that are read for it: those that a clock holds back come first."""
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class _Opening:
    """The begin of an open transaction: when its producer opened it, and the timestamp of its first record."""

    note: str
    begun: datetime | None
    first: datetime | None


class LiveLogs:
    """The partitions of a dataset's topics; no broker is asked before something is wanted of them.

    With `dry` nothing is written. `notes` has what a new cut found to say.
    """

    def __init__(self, lake: Lake, dataset: Dataset) -> None:
        assert dataset.source.kafka
        self.lake, self.dataset, self.dry = lake, dataset, False
        self.topics, self.connection = dataset.source.kafka.topics, dataset.source.kafka.connection
        self.notes: list[str] = []

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster behind the dataset's connection."""
        from onefold.kafka.cluster import Cluster

        return Cluster(self.connection, client_settings(self.lake.settings, self.connection))

    # What there is.

    @cached_property
    def partitions(self) -> dict[str, TopicPartition]:
        """The partitions that there are, by TopicPartition.key.

        Raises:
            UnknownTopicError: a topic is not there, and no run has seen it.
        """
        if known := known_before(self.lake, self.dataset.source_id).starts:
            seen = {TopicPartition.of(key).topic for key in known}
            wanted = [name for name in self.topics if name not in seen and not name.startswith("^")]
            if wanted:
                self.cluster.topics(wanted)
        return self.look_up(missing_ok=bool(known))

    def look_up(self, *, missing_ok: bool = False) -> dict[str, TopicPartition]:
        """The partitions that there are now, by their keys."""
        found = {}
        for topic in self.cluster.topics(self.topics, missing_ok=missing_ok):
            number = incarnation_of(self.lake, self.cluster.id, topic.name, topic.id, dry_run=self.dry)
            for partition in topic.partitions:
                where = TopicPartition(
                    cluster=self.cluster.id, topic=topic.name, incarnation=number, partition=partition
                )
                found[where.key] = where
        return found

    def refresh(self) -> None:
        """See which partitions there are now; those that are gone are left out."""
        self.__dict__["partitions"] = self.look_up(missing_ok=True)

    @property
    def missing(self) -> list[str]:
        """The topics of these names that are not there."""
        there = {where.topic for where in self.partitions.values()}
        return [name for name in self.topics if name not in there and not name.startswith("^")]

    @property
    def names(self) -> list[tuple[str, int]]:
        """Topic and partition of each."""
        return [(where.topic, where.partition) for where in self.partitions.values()]

    def starts(self) -> dict[str, int]:
        """For each partition the first offset that is still there."""
        starts = self.cluster.starts(self.names)
        return {key: starts[where.topic, where.partition] for key, where in self.partitions.items()}

    @cached_property
    def stable_ends(self) -> dict[str, int]:
        """For each partition the last stable offset, as it was asked first."""
        ends = self.cluster.stable_ends(self.names)
        return {key: ends[where.topic, where.partition] for key, where in self.partitions.items()}

    # What cuts ask.

    def look(self) -> Look:
        """What is there now, next to what earlier looks knew; kept, unless the newest saw the same."""
        return self._look

    @cached_property
    def _look(self) -> Look:
        source = self.dataset.source_id
        before = known_before(self.lake, source)
        starts = self.starts()
        lost = [lost for lost in self._lost(starts, {}) if lost.topic_partition.key not in before.starts]
        known = starts | first_landed(self.lake, source, lost)
        look = before.then(datetime.now(UTC), known, self.stable_ends)
        return look if self.dry else keep_look(self.lake, source, before, look)

    def offsets_at(
        self, instant: datetime, floors: dict[str, int], firsts: dict[str, int]
    ) -> tuple[dict[str, int], dict[str, datetime]]:
        """See `cuts.OffsetsAt`. Behind a record whose timestamp is later than now, or that was in the log before the
        instant, the log is read for the first record whose timestamp can be believed.

        Raises:
            HeldBackError: an open transaction holds records before the instant back, and not for long yet.
        """
        now, starts, highs = datetime.now(UTC), self.starts(), self.cluster.ends(self.names)
        source = self.dataset.source_id
        landed = first_landed(self.lake, source, self._lost(starts, firsts | floors), (instant, now))
        first = self.cluster.first_at(self.names, instant)
        found: dict[str, int] = {}
        held: dict[Where, int] = {}
        for key, where in self.partitions.items():
            name, end, floor = (where.topic, where.partition), self.stable_ends[key], floors.get(key, 0)
            offset, stamp = first.get(name, (highs[name], now))
            if end < offset:
                held[name] = end
            if offset < end and (stamp > now or offset < floor):
                self._note_early(name, offset, stamp, seen=offset < floor)
                offset = self.cluster.first_between(name, max(offset + 1, floor), end, instant, now)
            found[key] = min(offset, end, landed.get(key, end))
        gone = [
            OffsetRange(topic_partition=self.partitions[key], start=start, end=found[key])
            for key, start in firsts.items()
            if key in found and start < found[key] <= starts[key]
        ]
        found |= undated(self.lake, source, gone)
        return found, self._behind(instant, found, held)

    def _lost(self, starts: dict[str, int], floors: dict[str, int]) -> list[OffsetRange]:
        """What the logs hold no more, from the floors on."""
        return [
            OffsetRange(topic_partition=self.partitions[key], start=floor, end=start)
            for key, start in starts.items()
            if (floor := floors.get(key, 0)) < start
        ]

    def _note_early(self, where: Where, offset: int, stamp: datetime, *, seen: bool) -> None:
        known = "was in the log before" if seen else "lies ahead of the clock"
        self.notes.append(
            f"{where[0]}, partition {where[1]}: the timestamp of offset {offset} is {stamp:%Y-%m-%dT%H:%M:%SZ}, and it "
            f"{known}: a producer's clock runs ahead. The records behind it are not held back"
        )

    def _behind(self, instant: datetime, found: dict[str, int], held: dict[Where, int]) -> dict[str, datetime]:
        """By partition, since when records from before an instant lie behind its cut."""
        behind = self._held_back(instant, held) if held else {}
        if datetime.now(UTC) - instant < _EDGE:
            tails = {
                (where.topic, where.partition): (found[key], self.stable_ends[key])
                for key, where in self.partitions.items()
                if found[key] < self.stable_ends[key]
            }
            for where, oldest in self.cluster.oldest(tails, _BEHIND).items():
                if oldest < instant:
                    behind[where] = min(oldest, behind.get(where, oldest))
        keys = {(where.topic, where.partition): key for key, where in self.partitions.items()}
        return {keys[where]: since for where, since in behind.items()}

    def _held_back(self, instant: datetime, held: dict[Where, int]) -> dict[Where, datetime]:
        """Since when open transactions hold records back that lie before an instant: the timestamp of the first."""
        schedule, now = self.dataset.schedule, datetime.now(UTC)
        settled = instant + (schedule.settle if schedule else timedelta(0))
        openings = self._openings(held)
        opened = [opening.begun or self._stable_since(where) for where, opening in openings.items()]
        until = max([settled, *opened]) + (schedule.patience if schedule else PATIENCE)
        notes = tuple(opening.note for opening in openings.values())
        if now < until:
            raise HeldBackError(
                self.dataset.name, f"{instant:%Y-%m-%dT%H:%M:%SZ}", notes, f"{until:%Y-%m-%dT%H:%M:%SZ}"
            )
        self.notes += notes
        return {where: min(opening.first or instant, instant) for where, opening in openings.items()}

    def _stable_since(self, where: Where) -> datetime:
        """Since when a log is known to have the last stable offset that it has now."""
        key = next(key for key, of in self.partitions.items() if (of.topic, of.partition) == where)
        before = newest_look(self.lake, self.dataset.source_id, self._look.at - _TICK)
        return before.at if before and before.ends.get(key) == self.stable_ends[key] else self._look.at

    def held_at(self, ends: dict[str, int]) -> list[str]:
        """A note on each partition where one of these ends is that of an open transaction."""
        watermarks, held = self.cluster.ends(self.names), dict[Where, int]()
        for key, of in self.partitions.items():
            where, stable = (of.topic, of.partition), self.stable_ends[key]
            if ends.get(key) == stable < watermarks[where]:
                held[where] = stable
        return [opening.note for opening in self._openings(held).values()]

    def _openings(self, held: dict[Where, int]) -> dict[Where, _Opening]:
        """The open transactions that begin at these offsets."""
        if not held:
            return {}
        from onefold.kafka.activity import activity_of

        activity = activity_of(self.cluster.settings, list(held), groups=False)
        return {where: self._opened(where, offset, activity) for where, offset in held.items()}

    def _opened(self, where: Where, offset: int, activity: Activity) -> _Opening:
        """Who opened the transaction at an offset, and when, as far as the brokers tell this user."""
        opener = activity.opener(where, offset)
        begun, first = opener.since if opener else None, self.cluster.timestamp_at(where, offset)
        description = f" of {opener}" if opener else ""
        if since := begun or first:
            word, age = "begun" if begun else "whose first record is of", max(datetime.now(UTC) - since, timedelta(0))
            description += f", {word} {since:%Y-%m-%dT%H:%M:%SZ} ({span_text(age)} ago),"
        place = f"{where[0]}, partition {where[1]}"
        note = f"{place}: an open transaction{description} holds back offset {offset} and what follows"
        return _Opening(note, begun, first)
