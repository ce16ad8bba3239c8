"""The records of Kafka's record batches as Arrow columns: one tight loop over the decompressed bytes.

A record: length, attributes (a byte), timestamp and offset as distances from the batch's, key, value, headers. All
lengths and distances are zigzag varints, most of one byte: that path is written out, a call would cost more than it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from onefold.formats.expansion import ExpansionLimits
from onefold.kafka.record_batches import SIZE, Header, decompressed, header_at, varint

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
"""The type of a record's headers, in Arrow."""
SCHEMA = pa.schema(
    [
        ("timestamp", pa.int64()),
        ("offset", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", HEADERS),
        ("unreadable", pa.string()),
        ("producer_id", pa.int64()),
        ("producer_epoch", pa.int32()),
        ("sequence", pa.int32()),
        ("transactional", pa.bool_()),
        ("control", pa.bool_()),
        ("base", pa.int64()),
    ]
)
"""What `parse` gives; `base` is the base offset of the record's batch, by which its transaction is found."""
FULL = 16 << 20
"""Bytes of keys and values after which an Arrow batch is given out."""
_ROWS = 20_000
_WRAP = 1 << 31
"""Sequences go on at 0 behind 2^31 - 1."""
_SHOWN = 64 << 10

Pairs = list[tuple[str, bytes | None]]


@dataclass
class _Columns:
    """Rows of several batches; what all records of a batch share is kept once a batch."""

    deltas: list[int] = field(default_factory=list)
    stamps: list[int] = field(default_factory=list)
    keys: list[bytes | None] = field(default_factory=list)
    values: list[bytes | None] = field(default_factory=list)
    headers: dict[int, Pairs] = field(default_factory=dict)
    """By row; most records have none."""
    unreadable: dict[int, str] = field(default_factory=dict)
    batches: list[tuple[Header, int]] = field(default_factory=list)
    """With the rows of each."""
    size: int = 0

    def cut(self, rows: int) -> None:
        """Take back what a batch gave that could not be read to its end."""
        for column in (self.deltas, self.stamps, self.keys, self.values):
            del column[rows:]
        self.headers = {row: pairs for row, pairs in self.headers.items() if row < rows}

    def table(self) -> pa.RecordBatch:
        rows = [count for _, count in self.batches]

        def repeated(of: Any, kind: Any = np.int64) -> Any:
            return np.repeat(np.array([of(header) for header, _ in self.batches], dtype=kind), rows)

        base, producer = repeated(lambda header: header.base), repeated(lambda header: header.producer)
        deltas = np.array(self.deltas, dtype=np.int64)
        stamps = repeated(lambda header: header.base_timestamp) + np.array(self.stamps, dtype=np.int64)
        stamps = np.where(
            repeated(lambda header: header.append_time, np.bool_), repeated(lambda header: header.max_timestamp), stamps
        )
        first = repeated(lambda header: header.sequence)
        anonymous = producer < 0
        return pa.record_batch(
            [
                pa.array(stamps, mask=stamps < 0),
                pa.array(base + deltas),
                pa.array(self.keys, pa.binary()),
                pa.array(self.values, pa.binary()),
                self._headers(len(deltas)),
                _sparse(self.unreadable, len(deltas)),
                pa.array(producer, mask=anonymous),
                pa.array(repeated(lambda header: header.epoch, np.int32), mask=anonymous),
                pa.array(((first + deltas) % _WRAP).astype(np.int32), mask=anonymous | (first < 0)),
                pa.array(repeated(lambda header: header.transactional, np.bool_)),
                pa.array(repeated(lambda header: header.control, np.bool_)),
                pa.array(base),
            ],
            schema=SCHEMA,
        )

    def _headers(self, rows: int) -> pa.Array:
        counts = np.zeros(rows + 1, dtype=np.int32)
        for row, pairs in self.headers.items():
            counts[row + 1] = len(pairs)
        flat = [pair for row in sorted(self.headers) for pair in self.headers[row]]
        pairs = pa.StructArray.from_arrays(
            [pa.array([name for name, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.binary())],
            names=["key", "value"],
        )
        return pa.ListArray.from_arrays(pa.array(np.cumsum(counts, dtype=np.int32)), pairs)


def _sparse(given: dict[int, str], rows: int) -> pa.Array:
    return pa.array([given.get(row) for row in range(rows)], pa.string()) if given else pa.nulls(rows, pa.string())


def parse(data: bytes, limits: ExpansionLimits | None = None) -> Iterator[pa.RecordBatch]:
    """The rows (`SCHEMA`) of whole, undamaged record batches that lie one behind the other.

    Gives exactly as many rows as the headers count, markers among them (without key and value). A batch whose
    records cannot be read, though its checksum is right, gives rows that say so, with its bytes in the first.

    Raises:
        FormatError: a batch unpacks to more than `limits` allow a block.
    """
    columns, at = _Columns(), 0
    while at + SIZE <= len(data):
        header = header_at(data, at)
        body = data[at + SIZE : at + header.size]
        before = len(columns.deltas)
        try:
            records = decompressed(header, body, limits)
            if header.control:
                _read_markers(records, header, columns)
            else:
                _read(records, header.records, header.last_delta, columns)
            columns.size += len(records)
            columns.batches.append((header, header.records))
        except (IndexError, ValueError) as error:
            columns.cut(before)
            for unread in _unread(header, body, str(error) or "it ends within a record"):
                if columns.deltas:
                    yield columns.table()
                columns = unread
        at += header.size
        if len(columns.deltas) >= _ROWS or columns.size >= FULL:
            yield columns.table()
            columns = _Columns()
    if columns.deltas:
        yield columns.table()


def _unread(header: Header, body: bytes, why: str) -> Iterator[_Columns]:
    """A row for each record that the header counts, some at a time: the count may be what is damaged."""
    said = f"a record batch of offsets {header.base} to {header.end} cannot be read: {why}"
    for start in range(0, header.records, _ROWS):
        rows = min(_ROWS, header.records - start)
        yield _Columns(
            deltas=list(range(start, start + rows)),
            stamps=[0] * rows,
            keys=[None] * rows,
            values=[None if start else body[:_SHOWN], *[None] * (rows - 1)],
            unreadable=dict.fromkeys(range(rows), said),
            batches=[(header, rows)],
        )


def _read_markers(records: bytes, header: Header, columns: _Columns) -> None:
    """Markers' positions and times; what they say was read when they were landed."""
    keys, values = len(columns.keys), len(columns.values)
    _read(records, header.records, header.last_delta, columns)
    columns.keys[keys:] = [None] * header.records
    columns.values[values:] = [None] * header.records


def _read(data: bytes, count: int, last: int, columns: _Columns) -> None:  # noqa: PLR0912, PLR0915 - the hot loop, written out
    """Append the records of a batch.

    Raises:
        IndexError, ValueError: they are not as the format has them.
    """
    deltas, stamps = columns.deltas.append, columns.stamps.append
    keys, values, headers = columns.keys.append, columns.values.append, columns.headers
    before, at, size = len(columns.deltas), 0, len(data)
    for row in range(before, before + count):
        byte = data[at]
        if byte < 0x80:
            at += 1
            end = at + (byte >> 1)
        else:
            byte2 = data[at + 1]
            if byte2 < 0x80:
                at += 2
                end = at + (((byte & 0x7F) | (byte2 << 7)) >> 1)
            else:
                length, at = varint(data, at)
                end = at + length
        at += 1  # the record's attributes: none are defined
        byte = data[at]
        if byte < 0x80:
            at += 1
            stamps((byte >> 1) ^ -(byte & 1))
        else:
            number, at = varint(data, at)
            if number.bit_length() > 63:
                raise ValueError("a record's timestamp is more than 64 bits")
            stamps(number)
        byte = data[at]
        if byte < 0x80:
            at += 1
            deltas(byte >> 1)
        else:
            byte2 = data[at + 1]
            if byte2 < 0x80:
                at += 2
                deltas(((byte & 0x7F) | (byte2 << 7)) >> 1)
            else:
                number, at = varint(data, at)
                if not 0 <= number <= last:
                    raise ValueError("a record's offset is not the batch's")
                deltas(number)
        byte = data[at]
        if byte < 0x80:
            at += 1
            number = (byte >> 1) ^ -(byte & 1)
        else:
            number, at = varint(data, at)
        if number >= 0:
            stop = at + number
            keys(data[at:stop])
            at = stop
        else:
            keys(None)
        byte = data[at]
        if byte < 0x80:
            at += 1
            number = (byte >> 1) ^ -(byte & 1)
        else:
            byte2 = data[at + 1]
            if byte2 < 0x80:
                at += 2
                number = (byte & 0x7F) | (byte2 << 7)
                number = (number >> 1) ^ -(number & 1)
            else:
                number, at = varint(data, at)
        if number >= 0:
            stop = at + number
            values(data[at:stop])
            at = stop
        else:
            values(None)
        if data[at]:
            headers[row], at = _pairs(data, at)
        else:
            at += 1
        if at != end or at > size:
            raise ValueError("a record's length is not that of its parts")
    if count and not 0 <= columns.deltas[before] <= columns.deltas[-1] <= last:
        raise ValueError("its records' offsets are not its own")
    if at != size:
        raise ValueError(f"{size - at} bytes follow its last record")


def _pairs(data: bytes, at: int) -> tuple[Pairs, int]:
    """A record's headers; a name that is no text is a name that no dataset file says."""
    count, at = varint(data, at)
    if not 0 <= count <= len(data):
        raise ValueError(f"{count} headers")
    pairs: Pairs = []
    for _ in range(count):
        size, at = varint(data, at)
        name = data[at : at + size].decode("utf-8", "replace")
        at += size
        size, at = varint(data, at)
        value = None
        if size >= 0:
            value = data[at : at + size]
            at += size
        pairs.append((name, value))
    return pairs, at
