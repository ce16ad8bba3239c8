"""Decimals as Kafka Connect's JsonConverter writes them by default: the unscaled number in Base64.

Only the schema next to the value has the scale of Connect's `Decimal`. Debezium's `VariableScaleDecimal` has its own.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any

from onefold.formats.text import scaled_text

DECIMAL = "org.apache.kafka.connect.data.Decimal"
PRECISION = "connect.decimal.precision"
"""The parameter of a schema that has the precision, where the database has one."""
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_MOST_BYTES, _MOST_SCALE = 500, 1000


def scale_of(schema: Any) -> int | None:
    """The scale in the schema of a decimal; None: it is no such schema."""
    if not isinstance(schema, Mapping) or schema.get("name") != DECIMAL:
        return None
    parameters = schema.get("parameters")
    return _scale(parameters.get("scale") if isinstance(parameters, Mapping) else None)


def schema_at(schema: Any, place: Sequence[str]) -> Any:
    """The part of a schema that describes what is at a place; None: there is none."""
    for name in place:
        members = schema.get("fields") if isinstance(schema, Mapping) else None
        named = [member for member in members or () if isinstance(member, Mapping) and member.get("field") == name]
        schema = named[-1] if named else None
    return schema


def read_decimal(value: Any, schema: Any) -> Any:
    """The number as text, where the schema says that a value is a decimal in Base64; any other value as it is."""
    if isinstance(schema, Mapping) and schema.get("name") == _VARIABLE and isinstance(value, Mapping):
        scale, text = _scale(value.get("scale")), value.get("value")
    else:
        scale, text = scale_of(schema), value
    found = None if scale is None or not isinstance(text, str) else decimal_text(text, scale)
    return value if found is None else found


def with_decimals(value: Any, schema: Any) -> Any:
    """A value with all its decimals as text."""
    found = read_decimal(value, schema)
    if found is not value or not isinstance(value, dict):
        return found
    return {name: with_decimals(part, schema_at(schema, (name,))) for name, part in value.items()}


def decimal_text(text: str, scale: int) -> str | None:
    """The number that Base64 of its unscaled bytes means, with all its digits; None: the text is no such Base64."""
    try:
        data = b64decode(text, validate=True)
    except ValueError:
        return None
    if not data or len(data) > _MOST_BYTES or b64encode(data).decode() != text:
        return None
    return scaled_text(int.from_bytes(data, "big", signed=True), scale)


def _scale(given: Any) -> int | None:
    try:
        found = int(str(given))
    except ValueError:
        return None
    return found if abs(found) <= _MOST_SCALE else None
