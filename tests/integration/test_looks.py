"""Live topics of a real broker: what a run has seen and is gone is named, and what is called complete is."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import DataLossError, HeldBackError, UnknownTopicError
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.live_logs import LiveLogs
from onefold.landing.plan import Interval, RangesPlan
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import landed_plans
from onefold.operations.run import BatchRun, plan_all, plan_one, run_batch, unfinished
from onefold.records.layouts.kafka import write_topics
from onefold.report.history import ReportSummary, read_history
from onefold.report.ledger import rows_of
from sample.broker import Broker
from tests.support.topics import Topics, at, between, ranges

pytestmark = pytest.mark.kafka
Make = Callable[..., Topics]
HOUR = timedelta(hours=1)


@pytest.fixture
def topics(broker: Broker, lake: Lake, session: SparkSession) -> Make:
    """Makes a topic with a name of its own."""

    def make(partitions: int = 1, **config: str) -> Topics:
        made = Topics.on(broker.bootstrap, lake, session, f"looks-{uuid.uuid4().hex[:8]}")
        made.create(partitions, **config)
        return made

    return make


def run(t: Topics, dataset: Dataset, interval: Interval | None = None) -> BatchRun | None:
    """A batch, or None where there is nothing to read."""
    plan = plan_one(t.lake, dataset, interval, None)
    return None if plan.empty else run_batch(t.lake, dataset, plan, InSession(t.lake, t.session))


def red_checks(done: BatchRun | None) -> set[str]:
    """Ids of what keeps a batch from being published."""
    assert done is not None
    assert done.red is not None
    report = ReportSummary.model_validate_json(Path(done.report).with_suffix(".json").read_text())
    return {check.id for check in report.checks if check.red}


def warnings(done: BatchRun | None) -> set[str]:
    """Ids of the checks of a published batch that only warn."""
    assert done is not None
    assert done.published
    report = ReportSummary.model_validate_json(Path(done.report).with_suffix(".json").read_text())
    return {check.id for check in report.checks if check.status != "passed"}


def send_at(t: Topics, *instants: datetime) -> None:
    t.send([(instant - at(0)) / HOUR for instant in instants])


def complete(t: Topics) -> datetime | None:
    known = read_history(t.lake, "things")
    return known.complete_through if known else None


def test_what_expired_after_a_run_saw_its_partition_empty_is_a_loss(topics: Make) -> None:
    t = topics(partitions=2)
    t.send([0.1])
    dataset = t.dataset()
    first = run(t, dataset)
    assert first is not None
    assert first.published
    t.send([0.2] * 5, partition=1)
    t.expire(before=3, partition=1)
    plan = t.plan()
    assert ranges(plan) == {(t.names[0], 1): (0, 5)}
    done = run(t, dataset)
    assert isinstance(done and done.red, DataLossError)
    assert "offsets gone before they were landed: found 3" in str(done and done.red)


def test_what_was_seen_before_the_first_cut_and_expired_is_a_loss_of_the_first_interval(topics: Make) -> None:
    t = topics()
    t.send([9.5] * 8)
    assert t.plan(between(11, 12)).empty, "all are older: a first cut knows where the log began"
    t.expire(before=8)
    plan = t.plan(between(9, 11))
    assert ranges(plan) == {(t.names[0], 0): (0, 8)}
    assert t.plan(between(8, 9)).empty, "they are counted once"
    done = run(t, t.dataset(), between(9, 11))
    assert isinstance(done and done.red, DataLossError)


def test_a_second_dataset_begins_where_its_source_is_known(topics: Make) -> None:
    """The same rows by either command: what another dataset has landed is read from there."""
    t = topics()
    t.send([0.1, 1.1, 1.2, 2.1])
    t.land(t.plan(between(1, 2)))
    t.expire(before=4)
    t.send([3.1])
    other = t.dataset(name="others", target={"table": "live.others", "buckets": 2})
    plan = plan_batch(t.lake, other)
    assert isinstance(plan, RangesPlan)
    assert ranges(plan) == {(t.names[0], 0): (0, 5)}
    manifest = land_batch(t.lake, other, plan.batch, None, partial(write_topics, t.session))
    assert [where[2] for where in t.positions(manifest)] == [1, 2, 4]
    assert [(hole.start, hole.end, hole.kind) for hole in manifest.holes] == [
        (0, 1, "retention"),
        (3, 4, "retention"),
    ]


@pytest.mark.by_day("created again", why="a topic that was deleted is planned by a plain run by day")
@pytest.mark.parametrize("again", [True, False], ids=["created again", "deleted"])
def test_the_known_part_of_a_topic_that_is_gone_is_a_loss_and_the_rest_is_named_once(topics: Make, again: bool) -> None:
    t = topics()
    dataset, began = t.dataset(), datetime.now(UTC) - HOUR
    first_end = datetime.now(UTC) - timedelta(seconds=1)
    send_at(t, began + HOUR / 2, datetime.now(UTC))  # the second one belongs to what comes next
    first = run(t, dataset, Interval(start=began, end=first_end))
    assert first is not None
    assert first.published
    t.delete()
    if again:
        t.create()
        send_at(t, first_end)
    second_end = datetime.now(UTC)
    second = Interval(start=first_end, end=second_end)
    plan = t.plan(second)
    assert (0, 1, 2) in {(range_.topic_partition.partition, range_.start, range_.end) for range_ in plan.ranges}
    assert red_checks(run(t, dataset, second)) == {"nothing_lost", "topic_gone"}
    third = Interval(start=second_end, end=datetime.now(UTC))
    if again:
        assert t.plan(third).gone == [], "it is named once"
    else:
        with pytest.raises(UnknownTopicError):
            t.plan(third)


def test_a_topic_that_is_gone_is_planned_by_a_plain_run_and_then_it_is_not_there(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    dataset = t.dataset()
    first = run(t, dataset)
    assert first is not None
    assert first.published
    t.send([0.3])
    assert not plan_batch(t.lake, dataset, dry_run=True).empty
    t.delete()
    plan = t.plan()
    assert plan.gone
    assert ranges(plan) == {}, "a dry run keeps no look: nothing was seen of the third"
    done = run(t, dataset)
    assert red_checks(done) == {"topic_gone"}
    with pytest.raises(UnknownTopicError):
        t.plan()


def test_what_is_landed_is_finished_before_it_is_said_what_cannot_be_planned(topics: Make) -> None:
    t = topics()
    t.send([0.1, 0.2])
    dataset = t.dataset()
    plan = t.plan()
    t.land(plan)
    assert [pending.batch for pending in unfinished(t.lake, dataset)] == [plan.batch]
    t.delete()
    gone = t.plan()
    t.land(gone)
    found = plan_all(t.lake, dataset, [None], None, dry_run=False)
    assert [pending.batch for pending in found.begun] == [plan.batch, gone.batch]
    assert isinstance(found.error, UnknownTopicError)


def test_batches_of_a_topic_that_the_file_does_not_name_are_left_alone(topics: Make) -> None:
    wrong, right = topics(), topics()
    wrong.send([0.1] * 3)
    right.send([0.1] * 2)
    wrong.land(wrong.plan())
    dataset = right.dataset()
    assert unfinished(right.lake, dataset) == []
    done = run(right, dataset)
    assert done is not None
    assert done.published
    assert len(rows_of(right.lake, dataset)) == 2
    kept = right.dataset(source={"kafka": {"topics": list(right.names), "former_topics": list(wrong.names)}})
    assert [plan.topics for plan in landed_plans(right.lake, kept)] == [list(wrong.names), list(right.names)]
    assert [plan.topics for plan in landed_plans(right.lake, dataset)] == [list(right.names)]


def producer_of_open_transaction(t: Topics, hours: list[float]) -> Producer:
    settings: dict[str, Any] = {
        "bootstrap.servers": t.servers,
        "transactional.id": f"tx-{uuid.uuid4().hex}",
        "transaction.timeout.ms": 600_000,
        "log_level": 0,
    }
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for hour in hours:
        value = json.dumps({"id": uuid.uuid4().hex, "n": 1})
        producer.produce(t.names[0], value, partition=0, timestamp=int(at(hour).timestamp() * 1000))
    assert producer.flush(30) == 0
    return producer


def until_stable(t: Topics, end: int) -> None:
    """Wait until a transaction that was committed is seen to be: its producer has the answer before."""
    deadline = time.monotonic() + 30
    while set(LiveLogs(t.lake, t.dataset()).stable_ends.values()) != {end}:
        assert time.monotonic() < deadline


def test_an_interval_that_an_open_transaction_holds_back_is_not_planned_yet(topics: Make) -> None:
    t = topics()
    t.send([10.01, 10.02, 10.03])
    producer = producer_of_open_transaction(t, [10.1, 10.2])
    t.send([10.3, 11.5])
    with pytest.raises(HeldBackError, match=r"an open transaction .* holds back offset 3 and what follows"):
        t.plan(between(10, 11))
    producer.commit_transaction(30)
    until_stable(t, 8)
    assert ranges(t.plan(between(10, 11))) == {(t.names[0], 0): (0, 6)}, "three, two, and the one behind them"


def test_after_its_patience_an_interval_goes_on_and_is_complete_up_to_the_transaction(topics: Make) -> None:
    t = topics()
    t.send([10.01, 10.02])
    producer = producer_of_open_transaction(t, [10.1])
    t.send([10.3, 12.5])
    schedule = {"cron": "0 * * * *", "start": "2026-03-01T10:00:00Z", "patience": "0s"}
    dataset = t.dataset(schedule=schedule)
    done = run(t, dataset, between(10, 11))
    assert done is not None
    assert done.published
    assert "held_back" in warnings(done)
    through = complete(t)
    assert through is not None
    assert at(10) < through < at(11)
    producer.commit_transaction(30)
    until_stable(t, 6)
    done = run(t, dataset, between(11, 12))
    assert done is not None
    assert done.published
    assert complete(t) == at(12), "the next interval has what was held back"
    assert len(rows_of(t.lake, dataset)) == 4


def test_a_transaction_that_begins_after_an_interval_does_not_hold_it_back(topics: Make) -> None:
    t = topics()
    t.send([10.1])
    producer = producer_of_open_transaction(t, [11.2])
    assert ranges(t.plan(between(10, 11))) == {(t.names[0], 0): (0, 1)}
    producer.abort_transaction(30)


def test_an_interval_without_records_and_what_a_plain_run_brought_are_complete(topics: Make) -> None:
    t = topics()
    t.send([10.5, 12.5])
    dataset = t.dataset()
    for hour in (10, 11, 12):
        run(t, dataset, between(hour, hour + 1))
        assert complete(t) == at(hour + 1)
    t.send([13.5, 14.5])
    run(t, dataset)
    run(t, dataset, between(14, 15))
    assert complete(t) == at(15), "the hour before was never an interval, and has its record all the same"


def test_a_clock_that_runs_ahead_does_not_hold_back_the_records_of_others_twice(topics: Make) -> None:
    """A device is two hours ahead; others are right. Each cut takes what was seen before it."""
    t = topics()
    now = datetime.now(UTC).replace(microsecond=0)

    start, end = now - timedelta(seconds=3600), now - timedelta(seconds=1800)
    send_at(t, *(now - timedelta(seconds=seconds) for seconds in (3500, 1700, 3400)))  # the second one's clock is ahead
    first = t.plan(Interval(start=start, end=end))
    assert ranges(first) == {(t.names[0], 0): (0, 1)}
    assert list(first.held_back.values()) == [now - timedelta(seconds=3400)], "the third is behind the cut"
    second = t.plan(Interval(start=end, end=now - timedelta(seconds=1)))
    assert ranges(second) == {(t.names[0], 0): (1, 3)}
    assert second.held_back == {}


def test_the_groups_offset_never_passes_what_was_not_read(topics: Make) -> None:
    t = topics()
    t.send([0.1, 1.1, 2.1])
    from confluent_kafka import Consumer, TopicPartition

    from onefold.landing.live import LiveSource

    group = LiveSource(t.lake, t.dataset()).group

    def committed() -> int:
        consumer = Consumer({"bootstrap.servers": t.servers, "group.id": group, "log_level": 0})
        try:
            [found] = consumer.committed([TopicPartition(t.names[0], 0)], 30)
            return int(found.offset)
        finally:
            consumer.close()

    t.land(t.plan(between(2, 3)))
    assert committed() < 0, "two older records are not read yet"
    t.land(t.plan(between(0, 1)))
    assert committed() == 1
    t.land(t.plan(between(1, 2)))
    assert committed() == 3
