"""Producers that write down what they sent and which answers they got, on a line that fails: independent of Onefold."""

from __future__ import annotations

import contextlib
import json
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.record.memory_records import MemoryRecords

from sample import kcat
from sample.broker import HOST, Broker
from sample.proxy import END_TRANSACTION, LossyProxy

BATCH = 5
"""Records of one record batch."""
QUICKLY_MISSED = {"broker.session.timeout.ms": 2_000, "broker.heartbeat.interval.ms": 500}
"""A broker that was killed may come back once its cluster has missed it."""
_SECONDS = 60
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead")


@dataclass
class Line:
    """A broker, and the proxy that its clients go through."""

    broker: Broker
    proxy: LossyProxy

    @classmethod
    @contextlib.contextmanager
    def open(cls, log: Path, joins: Line | None = None, **settings: Any) -> Iterator[Line]:
        given = QUICKLY_MISSED | dotted(settings)
        other = joins.broker if joins else None
        with LossyProxy() as proxy, Broker(advertise=proxy.port, settings=given, joins=other, log=log) as broker:
            proxy.target = broker.behind
            yield cls(broker, proxy)

    def topic(self, name: str, partitions: int = 1, **more: Any) -> str:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(name, partitions, **more)])[name].result(_SECONDS)
        return name

    def sender(self, topic: str, **config: Any) -> Sender:
        return Sender(self, topic, config)

    def restart(self) -> None:
        """Start the killed broker again, on what it has."""
        self.broker.process.wait()
        self.broker.start()

    def kill(self) -> None:
        self.broker.process.kill()

    def copy(self, topics: Iterable[str], to: Path) -> Path:
        """The segments of topics of one partition, as they lie on the broker's disk."""
        assert self.broker._home
        for topic in topics:
            (to / f"{topic}-0").mkdir(parents=True)
            for segment in (self.broker._home / "data" / f"{topic}-0").glob("*.log"):
                shutil.copy(segment, to / f"{topic}-0")
        return to

    def transaction(self, name: str) -> str:
        """The last state of a transactional id in the log of its coordinator, as it lies on the disk.

        The name of `TransactionState` by its number: 17th byte of a TransactionLogValue, behind version (2 bytes),
        producer id (8), epoch (2) and timeout (4). The key is a version and the name.
        """
        found = ""
        for batch in self._batches("__transaction_state-0"):
            for record in batch:
                if record.key[4:] == name.encode() and record.value:
                    found = _STATES[record.value[16]]
        return found

    def markers(self, topic: str, partition: int) -> dict[int, tuple[int, bool, int]]:
        """The markers in a log, as they lie on the disk: by offset, whose transaction, whether committed, and by whom.

        That is a producer id, and the epoch of the coordinator that sent the marker.
        """
        return {
            record.offset: (batch.producer_id, record.key[2:] == b"\0\1", int.from_bytes(record.value[2:]))
            for batch in self._batches(f"{topic}-{partition}")
            if batch.is_control_batch
            for record in batch
        }

    def _batches(self, log: str) -> Iterator[Any]:
        assert self.broker._home
        for segment in sorted((self.broker._home / "data" / log).glob("*.log")):
            batches = MemoryRecords(segment.read_bytes())
            while batches.has_next():
                yield batches.next_batch()

    def read(self, topic: str, isolation: str, partition: int = 0) -> dict[int, str]:
        """What a consumer sees of a partition: message ids by offset."""
        config = {"bootstrap.servers": self.broker.bootstrap, "group.id": uuid.uuid4().hex, "log_level": 0}
        consumer = Consumer(config | {"isolation.level": isolation, "enable.partition.eof": True})
        consumer.assign([TopicPartition(topic, partition, 0)])
        found: dict[int, str] = {}
        while True:
            message = consumer.poll(_SECONDS)
            assert message is not None
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                consumer.close()
                return found
            found[_offset(message)] = id_of(message)

    def await_end_of_transactions(self, topic: str) -> None:
        """A marker is written some time after its transaction has ended: nothing is behind the last stable offset."""
        until(lambda: self.end(topic, "read_committed") >= self.end(topic, "read_uncommitted"))

    def end(self, topic: str, isolation: str, partition: int = 0) -> int:
        """Where a partition ends for a consumer."""
        config = {"bootstrap.servers": self.broker.bootstrap, "group.id": "end", "log_level": 0}
        consumer = Consumer(config | {"isolation.level": isolation})
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(topic, partition), _SECONDS)[1])
        finally:
            consumer.close()


@dataclass
class Sender:
    """A producer of one topic; each message has an id, the producer's name and its number as headers."""

    line: Line
    topic: str
    config: dict[str, Any]
    sent: list[str] = field(default_factory=list)
    """Message ids, in the order in which they were handed over."""
    acknowledged: dict[str, int] = field(default_factory=dict)
    """Offsets of what was acknowledged."""
    failed: list[str] = field(default_factory=list)
    """Message ids whose sending failed by the broker's answer: they are written or not."""
    named: str = ""

    def __post_init__(self) -> None:
        base = {"bootstrap.servers": f"{HOST}:{self.line.proxy.port}", "log_level": 0, "acks": "all"}
        base |= {"linger.ms": 100, "batch.num.messages": BATCH, "retry.backoff.ms": 50, "reconnect.backoff.ms": 20}
        self.producer = Producer(base | {"transaction.timeout.ms": 10_000} | dotted(self.config))
        if "transactional_id" in self.config:
            self.producer.init_transactions(_SECONDS)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def hand_over(self, ids: Iterable[str], partition: int = 0) -> None:
        """Messages that leave in batches, one behind the other."""
        for id_ in ids:
            headers: list[tuple[str, str | bytes | None]] = [("message-id", id_)]
            if self.named:
                headers += [("producer", self.named), ("sequence", str(len(self.sent)))]
            self.sent.append(id_)
            value = json.dumps({"id": id_})
            self.producer.produce(self.topic, value, partition=partition, headers=headers, on_delivery=self._hear)

    def send(self, ids: Iterable[str], partition: int = 0) -> None:
        self.hand_over(ids, partition)
        assert self.producer.flush(_SECONDS) == 0

    def commit(self, seconds: float = _SECONDS) -> bool:
        """Whether it heard that its transaction is committed."""
        try:
            self.producer.commit_transaction(seconds)
        except KafkaException:
            return False
        return True

    def abort(self, seconds: float = _SECONDS) -> bool:
        """Whether it heard that its transaction is aborted."""
        try:
            self.producer.abort_transaction(seconds)
        except KafkaException:
            return False
        return True

    def die(self) -> None:
        """End without a word, with whatever is under way."""
        del self.producer

    def _hear(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged[id_of(message)] = _offset(message)
        else:
            self.failed.append(id_of(message))


def until(condition: Callable[[], bool]) -> None:
    """Wait for what becomes true by itself, with a deadline."""
    deadline = time.monotonic() + _SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def dotted(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Kafka's names of settings that are given as keywords."""
    return {name.replace("_", "."): value for name, value in settings.items()}


def id_of(message: Message) -> str:
    value = message.value()
    assert value is not None
    return str(json.loads(value)["id"])


def _offset(message: Message) -> int:
    offset = message.offset()
    assert offset is not None
    return offset


def ids(case: str, count: int, start: int = 0) -> list[str]:
    return [f"{case}-{number:03d}" for number in range(start, start + count)]


# What is tried. Each leaves a topic, and the senders that wrote to it.


def lost_to_an_idempotent_one(line: Line) -> Sender:
    sender = line.sender(line.topic("idempotent"), enable_idempotence=True)
    line.proxy.lose(3)
    sender.send(ids("idempotent", 20))
    return sender


def lost_to_one_that_waits(line: Line) -> Sender:
    """Without idempotence, one request in flight: exactly the batch whose answer is lost is written again."""
    sender = line.sender(line.topic("waiting"), enable_idempotence=False, max_in_flight_requests_per_connection=1)
    line.proxy.lose(2)
    sender.send(ids("waiting", 20))
    return sender


def lost_with_many_in_flight(line: Line) -> Sender:
    sender = line.sender(line.topic("in-flight"), enable_idempotence=False, max_in_flight_requests_per_connection=5)
    sender.named = "till-1"
    line.proxy.lose(1)
    sender.send(ids("in-flight", 20))
    return sender


def still_on_its_way(line: Line, topic: str, **config: Any) -> Sender:
    """A request that its client gives up is held on the way; the repeat passes it, and it arrives behind all others."""
    sender = line.sender(line.topic(topic), socket_timeout_ms=1_000, max_in_flight_requests_per_connection=1, **config)
    line.proxy.hold(1)
    sender.send(ids(topic, 20))
    assert line.proxy.release(_SECONDS)
    return sender


def held_up(line: Line) -> Sender:
    return still_on_its_way(line, "held-up", enable_idempotence=False)


def held_up_of_an_idempotent_one(line: Line) -> Sender:
    return still_on_its_way(line, "held-up-idempotent", enable_idempotence=True)


def overtaken(line: Line) -> Sender:
    """One batch of several in flight is refused, and sent again behind those that were not."""
    sender = line.sender(line.topic("overtaken"), enable_idempotence=False, max_in_flight_requests_per_connection=5)
    sender.named = "till-2"
    sender.send(ids("overtaken", BATCH))
    line.proxy.spoil(1)
    sender.send(ids("overtaken", 3 * BATCH, BATCH))
    return sender


def overtaking_refused(line: Line) -> Sender:
    """The same, with idempotence."""
    sender = line.sender(line.topic("not-overtaken"), enable_idempotence=True)
    sender.send(ids("not-overtaken", BATCH))
    line.proxy.spoil(1)
    sender.send(ids("not-overtaken", 3 * BATCH, BATCH))
    return sender


def restarted(line: Line) -> tuple[Sender, Sender]:
    """The first dies before it hears that its messages are written; the second sends them again, and more."""
    first = line.sender(line.topic("restarted"), enable_idempotence=True)
    before = line.proxy.lost
    line.proxy.lose(1_000_000)
    first.hand_over(ids("restarted", 10))
    deadline = time.monotonic() + _SECONDS
    while line.proxy.lost == before:
        assert time.monotonic() < deadline
        first.producer.poll(0.01)
    first.die()
    line.proxy.lose(0)
    second = line.sender("restarted", enable_idempotence=True)
    second.send(ids("restarted", 15))
    return first, second


def fenced(line: Line) -> tuple[Sender, Sender]:
    """Two with one transactional.id: the second aborts what the first has open, and the first hears of it too late."""
    topic = line.topic("fenced")
    first = line.sender(topic, transactional_id="till")
    first.begin()
    first.send(ids("fenced", 10))
    second = line.sender(topic, transactional_id="till")
    second.begin()
    second.send(ids("fenced", 10))
    first.producer.produce(topic, json.dumps({"id": "zombie"}))
    with pytest.raises(KafkaException, match=r"fenced by a newer instance|old epoch"):
        first.producer.flush(_SECONDS)
    assert not first.commit()
    assert second.commit()
    second.begin()
    second.send(ids("fenced", 5, 10))
    assert second.commit()
    line.await_end_of_transactions(topic)
    return first, second


@dataclass(frozen=True, slots=True)
class Killed:
    """A transaction at whose end the broker was killed."""

    sender: Sender
    heard: bool
    """Whether its producer has heard that it is ended."""
    state: str
    """What the coordinator's log said of it while the broker was down."""


def killed(line: Line, name: str, *, commits: bool, answered: bool, survives: bool) -> Killed:
    """The broker is killed when it has got, or has answered, the request to commit or to abort; the answer is lost.

    A producer that survives goes on trying; one that does not leaves a successor, which ends what it finds.
    """
    sender = line.sender(line.topic(name), transactional_id=name)
    sender.begin()
    sender.send(ids(name, 10))
    line.proxy.lose(1, END_TRANSACTION)
    line.proxy.once(END_TRANSACTION, line.kill, answered=answered)
    heard, deadline = False, time.monotonic() + _SECONDS
    while line.broker.process.poll() is None:
        heard = sender.commit(1.0) if commits else sender.abort(1.0)
        assert not heard
        assert time.monotonic() < deadline
    line.broker.process.wait()
    state = line.transaction(name)
    if survives:
        line.restart()
        heard = sender.commit() if commits else sender.abort()
    else:
        sender.die()
        line.restart()
        line.sender(name, transactional_id=name)
    line.proxy.lose(0, END_TRANSACTION)
    line.await_end_of_transactions(name)
    return Killed(sender, heard, state)


def exported_by_a_group(line: Line, folder: Path) -> list[tuple[str, int, int]]:
    """Two members of a group export a topic; the second joins before the first has committed.

    Gives what they wrote: file, partition, offset.
    """
    topic = line.topic("rebalanced", partitions=2)
    producer = Producer({"bootstrap.servers": line.broker.bootstrap, "enable.idempotence": True, "log_level": 0})
    for number in range(40):
        id_ = f"rebalanced-{number:03d}"
        producer.produce(topic, json.dumps({"id": id_}), partition=number % 2, headers={"message-id": id_})
    assert producer.flush(_SECONDS) == 0
    written: list[tuple[str, int, int]] = []

    def export(name: str, messages: list[Message]) -> None:
        records = [_record(message) for message in messages]
        kcat.write(folder / f"{name}.jsonl", records)
        written.extend((name, record.partition, record.offset) for record in records)

    first = _member(line, topic)
    export("first-0", _some(first, 12))  # and dies before it commits: its successor begins where it began
    second = _member(line, topic)
    moved = {"first": 0, "second": 0}
    deadline = time.monotonic() + _SECONDS
    while not (len(first.assignment()) == len(second.assignment()) == 1):  # the rebalance: each now has a partition
        assert time.monotonic() < deadline
        for name, member in (("first", first), ("second", second)):
            if got := _some(member, 10, seconds=0.1):
                moved[name] += 1
                export(f"{name}-{moved[name]}", got)
    for name, member in (("first", first), ("second", second)):
        left = _some(member, 40, seconds=2)
        if left:
            export(f"{name}-last", left)
        member.close()
    return written


def _member(line: Line, topic: str) -> Consumer:
    config = {"bootstrap.servers": line.broker.bootstrap, "group.id": "export", "enable.auto.commit": False}
    consumer = Consumer(config | {"auto.offset.reset": "earliest", "log_level": 0, "heartbeat.interval.ms": 500})
    consumer.subscribe([topic])
    return consumer


def _some(consumer: Consumer, most: int, seconds: float = _SECONDS) -> list[Message]:
    return [message for message in consumer.consume(most, seconds) if not message.error()]


def _record(message: Message) -> kcat.Record:
    topic, partition, headers = message.topic(), message.partition(), message.headers() or []
    assert topic is not None
    assert partition is not None
    raw: Any = tuple(headers)
    return kcat.Record(topic, partition, _offset(message), message.timestamp()[1], 1, raw, None, message.value())
