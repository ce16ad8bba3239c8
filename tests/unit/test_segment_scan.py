"""Headers of a segment: what is whole is found, what is damaged is named and fenced in, whatever the bytes are."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.kafka import record_batches
from onefold.kafka import segment_index as segments
from onefold.kafka.batch_records import parse
from onefold.kafka.record_batches import HEADER, LENGTH_END, SIZE, header_at, last_record
from onefold.kafka.segment_index import Damage, Scan, scan
from tests.support.batches import CODECS, altered, batch, emptied, marker, placed, values

START = 40
PARTS = [
    values(40, "a", "b"),
    batch(42, [(b"k", b"v" * 300, [("h", b"x")]), (None, None, [])] * 3, codec="lz4"),
    values(48, "t1", producer=7, epoch=0, sequence=0, transactional=True),
    marker(49, 7, commit=False),
    batch(50, [(b"k", b"w" * 90, [])] * 4, codec="gzip"),
    values(54, "c"),
    values(55, "d", "e", "f", codec="zstd"),
    batch(58, [(b"k", b"x" * 40, [])] * 3, codec="snappy"),
    batch(61, [(None, b"", [])] * 90, codec="gzip"),  # more records than bytes
]
GOOD = b"".join(PARTS)


def scanned(data: bytes, start: int = START, chunk: int = 200) -> Scan:
    return scan(lambda low, high: data[low:high], len(data), start, chunk)


def rows(data: bytes, found: Scan) -> list[tuple[int, bytes | None]]:
    """Offsets and values of what the scan calls good, in the order of the bytes."""
    parsed = (part for chunk in found.chunks for part in parse(data[chunk.start : chunk.end]))
    return [(row["offset"], row["value"]) for part in parsed for row in part.to_pylist()]


@dataclass(frozen=True, slots=True, eq=False)
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


def test_a_good_segment_is_read_whole() -> None:
    found = scanned(GOOD)
    assert found.runs == [(40, 151)]
    assert found.spans == [(7, 0, 48, 49)]
    assert found.markers == [(7, 0, 49, False)]
    assert (found.damage, found.lost, found.open_end, found.at) == ([], [], False, len(GOOD))
    assert [(chunk.first, chunk.last) for chunk in found.chunks] == [
        (40, 42),
        (42, 48),
        (48, 50),
        (50, 55),
        (55, 61),
        (61, 151),
    ]
    assert [chunk.start for chunk in found.chunks[1:]] == [chunk.end for chunk in found.chunks[:-1]]
    assert sum(chunk.records for chunk in found.chunks) == 111
    assert rows(GOOD, found) == [row for place in PLACED for row in place.rows]


@st.composite
def mutations(draw: st.DrawFn) -> bytes:
    """The segment with bytes flipped, cut out, written over or put in."""
    at = draw(st.integers(0, len(GOOD)))
    end = draw(st.one_of(st.just(at), st.integers(at, min(len(GOOD), at + 4)), st.integers(at, len(GOOD))))
    other = draw(st.one_of(st.just(b""), st.binary(max_size=max(1, end - at)), st.binary(max_size=150)))
    if draw(st.booleans()) and at < len(GOOD):
        end, other = at + 1, bytes([GOOD[at] ^ (1 << draw(st.integers(0, 7)))])
    return GOOD[:at] + other + GOOD[end:]


def alike(data: bytes, other: bytes) -> int:
    """How many bytes both begin with."""
    return next((at for at, (a, b) in enumerate(zip(data, other, strict=False)) if a != b), min(len(data), len(other)))


def changed_part(data: bytes) -> tuple[int, int, int]:
    """What differs: bytes `[start, end)` of the good segment, and how many stand there instead."""
    start = alike(data, GOOD)
    behind = alike(data[start:][::-1], GOOD[start:][::-1])
    return start, len(GOOD) - behind, len(data) - behind - start


def extents_to(data: bytes, damage: Damage) -> Iterator[tuple[int, int]]:
    """What lengths within damaged bytes claim that lead exactly to their end, where a batch follows."""
    for at in range(damage.start, damage.end - LENGTH_END):
        if int.from_bytes(data[at + LENGTH_END - 4 : at + LENGTH_END], "big") == damage.end - at - LENGTH_END:
            yield at, damage.end


@settings(max_examples=400)
@given(mutations())
def test_whatever_is_changed_loses_nothing_outside_and_is_named(data: bytes) -> None:
    at, end, instead = changed_part(data)
    found = scanned(data)
    read = rows(data, found)
    assert sum(chunk.records for chunk in found.chunks) == len(read)
    whole = [place for place in PLACED if place.end <= at or place.start >= end]
    torn = [place for place in PLACED if place not in whole]
    # What a damaged batch claims is not searched for others: a value may hold them.
    shift = instead - (end - at)
    claimed = [(damage.start, damage.end) for damage in found.damage if damage.claimed]
    claimed += [extent for damage in found.damage for extent in extents_to(data, damage)]
    claimed += [(found.at, len(data))] if found.open_end else []
    moved_to = {place: place.start + (shift if place.start >= end else 0) for place in whole}
    whole = [place for place in whole if not any(low < moved_to[place] < high for low, high in claimed)]
    assert {row for place in whole for row in place.rows} <= set(read), "a good batch is lost"
    there = {row for place in PLACED if GOOD[place.start : place.end] in data for row in place.rows}
    # Neither the base offset nor the leader's epoch is under the checksum: a batch of which no more is changed
    # may stand at other offsets, but never without a gap before it (or behind it, where it is out of order).
    unchecked = bool(torn) and end <= torn[-1].start + 16
    of_the_last = torn[-1].rows if unchecked else []
    moved = set(read) - there - set(of_the_last)
    assert {value for _, value in moved} <= {value for _, value in of_the_last}, "a damaged record is present"
    assert not moved or len(found.runs) > 1 or found.runs[0][0] > START or found.lost
    # Batches begin with zeros, so where bytes are cut out is known to some bytes only.
    named = any(damage.start <= at + instead + 8 and at - 8 <= damage.end for damage in found.damage)
    named |= found.open_end and found.at <= at + instead + 8
    batches_cut = data == b"".join(part for part in PARTS if part in data)
    assert named or batches_cut or unchecked
    assert all(0 <= damage.start < damage.end <= len(data) for damage in found.damage)


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
    read = [row for chunk in found.chunks for part in parse(data[chunk.start : chunk.end]) for row in part.to_pylist()]
    assert len(read) == sum(chunk.records for chunk in found.chunks)
    for row in read:
        assert row["unreadable"] is None or "cannot be read" in row["unreadable"]
    if not found.chunks:
        [damage] = found.damage
        assert (damage.start, damage.end) == (0, len(data))
        assert any(
            said in damage.what for said in ("marker cannot be read", "records cannot be separated", "records in")
        )


COUNTS = st.one_of(
    st.integers(-3, 200), st.sampled_from([1 << 20, 1 << 30, (1 << 31) - 1, -(1 << 31)]), st.integers(0, (1 << 31) - 1)
)


@settings(max_examples=600)
@given(st.integers(0, len(PARTS) - 1), COUNTS, COUNTS, st.booleans())
def test_a_header_that_lies_under_a_right_checksum_costs_its_own_batch_alone(
    which: int, records: int, last: int, dense: bool
) -> None:
    fields = {"records": records, "last_delta": records - 1 if dense else last}
    if fields["last_delta"] < -(1 << 31):
        return
    liar, place = altered(PARTS[which], **fields), PLACED[which]
    data = GOOD[: place.start] + liar + GOOD[place.end :]
    found = scanned(data)
    read = [
        (row["offset"], row["value"], row["unreadable"] is not None)
        for chunk in found.chunks
        for part in parse(data[chunk.start : chunk.end])
        for row in part.to_pylist()
    ]
    assert len(read) == sum(chunk.records for chunk in found.chunks) < len(data)
    readable = [(offset, value) for offset, value, unread in read if not unread]
    assert set(readable) <= {row for other in PLACED for row in other.rows}, "a record that is not the log's"
    others = [row for other in PLACED if other is not place for row in other.rows]
    assert set(others) <= set(readable), "a good batch is lost"
    if liar == PARTS[which]:
        assert len(readable) == len(others) + len(place.rows)
    elif found.damage:
        [damage] = found.damage
        assert (damage.start, damage.end) == (place.start, place.end)
        first, behind = place.rows[0][0], place.rows[-1][0] + 1
        [lost] = found.lost
        assert lost[0] == first
        assert lost[1] == behind or which == len(PARTS) - 1
    else:  # it cannot be read, or the log ends with it and compaction may have taken what it counts beyond
        unread = any(offset >= place.rows[0][0] for offset, _, unread in read if unread)
        assert unread or (which == len(PARTS) - 1 and set(place.rows) <= set(readable))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_records_that_are_no_more_than_zeros_are_not_believed_to_be_many(codec: str) -> None:
    """Zeros decompress to enough bytes for each of the records that the header counts."""
    zeros = compressed(codec, b"\0" * (32 << 20))
    head = altered(PARTS[0], attributes=CODECS[codec])[:61]
    data = altered(head + zeros, length=49 + len(zeros), records=4_000_000, last_delta=3_999_999)
    for behind, runs, lost in ((b"", [], [(40, 4_000_040)]), (placed(PARTS[1], 42), [(42, 48)], [(40, 42)])):
        found = scanned(data + behind)
        [damage] = found.damage
        assert (damage.start, damage.end, damage.claimed) == (0, len(data), (40, 4_000_040))
        assert damage.what == "a damaged record batch: its records cannot be separated: a record is 0 bytes long"
        assert (found.runs, found.lost) == (runs, lost)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_is_not_decompressed_beyond_a_bound(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    good = batch(START, [(None, b"v" * 100, [])] * 4, codec=codec)
    [part] = parse(good)
    assert part.column("value").to_pylist() == [b"v" * 100] * 4
    monkeypatch.setattr(record_batches, "LARGEST", 400)
    read = [row for part in parse(good + values(44, "a")) for row in part.to_pylist()]
    assert [(row["offset"], row["value"]) for row in read if not row["unreadable"]] == [(44, b"a")]
    assert [row["offset"] for row in read if row["unreadable"]] == [40, 41, 42, 43]
    wanted = "claims to hold" if codec == "snappy" else "decompressed it is more than 400 bytes"
    assert wanted in read[0]["unreadable"]


@pytest.mark.parametrize("xerial", [False, True])
def test_a_snappy_block_that_claims_to_be_large_takes_no_memory(xerial: bool) -> None:
    block = b"\xff\xff\xff\xff\x03" + b"\0" * 40
    body = b"\x82SNAPPY\0" + b"\0\0\0\1" * 2 + struct.pack(">i", len(block)) + block if xerial else block
    head = altered(PARTS[0], attributes=CODECS["snappy"])[:61]
    [part] = parse(altered(head + body, length=49 + len(body)))
    said = "it cannot be decompressed: a block of 45 bytes claims to hold 1,073,741,823"
    assert part.column("unreadable").to_pylist() == [f"a record batch of offsets 40 to 42 cannot be read: {said}"] * 2


def compressed(codec: str, data: bytes) -> bytes:
    import lz4.frame
    import snappy
    import zstandard

    how = {
        "gzip": gzip.compress,
        "snappy": snappy.compress,
        "lz4": lz4.frame.compress,
        "zstd": zstandard.ZstdCompressor().compress,
    }
    return bytes(how[codec](data))


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd", "snappy"])
def test_what_is_decompressed_in_pieces_is_whole(codec: str) -> None:
    """Records across pieces, separated from each other across them, too."""
    given = [(None, bytes([n % 251]) * 70_001, []) for n in range(60)]
    data = batch(START, given, codec=codec)
    header, body = header_at(data), data[61:]
    assert last_record(header, body) == 59
    assert [row["value"] for part in parse(data) for row in part.to_pylist()] == [value for _, value, _ in given]
    for wrong, said in (
        ({"records": 59}, "more than 59"),
        ({"records": 61, "last_delta": 60}, "there are 60, not 61"),
        ({"last_delta": 58, "records": 60}, "their offsets are not the batch's"),
    ):
        with pytest.raises(ValueError, match=said):
            last_record(header._replace(**wrong), body)


def test_gzip_may_be_written_in_members_and_padded() -> None:
    plain = batch(START, [(None, b"v" * 100, [])] * 4)
    body = gzip.compress(plain[61:200]) + b"\0" * 5 + gzip.compress(plain[200:])
    data = altered(plain[:61] + body, attributes=CODECS["gzip"], length=49 + len(body))
    assert [row["value"] for part in parse(data) for row in part.to_pylist()] == [b"v" * 100] * 4


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_what_is_compressed_and_cut_off_is_not_taken_for_whole(codec: str) -> None:
    data = batch(START, [(None, b"v" * 100, [])] * 4, codec=codec)[:-3]
    [part] = parse(altered(data, length=len(data) - 12))
    assert all("it ends within what is compressed" in reason for reason in part.column("unreadable").to_pylist())


def test_many_records_that_cannot_be_read_are_given_out_some_at_a_time() -> None:
    junk = b"\0" * 700_000
    data = altered(PARTS[0][:61] + junk, length=49 + len(junk), records=100_000, last_delta=99_999)
    parts = [part.num_rows for part in parse(PARTS[0] + placed(data, 42) + placed(PARTS[0], 100_042))]
    assert parts == [2, 20_000, 20_000, 20_000, 20_000, 20_000, 2]
    read = [row for part in parse(placed(data, 42)) for row in part.to_pylist()]
    assert [row["offset"] for row in read] == list(range(42, 100_042))
    assert [len(row["value"]) for row in read if row["value"] is not None] == [64 << 10]


LONGEST = b"\xff" * 9 + b"\x7f"
"""A number of ten bytes, the most that are read: beyond 64 bits."""


@pytest.mark.parametrize(
    ("place", "said"),
    [(1, "a record's timestamp is more than 64 bits"), (2, "a record's offset is not the batch's")],
)
def test_a_number_that_no_column_holds_is_reported_and_costs_its_own_batch(place: int, said: str) -> None:
    parts = [b"\0", b"\0", b"\0", b"\x01", b"\x01", b"\0"]  # attributes, timestamp, offset, key, value, headers
    parts[place] = LONGEST
    first = bytes([2 * len(b"".join(parts))]) + b"".join(parts)
    other = bytes([12, 0, 0, 2, 1, 1, 0])
    body = first + other
    data = altered(PARTS[0][:61] + body, length=49 + len(body))
    read = [row for part in parse(data + PARTS[1]) for row in part.to_pylist()]
    assert [row["offset"] for row in read] == list(range(40, 48))
    assert [row["unreadable"] is not None for row in read] == [True] * 2 + [False] * 6
    assert said in read[0]["unreadable"]


@pytest.mark.parametrize(("end", "lies"), [(44, True), (47, True), (48, False)])
def test_a_last_offset_that_reaches_into_the_next_batches_is_damage_where_compaction_leaves_some(
    end: int, lies: bool
) -> None:
    """The batch holds records up to 43; what follows begins at `end`, and goes on behind it."""
    held = altered(values(40, "a", "b", "c", "d"), last_delta=7)
    data = held + values(end, "e", "f") + values(end + 2, "g")
    found = scanned(data)
    read = [offset for offset, _ in rows(data, found)]
    assert read == ([] if lies else [40, 41, 42, 43]) + [end, end + 1, end + 2]
    assert [damage.what.split(": ")[1] for damage in found.damage] == (
        [f"its offsets up to 48 reach past {end}, where the next batch begins"] if lies else []
    )


def test_an_offset_that_reaches_back_into_what_compaction_took_is_the_next_batchs_fault() -> None:
    held = altered(values(40, "a", "b", "c", "d"), last_delta=7)
    data = held + placed(values(48, "e", "f"), 45) + values(50, "g")
    found = scanned(data)
    assert [offset for offset, _ in rows(data, found)] == [40, 41, 42, 43, 50]
    assert [(damage.start, damage.what.split(": ")[1]) for damage in found.damage] == [
        (len(held), "its offset 45 is out of order behind 48")
    ]


def test_what_is_said_to_be_emptied_and_holds_bytes_is_damage() -> None:
    """Else six records would be gone without a word."""
    data = PARTS[0] + altered(PARTS[1], records=0) + PARTS[2]
    found = scanned(data)
    [damage] = found.damage
    assert damage.what == f"not a record batch: 0 records in {len(PARTS[1]) - 61} bytes"
    assert found.lost == [(42, 48)]


def test_damage_says_its_bytes_and_claims_and_its_offsets_are_lost() -> None:
    second = PLACED[1]
    data = bytearray(GOOD)
    data[second.start + 100] ^= 1
    found = scanned(bytes(data))
    [damage] = found.damage
    assert (damage.start, damage.end, damage.claimed) == (second.start, second.end, (42, 48))
    assert damage.what == "a damaged record batch: its checksum is wrong"
    assert found.lost == [(42, 48)]
    assert found.runs == [(40, 42), (48, 151)]


def test_two_damaged_batches_are_two() -> None:
    data = bytearray(GOOD)
    for place in PLACED[1:3]:
        data[place.end - 1] ^= 1
    found = scanned(bytes(data))
    assert [(damage.start, damage.end) for damage in found.damage] == [
        (place.start, place.end) for place in PLACED[1:3]
    ]
    assert found.lost == [(42, 49)]


def test_a_length_that_leads_past_a_good_batch_is_not_followed() -> None:
    first, second = PARTS[0], PARTS[1]
    wrong = first[:8] + struct.pack(">i", len(first) + len(second) - 12) + first[12:]
    found = scanned(wrong + second + PARTS[2])
    assert [(damage.start, damage.end) for damage in found.damage] == [(0, len(first))]
    assert found.runs == [(42, 49)]


def test_a_batch_that_is_not_written_to_its_end_is_not_there_yet() -> None:
    for cut in (1, 20, 62, len(PARTS[-1]) - 1):
        data = b"".join(PARTS[:-1]) + PARTS[-1][:cut]
        found = scanned(data)
        assert (found.damage, found.lost, found.open_end) == ([], [], True), cut
        assert found.at == PLACED[-1].start
        assert found.runs == [(40, 61)]


def test_room_kept_for_more_is_not_damage() -> None:
    found = scanned(GOOD + b"\0" * 5000)
    assert (found.damage, found.lost, found.open_end, found.at) == ([], [], True, len(GOOD))
    assert scanned(b"\0" * 5000).damage == []


def test_an_offset_out_of_order_is_damage_though_no_checksum_covers_it() -> None:
    for base in (60, 1 << 30, 10):
        data = PARTS[0] + placed(PARTS[1], base) + b"".join(PARTS[2:])
        found = scanned(data)
        [damage] = found.damage
        assert "out of order" in damage.what
        assert (damage.start, damage.end) == (PLACED[1].start, PLACED[1].end)
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
    [damage] = found.damage
    assert damage.what == "a message of format version 1 (Kafka before 0.11): only version 2 is read"
    assert (damage.start, damage.end, damage.claimed) == (0, len(head), (40, 42))
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
    read = [row for part in parse(data) for row in part.to_pylist()]
    assert [(row["key"], row["value"]) for row in read] == [(key, value) for key, value, _ in given]
    assert [[pair["value"] for pair in row["headers"]] for row in read] == [
        [f"{n}".encode(), None, b"\xff"] for n in range(300)
    ]
    assert [row["offset"] for row in read] == list(range(START, START + 300))
    assert [row["sequence"] for row in read[:4]] == [(1 << 31) - 2, (1 << 31) - 1, 0, 1]
    assert {(row["producer_id"], row["producer_epoch"]) for row in read} == {(9, 3)}


def test_the_brokers_clock_stamps_all_records_alike() -> None:
    data = altered(values(START, "a", "b"), attributes=0x08, max_timestamp=1_800_000_000_000)
    [part] = parse(data)
    assert part.column("timestamp").to_pylist() == [1_800_000_000_000] * 2
    [part] = parse(altered(values(START, "a"), base_timestamp=-1))
    assert part.column("timestamp").to_pylist() == [None]


# S1: nothing inside a record becomes a record.


@st.composite
def hostile_values(draw: st.DrawFn) -> bytes:
    """A value: any bytes, or whole batches and markers, one after another, with what Kafka would have behind it."""
    parts = st.one_of(
        st.binary(max_size=40),
        st.builds(lambda base, count: values(base, *["forged"] * count), st.integers(START, 400), st.integers(1, 9)),
        st.builds(lambda base, commit: marker(base, 7, commit=commit), st.integers(START, 400), st.booleans()),
        st.just(b"\0" * 70),
    )
    return b"".join(draw(st.lists(parts, max_size=3)))


@st.composite
def hostile_logs(draw: st.DrawFn) -> list[bytes]:
    """Batches of a log in which values hold whatever a producer sends."""
    found, base = [], START
    for records in draw(st.lists(st.lists(hostile_values(), min_size=1, max_size=3), min_size=1, max_size=4)):
        codec = draw(st.sampled_from(["none", "none", "none", *CODECS]))
        found.append(batch(base, [(None, value, []) for value in records], codec=codec))
        base += len(records)
    return found


def whole_rows(parts: list[bytes]) -> list[tuple[int, bytes | None]]:
    """The records of batches, by another reader."""
    from kafka.record.default_records import DefaultRecordBatch

    return [(record.offset, record.value) for part in parts for record in DefaultRecordBatch(part)]


@settings(max_examples=400)
@given(hostile_logs(), st.data())
def test_s1_a_log_that_is_cut_anywhere_has_the_records_of_its_whole_batches_and_no_others(
    parts: list[bytes], data: st.DataObject
) -> None:
    log = b"".join(parts)
    cut = data.draw(st.integers(0, len(log)))
    ends = [len(b"".join(parts[: number + 1])) for number in range(len(parts))]
    whole = [part for part, end in zip(parts, ends, strict=True) if end <= cut]

    found = scanned(log[:cut])

    assert rows(log[:cut], found) == whole_rows(whole)
    assert (found.damage, found.markers, found.lost) == ([], [], [])
    assert found.open_end == (cut not in [0, *ends])
    assert found.at == len(b"".join(whole))


@settings(max_examples=400)
@given(hostile_logs(), st.data())
def test_s1_a_damaged_batch_gives_no_record_of_what_its_values_hold(parts: list[bytes], data: st.DataObject) -> None:
    """One byte of one batch is another: the records of the others are there, and none that Kafka never had."""
    which = data.draw(st.integers(0, len(parts) - 1))
    part = bytearray(parts[which])
    # Neither the base offset nor the leader's epoch is under the checksum; where a batch is compressed, so are values.
    compressed_length = range(8, 12) if header_at(parts[which]).codec else range(0)
    places = [at for at in (*range(8, 12), *range(16, len(part))) if at not in compressed_length]
    part[data.draw(st.sampled_from(places))] ^= 1 << data.draw(st.integers(0, 7))
    log = b"".join([*parts[:which], bytes(part), *parts[which + 1 :]])

    found = scanned(log)

    assert rows(log, found) == whole_rows([*parts[:which], *parts[which + 1 :]])
    assert found.markers == []
    assert found.damage or found.open_end


def test_s1_a_forged_batch_in_a_torn_batch_is_only_a_value() -> None:
    """Fifty records that Kafka never had, in a value of the batch that was being written; and a marker likewise."""
    honest = values(0, *(f"honest {number}" for number in range(150)))
    forged = values(150, *(f"forged {number}" for number in range(50)))
    abort = marker(151, 7, commit=False)
    outer = batch(150, [(None, forged + abort + b"x" * 5_000, [])])
    behind = values(151, *(f"honest {number}" for number in range(151, 251)))

    torn = scanned(honest + outer[:-1_000], start=0)
    assert (torn.runs, torn.markers, torn.damage, torn.lost) == ([(0, 150)], [], [], [])
    assert (torn.open_end, torn.at) == (True, len(honest))
    assert scanned(honest + outer + behind, start=0).runs == [(0, 251)]


@pytest.mark.parametrize("codec", ["gzip", "lz4", "zstd"])
def test_s1_what_a_producer_puts_behind_packed_records_is_no_batch(codec: str) -> None:
    """All records of the batch are there, and what follows them is cut off: brokers do not ask what that is."""
    honest = values(0, "honest")
    forged = values(2, *["forged"] * 20)
    packed = batch(1, [(None, b"last", [])], codec=codec)
    outer = packed + forged + b"x" * 500
    outer = altered(outer, length=len(outer) - 12)
    for cut in range(len(packed), len(outer)):
        found = scanned(honest + outer[:cut], start=0)
        assert (found.runs, found.damage, found.open_end) == ([(0, 1)], [], True), cut


@pytest.mark.parametrize("size", [1 << 19, 1 << 20])
def test_s1_behind_damage_plausible_headers_cost_no_more_than_some_readings(
    size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each header claims nearly all that follows, and has a wrong checksum."""
    count = size // SIZE
    header = header_at(values(40, "x"))
    headers = [HEADER.pack(*header._replace(length=(count - n - 1) * SIZE + SIZE - 12, crc=1)) for n in range(count)]
    data = b"\xff" * SIZE + b"".join(headers)
    read = 0

    checksum = Scan._crc

    def counted(scan: Scan, at: int, end: int) -> int:
        nonlocal read
        read += end - at
        return checksum(scan, at, end)

    monkeypatch.setattr(Scan, "_crc", counted)
    found = scanned(data)
    assert not found.chunks
    assert sum(damage.end - damage.start for damage in found.damage) == len(data)
    assert read <= 10 * len(data)
