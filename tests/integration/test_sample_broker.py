"""The shipped sample is what a real broker gives, and nothing else."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

import sample
from sample import connect, kcat, orders, page_views, payments, record
from sample.broker import Broker, BrokerNotStartedError
from sample.kcat import Record
from sample.produce import produce_stories
from sample.record import Recording, read_back
from sample.story import PARTITIONS, LostAcknowledgements, Step, Transaction

SHIPPED = Path(sample.__file__).parent
RECORDED = SHIPPED / "recorded" / "payments.entries.jsonl"


@pytest.fixture(scope="module")
def recording() -> Recording:
    """The story, played once more against a fresh broker."""
    return record.record()


@pytest.mark.kafka
def test_a_started_broker_gives_back_what_it_took(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic("broker.smoke", num_partitions=1)])["broker.smoke"].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    producer.produce("broker.smoke", value=b"hello")
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "smoke"})
    consumer.assign([TopicPartition("broker.smoke", 0, 0)])
    message = consumer.poll(30)
    consumer.close()
    assert message is not None
    assert (message.offset(), message.value()) == (0, b"hello")


@pytest.mark.kafka
def test_a_broker_that_cannot_start_shows_why() -> None:
    broker = Broker()
    host, port = broker.bootstrap.split(":")
    with (
        socket.create_server((host, int(port))),
        pytest.raises(BrokerNotStartedError, match="Address already in use"),
        broker,
    ):
        pass


@pytest.mark.kafka
def test_nothing_answers_after_the_broker_is_stopped() -> None:
    with Broker() as broker:
        process = broker.process
    assert process.returncode is not None
    with pytest.raises(KafkaException):
        AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0}).list_topics(timeout=1)


@pytest.mark.nightly
@pytest.mark.kafka
def test_recording_again_gives_the_shipped_bytes(recording: Recording, tmp_path: Path) -> None:
    # All of it is deterministic: one batch is in flight at a time, partitions and timestamps are
    # given, and the steps wait for each other's end offsets, markers included.
    record.write(recording, tmp_path)
    for folder in ("recorded", "exports/kcat"):
        assert contents(tmp_path / folder) == contents(SHIPPED / folder)


@pytest.mark.kafka
@pytest.mark.nightly(reason="test_holes and test_live_topics read aborted records by day")
def test_aborted_messages_are_absent_and_leave_holes(recording: Recording) -> None:
    aborted = [each for step in steps() if isinstance(step, Transaction) and not step.commit for each in step.messages]
    # what an application sent again after the abort has another timestamp
    known = {(each.headers, each.ts) for found in recording.records.values() for each in found}
    assert len(aborted) == 14
    assert not [each for each in aborted if (each.headers, each.ts) in known]
    markers = sum(
        len({(each.topic, each.partition) for each in step.messages})
        for step in steps()
        if isinstance(step, Transaction)
    )
    holes = sum(recording.ends["closing"][place] - len(found) for place, found in recording.records.items())
    assert holes == markers + len(aborted)


@pytest.mark.kafka
def test_lost_acknowledgements_are_real_duplicates(recording: Recording) -> None:
    times = {
        (each.topic, each.headers, each.ts): step.times + 1
        for step in steps()
        if isinstance(step, LostAcknowledgements)
        for each in step.messages
    }
    found = Counter((each.topic, each.headers, each.ts) for records in recording.records.values() for each in records)
    assert times
    assert {sent: found[sent] for sent in times} == times


def test_the_connect_export_is_the_recording_rewritten(tmp_path: Path) -> None:
    connect.rewrite(RECORDED, tmp_path / "connect")
    assert contents(tmp_path / "connect") == contents(SHIPPED / "exports" / "connect")


def test_the_connect_export_holds_every_record_that_has_a_key() -> None:
    values = Counter(each.value for each in kcat.read(RECORDED) if each.key is not None)
    exported: Counter[bytes | None] = Counter()
    seen: set[str] = set()
    for path in sorted((SHIPPED / "exports" / "connect").rglob("*.json")):
        if ".keys." in path.name or ".headers." in path.name:
            continue
        lines = [
            path.with_name(path.name.replace(".json", f"{view}.json")).read_bytes().split(b"\n")
            for view in ("", ".keys", ".headers")
        ]
        assert len({len(view) for view in lines}) == 1
        if path.name not in seen and path.name != "payments.entries+1+0000000038.json":
            exported.update(lines[0][:-1])
        seen.add(path.name)
    assert exported == values


def test_the_kcat_folders_hold_each_offset_with_one_content() -> None:
    contents_of: dict[tuple[int, int], set[bytes]] = {}
    ranges: list[tuple[int, int, int]] = []
    for path in sorted((SHIPPED / "exports" / "kcat").rglob("*.jsonl")):
        records = kcat.read(path)
        ranges.append((records[0].partition, records[0].offset, records[-1].offset + 1))
        for each in records:
            contents_of.setdefault((each.partition, each.offset), set()).add(kcat.line(each))
    assert {len(found) for found in contents_of.values()} == {1}
    for part in range(PARTITIONS):
        end = 0
        for _, first, last in sorted(each for each in ranges if each[0] == part):
            assert first <= end
            end = max(end, last)
        assert end > sum(1 for place in contents_of if place[0] == part)  # there are holes


def test_a_line_read_back_is_the_same_record() -> None:
    odd = Record("t", 1, 7, 5, 1, (("h", b"\x01"), ("n", None)), b'"\\\n', b"\xff\x7f/\xc3\xa9")
    text = kcat.line(odd)
    assert text == (
        b'{"topic":"t","partition":1,"offset":7,"tstype":"create","ts":5,"broker":1,'
        b'"headers":["h","\\u0001","n",null],"key":"\\"\\\\\\n","payload":"\xff\x7f/\xc3\xa9"}\n'
    )


def test_page_views_have_copies_and_no_holes_and_no_conflicts(tmp_path: Path) -> None:
    page_views.generate(tmp_path / "a", views=3_000)
    page_views.generate(tmp_path / "b", views=3_000)
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    records = [each for path in (tmp_path / "a").rglob("*.jsonl") for each in kcat.read(path)]
    places = {(each.partition, each.offset): each for each in records}
    for part in range(page_views.PARTITIONS):
        offsets = sorted(offset for of, offset in places if of == part)
        assert offsets == list(range(len(offsets)))
    assert len({each.value for each in records}) == 3_000
    assert len(records) > len(places) > 3_000
    assert 0.15 < 1 - 3_000 / len(records) < 0.20


def steps() -> Iterator[Step]:
    """All steps of the story."""
    for chapter in payments.story():
        yield from chapter.steps


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, by its relative name."""
    files = (each for each in sorted(folder.rglob("*")) if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in files}


@pytest.mark.nightly
@pytest.mark.kafka
def test_a_broker_that_is_there_is_filled_with_what_was_recorded(recording: Recording) -> None:
    """Offset for offset; and a second time nothing is added."""
    with Broker() as broker:
        assert produce_stories(broker.bootstrap) == [payments.ACCOUNTS, payments.ENTRIES, *orders.TOPICS]
        assert read_back(broker.bootstrap) == recording.records
        assert produce_stories(broker.bootstrap) == []
        assert read_back(broker.bootstrap) == recording.records
