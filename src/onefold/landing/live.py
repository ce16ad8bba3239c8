"""Live topics as a source: exact ranges between cuts, read by a step that has a Spark session."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

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
from onefold.instants import in_utc
from onefold.jvm_errors import cause_of
from onefold.kafka.connection import client_settings, java_settings
from onefold.lake import Lake
from onefold.landing.compaction import TopicSettings, maybe_deletes, taken_over
from onefold.landing.cuts import OffsetRange, cut_at, ranges_between
from onefold.landing.earlier_landings import EarlierLanding, find_earlier_landings
from onefold.landing.holes import Explained, Missing, counted, explain, explain_earlier_landings, missing_of
from onefold.landing.landed_ranges import landed_ranges, unbroken_ends
from onefold.landing.leader_epochs import Epochs, cut_since, marked, suspected
from onefold.landing.live_logs import LiveLogs
from onefold.landing.manifest import Hole, LandedObject, in_order
from onefold.landing.plan import Interval, RangesPlan, of_kind, own_plans
from onefold.landing.source import Landed
from onefold.offsets import Position, Range, TopicPartition, minus, newest_of
from onefold.vocabulary import HoleKind

_LOG = logging.getLogger(__name__)
_LATEST = (2**63 - 1) // 1000
"""The milliseconds that are a number of microseconds, too, which is what Spark makes of them."""
Read = Callable[[list[OffsetRange], list[EarlierLanding], dict[str, str], str], dict[str, list[Range]]]
"""Writes the records of exact ranges, and of parts of other landings, as objects below a URI; by the JVM client's
settings. It returns the offsets that the objects hold, as read from them, by TopicPartition.key."""


class LiveSource:
    """The topics of a dataset on their cluster; no broker is asked before something is planned or read."""

    def __init__(self, lake: Lake, dataset: Dataset, read: Read | None = None) -> None:
        self.lake, self.dataset, self.read = lake, dataset, read
        self.logs = LiveLogs(lake, dataset)
        self._topics = TopicSettings(self._settings_of)

    # Plan.

    def plan(self, interval: Interval | None, *, dry_run: bool = False) -> RangesPlan:
        """The ranges between an interval's two cuts; without an interval, every offset that is in no plan yet.

        A topic that is gone is planned once more, as far as it was seen.

        Raises:
            NotSettledError: the interval is not over for as long as `schedule.settle` says.
            HeldBackError: an open transaction holds records of the interval back, and not for long yet.
            UnknownTopicError: a topic does not exist, and there is nothing else to read.
            ClusterUnavailableError: the brokers do not answer.
        """
        self.logs.dry = dry_run
        if interval:
            self._check_settled(interval)
        self.logs.look()
        plan = self._between(interval, dry_run=dry_run) if interval else self._everything_new()
        if plan.empty and (missing := self.logs.missing):
            self.logs.cluster.topics(missing)
        return plan

    def _between(self, interval: Interval, *, dry_run: bool) -> RangesPlan:
        source = self.dataset.source_id
        instants = (interval.start, interval.end)
        start, end = (cut_at(self.lake, source, at, self.logs, dry_run=dry_run) for at in instants)
        gone = [key for key in end.gone if key not in start.gone]
        known_gone = [key for key in self.logs.look().gone if key in start.offsets and key not in start.gone]
        return RangesPlan(
            source=source,
            interval=interval,
            ranges=[range_ for range_ in ranges_between(start, end) if range_.start < range_.end],
            notes=[*_gone_notes(sorted({*gone, *known_gone}), self.logs.look().ends), *self.logs.notes],
            gone=gone,
            held_back=end.held_back,
        )

    def _everything_new(self) -> RangesPlan:
        """What is in no plan yet, from the first offset on that was ever seen, planned or landed."""
        plans = of_kind(own_plans(self.lake, self.dataset), RangesPlan)
        planned: dict[str, list[Range]] = {}
        for plan in plans:
            for range_ in plan.ranges:
                planned.setdefault(range_.topic_partition.key, []).append((range_.start, range_.end))
        look = self.logs.look()
        known = look.starts | {key: min(start for start, _ in ranges) for key, ranges in planned.items()}
        ranges = [
            OffsetRange(topic_partition=TopicPartition.of(key), start=start, end=end)
            for key in sorted(look.starts)
            for start, end in minus([(min(look.starts[key], known[key]), look.ends[key])], planned.get(key, []))
        ]
        noted = {key for plan in plans for key in plan.gone}
        gone = sorted(key for key in look.gone if key not in noted)
        notes = [*_gone_notes(gone, look.ends), *self.logs.held_at(look.ends)]
        return RangesPlan(source=self.dataset.source_id, ranges=ranges, notes=notes, gone=gone)

    def _check_settled(self, interval: Interval) -> None:
        settle = self.dataset.schedule.settle if self.dataset.schedule else timedelta(0)
        settled = interval.end + settle
        if settled > datetime.now(UTC):
            raise NotSettledError(self.dataset.name, *(f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (interval.end, settled)))

    def newest(self, count: int) -> RangesPlan:
        """About the newest `count` offsets; what a short partition does not have the others give."""
        starts, ends = self.logs.starts(), self.logs.stable_ends
        found = newest_of({key: (starts[key], ends[key]) for key in self.logs.partitions}, count)
        ranges = [
            OffsetRange(topic_partition=self.logs.partitions[key], start=start, end=end)
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
        self.logs.refresh()  # what is gone is a hole
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
        aged = self._aged(holes, explained)
        return Landed(
            objects,
            plan.ranges,
            in_order(holes + explained.holes),
            replaced=gone_since,
            epochs=epochs,
            topics=self._topics.read,
            aged=aged,
            notes=explained.notes + notes,
        )

    def _cut_logs(self, ranges: list[OffsetRange]) -> tuple[dict[str, int], list[OffsetRange], list[str]]:
        """The logs' newest leader epochs, what of earlier landings is not in them any more, and notes on that.

        Asked when the read is over, so that no epoch is newer than what was read knows of; and in this order, so that
        the next landing reports a log that is cut meanwhile.
        """
        partitions = {range_.topic_partition.key: range_.topic_partition for range_ in ranges}
        epochs = self.logs.cluster.epochs((where.topic, where.partition) for where in partitions.values())
        newest = {
            key: epochs[at] for key, where in partitions.items() if (at := (where.topic, where.partition)) in epochs
        }
        if not (suspects := suspected(self._epochs.marks, newest)):
            return newest, [], []
        from onefold.kafka.raw_log import RawLog

        with RawLog(client_settings(self.lake.settings, self.logs.connection)) as log:
            return newest, *cut_since(suspects, newest, log)

    def _settings_of(self, topic: str) -> dict[str, str]:
        return self.logs.cluster.topic_settings(topic)

    def _aged(self, taken: list[Hole], explained: Explained) -> list[OffsetRange]:
        """The compacted offsets where a tombstone may have been removed: by the log, and by the landings that were read
        in its place (`taken`)."""
        lake, source = self.lake, self.dataset.source_id
        by_the_log = maybe_deletes(lake, source, explained.compacted, self._topics.tombstone_retention)
        return by_the_log + taken_over(lake, source, taken)

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
            ends = unbroken_ends(landed_ranges(self.lake, self.dataset.source_id), self._first_wanted())
            there = self.logs.partitions
            places = {(there[key].topic, there[key].partition): end for key, end in ends.items()}
            self.logs.cluster.commit_upwards(self.group, places)
        except (ClusterUnavailableError, ClusterRefusedError, ClientSettingsError, UnknownTopicError) as error:
            _LOG.warning("the offsets of group %s were not committed: %s", self.group, error)

    def _first_wanted(self) -> dict[str, int]:
        """The first offset of each log that the dataset wants: of its schedule's start, else where the log began."""
        known, schedule = self.logs.look().starts, self.dataset.schedule
        began = {key: known[key] for key in self.logs.partitions if key in known}
        if schedule is None:
            return began
        at = in_utc(schedule.start)
        first, ends = self.logs.cluster.first_at(self.logs.names, at), self.logs.stable_ends
        wanted = {}
        for key, start in began.items():
            where = self.logs.partitions[key]
            offset, _ = first.get((where.topic, where.partition), (ends.get(key, start), at))
            wanted[key] = max(start, offset)
        return wanted

    @property
    def group(self) -> str:
        """The consumer group whose offsets follow the landing."""
        return f"onefold.{self.dataset.source_id}"

    def _still_there(self, ranges: list[OffsetRange]) -> tuple[list[OffsetRange], list[Hole]]:
        """The parts of ranges that the logs hold, and what is gone at their ends."""
        starts, ends = self.logs.starts(), self.logs.cluster.ends(self.logs.names)
        readable, holes = [], []
        for range_ in ranges:
            where = range_.topic_partition
            if where.key not in self.logs.partitions:
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
        client = java_settings(client_settings(self.lake.settings, self.logs.connection))
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
            if found := self.logs.cluster.first_beyond(
                (where.topic, where.partition), range_.start, range_.end, _LATEST
            ):
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
            starts = self.logs.starts()
        with RawLog(client_settings(self.lake.settings, self.logs.connection)) as log:
            return explain(missing, starts, log, self.logs.cluster.cleanup_policy)

    def _check_there(self, batch: str, ranges: list[OffsetRange]) -> None:
        """Refuse what was read of a topic that is not the planned topic any more."""
        if deleted := {range_.topic_partition.key for range_ in ranges} - set(self.logs.look_up(missing_ok=True)):
            raise LandingInterruptedError(batch, f"{', '.join(sorted(deleted))} was deleted while it was read")

    def _object(self, key: str, size: int) -> LandedObject:
        digest = self.lake.storage.digest(key)
        return LandedObject(name=key.rpartition("/")[2], key=key, size=size, sha256=digest)


def _gone_notes(gone: list[str], ends: dict[str, int]) -> list[str]:
    """A note on each partition that is not there any more; `ends` is up to where it was seen."""
    return [
        f"{was}: the topic is gone (deleted, or created again); "
        f"what it may have held from offset {ends[key]} on was never read"
        for key in gone
        if (was := TopicPartition.of(key))
    ]


def _hole(where: TopicPartition, start: int, end: int, kind: HoleKind) -> Hole:
    return Hole(topic_partition=where, start=start, end=end, kind=kind)


def _is_data(key: str) -> bool:
    return key.endswith(".parquet") and "/_" not in key
