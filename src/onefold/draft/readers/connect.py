"""Objects of layout connect: values, keys and headers in objects of their own. Offsets are counted from the front."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import zip_longest
from typing import Any

from onefold.dataset.layouts.connect import CONNECT, is_tombstones
from onefold.draft.readers.lines import lines_from_front
from onefold.draft.readers.reader import Companions, DraftReader, Reading
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
from onefold.formats.structured_json import FormatError
from onefold.formats.text import text_of
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage


def _read(store: Storage, object_: ObjectInfo, companions: Companions) -> Reading:
    group = CONNECT.group_of(object_.key)
    own = "keys" if is_tombstones(object_.key) else "values"
    roles = [role for role in ("keys", "headers") if (group, role) in companions]
    parts = {own: object_} | {role: companions[group, role] for role in roles}
    for role, part in parts.items():
        if part.size > LARGEST:
            what = "it has" if part is object_ else f"its {role}, {part.key}, have"
            why = f"{what} {part.size:,} bytes, and `onefold run` takes at most {LARGEST:,}, too"
            return Reading(iter(()), from_end=False, left_out=why)
    return Reading(_records(store, object_, parts), from_end=False)


def _records(store: Storage, object_: ObjectInfo, parts: dict[str, ObjectInfo]) -> Iterator[Record | None]:
    position = CONNECT.position_of(object_.key)
    assert position
    topic, partition, start = position
    columns = {role: _part(store, part, role) for role, part in parts.items()}
    for index, row in enumerate(zip_longest(*columns.values(), fillvalue=_NONE)):
        if _NONE in row:
            yield None
            continue
        given = dict(zip(columns, row, strict=True))
        value, key, headers = given.get("values"), given.get("keys"), _headers(given.get("headers"))
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


def _part(store: Storage, object_: ObjectInfo, role: str) -> Iterator[bytes | None]:
    """Values, keys or headers of an object."""
    try:
        if is_lines(object_.key):
            yield from map(_BY_LINE[role], lines_from_front(store, object_.key))
        else:
            yield from _WHOLE[role](object_.key, memoryview(store.read(object_.key) or b""))[1]
    except FormatError as error:
        own = role == "values" or is_tombstones(object_.key)
        raise error if own else FormatError(f"its {role}, {object_.key}: {error}") from error


def _headers(line: bytes | None) -> tuple[tuple[str, str | None], ...]:
    return tuple((name, text_of(value)) for name, value in pairs_of(line) or ())


READER = DraftReader(
    objects="objects of Kafka Connect's S3 sink in JSON, Avro or Parquet, called <topic>+<partition>+<offset>.json",
    reason="objects called <topic>+<partition>+<offset>: offsets are inferred, so positions decide nothing",
    rank=10,
    read=_read,
)
