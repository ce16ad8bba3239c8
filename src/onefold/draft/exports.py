"""A sample of an export: records from the head of the objects written last, read without Spark."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

from onefold.dataset.source import LAYOUTS, Encoding
from onefold.draft.sample import LARGEST, Position, Sample, Span, sample_of
from onefold.draft.segments import of_segment
from onefold.errors import NoDraftError
from onefold.formats.aiven import read_line
from onefold.formats.kafka import Row, rows_from_end
from onefold.formats.shapes import FormatError
from onefold.formats.sink import headers_of, is_lines, key_of_line, keys_of, value_of_line, values_of
from onefold.landing.exports import base_of, position_of, role_of
from onefold.landing.record import Record
from onefold.storage import ObjectInfo, Storage
from onefold.storage.objects import CHUNK, Seekable

_TYPICAL = 1_000
"""Bytes of a record, with which a number of records becomes a number of objects."""
_OBJECTS = 100
"""Objects that are opened, at most."""
_LONGEST = 16_000_000
"""Bytes of a line that is a record."""
_NOT_YET = (".avro", ".orc", ".bin")


@dataclass
class _Found:
    records: list[Record] = field(default_factory=list)
    unreadable: int = 0
    spans: list[Span] = field(default_factory=list)
    passed: list[Position] = field(default_factory=list)
    whole: bool = True


def newest_of_export(
    name: str, store: Storage, count: int, layout: str | None = None, topic: str | None = None
) -> tuple[str, Sample]:
    """The layout, and about `count` records of the objects written last, for the dataset `name`.

    Raises:
        NoDraftError: there is no object of a known layout, or no record of the topic in them.
    """
    objects = [one for one in store.list() if not one.unreachable]
    if not objects:
        raise NoDraftError(name, store.uri, "does not exist or is empty", "Name the folder that holds the export.")
    layout = layout or _layout(name, store, objects)
    values = [one for one in objects if role_of(layout, one.key) == "values"]
    if topic:
        values = [one for one in values if (position_of(one.key, layout) or (topic,))[0] == topic]
    found = _Found()
    left = count
    newest = _newest(values, count)
    there: dict[tuple[str, str], ObjectInfo] = {
        (base_of(one.key), role): one for one in objects if (role := role_of("connect", one.key))
    }
    readers: dict[str, Callable[[ObjectInfo], Iterator[Record | Position | None]]] = {
        "kcat": lambda one: map(_kcat, _lines(store, one.key)),
        "connect": lambda one: _of_connect(store, one, there),
        "aiven": lambda one: _of_aiven(store, one),
        "parquet": lambda one: _of_parquet(store, one),
        "segments": lambda one: of_segment(store, one),
    }
    for number, one in enumerate(newest):
        before = len(found.records)
        share = max(1, left // (len(newest) - number))
        try:
            _take(readers[layout](one), share, topic, found)
        except FormatError as error:
            raise NoDraftError(name, store.uri, f"{one.key}: {error}", _ADVICE) from error
        left -= len(found.records) - before
    if found.whole and len(newest) == len(values) and layout != "segments":  # one that is missing is no compaction
        found.spans = _joined(found.spans)
    exact = LAYOUTS[layout]
    spans = found.spans if exact else []
    sample = sample_of(store.uri, found.records, found.unreadable, spans, found.passed, exact=exact)
    if not sample.records:
        raise _no_record(name, store, layout, topic, len(newest), sample.unreadable)
    return layout, sample


def _no_record(name: str, store: Storage, layout: str, topic: str | None, opened: int, lines: int) -> NoDraftError:
    of = f" of topic {topic}" if topic else ""
    if not opened:
        return NoDraftError(name, store.uri, f"no objects of layout {layout}{of}", "Name another folder or layout.")
    problem = f"{opened} objects of layout {layout} hold no record{of} ({lines} lines that are none)"
    return NoDraftError(name, store.uri, problem, "Name another folder or topic.")


def _layout(name: str, store: Storage, objects: Sequence[ObjectInfo]) -> str:
    """What the objects' names say, and for lines the first one."""
    if any(role_of("connect", one.key) == "values" for one in objects):
        return "connect"
    if any(role_of("parquet", one.key) for one in objects):
        return "parquet"
    if any(role_of("segments", one.key) for one in objects):
        return "segments"
    lined = _newest([one for one in objects if role_of("kcat", one.key) or role_of("aiven", one.key)], 1)
    if not lined:
        ending = next((one.key for one in objects if one.key.removesuffix(".gz").endswith(_NOT_YET)), None)
        problem = f"{ending}: this layout is not_supported_yet" if ending else f"{objects[0].key} is of no known layout"
        raise NoDraftError(name, store.uri, problem, _ADVICE)
    first = next((line for line in _lines(store, lined[0].key) if line.strip()), b"")
    if role_of("aiven", lined[0].key) and (not first or read_line(first, Encoding()).problem is None):
        return "aiven"
    if first and _kcat(first) is None:
        problem = f"{lined[0].key} does not begin with a line of kcat -J (with topic, partition and offset)"
        raise NoDraftError(name, store.uri, problem, _ADVICE)
    return "kcat"


_ADVICE = (
    "What can be read: JSON lines of `kcat -J` (--layout kcat); objects of Kafka Connect's S3 sink in JSON, Avro or "
    "Parquet, called <topic>+<partition>+<offset>.json (--layout connect); JSON lines of Aiven's S3 sink, called "
    "<topic>-<partition>-<offset>.gz (--layout aiven); Parquet with Kafka's own columns (--layout parquet); a broker's "
    "log segments, called <topic>-<partition>/<first offset>.log (--layout segments)."
)


def _newest(values: list[ObjectInfo], count: int) -> list[ObjectInfo]:
    """The objects written last that hold about `count` records, the shortest first."""
    by_age = sorted(values, key=lambda one: (one.modified, one.key))
    taken: list[ObjectInfo] = []
    while by_age and len(taken) < _OBJECTS and sum(one.size for one in taken) < count * _TYPICAL:
        taken.append(by_age.pop())
    return sorted(taken, key=lambda one: one.size)


def _take(read: Iterator[Record | Position | None], share: int, topic: str | None, found: _Found) -> None:
    """Take up to `share` records of an object, and what they span."""
    seen: dict[tuple[str, int], list[int]] = {}
    for record in islice(read, share):
        if record is None:
            found.unreadable += 1
        elif isinstance(record, tuple):
            found.passed.append(record)
            seen.setdefault(record[:2], []).append(record[2])
        elif topic in (None, record.topic):
            found.records.append(record)
            seen.setdefault((record.topic, record.partition), []).append(record.offset)
    found.whole &= next(read, _NONE) is _NONE
    found.spans += [(*where, min(offsets), max(offsets)) for where, offsets in seen.items()]


# kcat: a record a line.


def _kcat(line: bytes) -> Record | None:
    told = _json(line)
    if not isinstance(told, dict):
        return None
    topic, partition, offset = told.get("topic"), told.get("partition"), told.get("offset")
    key, payload, stamp = told.get("key"), told.get("payload"), told.get("ts")
    texts = all(one is None or isinstance(one, str) for one in (key, payload)) and "payload" in told
    if not (isinstance(topic, str) and isinstance(partition, int) and isinstance(offset, int) and texts):
        return None
    flat: Any = told.get("headers")
    pairs = zip(flat[::2], flat[1::2], strict=False) if isinstance(flat, list) else ()
    headers = tuple((str(name), _as_text(value)) for name, value in pairs)
    timestamp = stamp if isinstance(stamp, int) and stamp >= 0 else None
    return Record(topic, partition, offset, timestamp, _bytes(key), _bytes(payload), headers)


# Connect: values, keys and headers in objects of their own.


def _of_connect(store: Storage, one: ObjectInfo, there: dict[tuple[str, str], ObjectInfo]) -> Iterator[Record | None]:
    position = position_of(one.key)
    assert position
    topic, partition, start = position
    base = base_of(one.key)
    found = {"values": one} | {role: there[base, role] for role in ("keys", "headers") if (base, role) in there}
    told = {role: _told(store, other, role) for role, other in found.items()}
    for index, row in enumerate(zip_longest(*told.values(), fillvalue=_NONE)):
        if _NONE in row:
            yield None
            continue
        parts = dict(zip(told, row, strict=True))
        value, key, headers = parts["values"], parts.get("keys"), _headers(parts.get("headers"))
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
    """Values, keys or headers of an object, as far as they can be read; lines as they are asked for."""
    if is_lines(one.key):
        yield from map(_BY_LINE[role], _lines(store, one.key))
    elif one.size <= LARGEST:
        with suppress(FormatError):
            yield from _WHOLE[role](one.key, memoryview(store.read(one.key) or b""))[1]


# Aiven: lines with their offset.


def _of_aiven(store: Storage, one: ObjectInfo) -> Iterator[Record | None]:
    position = position_of(one.key, "aiven")
    assert position
    topic, partition, _ = position
    for line in _lines(store, one.key):
        told = read_line(line, Encoding())
        good = told.problem is None and told.offset is not None
        yield (
            Record(topic, partition, told.offset or 0, told.timestamp, told.key, told.value, told.headers)
            if good
            else None
        )


# Parquet: Kafka's own columns.


def _of_parquet(store: Storage, one: ObjectInfo) -> Iterator[Record | None]:
    for row in rows_from_end(Seekable(store, one.key, one.size)):
        yield _record(row)


def _record(row: Row) -> Record | None:
    """A row's record; None: its position is none that Kafka has."""
    topic, partition, offset = row.topic, row.partition, row.offset
    if topic is None or partition is None or offset is None or not (0 <= partition < 2**31 and offset >= 0):
        return None
    timestamp = row.timestamp if row.timestamp is not None and row.timestamp >= 0 else None
    return Record(topic, partition, offset, timestamp, row.key, row.value, row.headers)


def _headers(line: bytes | None) -> tuple[tuple[str, str | None], ...]:
    told = _json(line or b"")
    listed = told.get("headers") if isinstance(told, dict) else None
    pairs = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    return tuple((str(one.get("key")), _as_text(one.get("value"))) for one in pairs)


def _joined(spans: list[Span]) -> list[Span]:
    """One span a partition: nothing of it was left out."""
    logs: dict[tuple[str, int], list[int]] = {}
    for topic, partition, first, last in spans:
        logs.setdefault((topic, partition), []).extend((first, last))
    return [(*where, min(offsets), max(offsets)) for where, offsets in logs.items()]


def _lines(store: Storage, key: str) -> Iterator[bytes]:
    """The lines of an object as they are asked for; the rest of it is not read."""
    with closing(store.open(key)) as stream:
        read = gzip.GzipFile(fileobj=stream).read1 if key.endswith(".gz") else stream.read
        rest, total = b"", 0
        while (chunk := _chunk(read)) and total <= LARGEST and len(rest) <= _LONGEST:
            total += len(chunk)
            *lines, rest = (rest + chunk).split(b"\n")
            yield from lines
        if rest:
            yield rest


def _chunk(read: Callable[[int], bytes]) -> bytes:
    try:
        return read(CHUNK)
    except (EOFError, gzip.BadGzipFile, zlib.error):  # what it holds so far was read
        return b""


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


def _as_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value)
