"""A sample of an export: lines from the head of the objects written last, read as text without Spark."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice, zip_longest
from typing import Any

from onefold.draft.sample import LARGEST, Sample, Span, sample_of
from onefold.errors import NoDraftError
from onefold.landing.exports import base_of, position_of, role_of
from onefold.landing.record import Record
from onefold.storage import ObjectInfo, Storage
from onefold.storage.objects import CHUNK

_TYPICAL = 1_000
"""Bytes of a record, with which a number of records becomes a number of objects."""
_OBJECTS = 100
"""Objects that are opened, at most."""
_LONGEST = 16_000_000
"""Bytes of a line that is a record."""
_NOT_YET = (".parquet", ".avro", ".log", ".orc", ".bin")


@dataclass
class _Found:
    records: list[Record] = field(default_factory=list)
    unreadable: int = 0
    spans: list[Span] = field(default_factory=list)
    whole: bool = True


def newest_of_export(
    name: str, store: Storage, count: int, layout: str | None = None, topic: str | None = None
) -> tuple[str, Sample]:
    """The layout, and about `count` records of the objects written last, for the dataset `name`.

    Raises:
        NoDraftError: there is no object of a known layout, or no record of the topic in them.
    """
    objects = list(store.list())
    if not objects:
        raise NoDraftError(name, store.uri, "does not exist or is empty", "Name the folder that holds the export.")
    layout = layout or _layout(name, store, objects)
    values = [one for one in objects if role_of(layout, one.key) == "values"]
    if topic and layout == "connect":
        values = [one for one in values if (position_of(one.key) or ("",))[0] == topic]
    found = _Found()
    left = count
    newest = _newest(values, count)
    keys = {one.key for one in objects}
    for number, one in enumerate(newest):
        before = len(found.records)
        share = max(1, left // (len(newest) - number))
        if layout == "connect":
            _read_connect(store, one.key, keys, share, found)
        else:
            _read_kcat(store, one.key, share, topic, found)
        left -= len(found.records) - before
    if found.whole and len(newest) == len(values):
        found.spans = _joined(found.spans)
    spans = found.spans if layout == "kcat" else []
    sample = sample_of(store.uri, found.records, found.unreadable, spans, exact=layout != "connect")
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
    """What the objects' names say, and for kcat the first line."""
    if any(role_of("connect", one.key) == "values" for one in objects):
        return "connect"
    lined = _newest([one for one in objects if role_of("kcat", one.key)], 1)
    if not lined:
        ending = next((one.key for one in objects if one.key.removesuffix(".gz").endswith(_NOT_YET)), None)
        problem = f"{ending}: this layout is not_supported_yet" if ending else f"{objects[0].key} is of no known layout"
        raise NoDraftError(name, store.uri, problem, _LAYOUTS)
    first = next((line for line in _lines(store, lined[0].key) if line.strip()), b"")
    if first and _kcat(first) is None:
        problem = f"{lined[0].key} does not begin with a line of kcat -J (with topic, partition and offset)"
        raise NoDraftError(name, store.uri, problem, _LAYOUTS)
    return "kcat"


_LAYOUTS = (
    "What can be read: JSON lines of `kcat -J` (--layout kcat), and JSON objects of Kafka Connect's S3 sink, called "
    "<topic>+<partition>+<offset>.json (--layout connect)."
)


def _newest(values: list[ObjectInfo], count: int) -> list[ObjectInfo]:
    """The objects written last that hold about `count` records, the shortest first."""
    by_age = sorted(values, key=lambda one: (one.modified, one.key))
    taken: list[ObjectInfo] = []
    while by_age and len(taken) < _OBJECTS and sum(one.size for one in taken) < count * _TYPICAL:
        taken.append(by_age.pop())
    return sorted(taken, key=lambda one: one.size)


# kcat: a record a line.


def _read_kcat(store: Storage, key: str, share: int, topic: str | None, found: _Found) -> None:
    lines = _lines(store, key)
    seen: dict[tuple[str, int], list[int]] = {}
    for line in islice(lines, share):
        record = _kcat(line)
        if record is None:
            found.unreadable += 1
            continue
        if topic in (None, record.topic):
            found.records.append(record)
            seen.setdefault((record.topic, record.partition), []).append(record.offset)
    found.whole &= next(lines, None) is None
    found.spans += [(*where, min(offsets), max(offsets)) for where, offsets in seen.items()]


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


# Connect: a value a line, keys and headers in companions.


def _read_connect(store: Storage, key: str, there: set[str], share: int, found: _Found) -> None:
    position = position_of(key)
    assert position
    topic, partition, start = position
    lines = {"values": _lines(store, key)}
    lines |= {
        role_of("connect", other) or "": _lines(store, other)
        for part in (".keys", ".headers")
        if (other := key.replace(".json", f"{part}.json")) in there and base_of(other) == key
    }
    rows = zip_longest(*lines.values())
    for index, row in enumerate(islice(rows, share)):
        told = dict(zip(lines, row, strict=True))
        value = told["values"]
        if value is None or any(line is None for line in told.values()):
            found.unreadable += 1
            continue
        payload = None if value.strip() == b"null" else value
        headers = _headers(told.get("headers"))
        record = Record(topic, partition, start + index, None, _connect_key(told.get("keys")), payload, headers)
        found.records.append(record)
    found.whole &= next(rows, None) is None


def _connect_key(line: bytes | None) -> bytes | None:
    """A string key is written as a JSON string; any other key stands as its JSON text."""
    if line is None or line.strip() == b"null":
        return None
    told = _json(line)
    return _bytes(told) if isinstance(told, str) else line


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
