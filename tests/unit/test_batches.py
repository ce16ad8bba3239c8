"""What raw batches tell of missing offsets: drawn logs, transactions and a cleaner against what was written to them.

The log is a list of batches with the offsets that each still holds; bytes are made of it as a leader would answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.util import calc_crc32c

from onefold.kafka import missing_offsets as batches
from onefold.kafka.missing_offsets import Found, classify
from onefold.kafka.raw_log import Answer, NoEvidenceError
from onefold.offsets import Range, merged

HEADER = DefaultRecordBatchBuilder.HEADER_STRUCT
CRC_AT, COVERED_FROM = DefaultRecordBatchBuilder.CRC_OFFSET, DefaultRecordBatchBuilder.ATTRIBUTES_OFFSET
CONTROL, GZIP = 0x20, 1
ABORT, COMMIT = struct.pack(">hh", 0, 0), struct.pack(">hh", 0, 1)
CLEANED = "it is not cleaned"


@dataclass
class Batch:
    """Offsets `[base, end)`, of which `held` have a record."""

    base: int
    end: int
    held: list[int]
    producer: int = -1
    marker: bytes | None = None
    codec: int = 0
    pad: int = 0

    @property
    def raw(self) -> bytes:
        built = DefaultRecordBatchBuilder(2, self.codec, self.producer >= 0, self.producer, 0, 0, 1 << 30)
        for offset in self.held:
            value = b"\0" * 6 if self.marker else b"v" * (20 + self.pad)
            built.append(offset - self.base, 1_000 + offset, self.marker, value, [])
        made = bytearray(built.build())
        words = list(HEADER.unpack_from(made))
        words[0], words[6] = self.base, self.end - self.base - 1
        words[5] |= CONTROL if self.marker else 0
        HEADER.pack_into(made, 0, *words)
        struct.pack_into(">I", made, CRC_AT, calc_crc32c(memoryview(made)[COVERED_FROM:]))
        return bytes(made)


@dataclass
class Log:
    """Batches, aborted transactions as (producer, first offset, offset of the marker), and what was asked of it."""

    batches: list[Batch]
    aborted: list[tuple[int, int, int]] = field(default_factory=list)
    asked: list[int] = field(default_factory=list)
    given: int = 0

    def fetch(self, offset: int, size: int) -> Answer:
        """As a leader answers: from the batch that holds the offset on, the first one whole, the last one torn."""
        self.asked.append(offset)
        records, end = b"", offset
        for batch in self.batches:
            if batch.end > offset and (not records or len(records) < size):
                records, end = records + batch.raw, batch.end
        first = next((len(batch.raw) for batch in self.batches if batch.end > offset), 0)
        records = records[: max(size, first)]
        self.given += len(records)
        return Answer(
            records, [(who, begun) for who, begun, marker in self.aborted if marker >= offset and begun < end]
        )


def by_offset(found: Found) -> dict[int, str]:
    """What each offset was found to be; each is named once."""
    kinds = [(offset, kind) for start, end, kind in found.holes for offset in range(start, end)]
    kinds += [(offset, "lost") for start, end in found.lost for offset in range(start, end)]
    kinds += [
        (offset, reason) for reason, ranges in found.unknown.items() for range_ in ranges for offset in range(*range_)
    ]
    assert len(dict(kinds)) == len(kinds), "an offset is one thing"
    return dict(kinds)


def single(offsets: set[int]) -> list[Range]:
    return merged((offset, offset + 1) for offset in offsets)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Log, dict[int, str], dict[int, str]]:
    """A log, and by offset what was written there (record, control, aborted) and what its cleaner took (inside a
    batch that is still there, or with it)."""
    written: list[Batch] = []
    truth: dict[int, str] = {}
    first: dict[int, int] = {}
    mine: dict[int, list[Batch]] = {}
    aborted: list[tuple[int, int, int]] = []
    end = 0
    step = st.tuples(st.sampled_from(["plain", "send", "send", "commit", "abort"]), st.integers(0, 1))
    steps = draw(st.lists(step, min_size=4, max_size=20))
    for what, producer in [*steps, ("commit", 0), ("abort", 1)]:
        if what in ("plain", "send"):
            count, codec = draw(st.integers(1, 4)), draw(st.sampled_from([0, GZIP]))
            batch = Batch(
                end, end + count, list(range(end, end + count)), producer if what == "send" else -1, None, codec
            )
            if what == "send":
                first.setdefault(producer, end)
                mine.setdefault(producer, []).append(batch)
            truth |= dict.fromkeys(batch.held, "record")
        elif producer in first:
            batch = Batch(end, end + 1, [end], producer, ABORT if what == "abort" else COMMIT)
            truth[end] = "control"
            begun, sent = first.pop(producer), mine.pop(producer)
            if what == "abort":
                aborted.append((producer, begun, end))
                truth |= {offset: "aborted" for batch in sent for offset in batch.held}
        else:
            continue
        written.append(batch)
        end = batch.end
    gone: dict[int, str] = {}
    kept = []
    for batch in written:
        if batch.marker or not draw(st.booleans()):
            kept.append(batch)
            continue
        if truth[batch.base] == "aborted":  # its cleaner takes it whole
            gone |= dict.fromkeys(batch.held, "between")
            continue
        left = [offset for offset in batch.held if draw(st.booleans())]
        away = set(batch.held) - set(left)
        dropped = not left and draw(st.booleans())  # an empty batch may stay, for its producer's sequence
        gone |= dict.fromkeys(away, "between" if dropped else "inside")
        batch.held = left
        kept += [] if dropped else [batch]
    return Log(kept, aborted), truth, gone


@settings(max_examples=300)
@given(histories(), st.data(), st.booleans(), st.sampled_from([1, 200, 1 << 20]))
def test_each_missing_offset_is_what_was_written_there(
    drawn: tuple[Log, dict[int, str], dict[int, str]], data: st.DataObject, cleaned: bool, most: int
) -> None:
    log, truth, gone = drawn
    # The last batch of a log is never cleaned away: something follows whatever is asked for.
    tail = Batch(len(truth), len(truth) + 1, [len(truth)])
    log.batches.append(tail)
    stolen = {
        offset for offset in truth if truth[offset] == "record" and offset not in gone and data.draw(st.booleans())
    }
    missing = {offset for offset in truth if truth[offset] != "record" or offset in gone} | stolen
    expected = {}
    for offset in missing:
        if offset in stolen:
            expected[offset] = "lost"
        elif gone.get(offset) == "between":
            expected[offset] = "compacted" if cleaned else CLEANED
        else:
            expected[offset] = "compacted" if offset in gone else truth[offset]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "_LEAST", most)
        patch.setattr(batches, "_MOST", most)
        found = classify(single(missing), log.fetch, lambda: "" if cleaned else CLEANED)
    assert by_offset(found) == expected
    followed = [offset for start, end, _ in found.followed_by for offset in range(start, end)]
    assert sorted(followed) == sorted(offset for offset, what in expected.items() if what == "compacted")


def test_the_age_of_the_record_after_a_compacted_offset_is_known() -> None:
    """Offset 1 lies within a batch, 4 and 5 between two; a record's timestamp is 1,000 and its offset."""
    log = Log([Batch(0, 3, [0, 2]), Batch(3, 4, [3]), Batch(6, 8, [6, 7])])
    found = classify([(1, 2), (4, 6)], log.fetch, lambda: "")
    assert found.followed_by == [(1, 2, 1_002), (4, 6, 1_007)]


def marked(transactions: int, records: int, pad: int = 0) -> Log:
    """Committed transactions of so many records, each with its marker."""

    def all_() -> Iterator[Batch]:
        for number in range(transactions):
            base = number * (records + 1)
            yield Batch(base, base + records, list(range(base, base + records)), 1, pad=pad)
            yield Batch(base + records, base + records + 1, [base + records], 1, COMMIT)

    return Log(list(all_()))


def test_thousands_of_markers_cost_as_many_fetches_as_their_batches_fill() -> None:
    log = marked(3_000, 2)
    markers = {number * 3 + 2 for number in range(3_000)}
    found = classify(single(markers), log.fetch, lambda: CLEANED)
    assert by_offset(found) == dict.fromkeys(markers, "control")
    assert len(log.asked) <= 3


def test_what_lies_between_distant_holes_is_not_fetched() -> None:
    """Ten holes in 30 MB: not the range is read, but the batches around the holes."""
    log = marked(300, 100, pad=1_000)
    markers = {number * 101 + 100 for number in range(0, 300, 30)}
    found = classify(single(markers), log.fetch, lambda: CLEANED)
    assert by_offset(found) == dict.fromkeys(markers, "control")
    assert len(log.asked) == len(markers)
    assert log.given <= len(markers) * (110_000 + batches._LEAST)


def test_a_batch_without_a_missing_offset_is_never_opened() -> None:
    spoiled = Batch(0, 3, [0, 1, 2], codec=GZIP, pad=100).raw[:-40] + b"?" * 40
    marker = Batch(3, 4, [3], 1, COMMIT).raw
    answers = iter([Answer(spoiled + marker, [])])
    found = classify([(3, 4)], lambda *_: next(answers), lambda: CLEANED)
    assert by_offset(found) == {3: "control"}


def test_a_batch_without_its_checksum_is_no_evidence() -> None:
    good, spoiled = Batch(0, 2, [0]).raw, Batch(2, 4, [2]).raw[:-1] + b"?"
    found = classify([(1, 2), (3, 4)], lambda *_: Answer(good + spoiled, []), lambda: "")
    assert by_offset(found) == {1: "compacted", 3: "the record batch at offset 2 does not have its checksum"}


def test_an_old_message_format_is_no_evidence() -> None:
    old = LegacyRecordBatchBuilder(1, 0, 1 << 20)
    old.append(5, 1_000, None, b"v")
    log = Answer(bytes(old.build()) + Batch(6, 8, [7]).raw, [])
    found = classify([(3, 5), (6, 7)], lambda *_: log, lambda: "")
    kinds = by_offset(found)
    assert kinds.pop(6) == "compacted"
    assert kinds == dict.fromkeys([3, 4], "message format 0 or 1 does not say what became of an offset")


@pytest.mark.parametrize(
    "records", [b"", b"no batch at all, but more bytes than a header has", Batch(0, 9, [1]).raw[:30]]
)
def test_bytes_that_are_no_batch_end_the_search(records: bytes) -> None:
    found = classify([(3, 5), (8, 9)], lambda *_: Answer(records, []), lambda: "")
    assert set(by_offset(found)) == {3, 4, 8}
    assert set(found.unknown) == {"the leader has no committed batch at offset 3 or behind it"}


def test_no_error_is_raised_and_what_was_found_before_it_is_kept() -> None:
    log = Log([Batch(0, 2, [0]), Batch(2, 3, [2], 1, COMMIT)])

    def fetch(offset: int, size: int) -> Answer:
        if offset > 1:
            raise [NoEvidenceError("the brokers are gone"), OSError("a wire is cut")][offset == 9]
        return Answer(log.batches[0].raw, [])

    assert by_offset(classify([(1, 2), (5, 7)], fetch, lambda: "")) == {
        1: "compacted", 5: "the brokers are gone", 6: "the brokers are gone"
    }  # fmt: skip
    assert by_offset(classify([(9, 10)], fetch, lambda: "")) == {
        9: "the batches at offset 9 cannot be read: OSError: a wire is cut"
    }
