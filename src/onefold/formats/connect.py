"""Objects of Kafka Connect's S3 sink in any of its formats, record by record: values, keys and headers.

The sink puts a key of Parquet into `{key}` and headers into `{headers}`; Avro holds both as they are, headers as a list
of {key, value} (confluentinc/kafka-connect-storage-cloud, `RecordViews`). Formats of values and companions may differ.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from typing import Any

import pyarrow as pa

from onefold.dataset.types import FieldType
from onefold.formats.avro import count_avro, read_avro
from onefold.formats.expansion import LIMITS, ExpansionLimits
from onefold.formats.parquet import read_parquet
from onefold.formats.structured_json import FormatError, Shape, encoded, encoder, writer
from onefold.formats.text import BOM, Number, bytes_of, header_of, line_of, parse_exactly

Part = bytes | None
"""A value, a key, or the headers of a record; None: null."""
Headers = list[tuple[str, bytes | None]]
LARGEST = 256 << 20
"""Bytes of an object that is held whole; as it lies there, for it is unpacked as it is read."""
CHUNK = 1 << 20
"""Bytes that are unpacked at once."""


def values_of(
    name: str, data: memoryview, fields: Mapping[str, FieldType], limits: ExpansionLimits = LIMITS
) -> tuple[int, Iterator[Part]]:
    """How many values an object holds, and the values as Kafka's JSON would have them.

    Raises:
        FormatError: the object cannot be read, at once or while it is read.
    """
    if is_lines(name):
        return _counted_lines(name, data, value_of_line, limits)
    shape, count, records = _structured(name, data, limits)
    declared = FieldType("struct", fields=tuple(fields.items()))
    return count, map(_final(shape, declared), records)


def keys_of(name: str, data: memoryview, limits: ExpansionLimits = LIMITS) -> tuple[int, Iterator[Part]]:
    """How many keys a companion holds, and the keys: texts and bytes as they are, else their JSON text.

    Raises:
        FormatError: as `values_of`.
    """
    if is_lines(name):
        return _counted_lines(name, data, key_of_line, limits)
    shape, count, records = _structured(name, data, limits)
    if name.endswith(".parquet") and [part for part, _ in shape.fields] == ["key"]:
        shape, records = shape.fields[0][1], (record["key"] for record in records)
    return count, map(_final(shape), records)


def headers_of(name: str, data: memoryview, limits: ExpansionLimits = LIMITS) -> tuple[int, Iterator[Part]]:
    """How many records a companion holds, and their headers as `{"headers": [{"key": …, "value": …}, …]}`.

    Raises:
        FormatError: as `values_of`.
    """
    if is_lines(name):
        return _counted_lines(name, data, lambda line: line, limits)
    shape, count, records = _structured(name, data, limits)
    write = writer(shape)
    if shape.name == "struct":
        return count, (encoded(write(record)) for record in records)
    return count, (encoded(f'{{"headers":{write(record)}}}') for record in records)


def is_lines(name: str) -> bool:
    """Whether the object holds JSON lines, by its name."""
    return name.removesuffix(".gz").endswith(".json")


def value_of_line(line: bytes) -> Part:
    """A value is its JSON text."""
    return None if _is_null(line) else line


def key_of_line(line: bytes) -> Part:
    """A string key is written as a JSON string; any other key is its JSON text."""
    if _is_null(line):
        return None
    try:
        value = parse_exactly(line_of(line))
    except ValueError:
        return line
    return bytes_of(value) if isinstance(value, str) and not isinstance(value, Number) else line


def _is_null(line: bytes) -> bool:
    return line.removeprefix(BOM.encode()).strip(b" ") == b"null"


def pairs_of(text: bytes | None) -> Headers | None:
    """The headers that `headers_of` gives for a record, in their order; None: they cannot be read."""
    if text is None or _is_null(text):
        return []
    try:
        members = parse_exactly(line_of(text))
    except ValueError:
        return None
    listed = members.get("headers") if isinstance(members, dict) else None
    if isinstance(members, dict) and listed is None:
        return []
    if not isinstance(listed, list) or any(not isinstance(pair, dict) or "key" not in pair for pair in listed):
        return None
    return [(bytes_of(str(pair["key"])).decode("utf-8", "replace"), header_of(pair.get("value"))) for pair in listed]


def _structured(name: str, data: memoryview, limits: ExpansionLimits) -> tuple[Shape, int, Iterator[Any]]:
    if name.endswith(".avro"):
        count = count_avro(data, limits)
        shape, records = read_avro(data)
        return shape, count, records
    return read_parquet(data, limits)


def _final(shape: Shape, declared: FieldType | None = None) -> Callable[[Any], Part]:
    """What turns a record into Kafka's bytes: a text or bytes as they are, null, else its JSON text."""
    if shape.name == "text":
        return lambda record: encoded(record) if isinstance(record, str) else record
    if shape.name == "binary":
        return lambda record: record
    encode = encoder(shape, declared if shape.name == "struct" else None)
    return lambda record: None if record is None else encode(record)


def _counted_lines(
    name: str, data: memoryview, part_of: Callable[[bytes], Part], limits: ExpansionLimits
) -> tuple[int, Iterator[Part]]:
    count = 0
    for count, _ in enumerate(lines_of(name, data, limits), 1):
        limits.check_records(count)
    return count, (part_of(line) for line in lines_of(name, data, limits))


def lines_of(name: str, data: memoryview, limits: ExpansionLimits = LIMITS) -> Iterator[bytes]:
    """The lines of an object, unpacked as they are asked for.

    Raises:
        FormatError: what it is packed with ends too early or is broken; the lines before are given.
    """
    source: Any = pa.BufferReader(pa.py_buffer(data))
    stream: Any = gzip.GzipFile(fileobj=source) if name.endswith(".gz") else source
    rest, size = b"", 0
    while True:
        try:
            chunk = stream.read(CHUNK)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FormatError(f"it is cut off or broken gzip: {error}") from error
        if not chunk:
            break
        size += len(chunk)
        limits.check_unpacked(size)
        *lines, rest = (rest + chunk).split(b"\n")
        yield from lines
        limits.check_line(len(rest))
    if rest:
        yield rest


def first(count: int, parts: Iterator[Part]) -> list[Part]:
    """The first `count` of them, as far as they can be read."""
    read: list[Part] = []
    with suppress(FormatError):
        for part in islice(parts, count):
            read.append(part)  # noqa: PERF402 (those before a break are kept)
    return read
