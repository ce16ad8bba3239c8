"""Headers of a segment: what is whole is found, what is damaged is named and fenced in, whatever the bytes are."""

from __future__ import annotations

import struct
import zlib
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.landing import segments
from onefold.landing.segments import Scan, scan
from onefold.records.batches import parse
from tests.batches import CODECS, altered, batch, emptied, marker, placed, values

START = 40
PARTS = [
    values(40, "a", "b"),
    batch(42, [(b"k", b"v" * 300, [("h", b"x")]), (None, None, [])] * 3, codec="lz4"),
    values(48, "t1", producer=7, epoch=0, sequence=0, transactional=True),
    marker(49, 7, commit=False),
    batch(50, [(b"k", b"w" * 90, [])] * 4, codec="gzip"),
    values(54, "c"),
    values(55, "d", "e", "f", codec="zstd"),
]
GOOD = b"".join(PARTS)


def scanned(data: bytes, start: int = START, chunk: int = 200) -> Scan:
    return scan(lambda low, high: data[low:high], len(data), start, chunk)


def rows(data: bytes, found: Scan) -> list[tuple[int, bytes | None]]:
    """Offsets and values of what the scan calls good, in the order of the bytes."""
    parsed = (part for chunk in found.chunks for part in parse(data[chunk.start : chunk.end]))
    return [(row["offset"], row["value"]) for part in parsed for row in part.to_pylist()]


@dataclass(frozen=True, slots=True)
class Placed:
    start: int
    end: int
    rows: list[tuple[int, bytes | None]]


def _placed() -> list[Placed]:
    found, at = [], 0
    for part in PARTS:
        found.append(Placed(at, at + len(part), rows(part, scanned(part))))
        at += len(part)
    return found


PLACED = _placed()


def test_a_good_segment_is_told_whole() -> None:
    found = scanned(GOOD)
    assert found.runs == [(40, 58)]
    assert found.spans == [(7, 0, 48, 49)]
    assert found.markers == [(7, 0, 49, False)]
    assert (found.damage, found.lost, found.open_end, found.at) == ([], [], False, len(GOOD))
    assert [(one.first, one.last) for one in found.chunks] == [(40, 42), (42, 48), (48, 50), (50, 55), (55, 58)]
    assert [one.start for one in found.chunks[1:]] == [one.end for one in found.chunks[:-1]]
    assert sum(one.records for one in found.chunks) == 18
    assert rows(GOOD, found) == [row for one in PLACED for row in one.rows]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """The segment with bytes flipped, cut out, written over or put in."""
    at = draw(st.integers(0, len(GOOD)))
    end = draw(st.one_of(st.just(at), st.integers(at, min(len(GOOD), at + 4)), st.integers(at, len(GOOD))))
    other = draw(st.one_of(st.just(b""), st.binary(max_size=max(1, end - at)), st.binary(max_size=150)))
    if draw(st.booleans()) and at < len(GOOD):
        end, other = at + 1, bytes([GOOD[at] ^ (1 << draw(st.integers(0, 7)))])
    return GOOD[:at] + other + GOOD[end:]


def alike(one: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def changed_part(data: bytes) -> tuple[int, int, int]:
    """What differs: bytes `[start, end)` of the good segment, and how many stand there instead."""
    start = alike(data, GOOD)
    behind = alike(data[start:][::-1], GOOD[start:][::-1])
    return start, len(GOOD) - behind, len(data) - behind - start


@settings(max_examples=400)
@given(mutations())
def test_whatever_is_changed_loses_nothing_outside_and_is_named(data: bytes) -> None:
    at, end, instead = changed_part(data)
    found = scanned(data)
    told = rows(data, found)
    assert sum(one.records for one in found.chunks) == len(told)
    whole = [one for one in PLACED if one.end <= at or one.start >= end]
    torn = [one for one in PLACED if one not in whole]
    assert {row for one in whole for row in one.rows} <= set(told), "a good batch is lost"
    there = {row for one in PLACED if GOOD[one.start : one.end] in data for row in one.rows}
    # Neither the base offset nor the leader's epoch is under the checksum: a batch of which no more is changed
    # may stand at other offsets, but never without a gap before it (or behind it, where it is out of order).
    unchecked = bool(torn) and end <= torn[-1].start + 16
    of_the_last = torn[-1].rows if unchecked else []
    moved = set(told) - there - set(of_the_last)
    assert {value for _, value in moved} <= {value for _, value in of_the_last}, "a damaged record is present"
    assert not moved or len(found.runs) > 1 or found.runs[0][0] > START or found.lost
    # Batches begin with zeros, so where bytes are cut out is known to some bytes only.
    named = any(one.start <= at + instead + 8 and at - 8 <= one.end for one in found.damage)
    named |= found.open_end and found.at <= at + instead + 8
    batches_cut = data == b"".join(part for part in PARTS if part in data)
    assert named or batches_cut or unchecked
    assert all(0 <= one.start < one.end <= len(data) for one in found.damage)


@settings(max_examples=300)
@given(st.binary(max_size=400))
def test_no_bytes_make_it_fail(data: bytes) -> None:
    found = scanned(data)
    assert not found.chunks
    assert bool(data) == (bool(found.damage) or found.open_end)


@settings(max_examples=300)
@given(st.integers(0, len(PARTS) - 1), st.binary(min_size=1, max_size=80), st.integers(0, 60))
def test_records_that_cannot_be_read_though_the_checksum_is_right_are_as_many_as_it_says(
    which: int, junk: bytes, at: int
) -> None:
    changed = PARTS[which][: 61 + at] + junk
    data = altered(changed, length=len(changed) - 12)
    found = scanned(data)
    told = [row for chunk in found.chunks for part in parse(data[chunk.start : chunk.end]) for row in part.to_pylist()]
    assert len(told) == sum(one.records for one in found.chunks)
    for row in told:
        assert row["unreadable"] is None or "cannot be read" in row["unreadable"]
    if not found.chunks:
        assert "marker cannot be read" in found.damage[0].what


def test_damage_says_its_bytes_and_claims_and_its_offsets_are_lost() -> None:
    second = PLACED[1]
    data = bytearray(GOOD)
    data[second.start + 100] ^= 1
    found = scanned(bytes(data))
    [one] = found.damage
    assert (one.start, one.end, one.claimed) == (second.start, second.end, (42, 48))
    assert one.what == "a damaged record batch: its checksum is wrong"
    assert found.lost == [(42, 48)]
    assert found.runs == [(40, 42), (48, 58)]


def test_two_damaged_batches_are_two() -> None:
    data = bytearray(GOOD)
    for one in PLACED[1:3]:
        data[one.end - 1] ^= 1
    found = scanned(bytes(data))
    assert [(one.start, one.end) for one in found.damage] == [(one.start, one.end) for one in PLACED[1:3]]
    assert found.lost == [(42, 49)]


def test_a_length_that_leads_past_a_good_batch_is_not_followed() -> None:
    first, second = PARTS[0], PARTS[1]
    wrong = first[:8] + struct.pack(">i", len(first) + len(second) - 12) + first[12:]
    found = scanned(wrong + second + PARTS[2])
    assert [(one.start, one.end) for one in found.damage] == [(0, len(first))]
    assert found.runs == [(42, 49)]


def test_a_batch_that_is_not_written_to_its_end_is_not_there_yet() -> None:
    for cut in (1, 20, 62, len(PARTS[-1]) - 1):
        data = b"".join(PARTS[:-1]) + PARTS[-1][:cut]
        found = scanned(data)
        assert (found.damage, found.lost, found.open_end) == ([], [], True), cut
        assert found.at == PLACED[-1].start
        assert found.runs == [(40, 55)]


def test_room_kept_for_more_is_not_damage() -> None:
    found = scanned(GOOD + b"\0" * 5000)
    assert (found.damage, found.lost, found.open_end, found.at) == ([], [], True, len(GOOD))
    assert scanned(b"\0" * 5000).damage == []


def test_an_offset_out_of_order_is_damage_though_no_checksum_covers_it() -> None:
    for base in (60, 1 << 30, 10):
        data = PARTS[0] + placed(PARTS[1], base) + b"".join(PARTS[2:])
        found = scanned(data)
        [one] = found.damage
        assert "out of order" in one.what
        assert (one.start, one.end) == (PLACED[1].start, PLACED[1].end)
        assert found.lost == [(42, 48)], "the offsets between the good ones"


def test_compaction_leaves_gaps_and_empty_batches_which_are_no_damage() -> None:
    data = PARTS[0] + emptied(PARTS[1]) + PARTS[4]
    found = scanned(data)
    assert (found.damage, found.lost, found.open_end) == ([], [], False)
    assert found.runs == [(40, 48), (50, 54)]
    assert [offset for offset, _ in rows(data, found)] == [40, 41, 50, 51, 52, 53]


def old(offset: int, value: bytes) -> bytes:
    """A message of format version 1, as Kafka wrote it before 0.11."""
    rest = struct.pack(">bbqi", 1, 0, 1_500_000_000_000, -1) + struct.pack(">i", len(value)) + value
    message = struct.pack(">I", zlib.crc32(rest)) + rest
    return struct.pack(">qi", offset, len(message)) + message


def test_messages_of_the_old_formats_are_said_to_be_that() -> None:
    head = old(40, b"x") + old(41, b"yy")
    found = scanned(head + PARTS[1])
    [one] = found.damage
    assert one.what == "a message of format version 1 (Kafka before 0.11): only version 2 is read"
    assert (one.start, one.end, one.claimed) == (0, len(head), (40, 42))
    assert found.lost == [(40, 42)]
    assert found.runs == [(42, 48)]


def test_a_segment_larger_than_what_is_held_at_once_is_read_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = scanned(GOOD[:700] + b"junk" * 40 + GOOD[720:])
    monkeypatch.setattr(segments, "_WINDOW", 128)
    parts = scanned(GOOD[:700] + b"junk" * 40 + GOOD[720:])
    assert (parts.chunks, parts.damage, parts.lost, parts.spans) == (
        whole.chunks,
        whole.damage,
        whole.lost,
        whole.spans,
    )
    assert parts.damage


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_gives_the_records_back(codec: str) -> None:
    given = [
        (f"k{n}".encode(), b"v" * n, [("h", f"{n}".encode()), ("none", None), ("raw", b"\xff")]) for n in range(300)
    ]
    data = batch(START, given, codec=codec, producer=9, epoch=3, sequence=(1 << 31) - 2)
    told = [row for part in parse(data) for row in part.to_pylist()]
    assert [(row["key"], row["value"]) for row in told] == [(key, value) for key, value, _ in given]
    assert [[pair["value"] for pair in row["headers"]] for row in told] == [[f"{n}", None, None] for n in range(300)]
    assert [row["offset"] for row in told] == list(range(START, START + 300))
    assert [row["sequence"] for row in told[:4]] == [(1 << 31) - 2, (1 << 31) - 1, 0, 1]
    assert {(row["producer_id"], row["producer_epoch"]) for row in told} == {(9, 3)}


def test_the_brokers_clock_stamps_all_records_alike() -> None:
    data = altered(values(START, "a", "b"), attributes=0x08, max_timestamp=1_800_000_000_000)
    [part] = parse(data)
    assert part.column("timestamp").to_pylist() == [1_800_000_000_000] * 2
    [part] = parse(altered(values(START, "a"), base_timestamp=-1))
    assert part.column("timestamp").to_pylist() == [None]
