"""One JSON value as one declared type: exactly that, or a problem that says where and what was found.

Nothing is coerced, rounded or guessed. Numbers come as they are written (`onefold.formats.text.parse_exactly`).
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import MAX_PREC, Context, Decimal
from typing import Any

from onefold.dataset.types import FieldType
from onefold.formats.connect_decimals import decimal_text
from onefold.formats.text import MOST_SHOWN, SURROGATE, Number, json_text, shown
from onefold.instants import EPOCH, FIRST, LAST
from onefold.vocabulary import Reason

ABSENT: Any = ...
"""What a record does not have; in every process the same object."""
DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days since 1970."""
PER_SECOND = {"seconds": 1, "millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
LARGEST = {"int": 2**31 - 1, "long": 2**63 - 1}
_MOST_DIGITS = 38
_ALL_DIGITS = Context(prec=MAX_PREC)
_NUMBER = re.compile(r"-?\d++(?:\.\d++)?+(?:[eE][+-]?\d{1,3})?", re.ASCII)
"""A number that is read digit by digit. JSON's own may have longer exponents; a text may begin with zeros."""
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIMESTAMP = re.compile(
    r"(?P<minutes>\d{4}-\d\d-\d\d[T ]\d\d:\d\d)(?P<seconds>:\d\d(?:\.(?:\d{1,6}|\d{6}0{1,3}))?)?"
    r"(?P<zone>Z|[+-]\d\d:?\d\d)?",
    re.ASCII,
)
_FINER = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\.\d{6}(\d{1,3})(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_FURTHEST = timedelta(hours=18)
"""The largest offset from UTC that a time may have."""
_ESCAPES = str.maketrans(
    {chr(code): f"\\u{code:04X}" for code in range(32)}
    | {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
)
"""How canonical JSON has the characters that no string may hold as they are."""


class ProblemError(Exception):
    """Why a value cannot be used. `detail` goes on behind the value's name: `: wanted long, found string x`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason, self.detail = reason, detail

    def within(self, place: str) -> ProblemError:
        """The same problem of the value that has this one at a place."""
        return ProblemError(self.reason, place + self.detail)


def typed(value: Any, kind: FieldType) -> Any:
    """A JSON value (`ABSENT`: there is none) as Arrow takes its type: timestamps in microseconds and dates in days
    since 1970, maps as pairs in the order of their keys' UTF-16 units, `json` as canonical text.

    Raises:
        ProblemError: it is not a value of the type.
    """
    if value is ABSENT:
        if kind.nullable:
            return None
        raise ProblemError(Reason.MISSING_FIELD, " is absent")
    if value is None:
        return None
    if kind.nested:
        return _NESTED[kind.name](value, kind)
    if kind.name == "json":
        return _canonical_text(value)
    found = _counted(value, kind) if kind.unit else _SCALARS[kind.name](value, kind)
    if found is None:
        raise _unfit(value, kind)
    return found


def scalar_text(value: Any) -> str | None:
    """The text of a string, a boolean, or a number without an exponent; null elsewhere."""
    match value:
        case Number():
            has_exponent = "e" in value or "E" in value
            return None if has_exponent or sum(map(str.isdigit, plain(value))) > _MOST_DIGITS else plain(value)
        case bool():
            return "true" if value else "false"
        case str() if not SURROGATE.search(value):
            return value
        case _:
            return None


# Scalars: the value as the type, or None.


def _string(value: Any, kind: FieldType) -> str | None:
    del kind
    return value if _is_text(value) and not SURROGATE.search(value) else None


def _boolean(value: Any, kind: FieldType) -> bool | None:
    del kind
    return value if isinstance(value, bool) else None


def _whole(value: Any, kind: FieldType) -> int | None:
    return whole(value, LARGEST[kind.name]) if isinstance(value, Number) else None


def whole(digits: str, largest: int) -> int | None:
    """Digits as a whole number: `1.0` is 1, and `1.5` none."""
    if not _NUMBER.fullmatch(digits):
        return None
    number = Decimal(digits)
    if number and (not -1000 < number.adjusted() < 20 or number != number.to_integral_value(context=_ALL_DIGITS)):
        return None
    return int(number) if -largest - 1 <= number <= largest else None


def _double(value: Any, kind: FieldType) -> float | None:
    """The nearest number that a double holds; a whole number of 64 bits only where it holds just that."""
    del kind
    if not isinstance(value, Number):
        return None
    found = float(value)
    if abs(found) == float("inf"):
        return None
    exact = whole(value, LARGEST["long"]) if value.lstrip("-").isdigit() else None
    return None if exact is not None and int(found) != exact else found + 0.0  # -0.0 is 0.0


def _decimal(value: Any, kind: FieldType) -> Decimal | None:
    """Its digits, where the type has room for each of them. Zeros at the end are no digits."""
    if kind.base64 and _is_text(value):
        value = decimal_text(value, kind.scale)
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        return None
    number = Decimal(value)
    if not number:
        return Decimal(0)
    if number.adjusted() >= kind.precision - kind.scale:
        return None
    found = number.quantize(Decimal(1).scaleb(-kind.scale), context=_ALL_DIGITS)
    return found if found == number else None


def _date(value: Any, kind: FieldType) -> int | None:
    del kind
    if not _is_text(value) or not _DATE.fullmatch(value):
        return None
    try:
        return (date.fromisoformat(value) - EPOCH.date()).days
    except ValueError:
        return None


def _timestamp(value: Any, kind: FieldType) -> int | None:
    """An instant, in UTC where the text names no zone; none where it is finer than microseconds."""
    del kind
    parts = _TIMESTAMP.fullmatch(value) if _is_text(value) else None
    if not parts:
        return None
    second, _, fraction = (parts["seconds"] or ":00").partition(".")
    try:
        at = datetime.fromisoformat(f"{parts['minutes']}{second}{parts['zone'] or 'Z'}")
        if abs(at.utcoffset() or timedelta()) > _FURTHEST:
            return None
        at = at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return (at - EPOCH) // timedelta(microseconds=1) + int(fraction.ljust(6, "0")[:6])


def _counted(value: Any, kind: FieldType) -> int | None:
    """A whole number since 1970, in the unit that the type names."""
    count = whole(value, LARGEST["long"]) if isinstance(value, Number) else None
    if count is None or kind.name == "date":
        return count if count is not None and DAYS[0] <= count <= DAYS[1] else None
    micros, left = divmod(count * 1_000_000, PER_SECOND[kind.unit])
    return micros if left == 0 and FIRST * 1000 <= micros < (LAST + 1) * 1000 else None


def _binary(value: Any, kind: FieldType) -> bytes | None:
    """Base64 (RFC 4648, section 4) with its padding, and without bits that say nothing."""
    del kind
    try:
        data = b64decode(value, validate=True) if _is_text(value) else None
    except ValueError:
        return None
    return data if data is not None and b64encode(data).decode() == value else None


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not isinstance(value, Number)


_SCALARS: dict[str, Callable[[Any, FieldType], Any]] = {
    "string": _string,
    "boolean": _boolean,
    "int": _whole,
    "long": _whole,
    "double": _double,
    "decimal": _decimal,
    "date": _date,
    "timestamp": _timestamp,
    "binary": _binary,
}


# Lists, maps, structs.


def _list(value: Any, kind: FieldType) -> list[Any]:
    if not isinstance(value, list):
        raise _unfit(value, kind)
    return [_part(item, kind.item, f"[{number}]") for number, item in enumerate(value)]


def _map(value: Any, kind: FieldType) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise _unfit(value, kind)
    pairs = []
    for name in sorted(value, key=_utf16):
        if SURROGATE.search(name):
            raise _half_pair(name)
        pairs.append((name, _part(value[name], kind.item, f'["{name[:MOST_SHOWN]}"]')))
    return pairs


def _struct(value: Any, kind: FieldType) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(value, kind)
    return {name: _part(value.get(name, ABSENT), of, f".{name}") for name, of in kind.fields}


def _part(value: Any, kind: FieldType | None, place: str) -> Any:
    assert kind
    try:
        return typed(value, kind)
    except ProblemError as problem:
        raise problem.within(place) from None


_NESTED: dict[str, Callable[[Any, FieldType], Any]] = {"list": _list, "map": _map, "struct": _struct}


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


# Any value, as text.


def _canonical_text(value: Any) -> str:
    text = canonical(value)
    if SURROGATE.search(text):
        raise _half_pair(text)
    return text


def canonical(value: Any) -> str:
    """The one JSON text of a value: no space, names in the order of their UTF-16 units, numbers with all digits that
    count and without an exponent. A number with an exponent of more than three digits stays as it is."""
    match value:
        case Number():
            return plain(value)
        case str():
            return f'"{value.translate(_ESCAPES)}"'
        case dict():
            return (
                "{"
                + ",".join(f"{canonical(name)}:{canonical(value[name])}" for name in sorted(value, key=_utf16))
                + "}"
            )
        case list():
            return "[" + ",".join(map(canonical, value)) + "]"
        case _:
            return json.dumps(value)


def plain(number: str) -> str:
    """A number's digits, without an exponent and without zeros that say nothing."""
    if not _NUMBER.fullmatch(number):
        return str(number)
    text = format(Decimal(number), "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


# Problems.


def _unfit(value: Any, kind: FieldType) -> ProblemError:
    if _is_text(value) and SURROGATE.search(value):
        return _half_pair(value)
    text = value if isinstance(value, str) else json_text(value)
    found = f": wanted {kind}, found {_name_of(value)} {shown(text)}"
    return ProblemError(Reason.WRONG_TYPE, found + _too_fine(text, kind))


def _half_pair(text: str) -> ProblemError:
    return ProblemError(Reason.UNDECODABLE, f": half of a surrogate pair, which no text holds, in {shown(text)}")


def _name_of(value: Any) -> str:
    """What JSON calls it."""
    match value:
        case bool():
            return "boolean"
        case Number():
            return "number"
        case str():
            return "string"
        case dict():
            return "object"
        case _:
            return "array"


def _too_fine(text: str, kind: FieldType) -> str:
    """What is finer than microseconds in a time that cannot be read."""
    if kind.unit == "nanos" and (count := whole(text, LARGEST["long"])) and abs(count) % 1000:
        return f"; it has nanoseconds behind the microseconds: {abs(count) % 1000}"
    finer = _FINER.fullmatch(text) if kind.name == "timestamp" and not kind.unit else None
    return f"; it has digits behind the microseconds: {finer[1]}" if finer else ""
