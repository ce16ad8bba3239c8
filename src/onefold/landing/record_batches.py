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

import gzip
import io
import struct
from typing import NamedTuple

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
    def append_time(self) -> bool:
        """Whether the broker's clock stamped it, all records alike with the maximum timestamp."""
        return bool(self.attributes & 0x08)

    def problem(self, floor: int, start: int) -> str | None:
        """Why this is no header of a batch in a segment that starts at `start`, behind offset `floor`."""
        if self.magic != 2:
            return f"its format version is {self.magic}"
        if self.length < _SMALLEST:
            return f"its length is {self.length}"
        if not 0 <= self.records <= self.last_delta + 1:
            return f"{self.records} records in {self.last_delta + 1} offsets"
        if self.attributes & ~_ATTRIBUTES or self.attributes & 7 > _LAST_CODEC:
            return f"its attributes are {self.attributes:#x}"
        if not floor <= self.base < start + _RELATIVE:
            return f"its offset {self.base} is out of order behind {floor}"
        return None


def header_at(data: bytes | memoryview, at: int = 0) -> Header:
    """The header that stands at a place; there must be 61 bytes."""
    return Header._make(HEADER.unpack_from(data, at))


def decompressed(header: Header, body: bytes) -> bytes:
    """The records of a batch, from what follows its header.

    Raises:
        ValueError: it is not what the codec writes.
    """
    codec = header.attributes & 7
    if codec == 0:
        return body
    try:
        return (_gzip, _snappy, _lz4, _zstd)[codec - 1](body)
    except Exception as error:  # each codec's library has errors of its own
        raise ValueError(f"it cannot be decompressed: {error}") from error


def _gzip(body: bytes) -> bytes:
    return gzip.decompress(body)


def _snappy(body: bytes) -> bytes:
    """Of librdkafka plain; Java's library writes blocks behind a header of 16 bytes, each with its length before it."""
    import snappy

    if not body.startswith(_XERIAL):
        return bytes(snappy.uncompress(body))
    blocks, at = [], 16
    while at < len(body):
        end = at + 4 + int.from_bytes(body[at : at + 4], "big")
        blocks.append(snappy.uncompress(body[at + 4 : end]))
        at = end
    return b"".join(blocks)


def _lz4(body: bytes) -> bytes:
    import lz4.frame

    return bytes(lz4.frame.decompress(body))


def _zstd(body: bytes) -> bytes:
    """Streamed: Java's library does not write the size of what it has compressed."""
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(body), read_across_frames=True) as reader:
        return reader.read()


def varint(data: bytes, at: int) -> tuple[int, int]:
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
