"""Messages that name their schema, read a second time: prefixes and headers are taken apart here once more, with none
of the code of a run. `onefold.formats.wire` has the table of them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Protocol
from uuid import UUID

from onefold.dataset import Dataset
from onefold.dataset.value_formats import ValueFormat
from onefold.dataset.writer_schema import WriterSchema
from onefold.formats import registered_protobuf
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import MessagePlace

Headers = Sequence[Mapping[str, Any]] | None
_LARGEST = 16_000_000
_KINDS = {ValueFormat.AVRO: "AVRO", ValueFormat.JSON_SCHEMA: "JSON", ValueFormat.PROTOBUF: "PROTOBUF"}
_LONG, _NUMBER, _UUID = 8, 4, 16


def take_apart(
    data: bytes, headers: Headers, section: str, ids: str | None, *, places: bool = False
) -> tuple[str, bytes, bytes]:
    """The id of the schema that a message names, as the lake calls it, the message alone, and, with `places`, what a
    header says behind the id.

    Raises:
        ValueError: it names none, or cannot be unpacked.
    """
    names = _header_names(section)
    given = [header for header in headers or () if header["key"] in names]
    if given:
        value = given[-1]["value"] or b""
        size = 1 + _UUID if value[:1] == b"\x01" else 1 + _NUMBER
        rest = value[size:] if places and given[-1]["key"] == names[0] else b""
        return _of_header(given[-1]["key"], value[: len(value) - len(rest)], names, ids), data, rest
    kind = data[0] if data else None
    if kind == 3:
        if len(data) < 2 + _UUID:
            raise ValueError("cut off")
        return f"glue-{UUID(bytes=data[2 : 2 + _UUID])}", _unpacked(data[1], data[2 + _UUID :]), b""
    if kind != 0:
        raise ValueError("no prefix")
    (number,) = struct.unpack_from(">i", data + b"", 1) if len(data) > _NUMBER else (-1,)
    if number > 0:
        return f"{ids or 'confluent'}-{number}", data[1 + _NUMBER :], b""
    if number == 0 and len(data) > _LONG:
        (long,) = struct.unpack_from(">q", data, 1)
        if long > 0:
            return f"{ids or 'global'}-{long}", data[1 + _LONG :], b""
    raise ValueError("no id")


def _header_names(section: str) -> tuple[str, str, str]:
    return f"__{section}_schema_id", f"apicurio.{section}.globalId", f"apicurio.{section}.contentId"


def _in_header(headers: Headers, section: str) -> bool:
    """Whether a header names the schema."""
    return any(header["key"] in _header_names(section) for header in headers or ())


def _of_header(name: str, value: bytes, names: Sequence[str], ids: str | None) -> str:
    if name == names[0]:
        if len(value) == 1 + _UUID and value[0] == 1:
            return f"guid-{UUID(bytes=value[1:])}"
        if len(value) == 1 + _NUMBER and value[0] == 0 and (number := struct.unpack(">i", value[1:])[0]) > 0:
            return f"{ids or 'confluent'}-{number}"
    elif len(value) == _LONG and (number := struct.unpack(">q", value)[0]) > 0:
        return f"{'global' if name == names[1] else 'content'}-{number}"
    raise ValueError("no id in the header")


def _unpacked(way: int, data: bytes) -> bytes:
    if way == 0:
        return data
    if way != 5:
        raise ValueError("another way of packing")
    unpack = zlib.decompressobj()
    found = unpack.decompress(data, _LARGEST + 1)
    if len(found) > _LARGEST or not unpack.eof or unpack.unused_data:
        raise ValueError("not one packed message")
    return found


class ReadBy(Protocol):
    """What makes the reader of the messages of a schema."""

    def __call__(self, name: str, schema: WriterSchema, place: MessagePlace) -> Callable[[bytes], Any]:
        """The reader by a schema, by its id and, of several messages that it has, the place."""


def reader(
    dataset: Dataset, section: str, read_by: ReadBy, bare: Callable[[bytes], Any] | None = None
) -> Callable[[bytes, Headers], Any]:
    """What reads the messages of a section by the schemas that they name; it raises ValueError where it cannot.

    Args:
        dataset: with the schemas that are kept.
        section: key or value.
        read_by: what makes the reader of a schema.
        bare: what reads messages without a prefix and, where no registry is named, all.
    """
    schemas, registry = dataset.writer_schemas.get(section, {}), dataset.registries.get(section)
    given = dataset.key.format if section == "key" else dataset.value.format
    kind, places = _KINDS[ValueFormat(given)], given == ValueFormat.PROTOBUF

    @lru_cache(maxsize=1_000)
    def by(name: str, place: MessagePlace) -> Callable[[bytes], Any]:
        if name not in schemas or schemas[name].type not in ("", kind):
            raise ValueError("no schema of this type")
        return read_by(name, schemas[name], place)

    def read(data: bytes, headers: Headers) -> Any:
        named = _in_header(headers, section)
        if bare and not named and (not data or data[0] not in (0, 3)):
            return bare(data)
        name, message, rest = take_apart(data, headers, section, registry.ids if registry else None, places=places)
        if bare and registry is None:
            return bare(message)
        place: MessagePlace = ()
        if places:
            place, message = _placed(name, message, rest, in_header=named)
        return by(name, place)(message)

    return read


def _placed(name: str, message: bytes, rest: bytes, *, in_header: bool) -> tuple[MessagePlace, bytes]:
    """Which message of its schema a Protobuf message is, and its own bytes."""
    space = name.partition("-")[0]
    if space in ("confluent", "guid"):
        numbers, left = _numbers(rest or b"\0") if in_header else _numbers(message)
        if in_header and left:
            raise ValueError("more than the place")
        return numbers, message if in_header else left
    if space == "glue":
        raise ValueError("not read")
    if in_header:
        return "", message
    size = message[0] if message else 0
    if size < 3 or size > 127 or len(message) <= size or message[1:3] != bytes([10, size - 2]):
        raise ValueError("no name")
    return message[3 : 1 + size].decode(), message[1 + size :]


def _numbers(data: bytes) -> tuple[tuple[int, ...], bytes]:
    """The numbers of a list, and what is behind it."""
    found: list[int] = []
    at, left = 0, 1
    while left:
        number = 0
        for shift in range(0, 35, 7):
            if at >= len(data):
                raise ValueError("cut off")
            number |= (data[at] & 127) << shift
            at += 1
            if data[at - 1] < 128:
                break
        else:
            raise ValueError("too large")
        if number % 2:
            raise ValueError("less than nothing")
        found.append(number // 2)
        left = found[0] if len(found) == 1 else left - 1
        if len(found) == 1 and found[0] > 100:
            raise ValueError("too many")
    return tuple(found[1:]) or (0,), data[at:]


def name_of(
    dataset: Dataset, compiled: Mapping[str, registered_protobuf.Described]
) -> Callable[[bytes | None, Headers], str | None]:
    """What gives `schema.name` of a value; None: its schema is unknown. `compiled`: the Protobuf schemas of values."""
    registry, schemas = dataset.value.registry, dataset.writer_schemas.get("value", {})
    places = dataset.value.format == ValueFormat.PROTOBUF

    def name(data: bytes | None, headers: Headers) -> str | None:
        try:
            ids = registry.ids if registry else None
            id_, message, rest = take_apart(data or b"", headers, "value", ids, places=places)
            if places:
                keys = ("__value_schema_id", "apicurio.value.globalId", "apicurio.value.contentId")
                in_header = any(header["key"] in keys for header in headers or ())
                return registered_protobuf.message_of(
                    compiled[id_], _placed(id_, message, rest, in_header=in_header)[0]
                )
            schema = json.loads(schemas[id_].text)
        except (ValueError, KeyError, RecursionError, FormatError, zlib.error):
            return None
        if dataset.value.format == ValueFormat.JSON_SCHEMA:
            return schema.get("title") if isinstance(schema, dict) and isinstance(schema.get("title"), str) else None
        if not isinstance(schema, dict):
            return schema if isinstance(schema, str) else None
        if "name" not in schema:
            return schema["type"] if isinstance(schema["type"], str) else None
        space = "" if "." in schema["name"] else schema.get("namespace") or ""
        return f"{space}.{schema['name']}".lstrip(".")

    return name
