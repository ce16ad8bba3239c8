"""Record the sample: run `sample.payments` on a real broker, and read it back as kcat would.

`python -m sample.record` writes `recorded/payments.entries.jsonl` and `exports/kcat/` next to this
file. `sample.connect` then rewrites the first.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from sample import kcat, payments
from sample.kcat import Record
from sample.stage import QUIET, SECONDS, Ends, stage
from sample.story import PARTITIONS

HERE = Path(__file__).parent
# One range of offsets per folder, named in the order in which the demo runs them.
FOLDERS = {
    "1-first": "first",
    "2-overlap": "second",
    "3-next": "next",
    "4-late": "late",
    "5-conflict": "closing",
}
OVERLAP = 12


@dataclass(frozen=True, slots=True)
class Recording:
    """The records that the consumer read, in the order of each partition, and the end of each chapter."""

    records: Mapping[tuple[str, int], list[Record]]
    ends: Mapping[str, Ends]

    def topic(self, name: str) -> list[Record]:
        """The records of one topic, partition by partition."""
        places = sorted(place for place in self.records if place[0] == name)
        return [each for place in places for each in self.records[place]]


def record() -> Recording:
    """Run the story on a local broker."""
    with stage((payments.ENTRIES, payments.ACCOUNTS)) as broker:
        ends = {chapter.name: broker.play(chapter) for chapter in payments.story()}
        return Recording(read_back(broker.bootstrap), ends)


def read_back(bootstrap: str) -> dict[tuple[str, int], list[Record]]:
    """All committed records of both topics, read by a new consumer."""
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
    """Write `recorded/` and `exports/kcat/` into a folder, and replace its content."""
    recorded, exports = folder / "recorded", folder / "exports" / "kcat"
    for old in (recorded, exports):
        shutil.rmtree(old, ignore_errors=True)
    kcat.write(recorded / f"{payments.ENTRIES}.jsonl", recording.topic(payments.ENTRIES))
    for name, records in kcat_files(recording).items():
        kcat.write(exports / name, records)


def kcat_files(recording: Recording) -> dict[str, list[Record]]:
    """The export of `payments.accounts`: a file for each partition of each folder.

    `2-overlap` begins before the end of `1-first`; its partition 1 is two files that also overlap.
    """
    files: dict[str, list[Record]] = {}
    chapters = list(recording.ends)
    for folder, chapter in FOLDERS.items():
        before = chapters[chapters.index(chapter) - 1] if chapter != chapters[0] else None
        for part in range(PARTITIONS):
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
