"""Decimals of Kafka Connect's converter, read a second time and not by `onefold.formats.connect_decimals`."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from onefold.dataset.types import FieldType
from onefold.formats.text import Number

UNAVAILABLE = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")


def schema_of(schema: Any, place: Sequence[str]) -> Any:
    """The schema of what is at a place; null where there is none."""
    for name in place:
        schema = _members(schema).get(name) if isinstance(schema, dict) else None
    return schema


def with_numbers(value: Any, schema: Any, kind: FieldType) -> Any:
    """What a field of a type reads, with its decimals as text where the schema says that they are Base64. Where the
    type says so, too, they are numbers, and so is all other text."""
    if not isinstance(schema, dict):
        return value
    match kind.name, value:
        case (("decimal" | "string"), _):
            found = _number(value, schema)
            return Number(found) if kind.base64 and isinstance(found, str) and found not in UNAVAILABLE else found
        case "list", list():
            return [with_numbers(part, schema.get("items"), kind.item) for part in value] if kind.item else value
        case "map", dict() if kind.item:
            inner = _members(schema)
            at = (lambda _: schema.get("values")) if schema.get("type") == "map" else inner.get
            return {name: with_numbers(part, at(name), kind.item) for name, part in value.items()}
        case "struct", dict():
            of, inner = dict(kind.fields), _members(schema)
            return value | {name: with_numbers(value[name], inner.get(name), of[name]) for name in of if name in value}
        case _:
            return value


def with_all_numbers(value: Any, schema: Any) -> Any:
    """A value with all numbers as text that its schema says are Base64."""
    if not isinstance(schema, dict):
        return value
    found = _number(value, schema)
    if found is not value:
        return found
    if isinstance(value, list):
        return [with_all_numbers(part, schema.get("items")) for part in value]
    if not isinstance(value, dict):
        return value
    inner = dict.fromkeys(value, schema.get("values")) if schema.get("type") == "map" else _members(schema)
    return {name: with_all_numbers(part, inner.get(name)) for name, part in value.items()}


def _members(schema: dict[str, Any]) -> dict[str, Any]:
    members = schema.get("fields")
    parts = [part for part in members if isinstance(part, dict)] if isinstance(members, list) else []
    return {part["field"]: part for part in parts if isinstance(part.get("field"), str)}


def _number(value: Any, schema: dict[str, Any]) -> Any:
    match schema.get("name"), value:
        case "io.debezium.data.VariableScaleDecimal", {"scale": scale, "value": text}:
            pass
        case "org.apache.kafka.connect.data.Decimal", text:
            parameters = schema.get("parameters")
            scale = parameters.get("scale") if isinstance(parameters, dict) else None
        case _:
            return value
    is_text = isinstance(text, str) and not isinstance(text, Number) and text not in UNAVAILABLE
    found = _digits(text, str(scale)) if is_text else None
    return value if found is None else found


def _digits(text: str, scale: str) -> str | None:
    if not re.fullmatch(r"-?\d{1,4}", scale) or abs(int(scale)) > 1000:
        return None
    try:
        data = base64.b64decode(text, validate=True)
    except ValueError:
        return None
    if not 0 < len(data) <= 500 or base64.b64encode(data).decode() != text:
        return None
    negative = data[0] > 127
    number = int.from_bytes(data, "big") - (1 << 8 * len(data)) * negative
    return f"{Decimal((int(negative), tuple(map(int, str(abs(number)))), -int(scale))):f}"
