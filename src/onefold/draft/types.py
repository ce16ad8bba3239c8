"""Types of drafted fields: what the sample's JSON values are, as the strict decoder would take them.

How a type is written in a dataset file is `type_text`, and only that.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from onefold.draft.entries import counted

MOST = 0.95
"""The share of values that decides a type; what is left over would be rejected."""
_FEW = 20
"""Up to so many values all of them must agree."""
_LONG = 2**63
_MOST_DIGITS = 38
_MOST_SAID = 10
"""Reasons of an object's members that are listed, at most."""
_FRACTION = r"(\.(\d{1,6}|\d{6}0{1,3}))?"
_TIMESTAMP = re.compile(rf"\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d{_FRACTION})?(Z|[+-](0\d|1[0-8]):?\d\d)?")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_NUMBER = re.compile(r"-?\d+(\.\d+)?")
_MONEY = re.compile(
    r"amount|price|cost|total|balance|fee|tax|vat|discount|credit|debit|salary|revenue|payment|limit|money|net|gross"
)
_VERSION = re.compile(r"version|release|build|ip|phone|zip")
TIME_NAME = re.compile(
    r"(_at|_on|_ts|_time|_date|time|timestamp|date|_ms|_millis|created|updated|modified|changed)$|^ts$"
)
"""How the name of a field that holds a time ends."""
_SECONDS = range(946_684_800, 4_102_444_800)  # 2000 to 2100
_MILLIS = range(946_684_800_000, 4_102_444_800_000)
_MICROS = range(946_684_800_000_000, 4_102_444_800_000_000)


_UNITS = {"seconds": "seconds", "milliseconds": "millis", "microseconds": "micros"}


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parts, as it is written."""

    name: str


@dataclass(frozen=True, slots=True)
class Listed:
    """An array of one type."""

    element: Type


@dataclass(frozen=True, slots=True)
class Nested:
    """An object: (name, type, whether it may be absent or null) of each member."""

    members: tuple[tuple[str, Type, bool], ...]


Type = Scalar | Listed | Nested


def type_text(kind: Type, *, optional: bool = False) -> str:
    """A type as a dataset file has it."""
    match kind:
        case Scalar(name):
            text = name
        case Listed(element):
            text = f"list<{type_text(element)}>"
        case Nested(members):
            inner = ", ".join(f"{name}: {type_text(member, optional=opt)}" for name, member, opt in members)
            text = f"struct<{inner}>"
    return text + ("?" if optional else "")


@dataclass(frozen=True, slots=True)
class Inferred:
    """A type, why, and which of the values (by their index) are none of it, in whole or in a part."""

    kind: Type | None
    reasons: tuple[str, ...] = ()
    misfits: frozenset[int] = frozenset()


def infer(name: str, values: Sequence[Any]) -> Inferred:
    """The type of values that are neither absent nor null; `kind` is None where no type takes most of them."""
    found = _infer(name, values)
    return Inferred(found.kind, found.reasons + _rejecting(found, values), found.misfits)


def _infer(name: str, values: Sequence[Any]) -> Inferred:
    """The same, without a word on what would be rejected."""
    counts = Counter(map(_json_type, values))
    top, count = counts.most_common(1)[0]
    if counts["number"] and counts["string"] and (found := _numbers_and_strings(name, values)):
        return found
    if not _enough(count, len(values)):
        seen = ", ".join(f"{number} {kind}s" for kind, number in counts.most_common())
        return Inferred(None, (f"of several types: {seen}",))
    places = [index for index, value in enumerate(values) if _json_type(value) == top]
    found = _of_one_type(name, top, [values[index] for index in places])
    fitting = {index for place, index in enumerate(places) if place not in found.misfits}
    misfits = frozenset(range(len(values))) - fitting
    return Inferred(found.kind, found.reasons, misfits)


def _rejecting(found: Inferred, values: Sequence[Any]) -> tuple[str, ...]:
    return tuple(f"{misfit}: rejected" for misfit in _others(found, values) if found.kind)


def _others(found: Inferred, values: Sequence[Any], what: str = "") -> tuple[str, ...]:
    """How many values do not fit, if any."""
    parts = "" if isinstance(found.kind, Scalar) else ", in whole or in a part"
    return (f"{len(found.misfits)} of {len(values)} {what}of another type{parts}",) if found.misfits else ()


def _enough(count: int, total: int) -> bool:
    return count == total if total <= _FEW else count >= MOST * total


def _json_type(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case int() | Decimal() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _of_one_type(name: str, top: str, values: list[Any]) -> Inferred:
    match top:
        case "boolean":
            return Inferred(Scalar("boolean"))
        case "number":
            return _numbers(name, values)
        case "string":
            return _strings(name, values)
        case "array":
            return _arrays(name, values)
        case _:
            return _objects(values)


# Strings.


def _strings(name: str, values: list[str]) -> Inferred:
    for kind, fits in (("timestamp", is_timestamp), ("date", is_date)):
        misfits = frozenset(index for index, value in enumerate(values) if not fits(value))
        if _enough(len(values) - len(misfits), len(values)):
            zoned = "" if kind == "date" or _all_zoned(values, misfits) else "; without a zone it is UTC"
            return Inferred(Scalar(kind), (f"ISO 8601 text{zoned}",) if zoned else (), misfits)
    return _decimal_strings(name, values) or Inferred(Scalar("string"))


def _all_zoned(values: list[str], misfits: frozenset[int]) -> bool:
    return all(re.search(r"(Z|[+-]\d\d:?\d\d)$", value[10:]) for i, value in enumerate(values) if i not in misfits)


def is_timestamp(text: str) -> bool:
    """Whether the decoder takes it as a timestamp: at most microseconds, with or without a zone."""
    return _TIMESTAMP.fullmatch(text) is not None and _parses(datetime.fromisoformat, text)


def is_date(text: str) -> bool:
    """Whether the decoder takes it as a date."""
    return _DATE.fullmatch(text) is not None and _parses(date.fromisoformat, text)


def _parses(parse: Any, text: str) -> bool:
    try:
        parse(text)
    except ValueError:
        return False
    return True


def _decimal_strings(name: str, values: list[str]) -> Inferred | None:
    """Decimals as strings: of an amount, or all with the same number of digits behind the point."""
    numeric = [index for index, value in enumerate(values) if _is_number(value)]
    texts = [values[index] for index in numeric]
    scales = {len(text.partition(".")[2]) for text in texts}
    pointed = any("." in text for text in texts)
    money = _MONEY.search(name.lower()) is not None
    if not pointed or not _enough(len(numeric), len(values)) or _VERSION.search(name.lower()):
        return None
    if not money and not (len(scales) == 1 and min(scales) >= 2):
        return None
    found = _numbers(name, texts, "numbers written as strings: a decimal reads them exactly")
    if found.kind is None or not _is_decimal(found.kind):
        return None
    return Inferred(found.kind, found.reasons, frozenset(range(len(values))) - frozenset(numeric))


def _numbers_and_strings(name: str, values: Sequence[Any]) -> Inferred | None:
    """Some wrote numbers, some strings of them: a decimal takes both."""
    there = [index for index, value in enumerate(values) if _json_type(value) == "number" or _is_number(value)]
    if not _enough(len(there), len(values)):
        return None
    found = _numbers(name, [values[index] for index in there], "JSON numbers and strings: a decimal reads both")
    if found.kind is None or not _is_decimal(found.kind):  # no other type reads a number in a string
        return None
    misfits = frozenset(range(len(values))) - frozenset(there)
    return Inferred(found.kind, found.reasons, misfits)


def _is_decimal(kind: Type) -> bool:
    return isinstance(kind, Scalar) and kind.name.startswith("decimal")


def _is_number(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_DIGITS and _NUMBER.fullmatch(value) is not None


# Numbers. The parser leaves an exponent as a float (see `onefold.draft.values`).


def _numbers(name: str, values: Sequence[Any], why: str = "") -> Inferred:
    numbers = [Decimal(value) if isinstance(value, str) else value for value in values]
    texts = any(isinstance(value, str) for value in values)
    floats = [number for number in numbers if isinstance(number, float)]
    whole = [number for number in numbers if isinstance(number, int)]
    if len(whole) == len(numbers) and not texts and all(-_LONG <= number < _LONG for number in whole):
        epoch = _epoch(name.lower(), whole)
        return Inferred(Scalar("long"), (epoch,) if epoch else ())
    if floats and all(abs(number) < float("inf") for number in floats):
        reason = f"numbers of more than {_MOST_DIGITS} digits; a double cannot be part of a key or identity"
        return Inferred(Scalar("double"), (reason,))
    if floats:
        return Inferred(None, ("numbers beyond every type",))
    digits = [_digits(number) for number in numbers]
    integer, scale = max(digit[0] for digit in digits), max(digit[1] for digit in digits)
    money = _MONEY.search(name.lower()) is not None
    if not texts and not money and scale > 2:
        reason = f"up to {scale} digits behind the point; declare decimal(p,s) if it must be exact or part of a key"
        return Inferred(Scalar("double"), (reason,))
    scale = max(scale, 2) if any(isinstance(number, Decimal) for number in numbers) else 0
    precision = 18 if integer + scale <= 18 else _MOST_DIGITS
    if integer + scale > _MOST_DIGITS:
        return Inferred(Scalar("double"), (f"more digits than a decimal's {_MOST_DIGITS}",))
    digits_seen = f"at most {counted(integer, 'digit')} before and {max(digit[1] for digit in digits)} behind the point"
    return Inferred(Scalar(f"decimal({precision},{scale})"), (why, digits_seen) if why else (digits_seen,))


def _digits(number: int | Decimal) -> tuple[int, int]:
    """The digits that count before and behind the point: the decoder takes more zeros at the end, too."""
    before, _, behind = f"{abs(number):f}".partition(".")
    return len(before.lstrip("0")) or 1, len(behind.rstrip("0"))


def _epoch(name: str, values: Sequence[int]) -> str:
    """What whole numbers that are times look like: they stay what they are."""
    named = TIME_NAME.search(name) is not None
    for unit, instants in (("seconds", _SECONDS), ("milliseconds", _MILLIS), ("microseconds", _MICROS)):
        if all(value in instants for value in values) and (named or (unit != "seconds" and len(values) > _FEW)):
            return f"looks like {unit} since 1970: timestamp({_UNITS[unit]}) would read it as a time"
    return ""


# What holds other values. A part that does not fit rejects the whole value, so the whole is what is counted.


def _arrays(name: str, values: list[list[Any]]) -> Inferred:
    of, elements = _parts((index, element) for index, value in enumerate(values) for element in value)
    if not elements:
        return Inferred(None, ("only empty arrays: nothing says what is in them",))
    found = _infer(name, elements)
    if found.kind is None:
        return found
    misfits = frozenset(of[place] for place in found.misfits)
    reasons = found.reasons + _others(found, elements, "elements ")
    if not _enough(len(values) - len(misfits), len(values)):
        return Inferred(None, (*reasons, f"in {len(misfits)} of {len(values)} arrays"))
    return Inferred(Listed(found.kind), reasons, misfits)


def _objects(values: list[dict[str, Any]]) -> Inferred:
    members: dict[str, list[tuple[int, Any]]] = {}
    for index, value in enumerate(values):
        for name, member in value.items():
            members.setdefault(name, []).append((index, member))
    typed, others, reasons, misfits = [], list[str](), list[str](), set[int]()
    for name, found in members.items():
        of, there = _parts(found)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            reasons.append(f"without {name[:60]!r}: no name of a column")
        elif not there:
            reasons.append(f"without {name}: null in all {len(found)} that have it")
        elif (member := _infer(name, there)).kind is None:
            reasons.append(f"without {name}: {'; '.join(member.reasons)}")
        else:
            typed.append((name, member.kind, len(there) < len(values)))
            others += [f"{name}: {reason}" for reason in _others(member, there)]
            reasons += [f"{name}: {reason}" for reason in member.reasons]
            misfits |= {of[place] for place in member.misfits}
    if not typed:
        return Inferred(None, ("no member that has a type",))
    said = [*others, *reasons]
    more = [f"and {len(said) - _MOST_SAID} more" for _ in said[_MOST_SAID : _MOST_SAID + 1]]
    return Inferred(Nested(tuple(typed)), (*said[:_MOST_SAID], *more), frozenset(misfits))


def _parts(found: Iterable[tuple[int, Any]]) -> tuple[list[int], list[Any]]:
    """Of (index of the whole, part) those that are not null: the indices, and the parts."""
    there = [(index, part) for index, part in found if part is not None]
    return [index for index, _ in there], [part for _, part in there]
