"""The stage: runs a story on a real broker, with real lost acknowledgements and transactions."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka import Message as Delivered
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from sample.broker import HOST, Broker
from sample.proxy import LossyProxy
from sample.story import PARTITIONS, Chapter, LostAcknowledgements, Message, Send, Transaction

SECONDS = 60
Config = dict[str, str | int | float | bool]
QUIET: Config = {"log_level": 0}
Ends = Mapping[tuple[str, int], int]


@contextmanager
def stage(topics: Sequence[str]) -> Iterator[Stage]:
    """A local broker with these topics, until the context ends."""
    with LossyProxy() as proxy, Broker(advertise=proxy.port) as broker:
        proxy.target = broker.behind
        made = Stage(broker.bootstrap, proxy, topics)
        made.create_topics()
        yield made


class Stage:
    """Runs the steps of the story, and knows the end offset of each partition."""

    def __init__(self, bootstrap: str, proxy: LossyProxy, topics: Sequence[str]) -> None:
        self.bootstrap = bootstrap
        self._proxy = proxy
        self._topics = topics
        self._admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        self._ends = {(topic, part): 0 for topic in topics for part in range(PARTITIONS)}

    def create_topics(self) -> None:
        """Topics that keep old timestamps and are never compacted."""
        config = {"retention.ms": "-1", "cleanup.policy": "delete"}
        for topic in self._topics:
            new = NewTopic(topic, num_partitions=PARTITIONS, config=config)
            self._admin.create_topics([new])[topic].result(SECONDS)

    def play(self, chapter: Chapter) -> Ends:
        """Run one chapter; return the end offset of each partition after it."""
        for step in chapter.steps:
            match step:
                case Send(messages):
                    self._send(messages)
                case LostAcknowledgements(messages, times):
                    self._send_losing(messages, times)
                case Transaction(messages, commit):
                    self._send_in_transaction(messages, commit)
            self._check_ends()
        return dict(self._ends)

    def _send(self, messages: Iterable[Message]) -> None:
        producer = self._producer({"enable.idempotence": True})
        produce(producer, messages)
        self._count(messages)

    def _send_losing(self, messages: tuple[Message, ...], times: int) -> None:
        producer = self._producer(
            {
                "bootstrap.servers": f"{HOST}:{self._proxy.port}",
                "enable.idempotence": False,
                "acks": "all",
                "retries": 20,
                "max.in.flight.requests.per.connection": 1,
                "linger.ms": 300,  # one batch
                "retry.backoff.ms": 50,
                "reconnect.backoff.ms": 20,
            }
        )
        lost = self._proxy.lost
        self._proxy.lose(times)
        produce(producer, messages)
        if self._proxy.lost != lost + times:
            raise RuntimeError(f"{self._proxy.lost - lost} acknowledgements were lost, not {times}")
        for _ in range(times + 1):
            self._count(messages)

    def _send_in_transaction(self, messages: tuple[Message, ...], commit: bool) -> None:
        producer = self._producer({"transactional.id": "sample"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        produce(producer, messages)  # flushed, so that aborted records are in the log
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
        self._count(messages)
        for place in {(each.topic, each.partition) for each in messages}:
            self._ends[place] += 1  # the marker

    def _producer(self, config: Config) -> Producer:
        return Producer({**QUIET, "bootstrap.servers": self.bootstrap, "linger.ms": 20, **config})

    def _count(self, messages: Iterable[Message]) -> None:
        for each in messages:
            self._ends[each.topic, each.partition] += 1

    def _check_ends(self) -> None:
        """Wait until the markers are written (a commit returns earlier), and compare the ends."""
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]
        asked = {TopicPartition(*place): latest for place in self._ends}
        found: dict[tuple[str, int], int] = {}
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline:
            answers = self._admin.list_offsets(
                asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=SECONDS
            )
            found = {(place.topic, place.partition): future.result(SECONDS).offset for place, future in answers.items()}
            if found == self._ends:
                return
            if any(found[place] > end for place, end in self._ends.items()):
                break
        raise RuntimeError(f"the log ends at {found}, the story at {self._ends}")


def produce(producer: Producer, messages: Iterable[Message]) -> None:
    """Send messages with their own partitions and timestamps; all are acknowledged on return."""
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Delivered) -> None:
        if error is not None:
            errors.append(error)

    for each in messages:
        producer.produce(
            each.topic,
            value=each.value,
            key=each.key,
            partition=each.partition,
            timestamp=each.ts,
            headers=list(each.headers),
            on_delivery=delivered,
        )
    left = producer.flush(SECONDS)
    if errors or left:
        raise RuntimeError(f"{left} messages were not sent; errors: {errors}")
