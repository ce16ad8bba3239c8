"""What an object of each layout holds, read without Spark: from its end where that can be done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from onefold.dataset.layouts.layout import base_of, is_tombstones, position_of
from onefold.dataset.source import Encoding
from onefold.draft.readers.lines import is_packed, lines_from_end, lines_from_front
from onefold.draft.readers.segments import SCANNED, of_segment
from onefold.draft.sample import Item
from onefold.formats.aiven import read_line
from onefold.formats.connect import (
    LARGEST,
    headers_of,
    is_lines,
    key_of_line,
    keys_of,
    pairs_of,
    value_of_line,
    values_of,
)
from onefold.formats.kafka_columns import Row, rows_from_end
from onefold.formats.structured_json import FormatError
from onefold.formats.text import bytes_of, header_of, line_of, text_of
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage
from onefold.storage.objects import Seekable

Companions = Mapping[tuple[str, str], ObjectInfo]
"""Objects of Connect's sink, by what they share with others (`base_of`) and their role."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What an object holds, as it is asked for: a record, the position of what is none, or None for what is no record.

    Asking raises FormatError where it cannot be read on.
    """

    items: Iterator[Item]
    from_end: bool
    """The last one comes first; else the first one."""
    left_out: str = ""
    """What of the object is not read, and why."""


def reading(layout: str, store: Storage, one: ObjectInfo, there: Companions) -> Reading:
    """How an object of a layout is read."""
    match layout:
        case "connect":
            return _of_connect(store, one, there)
        case "parquet":
            return Reading(map(_of_row, rows_from_end(Seekable(store, one.key, one.size))), from_end=True)
        case "segments":
            left_out = f"behind its first {SCANNED:,} bytes it was not read, where its newest records are"
            return Reading(of_segment(store, one), from_end=True, left_out=left_out if one.size > SCANNED else "")
    made = _decoded_by_kcat if layout == "kcat" else _of_aiven(one)
    if is_packed(one.key):
        return Reading(map(made, lines_from_front(store, one.key)), from_end=False)
    return Reading(map(made, lines_from_end(store, one)), from_end=True)


# kcat: a record a line.


def record_of_kcat(line: bytes) -> Record | None:
    """The record of a line; None: it is none."""
    members = _told_by_kcat(line)
    if not isinstance(members, dict):
        return None
    topic, partition, offset = members.get("topic"), members.get("partition"), members.get("offset")
    key, payload, stamp = members.get("key"), members.get("payload"), members.get("ts")
    texts = all(one is None or isinstance(one, str) for one in (key, payload)) and "payload" in members
    if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int) and texts):
        return None
    given: Any = members.get("headers")
    flat = zip(given[::2], given[1::2], strict=False) if isinstance(given, list) else ()
    pairs = given.items() if isinstance(given, dict) else flat
    headers = tuple((str(name), text_of(header_of(value))) for name, value in pairs)
    timestamp = stamp if isinstance(stamp, int) and stamp >= 0 else None
    return Record(topic, partition, offset, timestamp, _bytes(key), _bytes(payload), headers)


def _decoded_by_kcat(line: bytes) -> Record | None:
    """The record of a line; None also where kcat says that it could not decode it, for its null is no value."""
    members = _told_by_kcat(line)
    failed = isinstance(members, dict) and any(members.get(f"{part}_error") is not None for part in ("key", "payload"))
    return None if failed else record_of_kcat(line)


def _told_by_kcat(line: bytes) -> Any:
    try:
        return json.loads(line_of(line))
    except (ValueError, RecursionError):
        return None


# Aiven: lines with their offset.


def _of_aiven(one: ObjectInfo) -> Callable[[bytes], Record | None]:
    position = position_of(one.key, "aiven")
    assert position
    topic, partition, _ = position

    def record(line: bytes) -> Record | None:
        found = read_line(line, Encoding())
        if found.problem is not None or found.offset is None:
            return None
        headers = tuple((name, text_of(value)) for name, value in found.headers)
        return Record(topic, partition, found.offset, found.timestamp, found.key, found.value, headers)

    return record


# Connect: values, keys and headers in objects of their own. Offsets are counted from the front.


def _of_connect(store: Storage, one: ObjectInfo, there: Companions) -> Reading:
    base = base_of(one.key)
    own = "keys" if is_tombstones("connect", one.key) else "values"
    found = {own: one} | {role: there[base, role] for role in ("keys", "headers") if (base, role) in there}
    for role, other in found.items():
        if other.size > LARGEST:
            what = "it has" if other is one else f"its {role}, {other.key}, have"
            why = f"{what} {other.size:,} bytes, and `onefold run` takes at most {LARGEST:,}, too"
            return Reading(iter(()), from_end=False, left_out=why)
    return Reading(_connected(store, one, found), from_end=False)


def _connected(store: Storage, one: ObjectInfo, found: dict[str, ObjectInfo]) -> Iterator[Record | None]:
    position = position_of(one.key)
    assert position
    topic, partition, start = position
    told = {role: _told(store, other, role) for role, other in found.items()}
    for index, row in enumerate(zip_longest(*told.values(), fillvalue=_NONE)):
        if _NONE in row:
            yield None
            continue
        parts = dict(zip(told, row, strict=True))
        value, key, headers = parts.get("values"), parts.get("keys"), _headers(parts.get("headers"))
        yield Record(topic, partition, start + index, None, key, value, headers)


_NONE: Any = object()
"""Where a companion has no record."""


_BY_LINE: dict[str, Callable[[bytes], bytes | None]] = {
    "values": value_of_line,
    "keys": key_of_line,
    "headers": lambda line: line,
}
_WHOLE: dict[str, Callable[[str, memoryview], tuple[int, Iterator[bytes | None]]]] = {
    "values": lambda name, data: values_of(name, data, {}),
    "keys": keys_of,
    "headers": headers_of,
}


def _told(store: Storage, one: ObjectInfo, role: str) -> Iterator[bytes | None]:
    """Values, keys or headers of an object."""
    try:
        if is_lines(one.key):
            yield from map(_BY_LINE[role], lines_from_front(store, one.key))
        else:
            yield from _WHOLE[role](one.key, memoryview(store.read(one.key) or b""))[1]
    except FormatError as error:
        own = role == "values" or is_tombstones("connect", one.key)
        raise error if own else FormatError(f"its {role}, {one.key}: {error}") from error


def _headers(line: bytes | None) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, text_of(value)) for name, value in pairs_of(line) or ())


# Parquet: Kafka's own columns.


def _of_row(row: Row) -> Record | None:
    """A row's record; None: its position is none that Kafka has."""
    topic, partition, offset = row.topic, row.partition, row.offset
    if topic is None or partition is None or offset is None or not (0 <= partition < 2**31 and offset >= 0):
        return None
    timestamp = row.timestamp if row.timestamp is not None and row.timestamp >= 0 else None
    return Record(topic, partition, offset, timestamp, row.key, row.value, row.headers)


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes_of(text)
