"""Avro decoded a second time, by a walk of its own over the schema: what a run writes as JSON text is made here again,
with none of its code. `onefold.formats.structured_json` has the table of what is written how.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from io import BytesIO
from itertools import count
from typing import Any

import fastavro

from onefold.dataset.types import FieldType
from onefold.formats.text import Number
from onefold.proof.numbers import float_number

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
_MOST_DIGITS = 38
_MOST_PARTS = 20_000
_NUMBERS = count()


def decoder(schema: str, fields: Mapping[str, FieldType], references: Sequence[str] = ()) -> Callable[[bytes], Any]:
    """What turns one message into the value that the same message in JSON is parsed to (`parse_exactly`); `fields` are
    the declared ones, `references` the schemas that it is built on, each behind its own.

    It raises ValueError where the bytes are no message of the schema.
    """
    known: dict[str, Any] = {}
    bare: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for text in references:
        named |= _named(fastavro.parse_schema(json.loads(text), named_schemas=known))
        fastavro.parse_schema(_without_logical_types(json.loads(text)), named_schemas=bare)
    whole = fastavro.parse_schema(json.loads(schema), named_schemas=known)
    plain = fastavro.parse_schema(_without_logical_types(json.loads(schema)), named_schemas=bare)
    named |= _named(whole)
    if _size(whole, named, {}) > _MOST_PARTS:
        raise ValueError("more parts than are read")

    def decode(data: bytes) -> Any:
        content = BytesIO(data)
        try:
            value = _read(
                fastavro.schemaless_reader(content, plain),
                whole,
                named,
                FieldType("struct", fields=tuple(fields.items())),
            )
        except Exception as error:  # what broken bytes raise is not settled
            raise ValueError(str(error)) from error
        if content.read():
            raise ValueError("bytes behind the message")
        return value

    return decode


def _size(schema: Any, named: Mapping[str, Any], sizes: dict[str, int]) -> int:
    """The values in a value, each use of a named type counted."""
    if isinstance(schema, list):
        return sum(_size(part, named, sizes) for part in schema)
    if isinstance(schema, str):
        if schema not in named:
            return 1
        if schema not in sizes:
            sizes[schema] = 0
            sizes[schema] = _size(named[schema], named, sizes)
        return max(1, sizes[schema])
    parts = [field["type"] for field in schema.get("fields", [])]
    parts += [part for part in (schema.get("items"), schema.get("values")) if part is not None]
    parts += [] if isinstance(schema["type"], str) else [schema["type"]]
    return 1 + sum(_size(part, named, sizes) for part in parts)


def _without_logical_types(schema: Any) -> Any:
    """A value of a union of several types is in a record then, whose one field has the number of its type."""
    if isinstance(schema, list):
        parts = [_without_logical_types(part) for part in schema]
        several = len([part for part in parts if part != "null"]) > 1
        return [_numbered(at, part) if several and part != "null" else part for at, part in enumerate(parts)]
    if not isinstance(schema, dict):
        return schema
    found = {name: part for name, part in schema.items() if name != "logicalType"}
    found |= {name: _without_logical_types(schema[name]) for name in ("type", "items", "values") if name in schema}
    if isinstance(schema.get("fields"), list):
        found["fields"] = [{**part, "type": _without_logical_types(part["type"])} for part in schema["fields"]]
    return found


def _numbered(at: int, part: Any) -> Any:
    return {"type": "record", "name": f"in_union_{next(_NUMBERS)}", "fields": [{"name": f"of_{at}", "type": part}]}


def _named(schema: Any) -> dict[str, Any]:
    """Every named type of a schema, by its full name."""
    found: dict[str, Any] = {}
    if isinstance(schema, list):
        for part in schema:
            found |= _named(part)
    if isinstance(schema, dict):
        found = {schema["name"]: schema} if isinstance(schema.get("name"), str) and "type" in schema else {}
        for part in (schema.get("type"), schema.get("items"), schema.get("values"), schema.get("fields")):
            found |= _named(part)
    return found


def _read(value: Any, schema: Any, named: Mapping[str, Any], declared: FieldType | None) -> Any:
    if isinstance(schema, list):
        others = [part for part in schema if part != "null"]
        if len(others) > 1 and value is not None:
            [(number, value)] = value.items()
            return _read(value, schema[int(number.removeprefix("of_"))], named, declared)
        schema = others[0] if others else "null"
    schema = named.get(schema, {"type": schema}) if isinstance(schema, str) else schema
    kind = schema["type"]
    if value is None:
        return None
    if not isinstance(kind, str) or kind in named:
        return _read(value, kind, named, declared)
    if "logicalType" in schema and (read := _logical(value, kind, schema, declared)) is not None:
        return read
    match kind:
        case "record" | "error":
            inner = dict(declared.fields) if declared else {}
            parts = {field["name"]: field["type"] for field in schema["fields"]}
            return {name: _read(part, parts[name], named, inner.get(name)) for name, part in value.items()}
        case "array":
            return [_read(part, schema["items"], named, declared.item if declared else None) for part in value]
        case "map":
            item = declared.item if declared else None
            return {name: _read(part, schema["values"], named, item) for name, part in value.items()}
        case "float" | "double":
            return float_number(value, kind)
        case "bytes" | "fixed":
            return b64encode(value).decode()
        case _:
            return Number(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _logical(value: Any, kind: str, schema: Mapping[str, Any], declared: FieldType | None) -> Any:
    """The value of a logical type; None: it says nothing of such a type, and is ignored."""
    family, _, unit = str(schema["logicalType"]).rpartition("-")
    if schema["logicalType"] == "decimal" and kind in ("bytes", "fixed"):
        unscaled, scale = int.from_bytes(value, "big", signed=True), schema.get("scale", 0)
        text = f"{Decimal(unscaled).scaleb(-scale):f}" if len(str(unscaled)) <= 28 else _scaled(unscaled, scale)
        return Number(text) if sum(map(str.isdigit, text)) <= _MOST_DIGITS else text
    is_time = (schema["logicalType"] == "date" and kind == "int") or (
        family in ("time", "timestamp", "local-timestamp") and unit in _DIGITS and kind in ("int", "long")
    )
    if not is_time or (family.endswith("timestamp") and kind != "long"):
        return None
    if declared and declared.name in ("int", "long"):
        return Number(value)
    try:
        if schema["logicalType"] == "date":
            return (_EPOCH + timedelta(days=value)).date().isoformat()
        seconds, part = divmod(value, 10 ** _DIGITS[unit])
        fraction = f"{part:0{_DIGITS[unit]}d}".ljust(9, "0")
        fraction = fraction[:6] if fraction.endswith("000") else fraction
        if family == "time":
            return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction}"
        zone = "Z" if family == "timestamp" else ""
        at = (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None)
        return f"{at.isoformat(timespec='seconds')}.{fraction}{zone}"
    except OverflowError:
        return Number(value)


def _scaled(unscaled: int, scale: int) -> str:
    digits = str(abs(unscaled)).rjust(scale + 1, "0")
    sign, point = "-" if unscaled < 0 else "", len(digits) - scale
    return f"{sign}{digits[:point]}.{digits[point:]}" if scale else f"{sign}{digits}"
