"""The newest record batches of landed segments, by bytes made by hand; live ones are tried on a real broker."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onefold.dataset import Dataset
from onefold.diagnosis import Facts, diagnose, gather, landed_segments
from onefold.kafka.condition import RecordBatch
from onefold.kafka.newest_batches import headers_of
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from tests.support.batches import AT, Export, altered, marker, values

STAMP = datetime.fromtimestamp(AT / 1000, tz=UTC)


@pytest.fixture
def things(dataset: Callable[..., Dataset]) -> Dataset:
    exports = {"path": "segments", "layout": "segments", "origin": {"cluster": "c", "incarnation": 1}, "holes": "none"}
    return dataset("things", source={"exports": exports}, identity={"message_id": "id"})


@pytest.fixture
def look(lake: Lake, things: Dataset, tmp_path: Path) -> Callable[..., Facts]:
    """What is known once segments are landed: partition, first offset, batches."""

    def gathered(*segments: tuple[int, int, list[bytes]]) -> Facts:
        export = Export(tmp_path / "segments")
        for partition, start, batches in segments:
            export.write(start, *batches, partition=partition)
        land_batch(lake, things, plan_batch(lake, things).batch)
        return gather(lake, things)

    return gathered


def test_the_headers_of_the_newest_segment_tell_who_wrote_it(look: Callable[..., Facts]) -> None:
    old = (0, 0, [values(0, "a", "b")])
    plain = values(2, "c" * 300, "d", codec="lz4")
    own = values(4, "e", producer=7, epoch=2, sequence=9)
    stamped = altered(values(5, "f", producer=8, epoch=0, sequence=0, transactional=True), attributes=0x18)
    facts = look(old, (0, 2, [plain, own, stamped, marker(6, 8, commit=True)]))
    assert facts.record_batches == (
        RecordBatch("t", 0, 2, producer=-1, records=2, codec="lz4", newest=STAMP.replace(microsecond=1000)),
        RecordBatch("t", 0, 4, producer=7, epoch=2, sequence=9, newest=STAMP),
        RecordBatch("t", 0, 5, producer=8, epoch=0, sequence=0, transactional=True, append_time=True, newest=STAMP),
        RecordBatch("t", 0, 6, producer=8, epoch=0, transactional=True, control=True, newest=STAMP),
    )
    assert facts.batches_unseen == ""
    found = {finding.rule: finding.finding.found for finding in diagnose(facts).findings}
    assert "1 of 3 record batches" in found["idempotence"]
    assert not {"unseen_batches", "undecided_transactions"} & set(found)


def test_before_anything_is_landed_it_is_unknown_and_says_so(lake: Lake, things: Dataset) -> None:
    facts = gather(lake, things)
    assert (facts.record_batches, facts.batches_unseen) == (None, "no segment has been landed yet")
    [unknown] = [finding.finding for finding in diagnose(facts).findings if finding.rule == "unseen_batches"]
    assert unknown.why == "Only the headers of record batches tell of every producer: no segment has been landed yet."


def test_the_partitions_and_bytes_that_are_looked_at_are_bounded_and_what_is_left_out_is_reported(
    look: Callable[..., Facts], monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = [values(0, "a")]
    monkeypatch.setattr(landed_segments, "PARTITIONS", 2)
    facts = look(*((number, 0, batch) for number in range(3)))
    assert {batch.partition for batch in facts.record_batches or ()} == {0, 1}
    assert facts.batches_unseen == "only 2 of 3 partitions were looked at"
    monkeypatch.setattr(landed_segments, "BYTES", 2 * len(batch[0]) - 1)
    facts = look((3, 0, batch))
    assert {batch.partition for batch in facts.record_batches or ()} == {0}


def test_what_the_dataset_has_read_in_another_layout_before_is_not_looked_at(
    look: Callable[..., Facts], lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    (tmp_path / "exports").mkdir()
    (tmp_path / "exports" / "t.jsonl").write_text('{"topic":"t","partition":0,"offset":0,"ts":0,"payload":"{}"}\n')
    before = dataset("things")
    land_batch(lake, before, plan_batch(lake, before, export=str(tmp_path / "exports")).batch)
    facts = look((0, 0, [values(0, "a")]))
    assert [batch.offset for batch in facts.record_batches or ()] == [0]


def test_landed_bytes_that_are_gone_are_not_looked_at(look: Callable[..., Facts], lake: Lake, things: Dataset) -> None:
    look((0, 0, [values(0, "a")]))
    lake.storage.remove_below(f"sources/{things.source_id}/landed/")
    facts = gather(lake, things)
    assert facts.record_batches is None
    assert facts.batches_unseen == "only 0 of 1 partitions were looked at"


def test_an_old_message_has_no_producer_and_what_is_torn_is_left_out() -> None:
    """Format 1: offset, length, CRC, version, attributes, timestamp, key, value."""
    body = struct.pack(">ibbqii", 0, 1, 0, AT, -1, 40) + b"v" * 40
    old = struct.pack(">qi", 3, len(body)) + body
    whole = values(4, "a", producer=7, epoch=0, sequence=0)
    found = list(headers_of(old + whole + values(5, "b")[:-1]))
    assert [(batch.base, batch.end, batch.producer, batch.records) for batch in found] == [(3, 4, -1, 1), (4, 5, 7, 1)]
    assert list(headers_of(b"\0" * 200)) == []
