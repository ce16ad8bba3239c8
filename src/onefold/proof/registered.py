"""Messages that name their schema, read a second time: prefixes and headers are taken apart here once more, with none
of the code of a run. `onefold.formats.wire` has the table of them.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from onefold.dataset import Dataset
from onefold.dataset.value_formats import ValueFormat
from onefold.dataset.writer_schema import WriterSchema

Headers = Sequence[Mapping[str, Any]] | None
_LARGEST = 16_000_000
_LONG, _NUMBER, _UUID = 8, 4, 16


def take_apart(data: bytes, headers: Headers, section: str, ids: str | None) -> tuple[str, bytes]:
    """The id of the schema that a message names, as the lake calls it, and the message alone.

    Raises:
        ValueError: it names none, or cannot be unpacked.
    """
    names = (f"__{section}_schema_id", f"apicurio.{section}.globalId", f"apicurio.{section}.contentId")
    given = [header for header in headers or () if header["key"] in names]
    if given:
        return _of_header(given[-1]["key"], given[-1]["value"] or b"", names, ids), data
    kind = data[0] if data else None
    if kind == 3:
        if len(data) < 2 + _UUID:
            raise ValueError("cut off")
        return f"glue-{UUID(bytes=data[2 : 2 + _UUID])}", _unpacked(data[1], data[2 + _UUID :])
    if kind != 0:
        raise ValueError("no prefix")
    (number,) = struct.unpack_from(">i", data + b"", 1) if len(data) > _NUMBER else (-1,)
    if number > 0:
        return f"{ids or 'confluent'}-{number}", data[1 + _NUMBER :]
    if number == 0 and len(data) > _LONG:
        (long,) = struct.unpack_from(">q", data, 1)
        if long > 0:
            return f"{ids or 'global'}-{long}", data[1 + _LONG :]
    raise ValueError("no id")


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


def reader(
    dataset: Dataset, section: str, read_by: Callable[[WriterSchema], Callable[[bytes], Any]]
) -> Callable[[bytes, Headers], Any]:
    """What reads the messages of a section by the schemas that they name; it raises ValueError where it cannot.

    Args:
        dataset: with the schemas that are kept.
        section: key or value.
        read_by: what makes the reader of a schema.
    """
    schemas, registry = dataset.writer_schemas.get(section, {}), dataset.registries.get(section)
    of_json = (dataset.key.format if section == "key" else dataset.value.format) == ValueFormat.JSON_SCHEMA
    kind, readers = "JSON" if of_json else "AVRO", dict[str, Callable[[bytes], Any]]()

    def read(data: bytes, headers: Headers) -> Any:
        names = (f"__{section}_schema_id", f"apicurio.{section}.globalId", f"apicurio.{section}.contentId")
        named = any(header["key"] in names for header in headers or ())
        if of_json and not named and (not data or data[0] not in (0, 3)):
            return _parsed_by(read_by)(data)
        name, message = take_apart(data, headers, section, registry.ids if registry else None)
        if registry is None:
            return _parsed_by(read_by)(message)
        if name not in schemas or schemas[name].type not in ("", kind):
            raise ValueError("no schema of this type")
        if name not in readers:
            readers[name] = read_by(schemas[name])
        return readers[name](message)

    return read


def _parsed_by(read_by: Callable[[WriterSchema], Callable[[bytes], Any]]) -> Callable[[bytes], Any]:
    return read_by(WriterSchema(type="JSON", text="{}"))


def name_of(dataset: Dataset) -> Callable[[bytes | None, Headers], str | None]:
    """What gives `schema.name` of a value; None: its schema is unknown."""
    registry, schemas = dataset.value.registry, dataset.writer_schemas.get("value", {})

    def name(data: bytes | None, headers: Headers) -> str | None:
        try:
            id_, _ = take_apart(data or b"", headers, "value", registry.ids if registry else None)
            schema = json.loads(schemas[id_].text)
        except (ValueError, KeyError, RecursionError, zlib.error):
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
