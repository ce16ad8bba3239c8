"""Structured values as JSON text, exactly: what Avro and Parquet hold becomes what Kafka Connect's JSON would say.

| what | is written as |
| --- | --- |
| whole numbers | all their digits |
| float, double | the shortest number that reads back as the same number; NaN and infinities as words in quotes |
| decimal | all its digits; with more than 38 of them in quotes |
| date, time, timestamp | ISO 8601, with microseconds (nanoseconds where there are any), Z where it is an instant |
| binary | base64, as Connect does |
| null | null, always said |

A date, time or timestamp whose field is declared `int` or `long` is the number that the file has. What ISO 8601 cannot
say (years beyond 9999) is that number, too, so that no declared time takes it.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from json.encoder import encode_basestring as quoted
from typing import Any

import msgspec
import numpy as np

from onefold.dataset.types import FieldType
from onefold.formats.text import scaled_text

Write = Callable[[Any], str]
Plain = Callable[[Any], Any]
"""A value, not null, to what `written` writes as the same JSON."""
_EPOCH, _DAY_ONE = datetime(1970, 1, 1), date(1970, 1, 1)  # noqa: DTZ001 (both are UTC's)
_MOST_DIGITS = 38
_NUMBERS = ("int", "long")


class FormatError(Exception):
    """An object, or a column of it, cannot be read; the message says why."""


class TooLargeError(FormatError):
    """A message, or the JSON that says the same, is larger than what is read."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value is, in any format; any value may be null.

    `name`: null, boolean, whole, float, double, decimal, unscaled (a decimal's big-endian bytes), text, binary, date
    (days), time and timestamp (numbers since midnight, since 1970), list, map (text to `item`), struct, union (a value
    under the name of its shape in `fields`), or refused.
    """

    name: str
    scale: int = 0
    """Digits behind the point: of an unscaled decimal, of a time's or timestamp's seconds."""
    instant: bool = True
    item: Shape | None = None
    fields: tuple[tuple[str, Shape], ...] = ()
    refused: str = ""
    """Why values of this shape cannot be read."""


def refused(why: str) -> Shape:
    """The shape of values that cannot be read."""
    return Shape("refused", refused=why)


def encoder(shape: Shape, declared: FieldType | None = None, at: str = "") -> Callable[[Any], bytes]:
    """What turns a value into the bytes of its JSON: the same as those of `writer`, sooner.

    Raises:
        FormatError: values of this shape cannot be read.
    """
    write, plain = writer(shape, declared, at), plain_of(shape, declared)

    def encode(value: Any) -> bytes:
        try:
            return written(None if value is None else plain(value))
        except Exception:  # an odd value: the exact way says what is wrong
            return encoded(write(value))

    return encode


written = msgspec.json.Encoder().encode
"""What `plain_of` gives, as JSON: bytes as base64, a text that is no UTF-8 is an error."""


def raw(write: Write) -> Plain:
    """What is written as `write` does it."""
    return lambda value: msgspec.Raw(write(value).encode())


def plain_text(value: str | bytes) -> str:
    """A text. It raises UnicodeDecodeError for bytes that are none."""
    return value if type(value) is str else bytes(value).decode()  # type: ignore[arg-type]


def plain_of(shape: Shape, declared: FieldType | None) -> Plain:
    """What makes of values of a shape, which can be read (`writer`), what `written` writes as the same JSON. It raises
    any error for a value that only `writer` can write."""
    match shape.name:
        case "boolean" | "whole" | "null" | "binary":
            return plain_as_it_is
        case "text":
            return plain_text
        case "list":
            assert shape.item
            item = _or_none(plain_of(shape.item, declared.item if declared else None))
            return lambda value: [item(part) for part in value]
        case "map":
            assert shape.item
            item = _or_none(plain_of(shape.item, declared.item if declared else None))
            return lambda value: _each_key_once(value, {plain_text(key): item(part) for key, part in _pairs(value)})
        case "struct":
            known = dict(declared.fields) if declared else {}
            parts = [
                (name, plain_of(kind, known.get(name)))
                for name, kind in shape.fields
                if name in known or not _is_unreadable(kind)
            ]
            return lambda value: {name: part if (part := value[name]) is None else make(part) for name, make in parts}
        case _:
            return raw(_writer(shape, declared, ""))


def plain_as_it_is(value: Any) -> Any:
    """A number, a boolean, or bytes."""
    return value


def _or_none(make: Plain) -> Plain:
    return lambda value: None if value is None else make(value)


def _each_key_once(value: Any, made: dict[str, Any]) -> dict[str, Any]:
    """What was made of a map. It raises ValueError for a map that has a key twice: `writer` writes both entries."""
    if len(made) != len(value):
        raise ValueError(value)
    return made


def writer(shape: Shape, declared: FieldType | None = None, at: str = "") -> Write:
    """What turns a value into JSON text; `declared` is the field's type in the dataset file, `at` its name.

    Raises:
        FormatError: values of this shape cannot be read.
    """
    write = _writer(shape, declared, at)
    return lambda value: "null" if value is None else write(value)


def _writer(shape: Shape, declared: FieldType | None, at: str) -> Write:
    match shape.name:
        case "boolean":
            return lambda value: "true" if value else "false"
        case "float" | "double" | "decimal" | "text" | "binary":
            return _SCALARS[shape.name]
        case "unscaled":
            return lambda value: _digits(scaled_text(int.from_bytes(value, "big", signed=True), shape.scale))
        case "date" | "time" | "timestamp" if declared and declared.name in _NUMBERS:
            return str
        case "date":
            return _date
        case "time":
            return lambda value: _time(value, shape.scale)
        case "timestamp":
            return lambda value: _timestamp(value, shape)
        case "union":
            return _branch(shape, declared, at)
        case "list" | "map" | "struct":
            return _nested(shape, declared, at)
        case "refused":
            raise FormatError(f"{at or 'the value'}: {shape.refused}")
        case _:
            return str


def _branch(shape: Shape, declared: FieldType | None, at: str) -> Write:
    writers = {name: writer(kind, declared, at) for name, kind in shape.fields}

    def write(value: Any) -> str:
        [(name, part)] = value.items()
        return writers[name](part)

    return write


def _nested(shape: Shape, declared: FieldType | None, at: str) -> Write:
    if shape.name == "struct":
        known = dict(declared.fields) if declared else {}
        parts = [
            (name, f"{quoted(name)}:", writer(kind, known.get(name), f"{at}.{name}".lstrip(".")))
            for name, kind in shape.fields
            if name in known or not _is_unreadable(kind)  # a field that is not declared may be
        ]
        return lambda value: "{" + ",".join([word + write(value[name]) for name, word, write in parts]) + "}"
    assert shape.item
    item = writer(shape.item, declared.item if declared else None, f"{at}[]")
    if shape.name == "list":
        return lambda value: "[" + ",".join(map(item, value)) + "]"
    return lambda value: "{" + ",".join(f"{_text(key)}:{item(part)}" for key, part in _pairs(value)) + "}"


def _is_unreadable(shape: Shape) -> bool:
    """Whether no value of it can be read: a record is read without its unreadable fields."""
    parts = [shape.item] if shape.item else [kind for _, kind in shape.fields] if shape.name == "union" else []
    return shape.name == "refused" or any(map(_is_unreadable, parts))


def _pairs(value: Any) -> Any:
    return value.items() if isinstance(value, dict) else value


def _text(value: str | bytes) -> str:
    """A text; bytes that are no UTF-8 stay in it, and come out again where the line is encoded (`encoded`)."""
    return quoted(value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else value)


def encoded(line: str) -> bytes:
    """The line as bytes: what was no UTF-8 is the bytes that it was."""
    return line.encode("utf-8", "surrogateescape")


def _binary(value: bytes) -> str:
    return f'"{b64encode(value).decode()}"'


def _double(value: float) -> str:
    return repr(value) if abs(value) < float("inf") else _word(value)


def _float(value: float) -> str:
    return str(np.float32(value)) if abs(value) < float("inf") else _word(value)


def _word(value: float) -> str:
    return {float("inf"): '"Infinity"', float("-inf"): '"-Infinity"'}.get(value, '"NaN"')


def _decimal(value: Decimal) -> str:
    return _digits(format(value, "f"))


def _digits(text: str) -> str:
    return text if len(text) <= _MOST_DIGITS or sum(map(str.isdigit, text)) <= _MOST_DIGITS else f'"{text}"'


def _date(days: int) -> str:
    try:
        return f'"{(_DAY_ONE + timedelta(days=days)).isoformat()}"'
    except OverflowError:
        return str(days)


def _time(ticks: int, scale: int) -> str:
    seconds, fraction = divmod(ticks, 10**scale)
    minutes, second = divmod(seconds, 60)
    return f'"{minutes // 60:02d}:{minutes % 60:02d}:{second:02d}{_fraction(fraction, scale)}"'


def _timestamp(ticks: int, shape: Shape) -> str:
    micros, finer = divmod(ticks, 1000) if shape.scale == 9 else (ticks * 10 ** (6 - shape.scale), 0)
    try:
        at = _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return str(ticks)
    nanos = f"{finer:03d}" if finer else ""
    return f'"{at.isoformat(timespec="microseconds")}{nanos}{"Z" if shape.instant else ""}"'


def _fraction(fraction: int, scale: int) -> str:
    """Six digits; nine where six would lose some, which no declared timestamp takes."""
    nanos = f".{fraction * 10 ** (9 - scale):09d}"
    return nanos.removesuffix("000")


_SCALARS: dict[str, Write] = {
    "float": _float,
    "double": _double,
    "decimal": _decimal,
    "text": _text,
    "binary": _binary,
}
