"""Logs that lose records by themselves: the beginning to retention, or the tail, whose offsets other records take.

The tail is taken from a broker's disk while it is down, as an unclean election or a lost write would; the broker itself
begins a new leader epoch where its log ends then.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource
from pyspark.sql import SparkSession

from onefold.errors import DataLossError
from onefold.kafka.record_batches import HEADER, header_at
from onefold.lake import Lake
from onefold.landing.plan import plan_of
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.report.ledger import rows_of
from sample.broker import Broker
from tests.support.topics import Topics, at, between

pytestmark = pytest.mark.kafka


def cut(log: Path, offset: int) -> None:
    """Take the batches from an offset on out of a log that lies in one segment."""
    [segment] = log.glob("*.log")
    data, at = segment.read_bytes(), 0
    while at < len(data) and header_at(data, at).base < offset:
        at += header_at(data, at).length + 12
    assert at + HEADER.size < len(data), "there is a batch to lose"
    segment.write_bytes(data[:at])
    for index in (*log.glob("*.index"), *log.glob("*.timeindex"), *log.glob("*.snapshot")):
        index.unlink()


@pytest.mark.nightly
def test_offsets_that_other_records_took_are_reported_once_and_red(
    lake: Lake, session: SparkSession, tmp_path: Path
) -> None:
    with Broker(log=tmp_path / "broker.log") as broker:
        t = Topics.on(broker.bootstrap, lake, session, "shortened")
        t.create()

        def batch(count: int) -> list[str]:
            """Send records, one a batch, and publish all that is new: the ids, and what the landing has to say."""
            for _ in range(count):
                t.send([0.1])
            manifest = t.land(t.plan())
            run = _published(t, session, manifest.batch)
            return [*run, *(note for note in manifest.notes if "cut" in note)]

        assert batch(4) == ["id-0", "id-1", "id-2", "id-3"]
        broker.kill()
        broker.start()
        assert batch(1)[-1] == "id-4", "another leader epoch alone is nothing to tell"

        broker.kill()
        assert broker._home
        cut(broker._home / "data" / "shortened-0", 2)
        broker.start()
        assert t.plan().empty
        t.send([0.2, 0.2, 0.2])  # offsets 2, 3 and 4 have other records now
        assert t.plan().empty
        t.send([0.2])
        manifest = t.land(t.plan())
        gone = "shortened, partition 0: its log was cut at offset 2"
        assert [(range_.start, range_.end) for range_ in manifest.replaced] == [(2, 5)]
        assert [note[: len(gone)] for note in manifest.notes] == [gone]
        with pytest.raises(DataLossError, match="offsets gone before they were landed"):
            _published(t, session, manifest.batch)

        t.send([0.3])
        later = t.land(t.plan())
        assert (later.replaced, later.notes) == ([], [])
        assert _published(t, session, later.batch)[-1] == "id-9"


def test_what_the_brokers_own_retention_took_is_a_hole_of_that_kind_and_a_loss(
    lake: Lake, session: SparkSession, tmp_path: Path
) -> None:
    often = {"log.retention.check.interval.ms": 500, "log.initial.task.delay.ms": 500}
    with Broker(settings=often, log=tmp_path / "broker.log") as broker:
        t = Topics.on(broker.bootstrap, lake, session, "expiring")
        t.create()
        t.send([0.1, 0.2, 0.3])
        plan = t.plan(between(0, 1))
        minute = ConfigEntry("retention.ms", "60000", incremental_operation=AlterConfigOpType.SET)
        asked = ConfigResource(ConfigResource.Type.TOPIC, "expiring", incremental_configs=[minute])
        t.admin.incremental_alter_configs([asked])[asked].result(30)
        deadline = time.monotonic() + 90
        while start_of(t) < 3:
            assert time.monotonic() < deadline, "the broker has deleted nothing"
        manifest = t.land(plan)
        assert [(hole.start, hole.end, hole.kind) for hole in manifest.holes] == [(0, 3, "retention")]
        with pytest.raises(DataLossError, match="offsets gone before they were landed: found 3"):
            _published(t, session, manifest.batch)
        t.send([(datetime.now(UTC) - at(0)) / timedelta(hours=1)])
        later = t.land(t.plan())
        assert (t.positions(later), later.holes) == ([("expiring", 0, 3)], [])


def start_of(t: Topics) -> int:
    """Where the log begins, as a consumer sees it."""
    consumer = Consumer({"bootstrap.servers": t.servers, "group.id": "looking", "log_level": 0})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(t.names[0], 0), 30)[0])
    finally:
        consumer.close()


def _published(t: Topics, session: SparkSession, batch: str) -> list[str]:
    """Fold a landed batch; the ids of all rows."""
    made = t.dataset()
    run = run_batch(t.lake, made, plan_of(t.lake, made.source_id, batch), InSession(t.lake, session))
    if run.red:
        raise run.red
    return sorted(row["id"] for row in rows_of(t.lake, made))
