"""Objects of layout kcat: a record a line."""

from __future__ import annotations

import json
from typing import Any

from onefold.draft.readers.lines import first_line, read_lines
from onefold.draft.readers.reader import Companions, DraftReader, Reading
from onefold.formats.text import bytes_of, header_of, line_of, text_of
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage


def record_of_line(line: bytes) -> Record | None:
    """The record of a line; None: it is no line of a record."""
    members = _members(line)
    if not isinstance(members, dict):
        return None
    topic, partition, offset = members.get("topic"), members.get("partition"), members.get("offset")
    key, payload, stamp = members.get("key"), members.get("payload"), members.get("ts")
    texts = all(part is None or isinstance(part, str) for part in (key, payload)) and "payload" in members
    if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int) and texts):
        return None
    given: Any = members.get("headers")
    flat = zip(given[::2], given[1::2], strict=False) if isinstance(given, list) else ()
    pairs = given.items() if isinstance(given, dict) else flat
    headers = tuple((str(name), text_of(header_of(value))) for name, value in pairs)
    timestamp = stamp if isinstance(stamp, int) and stamp >= 0 else None
    return Record(topic, partition, offset, timestamp, _bytes(key), _bytes(payload), headers)


def _decoded_record(line: bytes) -> Record | None:
    """The record of a line; None also where kcat says that it could not decode it, for its null is no value."""
    members = _members(line)
    failed = isinstance(members, dict) and any(members.get(f"{part}_error") is not None for part in ("key", "payload"))
    return None if failed else record_of_line(line)


def _members(line: bytes) -> Any:
    try:
        return json.loads(line_of(line))
    except (ValueError, RecursionError):
        return None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes_of(text)


def _read(store: Storage, object_: ObjectInfo, companions: Companions) -> Reading:
    del companions
    return read_lines(store, object_, _decoded_record)


def _begins(object_: ObjectInfo, line: bytes) -> bool:
    del object_  # the name of such an object may be any
    return not line or record_of_line(line) is not None


def _first_records(store: Storage, object_: ObjectInfo) -> list[Record]:
    first = record_of_line(first_line(store, object_))
    return [first] if first else []


READER = DraftReader(
    objects="JSON lines of `kcat -J`",
    reason="lines with topic, partition and offset",
    rank=50,
    read=_read,
    begins=_begins,
    first_records=_first_records,
)
