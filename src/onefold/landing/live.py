"""Live topics as a source: exact ranges between cuts, read by a step that has a Spark session."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import TYPE_CHECKING

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import (
    ClientSettingsError,
    ClusterRefusedError,
    ClusterUnavailableError,
    LandingInterruptedError,
    NotSettledError,
    OnefoldError,
    UnknownTopicError,
    UnreadableStampError,
)
from onefold.instants import span_text
from onefold.jvm_errors import cause_of
from onefold.kafka.condition import Activity, Where
from onefold.kafka.connection import client_settings, java_settings
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange, cut_at, cut_of, ranges_between
from onefold.landing.earlier_landings import EarlierLanding, find_earlier_landings, first_landed
from onefold.landing.holes import Explained, Missing, counted, explain, explain_earlier_landings, missing_of
from onefold.landing.incarnations import incarnation_of
from onefold.landing.leader_epochs import Epochs, cut_since, marked, suspected
from onefold.landing.manifest import Hole, LandedObject, in_order
from onefold.landing.plan import Interval, RangesPlan, of_kind, taken_plans
from onefold.landing.source import Landed
from onefold.offsets import Position, Range, TopicPartition, minus, newest_of
from onefold.vocabulary import HoleKind

if TYPE_CHECKING:
    from onefold.kafka.cluster import Cluster

_LOG = logging.getLogger(__name__)
_LATEST = (2**63 - 1) // 1000
"""The milliseconds that are a number of microseconds, too, which is what Spark makes of them."""
Read = Callable[[list[OffsetRange], list[EarlierLanding], dict[str, str], str], dict[str, list[Range]]]
"""Writes the records of exact ranges, and of parts of other landings, as objects below a URI; by the JVM client's
settings. It returns the offsets that the objects hold, as read from them, by TopicPartition.key."""


class LiveSource:
    """The topics of a dataset on their cluster; no broker is asked before something is planned or read."""

    def __init__(self, lake: Lake, dataset: Dataset, read: Read | None = None) -> None:
        assert dataset.source.kafka
        self.lake, self.dataset, self.read = lake, dataset, read
        self.topics, self.connection = dataset.source.kafka.topics, dataset.source.kafka.connection
        self._dry = False

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster behind the dataset's connection."""
        from onefold.kafka.cluster import Cluster

        return Cluster(self.connection, client_settings(self.lake.settings, self.connection))

    # Plan.

    def plan(self, interval: Interval | None, *, dry_run: bool = False) -> RangesPlan:
        """The ranges between an interval's two cuts; without an interval, every offset that is in no plan yet.

        Raises:
            NotSettledError: the interval is not over for as long as `schedule.settle` says.
            UnknownTopicError: a topic does not exist.
            ClusterUnavailableError: the brokers do not answer.
        """
        self._dry = dry_run
        if interval is None:
            return self._everything_new()
        self._check_settled(interval)
        source = self.dataset.source_id
        start, end = (cut_at(self.lake, source, at, self, dry_run=dry_run) for at in (interval.start, interval.end))
        ranges = [range_ for range_ in ranges_between(start, end) if range_.start < range_.end]
        # The interval before reports a topic that was gone when the start was cut.
        notes = self._gone({key: start.offsets[key] for key in start.starts if key in start.offsets})
        return RangesPlan(source=source, interval=interval, ranges=ranges, notes=notes + self._held_back(end.offsets))

    def _everything_new(self) -> RangesPlan:
        """What is in no plan yet, from the first offset on that the dataset's plans know of or the log still holds."""
        plans = of_kind(taken_plans(self.lake, self.dataset.name), RangesPlan)
        planned: dict[str, list[Range]] = {}
        for plan in plans:
            for range_ in plan.ranges:
                planned.setdefault(range_.topic_partition.key, []).append((range_.start, range_.end))
            end = cut_of(self.lake, plan.source, plan.interval.end) if plan.interval else None
            for key, offset in end.offsets.items() if end else ():
                planned.setdefault(key, []).append((offset, offset))
        firsts = {key: min(start for start, _ in ranges) for key, ranges in planned.items()}
        starts, ends = self.log_starts(), self._stable_ends
        ranges = [
            OffsetRange(topic_partition=where, start=start, end=end)
            for key, where in sorted(self._partitions.items())
            for start, end in minus([(min(starts[key], firsts.get(key, starts[key])), ends[key])], planned.get(key, []))
        ]
        earlier_notes = {note for plan in plans for note in plan.notes}
        gone = self._gone({key: max(end for _, end in found) for key, found in planned.items()})
        notes = [note for note in gone if note not in earlier_notes] + self._held_back(ends)
        return RangesPlan(source=self.dataset.source_id, ranges=ranges, notes=notes)

    def _check_settled(self, interval: Interval) -> None:
        settle = self.dataset.schedule.settle if self.dataset.schedule else timedelta(0)
        settled = interval.end + settle
        if settled > datetime.now(UTC):
            raise NotSettledError(self.dataset.name, *(f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (interval.end, settled)))

    # What `cut_at` asks.

    def offsets_at(self, instant: datetime, floors: dict[str, int]) -> dict[str, int]:
        """For each partition the first offset at or after an instant, at most the last stable offset.

        A timestamp later than now says nothing: behind such a record the log is read for the next record. What the log
        has lost is looked for in the source's landing.
        """
        now = datetime.now(UTC)
        landed = first_landed(self.lake, self.dataset.source_id, self._lost(self.log_starts(), floors), (instant, now))
        first = self.cluster.first_at(self._names, instant)
        found = {}
        for key, where in self._partitions.items():
            name, end = (where.topic, where.partition), self._stable_ends[key]
            offset, timestamp = first.get(name, (end, now))
            if timestamp > now and offset < end:
                offset = self.cluster.first_between(name, max(offset + 1, floors.get(key, 0)), end, instant, now)
            found[key] = min(offset, end, landed.get(key, end))
        return found

    def beginnings(self, known: Collection[str]) -> dict[str, int]:
        """For each partition where its log starts; of those not `known`, where what was landed of it starts."""
        starts = self.log_starts()
        lost = [range_ for range_ in self._lost(starts, {}) if range_.topic_partition.key not in known]
        return starts | first_landed(self.lake, self.dataset.source_id, lost)

    def _lost(self, starts: dict[str, int], floors: dict[str, int]) -> list[OffsetRange]:
        """What the logs hold no more, from the floors on."""
        return [
            OffsetRange(topic_partition=self._partitions[key], start=floor, end=start)
            for key, start in starts.items()
            if (floor := floors.get(key, 0)) < start
        ]

    def log_starts(self) -> dict[str, int]:
        """For each partition the first offset that is still there."""
        starts = self.cluster.starts(self._names)
        return {key: starts[where.topic, where.partition] for key, where in self._partitions.items()}

    def _gone(self, known: dict[str, int]) -> list[str]:
        """A note on each partition that is not there any more; `known` are the first offsets that were not planned."""
        return [
            f"{was.topic}, partition {was.partition}: the topic is gone (deleted, or created again); "
            f"what it may have held from offset {offset} on was never read"
            for key, offset in sorted(known.items())
            if key not in self._partitions and (was := TopicPartition.of(key))
        ]

    def _held_back(self, ends: dict[str, int]) -> list[str]:
        """A note on each partition where the end of a plan is an open transaction."""
        watermarks, stalled = self.cluster.ends(self._names), dict[Where, int]()
        for key, of in self._partitions.items():
            where, stable = (of.topic, of.partition), self._stable_ends[key]
            if ends.get(key) == stable < watermarks[where]:
                stalled[where] = stable
        if not stalled:
            return []
        from onefold.kafka.activity import activity_of

        activity = activity_of(self.cluster.settings, list(stalled), groups=False)
        return [
            f"{topic}, partition {number}: an open transaction{self._opened((topic, number), stable, activity)} "
            f"holds back offset {stable} and what follows"
            for (topic, number), stable in stalled.items()
        ]

    def _opened(self, where: Where, offset: int, activity: Activity) -> str:
        """Who opened the transaction at an offset, and how long ago, as far as the brokers tell this user."""
        opener = activity.opener(where, offset)
        begun = opener.since if opener else None
        since = begun or self.cluster.timestamp_at(where, offset)
        description = f" of {opener}" if opener else ""
        if since:
            word, age = "begun" if begun else "whose first record is of", max(datetime.now(UTC) - since, timedelta(0))
            description += f", {word} {since:%Y-%m-%dT%H:%M:%SZ} ({span_text(age)} ago),"
        return description

    @cached_property
    def _partitions(self) -> dict[str, TopicPartition]:
        return self._look_up()

    def _look_up(self, *, missing_ok: bool = False) -> dict[str, TopicPartition]:
        """The partitions that there are now, by their keys."""
        cluster, found = self.cluster, {}
        for topic in cluster.topics(self.topics, missing_ok=missing_ok):
            number = incarnation_of(self.lake, cluster.id, topic.name, topic.id, dry_run=self._dry)
            for partition in topic.partitions:
                where = TopicPartition(cluster=cluster.id, topic=topic.name, incarnation=number, partition=partition)
                found[where.key] = where
        return found

    @property
    def _names(self) -> list[tuple[str, int]]:
        return [(where.topic, where.partition) for where in self._partitions.values()]

    @cached_property
    def _stable_ends(self) -> dict[str, int]:
        ends = self.cluster.stable_ends(self._names)
        return {key: ends[where.topic, where.partition] for key, where in self._partitions.items()}

    def newest(self, count: int) -> RangesPlan:
        """About the newest `count` offsets; what a short partition does not have the others give."""
        starts = self.log_starts()
        found = newest_of({key: (starts[key], self._stable_ends[key]) for key in self._partitions}, count)
        ranges = [
            OffsetRange(topic_partition=self._partitions[key], start=start, end=end)
            for key, (start, end) in sorted(found.items())
        ]
        return RangesPlan(source=self.dataset.source_id, ranges=ranges)

    # Land.

    def land(self, plan: RangesPlan, batch: str, attempt: str) -> Landed:
        """Read what the plan names, as far as it is there: in the log, or landed by another plan of the source.

        Whatever offset of the plan the objects do not hold is a hole with its kind.

        Raises:
            LandingInterruptedError: it could not be read to the end, the topics changed meanwhile, or the log holds
                records that the read did not give.
            ClusterUnavailableError: the brokers do not answer.
        """
        assert self.read is not None, "landing a live topic needs a Spark session"
        self.__dict__["_partitions"] = self._look_up(missing_ok=True)  # what is gone is a hole
        readable, gone = self._still_there(plan.ranges)
        earlier, holes = find_earlier_landings(self.lake, self.dataset.source_id, gone)
        prefix = lake_keys.landed(self.dataset.source_id, batch, attempt, "")
        explained = Explained()
        if readable or earlier:
            present = self._read(readable, [landing for landing in earlier if landing.uris], batch, prefix)
            self._check_there(batch, readable)
            explained = self._explained(batch, readable, earlier, present, holes)
            if explained.holes:  # the batches that were looked at have to be of the same topic
                self._check_there(batch, readable)
        objects = [self._object(info.key, info.size) for info in self.lake.storage.list(prefix) if _is_data(info.key)]
        epochs, gone_since, notes = self._cut_logs(readable)
        return Landed(
            objects,
            plan.ranges,
            in_order(holes + explained.holes),
            replaced=gone_since,
            epochs=epochs,
            notes=explained.notes + notes,
        )

    def _cut_logs(self, ranges: list[OffsetRange]) -> tuple[dict[str, int], list[OffsetRange], list[str]]:
        """The logs' newest leader epochs, what of earlier landings is not in them any more, and notes on that.

        Asked when the read is over, so that no epoch is newer than what was read knows of; and in this order, so that
        the next landing reports a log that is cut meanwhile.
        """
        partitions = {range_.topic_partition.key: range_.topic_partition for range_ in ranges}
        epochs = self.cluster.epochs((where.topic, where.partition) for where in partitions.values())
        newest = {
            key: epochs[at] for key, where in partitions.items() if (at := (where.topic, where.partition)) in epochs
        }
        if not (suspects := suspected(self._epochs.marks, newest)):
            return newest, [], []
        from onefold.kafka.raw_log import RawLog

        with RawLog(client_settings(self.lake.settings, self.connection)) as log:
            return newest, *cut_since(suspects, newest, log)

    def _mark(self, landed: Landed) -> None:
        """Remember under which leader epochs the logs were read."""
        marks = dict(self._epochs.marks)
        for range_ in landed.ranges:
            key = range_.topic_partition.key
            if key in landed.epochs:
                cut = [(gone.start, gone.end) for gone in landed.replaced if gone.topic_partition.key == key]
                marks[key] = marked(marks.get(key, {}), landed.epochs[key], range_.end, cut)
        self.lake.put(lake_keys.epochs(self.dataset.source_id), Epochs(marks=marks))

    @property
    def _epochs(self) -> Epochs:
        return self.lake.get(lake_keys.epochs(self.dataset.source_id), Epochs) or Epochs()

    def landed(self, landed: Landed) -> None:
        """Remember the leader epochs, and tell lag monitors: commit the group's offsets, upwards only.

        No row rests on the group's offsets, so they fail nothing.
        """
        self._mark(landed)
        try:
            ends: dict[tuple[str, int], int] = {}
            for range_ in landed.ranges:
                if range_.topic_partition.key in self._partitions:
                    where = (range_.topic_partition.topic, range_.topic_partition.partition)
                    ends[where] = max(range_.end, ends.get(where, 0))
            self.cluster.commit_upwards(self.group, ends)
        except (ClusterUnavailableError, ClusterRefusedError, ClientSettingsError, UnknownTopicError) as error:
            _LOG.warning("the offsets of group %s were not committed: %s", self.group, error)

    @property
    def group(self) -> str:
        """The consumer group whose offsets follow the landing."""
        return f"onefold.{self.dataset.source_id}"

    def _still_there(self, ranges: list[OffsetRange]) -> tuple[list[OffsetRange], list[Hole]]:
        """The parts of ranges that the logs hold, and what is gone at their ends."""
        starts, ends = self.log_starts(), self.cluster.ends(self._names)
        readable, holes = [], []
        for range_ in ranges:
            where = range_.topic_partition
            if where.key not in self._partitions:
                holes.append(_hole(where, range_.start, range_.end, HoleKind.DELETED))
                continue
            low = min(max(range_.start, starts[where.key]), range_.end)
            high = max(min(range_.end, ends[where.topic, where.partition]), low)
            holes += [
                _hole(where, range_.start, low, HoleKind.RETENTION),
                _hole(where, high, range_.end, HoleKind.TRUNCATED),
            ]
            readable.append(OffsetRange(topic_partition=where, start=low, end=high))
        return [range_ for range_ in readable if range_.start < range_.end], [
            hole for hole in holes if hole.start < hole.end
        ]

    def _read(
        self, ranges: list[OffsetRange], earlier: list[EarlierLanding], batch: str, prefix: str
    ) -> dict[str, list[Range]]:
        assert self.read is not None
        if not (ranges or earlier):
            return {}
        client = java_settings(client_settings(self.lake.settings, self.connection))
        try:
            return self.read(ranges, earlier, client, self.lake.storage.uri_of(prefix))
        except OnefoldError:
            raise
        except Exception as error:  # whatever Spark says: the brokers are gone, the disk is full
            cause = cause_of(error)
            if "long overflow" in cause:
                self._check_stamps(batch, ranges)
            raise LandingInterruptedError(batch, f"reading the topics failed: {cause}") from error

    def _check_stamps(self, batch: str, ranges: list[OffsetRange]) -> None:
        """Name the first record whose timestamp is more than Spark's client can take."""
        for range_ in ranges:
            where = range_.topic_partition
            if found := self.cluster.first_beyond((where.topic, where.partition), range_.start, range_.end, _LATEST):
                offset, stamp = found
                raise UnreadableStampError(batch, str(Position(where.topic, where.partition, offset)), stamp)

    def _explained(
        self,
        batch: str,
        readable: list[OffsetRange],
        earlier: list[EarlierLanding],
        present: dict[str, list[Range]],
        known: list[Hole],
    ) -> Explained:
        """What the offsets are that the landing does not hold; it is refused where they are records."""
        explained = explain_earlier_landings(earlier, present, known)
        if missing := missing_of(readable, present, known):
            explained.add(self._by_the_log(missing))
        if explained.lost:
            lost = f"the read did not give {counted(explained.lost)}, where there are committed records"
            raise LandingInterruptedError(batch, lost)
        for note in explained.notes:
            _LOG.warning("batch %s: %s", batch, note)
        return explained

    def _by_the_log(self, missing: list[Missing]) -> Explained:
        from onefold.kafka.raw_log import RawLog

        starts: dict[str, int] = {}
        with contextlib.suppress(ClusterUnavailableError, ClusterRefusedError):
            starts = self.log_starts()
        with RawLog(client_settings(self.lake.settings, self.connection)) as log:
            return explain(missing, starts, log, self.cluster.cleanup_policy)

    def _check_there(self, batch: str, ranges: list[OffsetRange]) -> None:
        """Refuse what was read of a topic that is not the planned topic any more."""
        if deleted := {range_.topic_partition.key for range_ in ranges} - set(self._look_up(missing_ok=True)):
            raise LandingInterruptedError(batch, f"{', '.join(sorted(deleted))} was deleted while it was read")

    def _object(self, key: str, size: int) -> LandedObject:
        digest = self.lake.storage.digest(key)
        return LandedObject(name=key.rpartition("/")[2], key=key, size=size, sha256=digest)


def _hole(where: TopicPartition, start: int, end: int, kind: HoleKind) -> Hole:
    return Hole(topic_partition=where, start=start, end=end, kind=kind)


def _is_data(key: str) -> bool:
    return key.endswith(".parquet") and "/_" not in key
