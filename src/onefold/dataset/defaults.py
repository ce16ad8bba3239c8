"""Declared defaults: what a field is where a record has none of it. An explicit null is a value and no absence."""

from __future__ import annotations

import json
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING

from onefold.dataset.expressions import parse, paths
from onefold.dataset.types import FieldType

if TYPE_CHECKING:
    from onefold.dataset.declaration import Declaration

Default = bool | int | float | str
_BITS = {"int": 31, "long": 63}
_TELLING = ("identity", "apply.key", "apply.version", "apply.add")
"""Places of the file where a default would make one message, key or version of all records that lack a field."""


def json_of(default: Default, kind: FieldType) -> str:
    """A default as the JSON that a record would have in its place.

    Raises:
        ValueError: it is no value of the type.
    """
    if not _fits(default, kind):
        raise ValueError(f"the default {default!r} is no {kind}")
    if isinstance(default, float):
        return f"{Decimal(repr(default)):f}"
    return json.dumps(default)


def _fits(default: Default, kind: FieldType) -> bool:
    number = isinstance(default, int | float) and not isinstance(default, bool)
    if kind.unit or kind.name in _BITS:
        bits = _BITS.get(kind.name, 63)
        return isinstance(default, int) and number and -(1 << bits) <= default < 1 << bits
    match kind.name:
        case "string":
            return isinstance(default, str)
        case "boolean":
            return isinstance(default, bool)
        case "double":
            return number and abs(default) < float("inf")  # type: ignore[arg-type]
        case "decimal":
            return (number or (isinstance(default, str) and not kind.base64)) and _is_decimal(str(default), kind)
        case "date":
            return isinstance(default, str) and _is_instant(default, whole_day=True)
        case "timestamp":
            return isinstance(default, str) and _is_instant(default, whole_day=False)
        case _:
            return False


def _is_decimal(text: str, kind: FieldType) -> bool:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return False
    if not number.is_finite():
        return False
    _, digits, exponent = number.normalize().as_tuple()
    assert isinstance(exponent, int)
    return -exponent <= kind.scale and len(digits) + exponent <= kind.precision - kind.scale


def _is_instant(text: str, *, whole_day: bool) -> bool:
    try:
        found = date.fromisoformat(text) if whole_day else datetime.fromisoformat(text)
    except ValueError:
        return False
    return len(text) == len("2026-01-01") if whole_day else len(text) > len("2026-01-01T00") and bool(found)


def check_defaults(dataset: Declaration) -> None:
    """Refuse a default of a field that tells records apart.

    Raises:
        ValueError: it names the field.
    """
    for place, text in dataset.expressions():
        for path in paths(parse(text)):
            if path.root == "value" and path.name in dataset.defaults and place.startswith(_TELLING):
                raise ValueError(
                    f"value.fields: {path.name} has a default, and {place} reads it: all records without it would be "
                    "one message, key or version"
                )
    if keyed := sorted({*dataset.keyed_fields} & {*dataset.defaults}):
        raise ValueError(f"value.fields: {keyed[0]} has a default, and is a part of the key, which fills it")
