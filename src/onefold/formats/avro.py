"""Avro container files: blocks are separated here, fastavro decodes what is in them.

Source of the format: https://avro.apache.org/docs/1.12.0/specification/#object-container-files
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

import fastavro

from onefold.dataset.types import FieldType
from onefold.formats.expansion import ExpansionLimits
from onefold.formats.structured_json import FormatError, Shape, encoder, refused

_MAGIC = b"Obj\x01"
_SYNC = 16
_PRIMITIVES = {"boolean": "boolean", "int": "whole", "long": "whole", "float": "float", "double": "double"}
_PRIMITIVES |= {"string": "text", "bytes": "binary", "null": "null"}
MOST_PARTS = 20_000
"""Values that one message may have by its schema alone, without those of lists and maps."""
_SECONDS = {"millis": 3, "micros": 6, "nanos": 9}
_BRANCHES = itertools.count()
"""Numbers of records that exist in no schema (`_plain`): no two have one name."""


def count_avro(data: memoryview, limits: ExpansionLimits | None = None) -> int:
    """The records of a container file, as its blocks' headers say; nothing is decoded, and with `limits` a packed block
    is unpacked piece by piece to see how large it becomes.

    Raises:
        FormatError: it is none, does not end where a block ends, or exceeds a limit.
    """
    if bytes(data[:4]) != _MAGIC:
        raise FormatError("it is no Avro container file" if data else "it is empty, and an Avro file never is")
    at = _behind_header(data)
    codec = _codec(data) if limits else ""
    sync, at = bytes(data[at : at + _SYNC]), at + _SYNC
    records = 0
    while at < len(data):
        count, at = _long(data, at)
        size, at = _long(data, at)
        if size < 0 or count < 0 or at + size + _SYNC > len(data):
            raise FormatError(f"it is cut off behind record {records:,}: the block there is not whole")
        if bytes(data[at + size : at + size + _SYNC]) != sync:
            raise FormatError(f"the block behind record {records:,} does not end with the file's marker")
        records, block, at = records + count, data[at : at + size], at + size + _SYNC
        if limits:
            limits.check_records(records)
            limits.check_block(codec, bytes(block) if codec not in ("", "null") else b"")
    return records


def _codec(data: memoryview) -> str:
    """How blocks are packed, as the header's metadata say."""
    try:
        return str(fastavro.block_reader(BytesIO(data)).codec)
    except Exception as error:  # what broken metadata raise is not settled
        raise FormatError(f"it is no Avro file that can be read: {error}") from error


def _behind_header(data: memoryview) -> int:
    """Where the metadata, a map in blocks, ends."""
    at = len(_MAGIC)
    while True:
        count, at = _long(data, at)
        if count == 0:
            if at + _SYNC > len(data):
                raise FormatError("it is cut off in its header")
            return at
        if count < 0:  # then its size in bytes follows
            _, at = _long(data, at)
        for _ in range(2 * abs(count)):
            size, at = _long(data, at)
            at += size
            if size < 0 or at > len(data):
                raise FormatError("it is cut off in its header")


def _long(data: memoryview, at: int) -> tuple[int, int]:
    """A zigzag number, and where it ends."""
    number = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise FormatError("it is cut off, or no Avro container file")
        byte, at = data[at], at + 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return (number >> 1) ^ -(number & 1), at


def read_avro(data: memoryview) -> tuple[Shape, Iterator[Any]]:
    """The shape of a container file's records, and the records as plain values, in their order.

    Dates, times, timestamps and decimals come as the numbers and bytes that the file has: nothing is rounded.

    Raises:
        FormatError: it cannot be read, at once or while it is read.
    """
    try:
        blocks = fastavro.block_reader(BytesIO(data))
        schema = blocks.writer_schema
        plain = fastavro.parse_schema(_plain(schema))
    except (EOFError, ValueError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise FormatError(f"it is no Avro file that can be read: {error}") from error
    return _shape(schema, named_types(schema), ()), _records(blocks, plain)


def message_reader(
    text: str, fields: Mapping[str, FieldType], references: Sequence[str] = ()
) -> Callable[[bytes], bytes]:
    """What turns one message, without a container or a prefix, into JSON by the schema that it was written by; `fields`
    are the declared ones, `references` the schemas that it is built on, each behind its own.

    It raises FormatError where the bytes are no message of the schema, or more than one.

    Raises:
        FormatError: messages of this schema cannot be read.
    """
    schema = whole_schema(text, references)
    names = named_types(schema)
    if _parts(schema, names, {}) > MOST_PARTS:
        raise FormatError(f"its schema has more than {MOST_PARTS:,} fields and parts of fields")
    plain, shape = fastavro.parse_schema(_plain(schema)), _shape(schema, names, ())
    if _repeats_nothing(shape):
        raise FormatError(
            "it has a list of values that take no bytes, so that a message of some bytes may have any number"
        )
    encode = encoder(shape, FieldType("struct", fields=tuple(fields.items())))

    def read(data: bytes) -> bytes:
        content = BytesIO(data)
        try:
            value = fastavro.schemaless_reader(content, plain, handle_unicode_errors="surrogateescape")
            written = encode(value)
        except Exception as error:  # what the decoder raises on broken bytes is not settled
            raise FormatError(f"it is no message of the schema: {type(error).__name__} {error}") from error
        if left := len(data) - content.tell():
            raise FormatError(f"{left} bytes behind it are no part of it")
        return written

    return read


def full_name(text: str) -> str | None:
    """The full name of the type that a schema declares; None: it is a list of types, or has none."""
    schema: Any = json.loads(text)
    kind = schema.get("type") if isinstance(schema, dict) else schema
    if kind in ("record", "error", "enum", "fixed"):
        name, namespace = str(schema.get("name")), schema.get("namespace")
        return f"{namespace}.{name}" if namespace and "." not in name else name
    return kind if isinstance(kind, str) else None


def whole_schema(text: str, references: Sequence[str] = ()) -> Any:
    """A schema with full names, also where a type is named again, and with what it is built on inside of it.

    Raises:
        FormatError: it is no Avro schema.
    """
    named: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), named_schemas=named)
        outer = set(named)
        schema = fastavro.parse_schema(json.loads(text), named_schemas=named)
        return fastavro.parse_schema(_filled(schema, {name: named[name] for name in outer}, set())) if outer else schema
    except Exception as error:  # what a broken schema raises is not settled
        raise FormatError(f"its schema is no Avro schema: {type(error).__name__} {str(error)[:200]}") from error


def _filled(schema: Any, named: Mapping[str, Any], seen: set[str]) -> Any:
    """A schema in which each type of `named` is declared where it is named first."""
    match schema:
        case str() if schema in named and schema not in seen:
            seen.add(schema)
            return _filled(named[schema], named, seen)
        case list():
            return [_filled(branch, named, seen) for branch in schema]
        case dict():
            if schema.get("name") in named:
                seen.add(schema["name"])
            kept = {name: value for name, value in schema.items() if not name.startswith("__")}
            for inner in ("items", "values", "type"):
                if inner in kept:
                    kept[inner] = _filled(kept[inner], named, seen)
            if "fields" in kept:
                kept["fields"] = [{**field, "type": _filled(field["type"], named, seen)} for field in kept["fields"]]
            return kept
        case _:
            return schema


def _repeats_nothing(shape: Shape) -> bool:
    """Whether a value has a list whose items take no bytes."""
    inner = [shape.item] if shape.item else [of for _, of in shape.fields]
    return (shape.name == "list" and bool(shape.item) and _takes_nothing(shape.item)) or any(
        map(_repeats_nothing, inner)
    )


def _takes_nothing(shape: Shape | None) -> bool:
    return shape is not None and (
        shape.name == "null" or (shape.name == "struct" and all(_takes_nothing(of) for _, of in shape.fields))
    )


def _records(blocks: Any, schema: Any) -> Iterator[Any]:
    done = 0
    try:
        for block in blocks:
            content = block.bytes_
            for _ in range(block.num_records):
                yield fastavro.schemaless_reader(content, schema, handle_unicode_errors="surrogateescape")
                done += 1
            _at_end(content)
    except Exception as error:  # a codec's or the decoder's own: what they raise on broken bytes is not settled
        raise FormatError(f"it cannot be read behind record {done:,}: {type(error).__name__} {error}") from error


def _at_end(content: BytesIO) -> None:
    if left := len(content.read()):
        raise ValueError(f"{left} bytes of the block are no record")


def _plain(schema: Any) -> Any:
    """The schema without logical types, so that values stay numbers and bytes, and with each branch of a union of
    several types in a record of its own, which takes no bytes and says which branch a value is of."""
    match schema:
        case list() if _is_of_several(schema):
            branches = enumerate(_plain(branch) for branch in schema)
            return [branch if branch == "null" else _named_branch(number, branch) for number, branch in branches]
        case list():
            return [_plain(branch) for branch in schema]
        case dict():
            kept = {
                name: value for name, value in schema.items() if name != "logicalType" and not name.startswith("__")
            }
            for inner in ("items", "values", "type"):
                if inner in kept and not isinstance(kept[inner], str):
                    kept[inner] = _plain(kept[inner])
            if "fields" in kept:
                kept["fields"] = [{"name": field["name"], "type": _plain(field["type"])} for field in schema["fields"]]
            return kept
        case _:
            return schema


def _is_of_several(union: list[Any]) -> bool:
    return len([branch for branch in union if branch != "null"]) > 1


def _named_branch(number: int, schema: Any) -> dict[str, Any]:
    fields = [{"name": f"b{number}", "type": schema}]
    return {"type": "record", "name": f"onefold_branch_{next(_BRANCHES)}", "fields": fields}


def named_types(schema: Any) -> dict[str, Any]:
    """The named types of a schema, by full name."""
    found: dict[str, Any] = {}
    match schema:
        case list():
            for branch in schema:
                found |= named_types(branch)
        case dict():
            if schema["type"] in ("record", "error", "enum", "fixed"):
                found[schema["name"]] = schema
            for inner in (schema.get("items"), schema.get("values"), *(f["type"] for f in schema.get("fields", ()))):
                found |= named_types(inner)
            if not isinstance(schema["type"], str):
                found |= named_types(schema["type"])
    return found


def _parts(schema: Any, names: dict[str, Any], counted: dict[str, int]) -> int:
    """How many values a value of a schema has at least. A type that is named many times counts each time: some
    bytes, or none, may hold all of them."""
    match schema:
        case str():
            if schema in names and schema not in counted:
                counted[schema] = 1  # where it holds itself
                counted[schema] = _parts(names[schema], names, counted)
            return counted.get(schema, 1)
        case list():
            return sum(_parts(branch, names, counted) for branch in schema)
    inner = [field["type"] for field in schema.get("fields", ())]
    inner += [schema[name] for name in ("items", "values") if name in schema]
    inner += [schema["type"]] if not isinstance(schema["type"], str) else []
    return 1 + sum(_parts(part, names, counted) for part in inner)


def _shape(schema: Any, names: dict[str, Any], within: tuple[str, ...]) -> Shape:
    match schema:
        case str() if schema in _PRIMITIVES:
            return Shape(_PRIMITIVES[schema])
        case str():
            return _shape(names[schema], names, within)
        case list():
            others = [branch for branch in schema if branch != "null"]
            if _is_of_several(schema):
                shapes = enumerate(_shape(branch, names, within) for branch in schema)
                return Shape("union", fields=tuple((f"b{number}", shape) for number, shape in shapes))
            return _shape(others[0], names, within) if others else Shape("null")
    kind = schema["type"]
    if "logicalType" in schema and (logical := _logical(schema)):
        return logical
    match kind:
        case "record" | "error":
            if schema["name"] in within:
                return refused(f"{schema['name']} holds itself: what nests without end cannot be read")
            inside = (*within, schema["name"])
            return Shape(
                "struct",
                fields=tuple((field["name"], _shape(field["type"], names, inside)) for field in schema["fields"]),
            )
        case "enum":
            return Shape("text")
        case "fixed":
            return Shape("binary")
        case "array":
            return Shape("list", item=_shape(schema["items"], names, within))
        case "map":
            return Shape("map", item=_shape(schema["values"], names, within))
        case _:
            return _shape(kind, names, within)


def _logical(schema: dict[str, Any]) -> Shape | None:
    """The shape of a logical type; None: it changes nothing (the specification has it ignored)."""
    logical, kind = schema["logicalType"], schema["type"]
    name, _, unit = str(logical).rpartition("-")
    match name or logical:
        case "decimal" if kind in ("bytes", "fixed"):
            return Shape("unscaled", schema.get("scale", 0))
        case "date" if kind == "int":
            return Shape("date")
        case "time" if kind in ("int", "long") and unit in _SECONDS:
            return Shape("time", _SECONDS[unit])
        case "timestamp" | "local-timestamp" if kind == "long" and unit in _SECONDS:
            return Shape("timestamp", _SECONDS[unit], instant=name == "timestamp")
        case _:
            return None
