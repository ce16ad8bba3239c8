"""Decimals as Kafka Connect's JsonConverter writes them by default: the unscaled number in Base64.

Only the schema next to the value has the scale of Connect's `Decimal`. Debezium's `VariableScaleDecimal` has its own.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from onefold.dataset.types import FieldType
from onefold.formats.text import BOM, Number, json_text, parse_exactly, scaled_text

DECIMAL = "org.apache.kafka.connect.data.Decimal"
PRECISION = "connect.decimal.precision"
"""The parameter of a schema that has the precision, where the database has one."""
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
MAY_BE_DECIMALS = ("decimal", "string")
"""Types of fields that take a decimal of Connect's: as a number, or as the text of all its digits."""
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
    # With `decimal.format=NUMERIC` the converter writes numbers, next to the same schema.
    if scale is None or not isinstance(text, str) or isinstance(text, Number):
        return value
    found = decimal_text(text, scale)
    return value if found is None else found


def with_decimals(value: Any, schema: Any) -> Any:
    """A value with all its decimals as text."""
    found = read_decimal(value, schema)
    return found if found is not value else _by_parts(value, schema, with_decimals)


def with_digits(value: Any, schema: Any, kind: FieldType) -> Any:
    """A value with its decimals as text where a declared type asks for text or a decimal, and as a number where it says
    that they are Base64: next to a schema, that alone says what is."""
    if not isinstance(schema, Mapping):
        return value
    if kind.name in MAY_BE_DECIMALS:
        found = read_decimal(value, schema)
        return Number(found) if kind.base64 and isinstance(found, str) else found
    if kind.item:
        return _by_parts(value, schema, partial(with_digits, kind=kind.item))
    if not isinstance(value, dict):
        return value
    declared = {name: of for name, of in kind.fields if name in value}
    return value | {name: with_digits(value[name], schema_at(schema, (name,)), of) for name, of in declared.items()}


def _by_parts(value: Any, schema: Any, read: Callable[[Any, Any], Any]) -> Any:
    """A value with its parts read, each next to its own schema."""
    inner = schema if isinstance(schema, Mapping) else {}
    if isinstance(value, list):
        return [read(part, inner.get("items")) for part in value]
    if not isinstance(value, dict):
        return value
    if inner.get("type") == "map":
        return {name: read(part, inner.get("values")) for name, part in value.items()}
    return {name: read(part, schema_at(schema, (name,))) for name, part in value.items()}


def has_decimals(schema: Any) -> bool:
    """Whether a schema, or a part of it, is that of a decimal."""
    if isinstance(schema, Mapping):
        return schema.get("name") in (DECIMAL, _VARIABLE) or any(map(has_decimals, schema.values()))
    return isinstance(schema, list) and any(map(has_decimals, schema))


def json_with_decimals(data: bytes) -> bytes:
    """JSON that may be `{schema, payload}`, with all decimals of its payload as text; other bytes as they are."""
    try:
        found = parse_exactly(data.decode().removeprefix(BOM))
        if not isinstance(found, dict) or found.keys() != {"schema", "payload"}:
            return data
        return json_text({**found, "payload": with_decimals(found["payload"], found["schema"])}).encode()
    except (ValueError, RecursionError):
        return data


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
