"""Record the sample: play `sample.payments` against a real broker, and read it back as kcat would.

`python -m sample.record` writes `recorded/payments.entries.jsonl` and `exports/kcat/` beside this
file. `sample.connect` then rewrites the first.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec  # type: ignore[attr-defined]

from sample import kcat, payments
from sample.broker import HOST, Broker
from sample.kcat import Record
from sample.proxy import LossyProxy

HERE = Path(__file__).parent
SECONDS = 60
# One range of offsets a folder, named in the order in which the demo runs them.
FOLDERS = {
    "1-first": "first",
    "2-overlap": "second",
    "3-next": "next",
    "4-late": "late",
    "5-conflict": "closing",
}
OVERLAP = 12
Config = dict[str, str | int | float | bool]
QUIET: Config = {"log_level": 0}

Ends = Mapping[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class Recording:
    """What the consumer read, in the order of each partition, and where each chapter ends."""

    records: Mapping[tuple[str, int], list[Record]]
    ends: Mapping[str, Ends]

    def topic(self, name: str) -> list[Record]:
        """The records of one topic, partition by partition."""
        places = sorted(place for place in self.records if place[0] == name)
        return [each for place in places for each in self.records[place]]


def record() -> Recording:
    """Play the story against a broker of its own."""
    with LossyProxy() as proxy, Broker(advertise=proxy.port) as broker:
        proxy.target = broker.behind
        stage = Stage(broker.bootstrap, proxy)
        stage.create_topics()
        ends = {chapter.name: stage.play(chapter) for chapter in payments.story()}
        return Recording(read_back(broker.bootstrap), ends)


class Stage:
    """Plays the steps of the story, and knows at which offset each partition must end."""

    def __init__(self, bootstrap: str, proxy: LossyProxy) -> None:
        self._bootstrap = bootstrap
        self._proxy = proxy
        self._admin = AdminClient({**QUIET, "bootstrap.servers": bootstrap})
        topics = (payments.ENTRIES, payments.ACCOUNTS)
        self._ends = {(topic, part): 0 for topic in topics for part in range(payments.PARTITIONS)}

    def create_topics(self) -> None:
        """Two topics that keep old timestamps and are never compacted."""
        config = {"retention.ms": "-1", "cleanup.policy": "delete"}
        for topic in (payments.ENTRIES, payments.ACCOUNTS):
            new = NewTopic(topic, num_partitions=payments.PARTITIONS, config=config)
            self._admin.create_topics([new])[topic].result(SECONDS)

    def play(self, chapter: payments.Chapter) -> Ends:
        """Play one chapter; the end offset of each partition after it."""
        for step in chapter.steps:
            match step:
                case payments.Send(messages):
                    self._send(messages)
                case payments.LostAcknowledgements(messages, times):
                    self._send_losing(messages, times)
                case payments.Transaction(messages, commit):
                    self._send_in_transaction(messages, commit)
            self._check_ends()
        return dict(self._ends)

    def _send(self, messages: Iterable[payments.Message]) -> None:
        producer = self._producer({"enable.idempotence": True})
        produce(producer, messages)
        self._count(messages)

    def _send_losing(self, messages: tuple[payments.Message, ...], times: int) -> None:
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

    def _send_in_transaction(self, messages: tuple[payments.Message, ...], commit: bool) -> None:
        producer = self._producer({"transactional.id": "sample"})
        producer.init_transactions(SECONDS)
        producer.begin_transaction()
        produce(producer, messages)  # flushed: what is aborted is in the log all the same
        if commit:
            producer.commit_transaction(SECONDS)
        else:
            producer.abort_transaction(SECONDS)
        self._count(messages)
        for place in {(each.topic, each.partition) for each in messages}:
            self._ends[place] += 1  # the marker

    def _producer(self, config: Config) -> Producer:
        return Producer({**QUIET, "bootstrap.servers": self._bootstrap, "linger.ms": 20, **config})

    def _count(self, messages: Iterable[payments.Message]) -> None:
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


def produce(producer: Producer, messages: Iterable[payments.Message]) -> None:
    """Send messages with their own partitions and timestamps; all are acknowledged on return."""
    errors: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
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


def read_back(bootstrap: str) -> dict[tuple[str, int], list[Record]]:
    """All committed records of both topics, read by a consumer of its own."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "sample-record",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
        | QUIET
    )
    topics = (payments.ENTRIES, payments.ACCOUNTS)
    known = consumer.list_topics(timeout=SECONDS).topics
    leaders = {
        (topic, part): about.leader for topic in topics for part, about in sorted(known[topic].partitions.items())
    }
    places = list(leaders)
    consumer.assign([TopicPartition(topic, part, 0) for topic, part in places])
    records: dict[tuple[str, int], list[Record]] = {place: [] for place in places}
    reading = set(places)
    while reading:
        message = consumer.poll(SECONDS)
        if message is None:
            raise RuntimeError(f"nothing was read in {SECONDS} s; not at the end of {reading}")
        error = message.error()
        place = _place(message)
        if error is None:
            records[place].append(_record(message, leaders[place]))
        elif error.code() == KafkaError._PARTITION_EOF:
            reading.discard(place)
        else:
            raise KafkaException(error)
    consumer.close()
    return records


def _place(message: Message) -> tuple[str, int]:
    topic, part = message.topic(), message.partition()
    if topic is None or part is None:
        raise RuntimeError("a message came without topic and partition")
    return topic, part


def _record(message: Message, broker: int) -> Record:
    topic, part = _place(message)
    offset = message.offset()
    headers = cast("list[tuple[str, bytes | None]] | None", message.headers())
    kind, ts = message.timestamp()
    if offset is None or kind != TIMESTAMP_CREATE_TIME:
        raise RuntimeError(f"offset {offset}, timestamp type {kind}: not as the producer sent it")
    return Record(
        topic=topic,
        partition=part,
        offset=offset,
        ts=ts,
        broker=broker,
        headers=tuple(headers or ()),
        key=message.key(),
        value=message.value(),
    )


def write(recording: Recording, folder: Path) -> None:
    """Write `recorded/` and `exports/kcat/` into a folder, in place of what was there."""
    recorded, exports = folder / "recorded", folder / "exports" / "kcat"
    for old in (recorded, exports):
        shutil.rmtree(old, ignore_errors=True)
    kcat.write(recorded / f"{payments.ENTRIES}.jsonl", recording.topic(payments.ENTRIES))
    for name, records in kcat_files(recording).items():
        kcat.write(exports / name, records)


def kcat_files(recording: Recording) -> dict[str, list[Record]]:
    """The export of `payments.accounts`: a file for each partition of each folder.

    `2-overlap` begins before the end of `1-first`; its partition 1 is two files that overlap too.
    """
    files: dict[str, list[Record]] = {}
    chapters = list(recording.ends)
    for folder, chapter in FOLDERS.items():
        before = chapters[chapters.index(chapter) - 1] if chapter != chapters[0] else None
        for part in range(payments.PARTITIONS):
            place = (payments.ACCOUNTS, part)
            start = recording.ends[before][place] if before else 0
            end = recording.ends[chapter][place]
            offsets = {each.offset for each in recording.records[place]}
            if not {start, end - 1} <= offsets:
                raise RuntimeError(f"{folder} of partition {part} begins or ends with a hole")
            ranges = [(start, end)]
            if folder == "2-overlap":
                start -= OVERLAP
                middle = (start + end) // 2
                ranges = [(start, end)] if part == 0 else [(start, middle + 5), (middle, end)]
            for first, last in ranges:
                name = f"{folder}/{payments.ACCOUNTS}-{part}-{first:06}.jsonl"
                found = recording.records[place]
                files[name] = [each for each in found if first <= each.offset < last]
    return files


def main() -> int:
    """Record, and write into the sample's own folder."""
    recording = record()
    write(recording, HERE)
    for (topic, part), found in recording.records.items():
        end = found[-1].offset + 1
        print(f"{topic} [{part}]: {len(found)} records, {end - len(found)} holes below {end}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
