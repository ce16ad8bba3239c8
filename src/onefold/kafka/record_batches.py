"""Kafka's record batches, format version 2, as they lie in a log segment: headers, checksums, what ends a transaction.

| bytes | field | |
| --- | --- | --- |
| 0-7 | base offset | not under the checksum |
| 8-11 | length | of all that follows this field |
| 12-15 | leader epoch | not under the checksum |
| 16 | magic | the format's version; at this place in every version |
| 17-20 | CRC-32C | of all that follows |
| 21-22 | attributes | 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 base timestamp is a delete horizon |
| 23-26 | last offset delta | kept by compaction, as the base offset is |
| 27-42 | base and maximum timestamp | |
| 43-56 | producer id, epoch, base sequence | -1: none |
| 57-60 | number of records | 0: compaction took them all |

Source: Kafka's protocol guide, "Record Batch", "Record" and "Control Batches" (KIP-98).
"""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

from onefold.formats.expansion import ExpansionLimits

HEADER = struct.Struct(">qiibIhiqqqhii")
SIZE = HEADER.size
LENGTH_END = 12
"""Bytes before those that the field `length` counts."""
MAGIC_AT, CRC_START = 16, 21
_SMALLEST = SIZE - LENGTH_END
_RELATIVE = 1 << 31
"""Offsets of one segment are 32-bit distances from its first."""
_LAST_CODEC = 4
_XERIAL = b"\x82SNAPPY\0"
_ATTRIBUTES = 0x7F
SMALLEST_RECORD = 7
"""Bytes: length, attributes, timestamp, offset, key, value and number of headers, each of one byte."""
LARGEST = 1 << 30
"""Bytes of a batch's records, decompressed. A producer's buffer is smaller by far (max.request.size, 1 MiB by default;
librdkafka's message.max.bytes is at most 10⁹), and an Arrow column of bytes holds no 2³¹."""
_PIECE = 1 << 20
_SNAPPY_RATIO = 22
"""More than snappy's format can: three bytes give 64 at most."""
_HEAD = 31
"""Bytes of three numbers of ten bytes each and the attributes: a record up to its offset."""


class Header(NamedTuple):
    """A batch's first 61 bytes, in their order."""

    base: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_delta: int
    base_timestamp: int
    max_timestamp: int
    producer: int
    epoch: int
    sequence: int
    records: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return LENGTH_END + self.length

    @property
    def end(self) -> int:
        """The offset behind its last."""
        return self.base + self.last_delta + 1

    @property
    def transactional(self) -> bool:
        """Whether it belongs to a transaction, as data or as a marker."""
        return bool(self.attributes & 0x10)

    @property
    def control(self) -> bool:
        """Whether it is the broker's own: a marker."""
        return bool(self.attributes & 0x20)

    @property
    def codec(self) -> int:
        """How its records are compressed; 0: they are not."""
        return self.attributes & 7

    @property
    def crowded(self) -> bool:
        """Whether its records are more than its bytes could hold if they were not compressed."""
        return self.records * SMALLEST_RECORD > self.length - _SMALLEST

    @property
    def append_time(self) -> bool:
        """Whether the broker's clock stamped it, all records alike with the maximum timestamp."""
        return bool(self.attributes & 0x08)

    def problem(self, floor: int, start: int) -> str | None:
        """Why this is no header of a batch in a segment that starts at `start`, behind offset `floor`."""
        if fault := self.fault():
            return fault
        if not floor <= self.base < start + _RELATIVE:
            return f"its offset {self.base} is out of order behind {floor}"
        if self.end > start + _RELATIVE:
            return f"its offsets up to {self.end} are more than a segment's"
        return None

    def fault(self) -> str | None:
        """Why this is no header of a batch, wherever it is."""
        if self.magic != 2:
            return f"its format version is {self.magic}"
        if self.length < _SMALLEST:
            return f"its length is {self.length}"
        if self.last_delta < 0 or not 0 <= self.records <= self.last_delta + 1:
            return f"{self.records} records in {self.last_delta + 1} offsets"
        if self.attributes & ~_ATTRIBUTES or self.codec > _LAST_CODEC:
            return f"its attributes are {self.attributes:#x}"
        # What compaction has emptied ends with its header.
        if (self.crowded and not self.codec) or (not self.records and self.length > _SMALLEST):
            return f"{self.records} records in {self.length - _SMALLEST} bytes"
        return None


def header_at(data: bytes | memoryview, at: int = 0) -> Header:
    """The header at a place; there must be 61 bytes."""
    return Header._make(HEADER.unpack_from(data, at))


def decompressed(header: Header, body: bytes, limits: ExpansionLimits | None = None) -> bytes:
    """The records of a batch, from what follows its header.

    Raises:
        ValueError: it is not what the codec writes, or more than `LARGEST` bytes.
        FormatError: it is more than `limits` allow a block.
    """
    return b"".join(_pieces(header, body, limits)) if header.codec else body


def _pieces(header: Header, body: bytes, limits: ExpansionLimits | None = None) -> Iterator[bytes]:
    """The records of a batch in pieces of about a MiB, so that damage costs no more memory than is asked for."""
    size = 0
    for piece in _decompress(header.codec, body):
        size += len(piece)
        if header.codec and limits:
            limits.check_block_size(size)
        if header.codec and size > LARGEST:
            raise ValueError(f"decompressed it is more than {LARGEST:,} bytes")
        yield piece


def _decompress(codec: int, body: bytes) -> Iterator[bytes]:
    try:
        yield from _READERS[codec](body) if body else ()
    except Exception as error:  # each codec's library has errors of its own
        raise ValueError(f"it cannot be decompressed: {error}") from error


def _plain(body: bytes) -> Iterator[bytes]:
    yield body


def _gzip(body: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(body):
        member = zlib.decompressobj(wbits=31)
        while not member.eof:
            given = member.unconsumed_tail
            if not given:
                given, at = body[at : at + _PIECE], at + _PIECE
            piece = member.decompress(given, _PIECE)
            if not (given or piece or member.eof):
                raise ValueError("it ends within what is compressed")
            yield piece
        at = min(at, len(body)) - len(member.unused_data)
        while body[at : at + 1] == b"\0":  # gzip lets a member be padded
            at += 1


def _snappy(body: bytes) -> Iterator[bytes]:
    """Of librdkafka plain; Java's library writes blocks behind a header of 16 bytes, each with its length before it."""
    if not body.startswith(_XERIAL):
        yield _snappy_block(body)
        return
    at = 16
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        yield _snappy_block(body[at + 4 : end])
        at = end


def _snappy_block(block: bytes) -> bytes:
    """A block in one piece: it begins with its size, and the library takes the memory for it first."""
    import snappy

    size = shift = 0
    for byte in block[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > min(LARGEST, _SNAPPY_RATIO * len(block)):
        raise ValueError(f"a block of {len(block):,} bytes claims to hold {size:,}")
    return bytes(snappy.uncompress(block))


def _lz4(body: bytes) -> Iterator[bytes]:
    import lz4.frame

    frame = lz4.frame.LZ4FrameDecompressor()
    yield frame.decompress(body, _PIECE)
    while not frame.eof:
        if frame.needs_input:
            raise ValueError("it ends within what is compressed")
        yield frame.decompress(b"", _PIECE)


def _zstd(body: bytes) -> Iterator[bytes]:
    """Streamed: Java's library does not write the size of what it has compressed."""
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
        while piece := reader.read(_PIECE):
            yield piece


_READERS: tuple[Callable[[bytes], Iterator[bytes]], ...] = (_plain, _gzip, _snappy, _lz4, _zstd)


def last_record(header: Header, body: bytes) -> int:
    """The offset delta of a batch's last record; -1: it has none. Its records are separated from each other, not read.

    Raises:
        ValueError: they are not as many as the header says, or at other offsets.
    """
    count, last = 0, -1
    for delta in _deltas(header, body):
        count += 1
        if count > header.records:
            raise ValueError(f"there are more than {header.records}")
        if not last < delta <= header.last_delta:
            raise ValueError("their offsets are not the batch's")
        last = delta
    if count < header.records:
        raise ValueError(f"there are {count}, not {header.records}")
    return last


def _deltas(header: Header, body: bytes) -> Iterator[int]:
    """The offset delta of each record, without holding them all."""
    data, at = b"", 0
    for piece in chain(_pieces(header, body), [None]):
        if piece is not None:  # the place may lie behind what is there
            data, at = (data[at:] + piece, 0) if at < len(data) else (piece, at - len(data))
        needed = 1 if piece is None else _HEAD
        while at + needed <= len(data):
            try:
                length, at = varint(data, at)
                end = at + length
                _, at = varint(data, at + 1)
                delta, at = varint(data, at)
            except IndexError as error:
                raise ValueError("the last record is cut off") from error
            if length < SMALLEST_RECORD - 1:
                raise ValueError(f"a record is {length} bytes long")
            yield delta
            at = end
    if at != len(data):
        raise ValueError("the last record is cut off")


def records_end(header: Header, data: bytes | memoryview) -> int | None:
    """Where the last of the records ends that a header counts, in decompressed bytes; None: not all are there."""
    at = 0
    try:
        for _ in range(header.records):
            length, at = varint(data, at)
            at += length
            if length < SMALLEST_RECORD - 1 or at > len(data):
                return None
    except (IndexError, ValueError):
        return None
    return at


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """A zigzag variable-length integer of at most ten bytes, and the place behind it.

    Raises:
        IndexError: the data ends within it.
        ValueError: it does not end.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number of more than ten bytes")


def commits(header: Header, body: bytes) -> bool | None:
    """Whether a control batch's marker commits its transaction; None: it is another kind of control record.

    Raises:
        ValueError: it cannot be read.
    """
    if not header.records:
        return None
    try:
        records = decompressed(header, body)
        _, at = varint(records, 0)
        at += 1  # the record's attributes
        _, at = varint(records, at)
        _, at = varint(records, at)
        size, at = varint(records, at)
        if size < 4 or at + 4 > len(records):
            raise ValueError("its key is too short")
        _, kind = struct.unpack_from(">hh", records, at)
    except (IndexError, struct.error) as error:
        raise ValueError("it ends within a number") from error
    return {0: False, 1: True}.get(kind)
