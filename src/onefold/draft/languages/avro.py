"""Avro: fields with the types that docs/types.md has for them, from a record's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from onefold.dataset.defaults import Default
from onefold.dataset.types import FieldType, parse_type
from onefold.dataset.writer_schema import WriterSchema
from onefold.draft.languages import RecordType
from onefold.draft.languages.connect_names import TYPES
from onefold.draft.schema_fields import SchemaField, declarable
from onefold.formats.avro import full_name, message_reader, named_types, whole_schema
from onefold.formats.wire import MessagePlace

_SCALARS = {
    "string": "string",
    "int": "int",
    "long": "long",
    "float": "double",
    "double": "double",
    "boolean": "boolean",
    "bytes": "binary",
}
_UNITS = {"millis": 3, "micros": 6, "nanos": 9}
_MOST_DIGITS = 38
_EPOCH, _DAY_ONE = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)


class _UnreadableError(Exception):
    """Values of a type cannot be read at all."""


def open_message(schema: WriterSchema, place: MessagePlace) -> RecordType:
    """The record type that a schema is."""
    del place
    references = [part.text for part in schema.references]
    whole, read = whole_schema(schema.text, references), message_reader(schema.text, {}, references)
    names = named_types(whole)

    def fields(within: Sequence[str]) -> list[SchemaField]:
        record, around = _record(whole, names), list[str]()
        for name in within:
            around.append(record.get("name", ""))
            parts = {field["name"]: field["type"] for field in record.get("fields", ())}
            record = _record(parts.get(name), names)
        around.append(record.get("name", ""))
        return [_field(field, names, tuple(around)) for field in record.get("fields", ())]

    doc = whole.get("doc") if isinstance(whole, dict) else None
    return RecordType(full_name(schema.text), doc if isinstance(doc, str) else "", read, fields)


def open_named(schema: WriterSchema, name: str | None) -> RecordType | None:
    """The record type that a schema is, if it has this name."""
    found = open_message(schema, ())
    return found if found.name == name else None


def _record(schema: Any, names: Mapping[str, Any]) -> Mapping[str, Any]:
    """A record's schema, also where it may be null; empty: it is none."""
    match schema:
        case list():
            [*others] = [branch for branch in schema if branch != "null"]
            return _record(others[0], names) if len(others) == 1 else {}
        case str():
            return _record(names[schema], names) if schema in names else {}
        case dict() if isinstance(schema["type"], str):
            return schema if schema["type"] in ("record", "error") else {}
        case dict():
            return _record(schema["type"], names)
        case _:
            return {}


def _field(field: Mapping[str, Any], names: Mapping[str, Any], within: tuple[str, ...]) -> SchemaField:
    """A field; `within`: the records around it, which it cannot hold."""
    said = field.get("doc")
    found = SchemaField(
        field["name"],
        None,
        doc=said if isinstance(said, str) else "",
        aliases=tuple(name.rpartition(".")[2] for name in field.get("aliases") or () if isinstance(name, str)),
    )
    try:
        kind, note = _kind(field["type"], names, within)
    except _UnreadableError as error:
        return replace(found, problem=str(error))
    default = _default(field.get("default"), field["type"], names)
    return replace(found, type=declarable(kind), note=note, default=default)


def _kind(schema: Any, names: Mapping[str, Any], within: tuple[str, ...]) -> tuple[FieldType, str]:
    """A type, and what a reader should know of it."""
    match schema:
        case "null":
            raise _UnreadableError("it is null in every record")
        case str() if schema in _SCALARS:
            return FieldType(_SCALARS[schema]), ""
        case str():
            return _kind(names[schema], names, within)
        case list():
            return _union(schema, names, within)
    kind = schema["type"]
    if found := _logical(schema) or _of_connect(schema):
        return found
    match kind:
        case "record" | "error":
            return _struct(schema, names, within), ""
        case "enum":
            return FieldType("string"), f"an enum of {len(schema['symbols'])} names"
        case "fixed":
            return FieldType("binary"), f"{schema['size']} bytes"
        case "array" | "map":
            item, note = _kind(schema["items" if kind == "array" else "values"], names, within)
            return FieldType("list" if kind == "array" else "map", item=replace(item, nullable=False)), note
        case _:
            return _kind(kind, names, within)


def _union(branches: Sequence[Any], names: Mapping[str, Any], within: tuple[str, ...]) -> tuple[FieldType, str]:
    kinds = [_kind(branch, names, within) for branch in branches if branch != "null"]
    if not kinds:
        raise _UnreadableError("it is null in every record")
    nullable = "null" in branches
    if len(kinds) == 1:
        [(kind, note)] = kinds
        return replace(kind, nullable=nullable), note
    return FieldType("json", nullable), f"a union of {', '.join(str(kind) for kind, _ in kinds)}"


def _struct(schema: Mapping[str, Any], names: Mapping[str, Any], within: tuple[str, ...]) -> FieldType:
    if schema["name"] in within:
        raise _UnreadableError(f"{schema['name']} holds itself, and cannot be read")
    members = []
    for field in schema["fields"]:
        try:
            kind, _ = _kind(field["type"], names, (*within, schema["name"]))
        except _UnreadableError:
            continue
        members.append((field["name"], kind))
    return declarable(FieldType("struct", fields=tuple(members)))


def _logical(schema: Mapping[str, Any]) -> tuple[FieldType, str] | None:
    """A logical type that the decoder knows; None: the base type counts."""
    logical, kind = str(schema.get("logicalType", "")), schema["type"]
    name, _, unit = logical.rpartition("-")
    match name or logical:
        case "decimal" if kind in ("bytes", "fixed"):
            precision, scale = schema.get("precision", 0), schema.get("scale", 0)
            if not 0 <= scale <= min(precision, _MOST_DIGITS):
                return FieldType("json"), f"a decimal of {precision} digits, {scale} of them behind the point"
            more = precision > _MOST_DIGITS  # Connect's converter writes 64 wherever it does not know
            note = f"up to {precision} digits in the schema; more than {_MOST_DIGITS} are rejected" if more else ""
            return FieldType("decimal", precision=min(precision, _MOST_DIGITS), scale=scale), note
        case "date" if kind == "int":
            return FieldType("date"), ""
        case "time" if kind in ("int", "long") and unit in _UNITS:
            return FieldType("string"), "a time of day, in ISO 8601"
        case "timestamp" | "local-timestamp" if kind == "long" and unit in _UNITS:
            return FieldType("timestamp"), "" if name == "timestamp" else "without a zone: it is read as UTC"
        case _:
            return None


def _of_connect(schema: Mapping[str, Any]) -> tuple[FieldType, str] | None:
    """The type that Connect's converter notes for a number or text."""
    if schema["type"] not in ("int", "long", "string"):
        return None
    name = schema.get("connect.name")
    return (parse_type(TYPES[name]), "") if name in TYPES else None


def _default(given: Any, schema: Any, names: Mapping[str, Any]) -> Default | None:
    """A default as a dataset file has it; None: there is none, or none that it can have."""
    branch = schema
    while not isinstance(branch, str) and (isinstance(branch, list) or not isinstance(branch["type"], str)):
        if isinstance(branch, list):
            [*others] = [each for each in branch if each != "null"]
            if len(others) != 1:
                return None
            branch = others[0]
        else:
            branch = branch["type"]
    if isinstance(branch, str):
        branch = names.get(branch, {"type": branch})
    if not isinstance(given, bool | int | float | str):
        return None
    logical = _logical(branch)
    try:
        match logical and logical[0].name:
            case "decimal" if isinstance(given, str):
                number = int.from_bytes(given.encode("latin-1"), "big", signed=True)
                return f"{Decimal(number).scaleb(-branch.get('scale', 0)):f}"
            case "date" if isinstance(given, int):
                return (_DAY_ONE + timedelta(days=given)).isoformat()
            case "timestamp" if isinstance(given, int):
                return _instant(given, _UNITS[branch["logicalType"].rpartition("-")[2]])
            case None if branch["type"] not in ("bytes", "fixed"):
                return float(given) if branch["type"] in ("float", "double") else given
    except (ArithmeticError, ValueError, OverflowError):
        pass  # it is no value of its own type
    return None


def _instant(ticks: int, digits: int) -> str | None:
    micros, left = divmod(ticks * 10**6, 10**digits)
    if left:
        return None
    return (_EPOCH + timedelta(microseconds=micros)).isoformat().replace("+00:00", "Z")
