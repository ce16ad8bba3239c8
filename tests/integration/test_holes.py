"""What a live landing does not hold, on a real broker: each missing offset has the kind of what was written there.

Without Spark: `logs.read` asks an independent consumer, and returns the offsets that it saw.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

from onefold import lake_keys
from onefold.errors import LandingInterruptedError
from onefold.kafka.raw_log import Answer, RawLog
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.earlier_landings import EarlierLanding
from onefold.landing.live import LiveSource
from onefold.landing.manifest import Manifest
from onefold.offsets import Range
from sample.broker import Broker
from tests.support.logs import Client, end_of, kinds, read, read_offsets, wait_for_end
from tests.support.topics import Topics

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(broker: Broker, lake: Lake) -> Callable[..., Topics]:
    """Makes a topic of its own."""

    def make(**config: str) -> Topics:
        made = Topics.on(broker.bootstrap, lake, cast(Any, None), f"holes-{uuid.uuid4().hex[:8]}")
        made.create(**config)
        return made

    return make


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes of each raw fetch."""
    counted: list[int] = []
    fetch = RawLog.fetch

    def counting(self: RawLog, *where: Any) -> Answer:
        answer = fetch(self, *where)
        counted.append(len(answer.records))
        return answer

    monkeypatch.setattr(RawLog, "fetch", counting)
    return counted


def test_markers_and_aborted_records_of_interleaved_producers_are_reported(topic: Callable[..., Topics]) -> None:
    t = topic()
    plain = Client(t, enable_idempotence=True, compression_type="snappy")
    codecs = ["none", "lz4", "zstd", "gzip"]
    transactions = [Client.in_transaction(t, compression_type=codec) for codec in codecs]
    aborted, markers = set[int](), 0
    for round_ in range(4):
        for number, client in enumerate(transactions):
            client.send("abc")
            plain.send("de")
            client.send("f")
            if (round_ + number) % 2:
                commit = (round_ // 2 + number) % 2 == 0
                before = end_of(t)
                client.end(commit=commit)
                wait_for_end(t, before + 1)
                markers += 1
                aborted |= set() if commit else client.offsets
                client.offsets = set()
                client.producer.begin_transaction()
    for client in transactions:  # some are open and written to, some are not
        before = end_of(t)
        written = bool(client.offsets)
        client.end(commit=True)
        wait_for_end(t, before + written)
        markers += written
    there, end = read_offsets(t), end_of(t)
    manifest = t.land(t.plan(), read(t))
    assert manifest.examined
    by_offset = kinds(manifest.holes)
    assert set(by_offset) == set(range(end)) - there
    assert {offset for offset, kind in by_offset.items() if kind == "aborted"} == aborted
    assert Counter(by_offset.values()) == {"control": markers, "aborted": len(aborted)}
    assert aborted
    assert markers > 8
    assert manifest.notes == []


def compacted(t: Topics, keep: int) -> set[int]:
    """Wait until the cleaner has left so many records at most."""
    deadline = time.monotonic() + 60
    while len(there := read_offsets(t)) > keep:
        assert time.monotonic() < deadline, f"{len(there)} records are still there"
    return there


def test_compacted_records_are_reported_only_where_a_topic_is_known_to_be_cleaned(
    topic: Callable[..., Topics],
) -> None:
    t = topic(
        **{
            "cleanup.policy": "compact",
            "segment.ms": "1",
            "min.cleanable.dirty.ratio": "0.0",
            "min.compaction.lag.ms": "0",
        }
    )
    client = Client(t)
    client.send("aabbcc")  # three of one batch stay behind: places within
    client.send("xy")  # and nothing of this one: places between batches
    client.send("xyz")
    time.sleep(0.01)  # a segment is rolled by a record that comes later
    client.send("w")
    there = compacted(t, 7)
    assert there == {1, 3, 5, 8, 9, 10, 11}
    # What follows is in the segment that is written to, and no cleaner touches it.
    begun = end_of(t)
    transaction = Client.in_transaction(t)
    gone = transaction.send("pq")
    transaction.end(commit=False)
    wait_for_end(t, begun + 3)
    plan = t.plan()
    manifest = t.land(plan, read(t))
    by_offset = kinds(manifest.holes)
    assert {offset for offset, kind in by_offset.items() if kind == "aborted"} == gone
    assert {offset for offset, kind in by_offset.items() if kind == "control"} == {max(gone) + 1}
    assert {offset for offset, kind in by_offset.items() if kind == "compacted"} == set(range(begun)) - there
    assert manifest.notes == []

    name = t.names[0]
    policy = ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[policy])
    t.admin.incremental_alter_configs([asked])[asked].result(30)
    again = LiveSource(t.lake, t.dataset(), read(t)).land(plan, plan.batch, "again")
    by_offset = kinds(again.holes)
    within = {offset for offset, kind in by_offset.items() if kind == "compacted"}
    between = {offset for offset, kind in by_offset.items() if kind == "log_gap"}
    assert within | between == set(range(begun)) - there
    assert {0, 2, 4} <= within, "a gap in a batch is the cleaner's, whatever the topic's policy is now"
    assert {6, 7} <= between
    [note] = again.notes
    assert note == (
        f"{len(between)} offsets (the first: {name}, partition 0, offset 6) are holes without evidence (log_gap): "
        f"the log of {name} goes on behind them, and its cleanup.policy is delete, which leaves no gaps"
    )


def test_where_a_tombstone_may_be_gone_the_landing_says_so_and_keeps_the_setting(topic: Callable[..., Topics]) -> None:
    """Compacted holes are aged where what follows them, and an earlier landing, are older than the topic keeps a
    tombstone. Nothing is aged where it keeps tombstones for longer."""
    t = topic(
        **{
            "cleanup.policy": "compact",
            "delete.retention.ms": "50",
            "segment.ms": "1",
            "min.cleanable.dirty.ratio": "0.0",
            "min.compaction.lag.ms": "0",
        }
    )
    client = Client(t)
    client.send("ab")
    first = t.land(t.plan(), read(t))
    assert (first.aged, first.topics) == ([], {}), "nothing is missing, and nothing is asked"
    begun = end_of(t)
    client.send("aabb")
    time.sleep(0.01)  # a segment is rolled by a record that comes later
    client.send("w")
    deadline = time.monotonic() + 60
    while read_offsets(t) & {begun, begun + 2}:
        assert time.monotonic() < deadline, "the broker has not compacted the log"
    time.sleep(0.1)  # longer than delete.retention.ms
    plan = t.plan()
    landed = LiveSource(t.lake, t.dataset(), read(t)).land(plan, plan.batch, "later")
    missing = {offset for offset, kind in kinds(landed.holes).items() if kind == "compacted"}
    assert missing >= {begun, begun + 2}
    assert {offset for range_ in landed.aged for offset in range(range_.start, range_.end)} == missing
    assert landed.topics == {t.names[0]: {"cleanup.policy": "compact", "delete.retention.ms": "50"}}
    longer = ConfigEntry("delete.retention.ms", "86400000", incremental_operation=AlterConfigOpType.SET)
    asked = ConfigResource(ConfigResource.Type.TOPIC, t.names[0], incremental_configs=[longer])
    t.admin.incremental_alter_configs([asked])[asked].result(30)
    again = LiveSource(t.lake, t.dataset(), read(t)).land(plan, plan.batch, "again")
    assert (again.aged, again.topics[t.names[0]]["delete.retention.ms"]) == ([], "86400000")


def test_a_thousand_markers_cost_a_few_fetches(topic: Callable[..., Topics], fetches: list[int]) -> None:
    t = topic()
    clients = [Client.in_transaction(t, linger_ms=0) for _ in range(4)]

    def commit_often(client: Client) -> None:
        for number in range(250):
            client.producer.begin_transaction() if number else None
            client.producer.produce(t.names[0], b"v", partition=0)
            client.producer.commit_transaction(30)

    threads = [threading.Thread(target=commit_often, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for_end(t, 2_000)
    manifest = t.land(t.plan(), read(t))
    assert Counter(kinds(manifest.holes).values()) == {"control": 1_000}
    assert len(fetches) <= 3


def test_a_landing_without_holes_fetches_nothing(topic: Callable[..., Topics], fetches: list[int]) -> None:
    t = topic()
    Client(t).send("abc")
    assert t.land(t.plan(), read(t)).holes == []
    assert fetches == []


@pytest.mark.parametrize("stolen", [{0}, {3, 4}, {9}], ids=["the first", "of a transaction", "the last"])
def test_a_read_that_loses_a_record_lands_nothing_and_an_honest_one_does(
    topic: Callable[..., Topics], stolen: set[int]
) -> None:
    """L2: a record that the log holds, and the landing does not, is no hole."""
    t = topic()
    Client(t).send("abc")
    transaction = Client.in_transaction(t)
    transaction.send("defg")
    transaction.end(commit=True)
    wait_for_end(t, 8)
    Client(t).send("hi")
    plan = t.plan()
    wanted = rf"did not give {len(stolen)} offsets? \(the first: {t.names[0]}, partition 0, offset {min(stolen)}\)"
    with pytest.raises(LandingInterruptedError, match=wanted):
        t.land(plan, read(t, without=stolen))
    assert t.lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest) is None
    assert kinds(t.land(plan, read(t)).holes) == {7: "control"}


def test_what_another_landing_saw_to_be_no_record_is_no_loss_where_the_log_is_gone(
    topic: Callable[..., Topics],
) -> None:
    """A plan that comes after retention reads another landing, whose markers are markers there, too."""
    t = topic()
    transaction = Client.in_transaction(t)
    transaction.send("ab")
    transaction.end(commit=False)
    wait_for_end(t, 3)
    Client(t).send("cd")
    first = t.plan()
    holes = t.land(first, read(t)).holes
    assert kinds(holes) == {0: "aborted", 1: "aborted", 2: "control"}
    t.expire(before=4)
    [range_] = first.ranges

    def read_again(_: list[OffsetRange], earlier: list[EarlierLanding], *__: object) -> dict[str, list[Range]]:
        [other] = earlier
        assert [(range_.start, range_.end) for range_ in other.ranges] == [(3, 4)]
        return {range_.topic_partition.key: there}

    there = [(3, 5)]
    landed = LiveSource(t.lake, t.dataset(), read_again).land(first, first.batch, "again")
    assert kinds(landed.holes) == kinds(holes)
    there = [(4, 5)]
    with pytest.raises(LandingInterruptedError, match=r"did not give 1 offset .*offset 3"):
        LiveSource(t.lake, t.dataset(), read_again).land(first, first.batch, "and again")
