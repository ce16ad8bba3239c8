"""Decimals of Kafka Connect's converter, read a second time and not by `onefold.formats.connect_decimals`."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

_UNAVAILABLE = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="


def with_number(value: Any, schema: Any, place: Sequence[str]) -> Any:
    """A value with the number at a place as text, where its schema says that it is there in Base64."""
    if not isinstance(schema, dict):
        return value
    if not place:
        return _number(value, schema)
    if not isinstance(value, dict) or place[0] not in value:
        return value
    members = schema.get("fields")
    parts = [part for part in members if isinstance(part, dict)] if isinstance(members, list) else []
    of_name = {part.get("field"): part for part in parts if isinstance(part.get("field"), str)}
    return {**value, place[0]: with_number(value[place[0]], of_name.get(place[0]), place[1:])}


def _number(value: Any, schema: dict[str, Any]) -> Any:
    match schema.get("name"), value:
        case "io.debezium.data.VariableScaleDecimal", {"scale": scale, "value": text}:
            pass
        case "org.apache.kafka.connect.data.Decimal", text:
            parameters = schema.get("parameters")
            scale = parameters.get("scale") if isinstance(parameters, dict) else None
        case _:
            return value
    found = _digits(text, str(scale)) if isinstance(text, str) and text != _UNAVAILABLE else None
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
