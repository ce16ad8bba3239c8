"""Drawn histories of a live topic on a real broker: whatever happens to it, each offset is landed once or is a hole.

The model knows what producers have from the broker (offset and id of each record, how each transaction ended), where
the logs began and ended, and what their cleaner took; it asks nothing of Onefold. What any run has seen and is gone has
to be named. `ONEFOLD_TEST_HISTORIES` sets how many histories are drawn (a night: 500).
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from hypothesis import Verbosity, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dedup.documents import Staged, StagedPartition
from onefold.errors import HeldBackError
from onefold.lake import Lake
from onefold.landing.cuts import cut_of
from onefold.landing.incarnations import Incarnation
from onefold.landing.live import LiveSource
from onefold.landing.looks import newest_look
from onefold.landing.manifest import Manifest
from onefold.landing.plan import Interval, RangesPlan
from onefold.offsets import Coverage, Range, meet, merged, minus
from onefold.records.layouts.kafka import write_topics
from onefold.upsert.coverage import account_for
from sample.broker import Broker
from tests.support.topics import Topics, at

pytestmark = pytest.mark.kafka
HISTORIES = int(os.environ.get("ONEFOLD_TEST_HISTORIES", "6"))
HOURS = 5
TOMORROW = timedelta(days=1)
ROLLS = 100
"""In place of an hour: a stamp that is later than all before."""
CLEANED = {"cleanup.policy": "compact,delete", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.0"}
NEVER = str(10**12)
Where = tuple[int, int]
"""(incarnation, partition)"""


@dataclass
class Log:
    """One partition of one incarnation, as those who wrote to it and cut it know it."""

    start: int = 0
    end: int = 0
    records: dict[int, str] = field(default_factory=dict, hash=False)
    open: set[int] = field(default_factory=set)
    aborted: set[int] = field(default_factory=set)
    compacted: set[int] = field(default_factory=set)

    def readable(self, ranges: list[Range]) -> dict[int, str]:
        """The committed records that are still there."""
        within = meet(ranges, [(self.start, self.end)])
        hidden = self.open | self.aborted | self.compacted
        offsets = (offset for start, end in within for offset in range(start, end))
        return {offset: self.records[offset] for offset in offsets if offset in self.records and offset not in hidden}

    def skipped(self, ranges: list[Range]) -> dict[int, str]:
        """What no reader is shown: the records of aborted transactions, and the markers, which no client has sent."""
        offsets = [offset for start, end in ranges for offset in range(start, end)]
        markers = {offset: "control" for offset in offsets if offset not in self.records}
        aborted = {offset: "aborted" for offset in offsets if offset in self.aborted}
        return markers | aborted | {offset: "compacted" for offset in offsets if offset in self.compacted}

    def superseded(self, before: int) -> set[int]:
        """The records in front of an offset of whose key a later one is in front of it, too."""
        there = [offset for offset in self.records if self.start <= offset < before]
        last = {key_of(self.records[offset]): offset for offset in sorted(there)}
        return {offset for offset in there if last[key_of(self.records[offset])] != offset}


@dataclass
class Open:
    """A transaction that has not ended."""

    producer: Producer
    sent: list[tuple[Log, int]] = field(default_factory=list)


def key_of(value: str) -> str:
    """The key of a record: one of three."""
    return str(json.loads(value)["n"] % 3)


def _is_in(offset: int, ranges: list[Range]) -> bool:
    return any(start <= offset < end for start, end in ranges)


class History(RuleBasedStateMachine):
    """One topic from its creation on, and a dataset that reads it."""

    servers: str
    session: SparkSession
    lake: Lake

    def __init__(self) -> None:
        super().__init__()
        name = f"history-{uuid.uuid4().hex[:8]}"
        home = self.lake.settings.home / name
        self.t = Topics.on(self.servers, Lake(self.lake.settings.model_copy(update={"home": home})), self.session, name)
        self.name, self.sent = name, 0
        self.logs: dict[Where, Log] = {}
        self.incarnation = 0
        self.lives: dict[str, int] = {}
        self.transactions: list[Open] = []
        self.plans: list[RangesPlan] = []
        self.waiting: list[RangesPlan] = []
        self.intervals: set[int] = set()
        self.began: dict[str, int] = {}
        self.seen: dict[str, int] = {}
        self.coverage = Coverage()
        self.landed: dict[tuple[str, int], str] = {}
        self.read: dict[str, list[Range]] = {}
        self.notes: list[str] = []

    @initialize(
        partitions=st.integers(1, 2), stamped=st.sampled_from(["CreateTime", "LogAppendTime"]), compacts=st.booleans()
    )
    def create(self, partitions: int, stamped: str, compacts: bool) -> None:
        """`compacts`: its cleaner may run, and only when the history says so. Such a topic has no transactions."""
        self.stamped, self.compacts, self.marks = stamped, compacts, [datetime.now(UTC)]
        self.rolled = datetime.now(UTC) + 2 * TOMORROW
        self._create(partitions)

    def _create(self, partitions: int) -> None:
        cleaned = CLEANED | {"min.compaction.lag.ms": NEVER} if self.compacts else {}
        self.t.create(partitions, **cleaned, **{"message.timestamp.type": self.stamped})
        self.incarnation += 1
        self.lives[str(self.t.described(self.name, partitions).topic_id)] = self.incarnation
        for partition in range(partitions):
            self.logs[self.incarnation, partition] = Log()

    @property
    def _now(self) -> dict[int, Log]:
        """The partitions that there are."""
        return {partition: log for (life, partition), log in self.logs.items() if life == self.incarnation}

    def _where(self, key: str) -> Where:
        """What Onefold calls n is the topic whose id it wrote down as its n-th; those it never saw have no number."""
        cluster, topic, number, partition = key.split("/")
        standing = self.t.lake.get(lake_keys.incarnation(cluster, topic, int(number)), Incarnation)
        assert standing
        return self.lives[standing.topic_id], int(partition)

    # What happens to the topic.

    @rule(hours=st.lists(st.integers(-1, HOURS) | st.just(99), min_size=1, max_size=4), partition=st.integers(0, 2))
    def produce(self, hours: list[int], partition: int) -> None:
        """Hours in any order; 99 is tomorrow."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        self._send(producer, hours, partition)

    @precondition(lambda self: len(self.transactions) < 2 and not self.compacts)
    @rule(hours=st.lists(st.integers(0, HOURS), min_size=1, max_size=3), partition=st.integers(0, 2))
    def begin(self, hours: list[int], partition: int) -> None:
        id_ = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 900_000}
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0} | id_)
        producer.init_transactions(30)
        producer.begin_transaction()
        self.transactions.append(Open(producer))
        self.go_on(hours, partition)

    @precondition(lambda self: self.transactions)
    @rule(hours=st.lists(st.integers(0, HOURS), min_size=1, max_size=3), partition=st.integers(0, 2))
    def go_on(self, hours: list[int], partition: int) -> None:
        """Another record of the newest transaction."""
        open_ = self.transactions[-1]
        log, offsets = self._send(open_.producer, hours, partition)
        log.open |= set(offsets)
        open_.sent += [(log, offset) for offset in offsets]

    @precondition(lambda self: self.transactions)
    @rule(commit=st.booleans(), newest=st.booleans())
    def end(self, commit: bool, newest: bool) -> None:
        open_ = self.transactions.pop(-1 if newest else 0)
        ends = {id(log): (log, log.end) for log, _ in open_.sent}
        (open_.producer.commit_transaction if commit else open_.producer.abort_transaction)(30)
        for log, offset in open_.sent:
            log.open.discard(offset)
            if not commit:
                log.aborted.add(offset)
        deadline = time.monotonic() + 30
        while any(log.end == end for log, end in ends.values()):  # the markers come after the answer
            assert time.monotonic() < deadline
            self._measure()

    def _send(self, producer: Producer, hours: list[int], partition: int) -> tuple[Log, list[int]]:
        partition %= len(self._now)
        log, offsets = self._now[partition], []

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            log.records[offset] = value.decode()
            offsets.append(offset)

        producer.list_topics(self.name, timeout=30)  # a partition may be newer than its metadata
        for hour in hours:
            when = {99: datetime.now(UTC) + TOMORROW, ROLLS: self.rolled}.get(hour) or at(hour + 0.5)
            value = f'{{"n": {self.sent}}}'
            producer.produce(
                self.name, value, key_of(value), partition, delivered, timestamp=int(when.timestamp() * 1000)
            )
            self.sent += 1
        assert producer.flush(30) == 0
        self.marks.append(datetime.now(UTC) + timedelta(milliseconds=1))
        self._measure()
        return log, offsets

    def _measure(self) -> None:
        """Where the logs end, as an independent consumer sees it: markers take offsets too."""
        config = {"group.id": "measuring", "isolation.level": "read_uncommitted", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.servers} | config)
        for partition, log in self._now.items():
            log.start, log.end = consumer.get_watermark_offsets(TopicPartition(self.name, partition), timeout=30)
        consumer.close()

    @rule(part=st.integers(1, 4), partition=st.integers(0, 2))
    def expire(self, part: int, partition: int) -> None:
        """Retention takes some quarters of a log, at most up to its open transaction."""
        partition %= len(self._now)
        log = self._now[partition]
        stable = min(log.open, default=log.end)
        before = log.start + (stable - log.start) * part // 4
        if before > log.start:
            self.t.expire(before, partition)
            self._measure()
            assert log.start == before

    @precondition(lambda self: self.compacts)
    @rule()
    def compact(self) -> None:
        """The cleaner leaves of each log only the last record of a key; behind it is the segment that is written to."""
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        self.rolled += timedelta(minutes=1)  # a stamp that is later than the segment's first begins another segment
        for partition, log in self._now.items():
            self._send(producer, [ROLLS], partition)
            log.compacted |= log.superseded(log.end - 1)
        self._clean("0")
        deadline = time.monotonic() + 120
        while any(self._read_offsets(partition) & log.compacted for partition, log in self._now.items()):
            assert time.monotonic() < deadline, "the broker has not compacted the log"
        self._clean(NEVER)

    def _clean(self, lag: str) -> None:
        """Let the cleaner take what is older than `lag` milliseconds."""
        entry = ConfigEntry("min.compaction.lag.ms", lag, incremental_operation=AlterConfigOpType.SET)
        asked = ConfigResource(ConfigResource.Type.TOPIC, self.name, incremental_configs=[entry])
        self.t.admin.incremental_alter_configs([asked])[asked].result(30)

    def _read_offsets(self, partition: int) -> set[int]:
        """The offsets of the records that a log holds, as an independent consumer sees them."""
        log, found = self._now[partition], set[int]()
        config = {"group.id": "cleaning", "enable.partition.eof": True, "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.servers} | config)
        consumer.assign([TopicPartition(self.name, partition, log.start)])
        while (message := consumer.poll(30)) and message.error() is None:
            found.add(message.offset() or 0)
        consumer.close()
        return found

    @precondition(lambda self: len(self._now) < 3)
    @rule()
    def grow(self) -> None:
        partition = len(self._now)
        self.t.grow(partition + 1)
        self.logs[self.incarnation, partition] = Log()

    @precondition(lambda self: not self.transactions and self.incarnation < 3)
    @rule(partitions=st.integers(1, 2))
    def recreate(self, partitions: int) -> None:
        self.t.delete()
        self._create(partitions)

    # What Onefold does.

    @rule(number=st.integers(0, HOURS), dry=st.booleans())
    def plan_interval(self, number: int, dry: bool) -> None:
        instants = self.marks if self.stamped == "LogAppendTime" else [at(hour) for hour in range(HOURS + 1)]
        number %= max(1, len(instants) - 1)
        if len(instants) < 2 or instants[number + 1] > datetime.now(UTC):
            return
        interval = Interval(start=instants[number], end=instants[number + 1])
        source = LiveSource(self.t.lake, self.t.dataset())
        try:
            first = source.plan(interval, dry_run=True) if dry else None
            plan = self.t.plan(interval)
        except HeldBackError:
            assert self.transactions, "only an open transaction holds an interval back"
            if not dry:
                self._look()
            return
        if number not in self.intervals:
            self._look()
        assert first is None or first.ranges == plan.ranges or number in self.intervals, "a dry run says what is read"
        assert self.t.plan(interval) == plan, "an interval keeps its plan"
        if number not in self.intervals:
            self.intervals.add(number)
            self._take(plan)
            self._check_beginnings(plan)

    def _look(self) -> None:
        """What a plan has just seen: where each log began when it was seen first, and where its stable part ended."""
        look = newest_look(self.t.lake, self.t.dataset().source_id)
        assert look
        keys = {self._where(key): key for key in look.starts}
        config = {"group.id": "looking", "isolation.level": "read_committed", "log_level": 0}
        consumer = Consumer({"bootstrap.servers": self.servers} | config)
        for partition, log in self._now.items():
            key = keys[self.incarnation, partition]
            landed = (offset for at_, offset in self.landed if at_ == key)
            self.began.setdefault(key, min([log.start, *landed]))
            _, self.seen[key] = consumer.get_watermark_offsets(TopicPartition(self.name, partition), timeout=30)
        consumer.close()

    def _check_beginnings(self, plan: RangesPlan) -> None:
        """A partition that a cut does not know begins where it began when it was seen first."""
        assert plan.interval
        start, end = (cut_of(self.t.lake, plan.source, at_) for at_ in (plan.interval.start, plan.interval.end))
        assert start
        assert end
        begun = {range_.topic_partition.key: range_.start for range_ in plan.ranges}
        for key in set(end.offsets) - set(start.offsets):
            assert begun.get(key, end.offsets[key]) == min(self.began[key], end.offsets[key])

    @rule()
    def plan_and_land_everything_new(self) -> None:
        before = [plan for plan in self.plans if plan.interval or plan not in self.waiting]
        plan = self.t.plan()
        self._look()
        self.notes += plan.notes
        for key, ranges in by_partition([plan]).items():
            taken = by_partition(before).get(key, [])
            assert not meet(ranges, taken), "nothing is planned twice"
        if not plan.empty:
            self._take(plan)
            self.land(0, len(self.waiting) - 1)

    def _take(self, plan: RangesPlan) -> None:
        note(f"planned {by_partition([plan])} {plan.notes}")
        for key, ranges in by_partition([plan]).items():
            log = self.logs[self._where(key)]
            assert not [offset for start, end in ranges for offset in log.open if start <= offset < end]
        self.plans.append(plan)
        self.waiting.append(plan)
        self.notes += plan.notes

    @precondition(lambda self: self.waiting)
    @rule(attempts=st.integers(0, 1), which=st.integers(0, 5))
    def land(self, attempts: int, which: int) -> None:
        """Land a plan, perhaps after an attempt that got as far as its last object."""
        plan = self.waiting.pop(which % len(self.waiting))
        for attempt in range(attempts):
            source = LiveSource(self.t.lake, self.t.dataset(), self._write)
            source.land(plan, plan.batch, f"died-{attempt}")
        manifest = self.t.land(plan)
        self._look()
        assert self.t.land(plan) == manifest
        self._check_landing(plan, manifest)

    def _write(self, *given: Any) -> dict[str, list[Range]]:
        return write_topics(self.session, *given)

    def _check_landing(self, plan: RangesPlan, manifest: Manifest) -> None:
        found = list(self._rows(manifest))
        wanted, gone, skipped = [], [], dict[tuple[str, int], str]()
        for key, ranges in by_partition([plan]).items():
            life, _ = where = self._where(key)
            log = self.logs[where]
            there = [(log.start, log.end)] if life == self.incarnation else []
            wanted += [((key, offset), value) for offset, value in log.readable(meet(ranges, there)).items()]
            # What the log holds no more is read from what other plans have landed.
            again = meet(minus(ranges, there), self.read.get(key, []))
            wanted += [(at, value) for at, value in self.landed.items() if at[0] == key and _is_in(at[1], again)]
            lost = minus(ranges, [*there, *again])
            gone += [(key, *range_, "retention" if there else "deleted") for range_ in lost]
            self.read[key] = merged([*self.read.get(key, []), *minus(ranges, lost)])
            skipped |= {(key, offset): kind for offset, kind in log.skipped(meet(ranges, [*there, *again])).items()}
        assert sorted(found) == sorted(wanted)
        skipped |= {(key, offset): kind for key, start, end, kind in gone for offset in range(start, end)}
        holes = [
            ((hole.topic_partition.key, offset), hole.kind)
            for hole in manifest.holes
            for offset in range(hole.start, hole.end)
        ]
        assert dict(holes) == skipped
        assert len(holes) == len(skipped), "an offset is one hole"
        assert manifest.notes == []
        self.landed |= dict(found)
        self._account(manifest, [position for position, _ in found])

    def _rows(self, manifest: Manifest) -> Iterator[tuple[tuple[str, int], str]]:
        for object_ in manifest.objects:
            path = self.t.lake.settings.path(self.t.lake.settings.lake) / object_.key
            for row in pq.read_table(path).to_pylist():
                key = f"{row['cluster']}/{row['topic']}/{row['incarnation']}/{row['partition']}"
                yield (key, row["offset"]), row["value"].decode()

    def _account(self, manifest: Manifest, positions: list[tuple[str, int]]) -> None:
        """L2: every offset of the plan is landed or a hole."""
        present: dict[str, list[Range]] = {}
        for key, offset in positions:
            present.setdefault(key, []).append((offset, offset + 1))
        partitions = {key: StagedPartition(present=merged(found), quarantined=[]) for key, found in present.items()}
        words = {"generation": "g", "code": "c", "attempt": "a", "table": "t", "objects": {}}
        staged = Staged(batch=manifest.batch, records=len(positions), partitions=partitions, **words)
        own, accounts = account_for(self.t.dataset(), staged, manifest, self.coverage)
        for account in accounts:
            assert not account.unexplained
            assert account.end - account.start == account.distinct + sum(account.explained.values())
        self.coverage = self.coverage.with_(own)

    # At its end.

    def teardown(self) -> None:
        while self.transactions:
            self.end(True, True)
        self.plan_and_land_everything_new()
        while self.waiting:
            self.land(0, 0)
        assert self.t.plan().empty
        intervals = [plan for plan in self.plans if plan.interval]
        for first, other in combinations(intervals, 2):
            others = by_partition([other])
            for key, ranges in by_partition([first]).items():
                assert not meet(ranges, others.get(key, []))
        for key, ranges in by_partition(self.plans).items():
            life, partition = self._where(key)
            log, covered = self.logs[life, partition], self.coverage.partitions[key]
            end = log.end if life == self.incarnation else self.seen[key]
            assert merged(ranges) == [(self.began[key], end)], "all that was seen, from the first offset on"
            if life != self.incarnation:
                assert any(f"{self.name}, partition {partition}: the topic" in text for text in self.notes)
                assert [key in plan.gone for plan in self.plans].count(True) >= 1, "what is gone is named"
            assert covered.covered == merged(ranges)
            holes = [(start, end) for start, end, _ in covered.holes]
            assert not meet(covered.present, holes), "landed or a hole, never both"
            landed = [(offset, offset + 1) for at_, offset in self.landed if at_ == key]
            assert covered.present == merged(landed)
        for (life, partition), log in self.logs.items():
            if life == self.incarnation and log.start < log.end:
                assert any(self._where(key) == (life, partition) for key in by_partition(self.plans))


def by_partition(plans: list[RangesPlan]) -> dict[str, list[Range]]:
    """The ranges of plans, merged."""
    found: dict[str, list[Range]] = {}
    for plan in plans:
        for range_ in plan.ranges:
            found.setdefault(range_.topic_partition.key, []).append((range_.start, range_.end))
    return {key: merged(ranges) for key, ranges in found.items()}


def test_whatever_happens_to_a_topic_each_offset_is_landed_once_or_a_hole(
    broker: Broker, session: SparkSession, lake: Lake
) -> None:
    """L1 and L2, for plan and land."""
    given = {"servers": broker.bootstrap, "session": session, "lake": lake}
    drawn = settings(max_examples=HISTORIES, stateful_step_count=15, verbosity=Verbosity.normal, print_blob=False)
    run_state_machine_as_test(type("HistoryHere", (History,), given), settings=drawn)
