"""Segments that a real broker wrote: every offset of the log, with the fate that the broker's own index tells.

The oracles are a consumer of another library (with and without uncommitted records) and the broker's `.txnindex`.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import struct
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.offsets import minus, size
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.records import envelope as E
from onefold.records.read import count_landed, read_records
from onefold.report.ledger import offsets_of, rows_of
from onefold.vocabulary import LogStatus
from sample.broker import Broker

pytestmark = pytest.mark.kafka

AT = 1_772_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Log:
    """A topic of one partition whose segments are small, and copies of its folder."""

    def __init__(self, broker: Broker, **config: str) -> None:
        self.broker, self.name = broker, f"log-{uuid.uuid4().hex[:8]}"
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        keep = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}
        topic = NewTopic(self.name, 1, 1, config=keep | config)
        self.admin.create_topics([topic])[self.name].result(30)
        self.sent = self.ended = 0
        self.ongoing: list[Producer] = []

    def end_transaction(self, producer: Producer, *, commit: bool) -> None:
        (producer.commit_transaction if commit else producer.abort_transaction)(30)
        self.ended += 1

    def await_markers(self) -> None:
        """A marker is written some time after its transaction has ended."""
        deadline = time.monotonic() + 30
        while self.end() < self.sent + self.ended:
            assert time.monotonic() < deadline

    def producer(self, codec: str = "none", *, transactional: bool = False) -> Producer:
        config = {"bootstrap.servers": self.broker.bootstrap, "compression.type": codec, "linger.ms": 5, "log_level": 0}
        if not transactional:
            return Producer(config)
        own = {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": 900_000}  # open while Spark folds
        producer = Producer(config | own)
        producer.init_transactions(30)
        return producer

    def send(self, producer: Producer, count: int) -> None:
        for _ in range(count):
            n = self.sent = self.sent + 1
            value = json.dumps({"id": f"id-{n}", "pad": "x" * (n % 90)}).encode() if n % 17 else None
            headers = [("n", str(n).encode()), ("none", None), ("raw", b"\xff\xfe")] if n % 3 == 0 else []
            key = f"k-{n}".encode() if n % 5 else None
            producer.produce(self.name, value, key, 0, timestamp=AT + n * 7 % 1000, headers=headers)
        assert producer.flush(30) == 0

    def copy(self, to: Path) -> list[Path]:
        """The folder as it is on the broker's disk; its segments. Copied again where the cleaner came between."""
        assert self.broker._home
        folder = self.broker._home / "data" / f"{self.name}-0"
        copied, deadline = to / folder.name, time.monotonic() + 60
        while True:
            before = {path.name: path.stat().st_ino for path in folder.glob("*.log")}
            with contextlib.suppress(shutil.Error, FileNotFoundError):
                shutil.copytree(folder, copied)
                if before == {path.name: path.stat().st_ino for path in folder.glob("*.log")}:
                    return sorted(copied.glob("*.log"))
            assert time.monotonic() < deadline, "the folder changes all the time"
            shutil.rmtree(copied, ignore_errors=True)
            time.sleep(1)

    def read(self, isolation: str) -> dict[int, tuple[Any, ...]]:
        """What a consumer sees: offset to key, value, timestamp and headers."""
        config = {"bootstrap.servers": self.broker.bootstrap, "group.id": uuid.uuid4().hex, "log_level": 0}
        config |= {"isolation.level": isolation, "enable.partition.eof": "true", "enable.auto.commit": "false"}
        consumer = Consumer(config)
        consumer.assign([TopicPartition(self.name, 0, 0)])
        found: dict[int, tuple[Any, ...]] = {}
        while True:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF
                consumer.close()
                return found
            found[message.offset()] = (message.key(), message.value(), message.timestamp()[1], message.headers() or [])

    def end(self) -> int:
        config = {"bootstrap.servers": self.broker.bootstrap, "group.id": "end", "log_level": 0}
        consumer = Consumer(config | {"isolation.level": "read_uncommitted"})  # else it is the last stable offset
        try:
            return int(consumer.get_watermark_offsets(TopicPartition(self.name, 0), 30)[1])
        finally:
            consumer.close()


def aborted_by_the_broker(segments: list[Path]) -> set[tuple[int, int, int]]:
    """(producer id, first offset, last offset) of its `.txnindex`: version, producer, first, last, stable."""
    found = set()
    for segment in segments:
        data = segment.with_suffix(".txnindex").read_bytes() if segment.with_suffix(".txnindex").exists() else b""
        found |= {(entry[1], entry[2], entry[3]) for entry in struct.iter_unpack(">hqqqq", data)}
    return found


@pytest.fixture
def things(dataset: Callable[..., Dataset]) -> Callable[..., Dataset]:
    def make(holes: str = "none") -> Dataset:
        origin = {"cluster": "c", "incarnation": 1}
        exports = {"path": "exports", "layout": "segments", "origin": origin, "holes": holes}
        fields = {"id": "string", "pad": "string"}
        newest = {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}}
        mode = {"apply": newest} if holes == "compacted" else {"identity": {"message_id": "id"}}
        return dataset("things", source={"exports": exports}, value={"fields": fields}, **mode)

    return make


def written(log: Log) -> None:
    """Transactions committed, aborted, interleaved and left open, between plain records, in every codec."""
    draw = random.Random(7)
    producers = [log.producer(codec, transactional=True) for codec in CODECS]
    for _ in range(60):
        producer = draw.choice(producers)
        if producer not in log.ongoing:
            producer.begin_transaction()
            log.ongoing.append(producer)
        log.send(producer, draw.randrange(1, 12))
        log.send(log.producer(draw.choice(CODECS)), draw.randrange(0, 4))
        if draw.random() < 0.5:
            log.end_transaction(producer, commit=draw.random() < 0.5)
            log.ongoing.remove(producer)
    assert log.ongoing
    log.await_markers()


def test_every_offset_is_read_with_its_fate(
    broker: Broker, lake: Lake, session: SparkSession, things: Callable[..., Dataset], tmp_path: Path
) -> None:
    """L2 and the oracles: all offsets; a consumer's records; the broker's aborted transactions."""
    log = Log(broker, **{"internal.segment.bytes": "4096"})
    written(log)
    segments = log.copy(tmp_path / "export")
    assert len(segments) > 8
    mine = things()
    manifest = land_batch(lake, mine, plan_batch(lake, mine, export=str(tmp_path / "export")).batch)
    rows = read_records(session, lake, mine, manifest).collect()
    assert sorted(row[E.OFFSET] for row in rows) == list(range(log.end()))
    assert count_landed(session, lake, mine, manifest) == log.end()
    by_fate: dict[Any, dict[int, tuple[Any, ...]]] = {}
    for row in rows:
        headers = [(pair.key, None if pair.value is None else bytes(pair.value)) for pair in row[E.HEADERS]]
        key, value = (None if data is None else bytes(data) for data in (row[E.KEY_BYTES], row[E.VALUE_BYTES]))
        by_fate.setdefault(row[E.FATE], {})[row[E.OFFSET]] = (key, value, row[E.TIMESTAMP], headers)
    assert set(by_fate) == {None, LogStatus.ABORTED, LogStatus.CONTROL, LogStatus.OPEN}
    everything = {
        offset: row for fate, found in by_fate.items() if fate != LogStatus.CONTROL for offset, row in found.items()
    }
    assert everything == log.read("read_uncommitted")
    committed = log.read("read_committed")
    stable = min(by_fate[LogStatus.OPEN])
    assert committed == {offset: row for offset, row in by_fate[None].items() if offset < stable}
    assert max(committed) < stable < log.end()
    [transactions] = manifest.transactions
    aborted = {row[E.OFFSET] for row in rows if row[E.FATE] == LogStatus.ABORTED}
    entries = aborted_by_the_broker(segments)
    of_the_broker = {
        row[E.OFFSET]
        for row in rows
        for producer, first, last in entries
        if row[E.PRODUCER_ID] == producer and first <= row[E.OFFSET] <= last and row[E.FATE] != LogStatus.CONTROL
    }
    assert len(entries) >= 5
    assert aborted == of_the_broker
    assert size((start, end) for _, start, end in transactions.open) >= len(by_fate[LogStatus.OPEN])
    sequences: dict[Any, list[int]] = {}
    for row in sorted(rows, key=lambda row: row[E.OFFSET]):
        if row[E.PRODUCER_ID] is not None and row[E.FATE] != LogStatus.CONTROL:
            sequences.setdefault((row[E.PRODUCER_ID], row[E.PRODUCER_EPOCH]), []).append(row[E.SEQUENCE])
    assert all(found == list(range(len(found))) for found in sequences.values()), "the broker lets no other in"


def test_the_log_folded_in_pieces_is_the_log_folded_at_once(
    broker: Broker, lake: Lake, session: SparkSession, things: Callable[..., Dataset], tmp_path: Path
) -> None:
    """L1: the active segment grows between batches, and what was open is decided."""
    log = Log(broker, **{"internal.segment.bytes": "6000", "message.timestamp.type": "LogAppendTime"})
    written(log)
    log.copy(tmp_path / "first")
    mine = things()
    first = run_batch(lake, mine, plan_batch(lake, mine, export=str(tmp_path / "first")), InSession(lake, session))
    assert first.red is None
    before = len(rows_of(lake, mine))
    for producer in log.ongoing:
        log.end_transaction(producer, commit=True)
    log.await_markers()
    log.send(log.producer("lz4"), 40)
    log.copy(tmp_path / "second")
    for segment in sorted((tmp_path / "second").rglob("*.log"))[:-2]:  # retention took them on the way
        segment.unlink()
    second = run_batch(lake, mine, plan_batch(lake, mine, export=str(tmp_path / "second")), InSession(lake, session))
    assert second.red is None
    seen = log.read("read_committed")
    wanted = sorted(json.loads(value)["id"] for _, value, _, _ in seen.values() if value)
    assert sorted(row["id"] for row in rows_of(lake, mine)) == wanted
    assert before < len(wanted)
    [row] = offsets_of(lake, mine)
    rejected = [(offset, offset + 1) for offset, (_, value, _, _) in seen.items() if value is None]
    assert [tuple(range_) for range_ in row["covered"]] == minus([(0, log.end())], rejected)


def test_a_log_that_compaction_went_over_is_read_as_it_left_it(
    broker: Broker, lake: Lake, session: SparkSession, things: Callable[..., Dataset], tmp_path: Path
) -> None:
    settings = {"cleanup.policy": "compact", "internal.segment.bytes": "3000", "min.cleanable.dirty.ratio": "0.01"}
    log = Log(broker, **settings, **{"min.compaction.lag.ms": "0", "segment.ms": "500", "delete.retention.ms": "0"})
    producer, aborted = log.producer("lz4", transactional=True), log.producer(transactional=True)
    for number in range(40):
        sender = aborted if number % 4 == 3 else producer
        sender.begin_transaction()
        for key in range(6):
            log.sent += 1
            sender.produce(log.name, json.dumps({"id": f"id-{log.sent}", "pad": "x" * 40}).encode(), f"k{key}", 0)
        sender.flush(30)
        (sender.abort_transaction if sender is aborted else sender.commit_transaction)(30)
    deadline = time.monotonic() + 90
    while len(log.read("read_uncommitted")) > 120:  # the cleaner comes every 15 seconds
        assert time.monotonic() < deadline, "the broker has not compacted the log"
        time.sleep(1)
        filler = log.producer()
        log.sent += 1
        filler.produce(log.name, json.dumps({"id": f"id-{log.sent}", "pad": ""}).encode(), "filler", 0)
        filler.flush(30)
    seen = None
    while seen is None or seen != log.read("read_committed"):  # the cleaner came between
        shutil.rmtree(tmp_path / "export", ignore_errors=True)
        seen = log.read("read_committed")
        log.copy(tmp_path / "export")
    mine = things("compacted")
    manifest = land_batch(lake, mine, plan_batch(lake, mine, export=str(tmp_path / "export")).batch)
    rows = read_records(session, lake, mine, manifest).collect()
    assert count_landed(session, lake, mine, manifest) == len(rows) < log.end()
    kept = {row[E.OFFSET]: bytes(row[E.VALUE_BYTES]) for row in rows if row[E.FATE] is None}
    assert kept == {offset: value for offset, (_, value, _, _) in seen.items()}
    assert not [row for row in rows if row[E.UNREADABLE]]
