"""Live topics of a real broker: every committed record is landed once, whatever the order of the intervals."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dedup.sample import sample
from onefold.errors import (
    ClusterUnavailableError,
    DataLossError,
    LandingInterruptedError,
    NotSettledError,
    UnknownTopicError,
    UnreadableStampError,
    UsageError,
)
from onefold.kafka.cluster import Cluster
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.live import LiveSource
from onefold.landing.manifest import Manifest
from onefold.landing.plan import Interval, RangesPlan
from onefold.offsets import Range, merged
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.records.layouts.kafka import write_topics
from onefold.report.ledger import offsets_of, rows_of
from sample.broker import Broker
from tests.support.logs import wait_for_end
from tests.support.reader import what_is_there
from tests.support.topics import Position, Topics, at, between, ranges

pytestmark = pytest.mark.kafka
Make = Callable[..., Topics]


@pytest.fixture
def topics(broker: Broker, lake: Lake, session: SparkSession) -> Make:
    """Makes topics with names of their own; `create=False` leaves them to the test."""

    def make(count: int = 1, create: bool = True, partitions: int = 1, **config: str) -> Topics:
        names = sorted(f"live-{uuid.uuid4().hex[:8]}" for _ in range(count))
        made = Topics.on(broker.bootstrap, lake, session, *names)
        if create:
            made.create(partitions, **config)
        return made

    return make


def read_positions(topics: Topics) -> list[Position]:
    found = what_is_there(topics.servers, *topics.names)
    return sorted((row["topic"], row["partition"], row["offset"]) for row in found)


@pytest.mark.parametrize("stamped", ["CreateTime", "LogAppendTime"])
def test_intervals_landed_in_any_order_hold_every_record_once(topics: Make, stamped: str) -> None:
    """L1 and L2 for the landing: timestamps run backwards within an hour and across hours."""
    draw = random.Random(8)
    t = topics(partitions=2, **{"message.timestamp.type": stamped})
    for partition in (0, 1):
        hours = [hour + draw.uniform(-1.5, 0.9) for hour in range(1, 6) for _ in range(20)]
        t.send(hours, partition)
    now = datetime.now(UTC)
    intervals = [between(hour, hour + 1) for hour in range(-1, 7)]
    if stamped == "LogAppendTime":
        seconds = [now - timedelta(minutes=5) + timedelta(seconds=60 * step) for step in range(6)]
        intervals = [Interval(start=start, end=end) for start, end in pairwise(seconds)]
    draw.shuffle(intervals)
    landed = [t.positions(t.land(t.plan(interval))) for interval in intervals]
    everything = [where for positions in landed for where in positions]
    assert len(everything) == len(set(everything)), "no record is landed twice"
    assert sorted(everything) == read_positions(t)
    assert len(everything) == 200
    assert t.plan().empty


def test_new_records_partitions_and_topics_are_all_that_a_later_run_reads(topics: Make) -> None:
    t = topics(2)
    first = t.plan()
    assert first.empty, "nothing was sent"
    t.send([1, 2], topic=t.names[0])
    plan = t.plan()
    assert ranges(plan) == {(t.names[0], 0): (0, 2)}
    t.land(plan)
    assert t.plan().empty
    t.grow(2)
    t.send([3], 1, t.names[0])
    t.send([3, 4], 0, t.names[1])
    plan = t.plan()
    assert ranges(plan) == {(t.names[0], 1): (0, 1), (t.names[1], 0): (0, 2)}
    t.land(plan)
    t.send([5], 0, t.names[0])
    plan = t.plan()
    assert ranges(plan) == {(t.names[0], 0): (2, 3)}
    # What was planned by an interval is not new either.
    t.land(t.plan(between(0, 4)))
    assert ranges(t.plan()) == {(t.names[0], 0): (2, 3)}


def test_a_partition_that_is_new_begins_at_its_logs_start(topics: Make) -> None:
    t = topics()
    t.send([0.5, 1.5])
    assert ranges(t.plan(between(0, 1))) == {(t.names[0], 0): (0, 1)}
    t.grow(2)
    t.send([0.5, 1.6], 1)  # one of an hour that was cut before the partition was there
    assert ranges(t.plan(between(1, 2))) == {(t.names[0], 0): (1, 2), (t.names[0], 1): (0, 2)}


def test_a_timestamp_later_than_now_does_not_hold_a_cut_back(topics: Make) -> None:
    t = topics()
    tomorrow = (datetime.now(UTC) + timedelta(days=1) - at(0)) / timedelta(hours=1)
    t.send([0.5, tomorrow, 0.6, 1.5, tomorrow, 1.6])
    assert ranges(t.plan(between(0, 1))) == {(t.names[0], 0): (0, 3)}
    assert ranges(t.plan(between(1, 2))) == {(t.names[0], 0): (3, 6)}


def test_a_stamp_of_another_unit_holds_no_cut_back_and_is_landed_or_named(topics: Make) -> None:
    """Spark's client takes no more milliseconds than it can say in microseconds."""
    for stamp, read in ((1_767_225_600_000_000, True), (1_767_225_600_000_000_000, False)):
        t = topics()
        producer = Producer({"bootstrap.servers": t.servers, "log_level": 0})
        for given in (int(at(0.1).timestamp() * 1000), stamp, int(at(1.1).timestamp() * 1000)):
            producer.produce(t.names[0], b"{}", timestamp=given)
        assert producer.flush(30) == 0
        plans = [t.plan(between(hour, hour + 1)) for hour in (0, 1)]
        assert [list(ranges(plan).values()) for plan in plans] == [[(0, 2)], [(2, 3)]]
        if read:
            assert [row["timestamp"] for row in t.rows(t.land(plans[0]))][1:] == [stamp]
        else:
            with pytest.raises(UnreadableStampError, match=rf"at {t.names[0]}-0@1 is stamped {stamp}, "):
                t.land(plans[0])
        assert t.positions(t.land(plans[1])) == [(t.names[0], 0, 2)]


def test_transactions_are_read_when_they_are_committed_and_their_markers_are_holes(topics: Make) -> None:
    """L2: the markers and what was aborted are missing offsets, which the record batches around them explain."""
    t = topics()

    def transaction(name: str = "") -> Producer:
        config = {"bootstrap.servers": t.servers, "transactional.id": name or uuid.uuid4().hex, "log_level": 0}
        producer = Producer(config | {"transaction.timeout.ms": 900_000})
        producer.init_transactions(30)
        producer.begin_transaction()
        return producer

    def send(producer: Producer, id_: str) -> None:
        producer.produce(t.names[0], f'{{"id": "{id_}", "n": 1}}', timestamp=int(at(0.5).timestamp() * 1000))
        producer.flush(30)

    committed, aborted = transaction(), transaction()
    send(committed, "kept")
    committed.commit_transaction(30)
    wait_for_end(t, 2)  # offsets 0 and, the marker, 1
    send(aborted, "gone")
    aborted.abort_transaction(30)
    wait_for_end(t, 4)  # 2 and 3
    open_ = transaction(f"of-{t.names[0]}")
    send(open_, "later")  # 4
    t.send([0.6])  # 5
    first = t.plan()
    assert ranges(first) == {(t.names[0], 0): (0, 4)}
    (note,) = first.notes
    assert note.startswith(f"{t.names[0]}, partition 0: an open transaction of producer ")
    assert f" (epoch 0, transactional.id of-{t.names[0]}), begun {datetime.now(UTC):%Y}" in note
    assert note.endswith(" ago), holds back offset 4 and what follows")
    manifest = t.land(first)
    assert t.positions(manifest) == [(t.names[0], 0, 0)]
    open_.commit_transaction(30)
    wait_for_end(t, 7)
    second = t.plan()
    assert (ranges(second), second.notes) == ({(t.names[0], 0): (4, 7)}, [])
    t.land(second)
    dataset = t.dataset()
    ends = [run_batch(t.lake, dataset, plan, launcher(t)) for plan in (first, second)]
    assert [end.red for end in ends] == [None, None]
    (row,) = offsets_of(t.lake, dataset)
    assert row["covered"] == [[0, 7]]
    assert [(hole["start"], hole["end"], hole["kind"]) for hole in row["holes"]] == [
        (1, 2, "control"),
        (2, 3, "aborted"),
        (3, 4, "control"),
        (6, 7, "control"),
    ]
    assert sorted(row["id"] for row in rows_of(t.lake, dataset)) == ["id-0", "kept", "later"]


def launcher(t: Topics) -> Any:
    return InSession(t.lake, t.session)


def test_a_topic_that_is_created_again_is_another_incarnation(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2, 0.3])
    dataset = t.dataset(identity={})  # the position decides, so a mix-up of incarnations would lose rows
    first = plan_batch(t.lake, dataset, between(0, 1))
    assert run_batch(t.lake, dataset, first, launcher(t)).published
    t.delete()
    t.create()
    t.send([1.1, 1.2])
    second = plan_batch(t.lake, dataset, between(1, 2))
    (note,) = second.notes
    assert "deleted, or created again" in note
    assert run_batch(t.lake, dataset, second, launcher(t)).published
    assert sorted(row["n"] for row in rows_of(t.lake, dataset)) == [0, 1, 2, 3, 4]
    assert [(row["incarnation"], row["covered"]) for row in offsets_of(t.lake, dataset)] == [
        (1, [[0, 3]]),
        (2, [[0, 2]]),
    ]


def test_what_expired_before_it_was_landed_is_loss_unless_it_is_tolerated(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2, 0.3, 0.4])
    plan = t.plan(between(0, 1))
    t.expire(before=3)
    manifest = t.land(plan)
    assert [(hole.start, hole.end, hole.kind) for hole in manifest.holes] == [(0, 3, "retention")]
    assert t.positions(manifest) == [(t.names[0], 0, 3)]
    red = run_batch(t.lake, t.dataset(), plan, launcher(t)).red
    assert isinstance(red, DataLossError)
    assert "offsets gone before they were landed: found 3, wanted at most 0" in str(red)
    tolerant = t.dataset(quality={"loss": "tolerated"})
    assert run_batch(t.lake, tolerant, plan, launcher(t)).published
    (row,) = offsets_of(t.lake, tolerant)
    assert row["holes"] == [{"start": 0, "end": 3, "kind": "retention"}]


def test_what_the_log_holds_no_more_is_read_from_what_other_plans_have_landed(topics: Make) -> None:
    """Two datasets share a source: one reads it by the hour, the other by the day, after retention."""
    t = topics(partitions=2)
    t.send([0.1, 0.2, 1.1, 2.1, 3.1])
    t.send([0.5, 2.5], partition=1)
    hourly = [t.land(t.plan(between(hour, hour + 1))) for hour in (0, 2)]
    t.expire(before=4)
    t.expire(before=1, partition=1)
    daily = t.plan(between(0, 4))
    manifest = t.land(daily)
    [name] = t.names
    assert t.positions(manifest) == [(name, 0, 0), (name, 0, 1), (name, 0, 3), (name, 0, 4), (name, 1, 0), (name, 1, 1)]
    assert [(hole.start, hole.end, hole.kind) for hole in manifest.holes] == [(2, 3, "retention")]
    assert all(row in t.rows(manifest) for landing in hourly for row in t.rows(landing)), "as they were landed"


def test_intervals_that_are_first_cut_when_only_the_landing_holds_them_are_read_from_it(topics: Make) -> None:
    """A run without an interval has landed them, and retention has taken them: their timestamps lie in the landing."""
    t = topics(partitions=2)
    t.send([0.2, 1.2, 0.4, 2.2, 1.4])
    t.send([0.5, 2.5], partition=1)
    t.land(t.plan())
    t.expire(before=5)
    t.expire(before=2, partition=1)
    t.send([5.5])
    name = t.names[0]
    second, first, third = (t.plan(between(hour, hour + 1)) for hour in (1, 0, 2))
    assert ranges(first) == {(name, 0): (0, 1), (name, 1): (0, 1)}
    assert ranges(second) == {(name, 0): (1, 3)}
    assert ranges(third) == {(name, 0): (3, 5), (name, 1): (1, 2)}
    landed = [t.land(plan) for plan in (second, third, first)]
    assert [landing.holes for landing in landed] == [[], [], []]
    assert sorted(where for landing in landed for where in t.positions(landing)) == [
        *((name, 0, offset) for offset in range(5)),
        *((name, 1, offset) for offset in range(2)),
    ]


def test_offsets_without_a_landing_are_reported_for_an_interval_that_is_first_cut_late(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    t.land(t.plan())
    t.send([0.3, 1.1])
    t.expire(before=3)
    plan = t.plan(between(0, 1))
    assert ranges(plan) == {(t.names[0], 0): (0, 3)}
    manifest = t.land(plan)
    assert t.positions(manifest) == [(t.names[0], 0, 0), (t.names[0], 0, 1)]
    assert [(hole.start, hole.end, hole.kind) for hole in manifest.holes] == [(2, 3, "retention")]


def test_a_partition_that_a_cut_does_not_know_begins_where_it_was_landed_first(topics: Make) -> None:
    t = topics()
    assert t.plan(between(0, 1)).empty
    t.grow(2)
    t.send([0.5, 1.5, 2.5], 1)
    t.land(t.plan())
    t.expire(before=3, partition=1)
    assert ranges(t.plan(between(1, 2))) == {(t.names[0], 1): (0, 2)}


def test_what_expired_between_two_runs_is_reported_by_the_second(topics: Make) -> None:
    t = topics(partitions=2)
    t.send([0.1, 0.2], 0)
    t.land(t.plan())
    assert t.plan(between(5, 6)).empty  # its cut knows that partition 1 is empty
    t.send([0.3, 0.4, 0.5], 0)
    t.send([0.6, 0.7], 1)
    t.expire(before=4, partition=0)
    t.expire(before=1, partition=1)
    plan = t.plan()
    assert ranges(plan) == {(t.names[0], 0): (2, 5), (t.names[0], 1): (0, 2)}
    manifest = t.land(plan)
    assert sorted((hole.topic_partition.partition, hole.start, hole.end, hole.kind) for hole in manifest.holes) == [
        (0, 2, 4, "retention"),
        (1, 0, 1, "retention"),
    ]
    assert t.positions(manifest) == [(t.names[0], 0, 4), (t.names[0], 1, 1)]


def test_offsets_before_the_first_read_of_a_topic_are_no_loss(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2, 0.3])
    t.expire(before=2)
    other = t.dataset(name="others", target={"table": "live.others", "buckets": 2})  # of the same source
    assert ranges(t.plan()) == {(t.names[0], 0): (2, 3)}
    t.land(t.plan())
    t.send([0.4, 0.5])
    t.expire(before=4)
    later = plan_batch(t.lake, other)
    assert isinstance(later, RangesPlan)
    assert ranges(later) == {(t.names[0], 0): (2, 5)}, "it begins where its source is known: the first two were gone"


def test_a_run_tells_once_of_a_topic_that_is_gone(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    t.land(t.plan())
    t.delete()
    t.create()
    t.send([0.3])
    plan = t.plan()
    gone = f"{t.names[0]}, partition 0: the topic is gone (deleted, or created again)"
    assert plan.notes == [f"{gone}; what it may have held from offset 2 on was never read"]
    t.land(plan)
    t.send([0.4])
    assert t.plan().notes == []


def test_a_log_that_was_shortened_or_deleted_is_reported_at_its_end(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    plan = t.plan(between(0, 1))
    (planned,) = plan.ranges
    # An unclean election cuts a log; here a plan asks for more than there is.
    longer = plan.model_copy(update={"ranges": [planned.model_copy(update={"end": 5})]})
    source = LiveSource(t.lake, t.dataset(), partial(write_topics, t.session))
    landed = source.land(longer, longer.batch, "attempt")
    assert [(hole.start, hole.end, hole.kind) for hole in landed.holes] == [(2, 5, "truncated")]
    t.delete()
    t.create()
    landed = LiveSource(t.lake, t.dataset(), partial(write_topics, t.session)).land(plan, plan.batch, "other")
    assert [(hole.start, hole.end, hole.kind) for hole in landed.holes] == [(0, 2, "deleted")]
    assert landed.objects == []


def test_what_is_landed_needs_no_broker(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    plan = t.plan(between(0, 1))
    manifest = t.land(plan)
    t.delete()
    assert t.plan(between(0, 1)) == plan
    assert t.land(plan) == manifest
    other = t.dataset(name="others", target={"table": "live.others", "buckets": 2})  # of the same source
    assert plan_batch(t.lake, other, between(0, 1)) == plan
    assert land_batch(t.lake, other, plan.batch) == manifest


def test_a_pattern_takes_in_topics_as_they_come(topics: Make) -> None:
    """One that comes between two runs begins at its start, by interval and without; another name stays out."""
    t = topics(create=False)
    prefix = t.names[0]
    t.names = (f"{prefix}-a", f"other-{prefix}-b")
    t.create()
    of_a, other = t.names
    t.names = (f"^{prefix}.*",)
    t.send([0.1, 1.1], topic=of_a)
    t.send([0.2], topic=other)
    first = t.plan(between(0, 1))
    assert ranges(first) == {(of_a, 0): (0, 1)}
    t.land(first)
    t.names = (f"{prefix}-c",)
    t.create()
    [of_c] = t.names
    t.names = (f"^{prefix}.*",)
    t.send([0.3, 1.3], topic=of_c)
    second = t.plan(between(1, 2))
    assert ranges(second) == {(of_a, 0): (1, 2), (of_c, 0): (0, 2)}
    assert t.positions(t.land(second)) == [(of_a, 0, 1), (of_c, 0, 0), (of_c, 0, 1)]
    t.send([2.1], topic=of_c)
    assert ranges(t.plan()) == {(of_c, 0): (2, 3)}


def committed(t: Topics) -> int:
    consumer = Consumer({"bootstrap.servers": t.servers, "group.id": f"onefold.{t.dataset().source_id}"})
    [found] = consumer.committed([TopicPartition(t.names[0], 0)], 30)
    consumer.close()
    return int(found.offset)


def test_the_groups_offsets_follow_the_landing_and_only_upwards(topics: Make) -> None:
    t = topics()
    t.send([0.1, 1.1, 1.2])
    t.land(t.plan(between(1, 2)))
    assert committed(t) < 0, "an older record is not read yet, and lag monitors show it"
    t.land(t.plan(between(0, 1)))
    assert committed(t) == 3
    t.send([2.1])
    t.land(t.plan(between(2, 3)))
    assert committed(t) == 4


def test_the_groups_offsets_are_committed_once_the_manifest_exists(
    topics: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    t = topics()
    t.send([0.1, 0.2])
    plan = t.plan()
    existed, commit = [], Cluster.commit_upwards

    def look_first(self: Cluster, group: str, ends: dict[tuple[str, int], int]) -> None:
        existed.append(t.lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest) is not None)
        commit(self, group, ends)

    monkeypatch.setattr(Cluster, "commit_upwards", look_first)
    t.land(plan)
    assert (existed, committed(t)) == ([True], 2)


def test_a_topic_deleted_once_the_manifest_exists_fails_nothing(
    topics: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    t = topics()
    t.send([0.1, 0.2])
    plan, commit = t.plan(), Cluster.commit_upwards

    def delete_first(self: Cluster, group: str, ends: dict[tuple[str, int], int]) -> None:
        t.delete()
        commit(self, group, ends)

    monkeypatch.setattr(Cluster, "commit_upwards", delete_first)
    assert t.land(plan) == t.lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest)
    assert "were not committed" in caplog.text


def test_a_topic_deleted_while_it_is_read_lands_nothing(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    plan = t.plan(between(0, 1))

    def read_then_delete(*given: Any) -> dict[str, list[Range]]:
        landed = write_topics(t.session, *given)
        t.delete()
        t.create()
        return landed

    with pytest.raises(LandingInterruptedError, match="was deleted while it was read"):
        t.land(plan, read_then_delete)
    assert t.lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest) is None


def test_a_read_that_fails_lands_nothing_and_the_next_one_does(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    plan = t.plan(between(0, 1))

    def fail(*_given: Any) -> dict[str, list[Range]]:
        raise OSError(28, "No space left on device")

    with pytest.raises(LandingInterruptedError, match="No space left on device"):
        t.land(plan, fail)
    assert len(t.positions(t.land(plan))) == 2


def test_a_dry_run_writes_nothing(topics: Make) -> None:
    t = topics()
    t.send([0.1])
    plan = plan_batch(t.lake, t.dataset(), between(0, 1), dry_run=True)
    assert not plan.empty
    assert list(t.lake.storage.list()) == []


def test_an_interval_is_read_once_it_is_settled(topics: Make) -> None:
    t = topics()
    now = datetime.now(UTC)
    interval = between(0, 1).model_copy(update={"end": now - timedelta(minutes=5)})
    hourly = {"cron": "0 * * * *", "start": "2026-01-01"}
    with pytest.raises(NotSettledError, match="can be read from"):
        t.plan(interval, schedule=hourly)
    assert t.plan(interval, schedule={**hourly, "settle": "1m"}).empty
    with pytest.raises(NotSettledError):
        t.plan(interval.model_copy(update={"end": now + timedelta(hours=1)}))


def test_topics_that_are_not_there_are_named_with_what_is_near(topics: Make) -> None:
    t = topics()
    name = t.names[0]
    t.names = (f"{name}s",)
    with pytest.raises(UnknownTopicError, match=f"there is no topic '{name}s' .did you mean {name}") as raised:
        t.plan()
    assert raised.value.exit_code == 2
    t.names = ("^nothing-like-it",)
    with pytest.raises(UnknownTopicError, match=r"no topic matches '\^nothing-like-it'"):
        t.plan()


def test_an_export_folder_cannot_stand_in_for_live_topics(topics: Make) -> None:
    t = topics(create=False)
    with pytest.raises(UsageError, match="reads live topics"):
        plan_batch(t.lake, t.dataset(), export="exports")


def test_brokers_that_do_not_answer_are_named(
    lake: Lake, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.kafka.cluster.SECONDS", 3.0)
    t = Topics.on("127.0.0.1:9", lake, session, "t")
    with pytest.raises(ClusterUnavailableError, match=r"kafka_default \(127\.0\.0\.1:9\): .*[Cc]onnect"):
        t.plan()


def test_a_sample_reads_the_newest_of_each_partition_and_commits_nothing(topics: Make) -> None:
    t = topics(partitions=2)
    t.send([1, 2, 3], 0)
    t.send([1, 2, 3], 1)
    (row,) = sample(t.session, t.lake, t.dataset(), 4)
    assert (row["verdict"], row["records"], row["example"]) == ("applied", 4, f"{t.names[0]} 0 1")
    assert committed(t) < 0
    assert [info.key for info in t.lake.storage.list()] == ["catalog.db"], "Spark opened the catalog"


def test_coverage_has_no_gap_where_plans_overlap(topics: Make) -> None:
    t = topics()
    t.send([hour / 2 for hour in range(8)])
    plans = [t.plan(between(2, 3)), t.plan(), t.plan(between(0, 4))]
    covered = merged((range_.start, range_.end) for plan in plans for range_ in plan.ranges)
    assert covered == [(0, 8)]
