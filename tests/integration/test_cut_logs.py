"""A log that lost its tail and grew again: what was read there is gone, and other records have its offsets.

The tail is taken from a broker's disk while it is down, as an unclean election or a lost write would; the broker itself
begins a new leader epoch where its log ends then.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.cli.run import run_batch
from onefold.errors import DataLossError
from onefold.lake import Lake
from onefold.landing.plan import plan_of
from onefold.landing.record_batches import HEADER, header_at
from onefold.report.ledger import rows_of
from sample.broker import Broker
from tests.integration.topics import Topics
from tests.spark.pipeline import InSession

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


def test_offsets_that_other_records_took_are_told_once_and_red(
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
        assert [(one.start, one.end) for one in manifest.replaced] == [(2, 5)]
        assert [note[: len(gone)] for note in manifest.notes] == [gone]
        with pytest.raises(DataLossError, match="offsets gone before they were landed"):
            _published(t, session, manifest.batch)

        t.send([0.3])
        later = t.land(t.plan())
        assert (later.replaced, later.notes) == ([], [])
        assert _published(t, session, later.batch)[-1] == "id-9"


def _published(t: Topics, session: SparkSession, batch: str) -> list[str]:
    """Fold a landed batch; the ids of all rows."""
    made = t.dataset()
    run = run_batch(t.lake, made, plan_of(t.lake, made.source_id, batch), InSession(t.lake, session))
    if run.red:
        raise run.red
    return sorted(row["id"] for row in rows_of(t.lake, made))
