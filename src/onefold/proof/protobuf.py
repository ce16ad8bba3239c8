"""Protobuf decoded a second time, by a reader of its wire format: what a run decodes with Google's library and writes
as JSON text is read here again, with none of its code. `onefold.formats.protobuf` has the table of what is read how.

Source of the format: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import json
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from math import isfinite
from typing import Any

from onefold.dataset.types import FieldType
from onefold.formats.text import Number
from onefold.proof.numbers import float_number

_VARINT, _EIGHT, _BYTES, _START, _END, _FOUR = range(6)
_DEEPEST = 100
_LARGEST = 16_000_000
_LARGE = 100_000
"""Bytes of a message from which on it is asked how long it is as JSON: lists and maps are always."""
_FIXED = {
    "double": ("<d", _EIGHT), "fixed64": ("<Q", _EIGHT), "sfixed64": ("<q", _EIGHT),
    "float": ("<f", _FOUR), "fixed32": ("<I", _FOUR), "sfixed32": ("<i", _FOUR),
}  # fmt: skip
_SIZES = {_EIGHT: 8, _FOUR: 4}
_GOOGLE = "google.protobuf."
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_BILLION = 1_000_000_000
Field = Mapping[str, Any]
"""A field as the text of the schema has it (`onefold.dataset.protobuf_schema`)."""


def decoder(schema: str, fields: Mapping[str, FieldType]) -> Callable[[bytes], Any]:
    """What turns one message into the value that the same message in JSON is parsed to (`parse_exactly`); `fields` are
    the declared ones, without which all is read.

    It raises ValueError where the bytes are no message of the schema.
    """
    given = json.loads(schema)
    reader = _Reader(given["messages"], given["enums"])
    name, declared = given["message"], FieldType("struct", fields=tuple(fields.items())) if fields else None

    def decode(data: bytes) -> Any:
        if len(data) > _LARGEST:
            raise ValueError("too large")
        value = reader.message(name, data, declared, skip=declared is None)
        value = value if declared is None else reader.others(name, data, declared) | value
        if len(data) > _LARGE and _length(value) > _LARGEST:
            raise ValueError("too large")
        return value

    return decode


# The wire.


def _varint(data: bytes, at: int, longest: int = 10) -> tuple[int, int]:
    """A number, and where it ends."""
    number = 0
    for position, byte in enumerate(data[at : at + longest]):
        number |= (byte & 0x7F) << (7 * position)
        if byte < 0x80:
            return number & ((1 << 64) - 1), at + position + 1
    raise ValueError("a number without an end")


def _wire_fields(
    data: bytes, at: int, depth: int, group: int | None = None
) -> tuple[list[tuple[int, int, Any]], int, int]:
    """Number, wire type and value of each field; where they end, and what comes behind: of a `group` behind its end.
    A value is a number or bytes, of a group those inside of it."""
    found: list[tuple[int, int, Any]] = []
    while at < len(data):
        start = at
        tag, at = _varint(data, at, 5)
        number, wire = tag >> 3, tag & 7
        value: Any = None
        if tag >> 32 or not number:
            raise ValueError("no field has such a number")
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _START:
            if depth >= _DEEPEST:
                raise ValueError("too deep")
            _, end, behind = _wire_fields(data, at, depth + 1, number)
            value, at = data[at:end], behind
        elif wire == _END and number == group:
            return found, start, at
        elif wire == _BYTES or wire in _SIZES:
            size, at = (_SIZES[wire], at) if wire in _SIZES else _varint(data, at)
            value, at = data[at : at + size], at + size
            if at > len(data):
                raise ValueError("cut off")
        else:
            raise ValueError("no field has such a type")
        found.append((number, wire, value))
    if group is not None:
        raise ValueError("a group without an end")
    return found, at, at


def _wire_of(kind: str) -> int:
    if kind in _FIXED:
        return _FIXED[kind][1]
    return {"string": _BYTES, "bytes": _BYTES, "message": _BYTES, "group": _START}.get(kind, _VARINT)


def _each(kind: str, data: bytes) -> Iterator[Any]:
    """The values that are packed into one field."""
    if kind in _FIXED:
        size = _SIZES[_FIXED[kind][1]]
        if len(data) % size:
            raise ValueError("cut off")
        yield from (data[at : at + size] for at in range(0, len(data), size))
        return
    at = 0
    while at < len(data):
        number, at = _varint(data, at)
        yield number


@dataclass(slots=True)
class _Parsed:
    """What a message has, by number: values in their order; and the numbers of what does not fit the schema."""

    values: dict[int, list[Any]] = field(default_factory=dict)
    misfits: set[int] = field(default_factory=set)


class _Reader:
    """Reads the messages of a schema."""

    def __init__(self, messages: Mapping[str, Mapping[str, Field]], enums: Mapping[str, Mapping[str, str]]) -> None:
        self._messages, self._enums = messages, enums
        self._numbers = {name: {given["number"]: given for given in of.values()} for name, of in messages.items()}

    def _parse(self, fields: Mapping[int, Field], data: bytes, depth: int) -> _Parsed:
        """The fields of a message; every message in it is looked through, whether or not it is read."""
        if depth > _DEEPEST:
            raise ValueError("too deep")
        parsed = _Parsed()
        for number, wire, value in _wire_fields(data, 0, depth)[0]:
            given = fields.get(number)
            kind = "" if given is None else "message" if "key" in given else given["type"]
            if given is not None and wire == _wire_of(kind):
                values = [value]
                if kind in ("message", "group"):
                    self._parse(self._inner(given), value, depth + 1)
            elif given and given.get("repeated") and wire == _BYTES and kind not in ("message", "group"):
                values = list(_each(kind, value))
            else:
                parsed.misfits.add(number)
                continue
            assert given is not None
            if "oneof" in given:
                for other, of in fields.items():
                    if of.get("oneof") == given["oneof"] and other != number:
                        parsed.values.pop(other, None)
            parsed.values.setdefault(number, []).extend(values)
        return parsed

    def _inner(self, given: Field) -> Mapping[int, Field]:
        if "key" not in given:
            return self._numbers[given["of"]]
        of = {"of": given["of"]} if "of" in given else {}
        key, value = {"number": 1, "type": given["key"]}, {"number": 2, "type": given["type"], "presence": True, **of}
        return {1: key, 2: value}

    def others(self, name: str, data: bytes, declared: FieldType) -> dict[str, Any]:
        """The names of what a message has and the file does not declare, each with null."""
        parsed, numbers = self._parse(self._numbers[name], data, 0), self._numbers[name]
        names = {given["number"]: word for word, given in self._messages[name].items()}
        there = {number: names[number] for number in parsed.values if self._is_there(numbers[number], parsed)}
        there |= {number: str(number) for number in parsed.misfits}
        return {word: None for word in there.values() if word not in dict(declared.fields)}

    def _is_there(self, given: Field, parsed: _Parsed) -> bool:
        """Whether a field counts as one that a message has: what it cannot be without does not, as its default."""
        if given.get("presence") or given.get("repeated") or "key" in given:
            return bool(parsed.values[given["number"]])
        value = parsed.values[given["number"]][-1]
        if given["type"] in _FIXED:
            return any(value)
        return bool(value) if given["type"] in ("string", "bytes") else bool(_whole(given["type"], value))

    # What it means.

    def message(self, name: str, data: bytes, declared: FieldType | None, *, depth: int = 0, skip: bool = False) -> Any:
        """A message as a JSON value; without a declared type all of it, and with `skip` all of it that can be read."""
        parsed = self._parse(self._numbers[name], data, depth)
        if name.startswith(_GOOGLE) and (read := _MEANINGS.get(name.removeprefix(_GOOGLE))):
            return read(self, parsed, depth)
        known = dict(declared.fields) if declared and declared.name == "struct" else None
        found: dict[str, Any] = {}
        for word, given in self._messages[name].items():
            if (known is None or word in known) and not (skip and self._holds_any(given, set())):
                value = self.field(given, parsed, known[word] if known else None, depth)
                found |= {} if value is ... else {word: value}
        return found

    def _holds_any(self, given: Field, seen: set[str]) -> bool:
        of = given.get("of", "")
        if of == f"{_GOOGLE}Any":
            return True
        inner = self._messages.get(of, {}) if of not in seen else {}
        return any(self._holds_any(part, seen | {of}) for part in inner.values())

    def field(self, given: Field, parsed: _Parsed, declared: FieldType | None, depth: int) -> Any:
        """What a message has of a field; `...`: nothing."""
        number, inner = given["number"], declared.item if declared else None
        if number in parsed.misfits:
            raise ValueError("another type than the schema's")
        values = parsed.values.get(number, [])
        if "key" in given:
            return self._map(given, values, inner, depth)
        if given.get("repeated"):
            return list(_bounded(self._one(given, value, inner, depth) for value in values))
        if not values:
            return ... if given.get("presence") else self._one(given, None, declared, depth)
        # Of a message that comes in pieces each adds to those before it.
        whole = b"".join(values) if given["type"] in ("message", "group") else values[-1]
        return self._one(given, whole, declared, depth)

    def _one(self, given: Field, raw: Any, declared: FieldType | None, depth: int) -> Any:
        """One value of a field; of None its default."""
        kind = given["type"]
        if kind in ("message", "group"):
            if given["of"] == f"{_GOOGLE}Any":
                raise ValueError("any message")
            return self.message(given["of"], raw or b"", declared, depth=depth + 1)
        if kind == "enum":
            number = _whole("int32", raw or 0)
            if str(number) in self._enums[given["of"]]:
                return self._enums[given["of"]][str(number)]
            numeric = declared is not None and declared.name in ("int", "long", "double", "decimal")
            return {"number": Number(number)} if numeric else Number(number)
        return _scalar(kind, raw)

    def _map(self, given: Field, entries: list[bytes], item: FieldType | None, depth: int) -> dict[str, Any]:
        key, value = self._inner(given).values()
        found: dict[str, Any] = {}
        for entry in entries:
            parsed = self._parse(self._inner(given), entry, depth + 1)
            if parsed.misfits & {1, 2}:
                raise ValueError("another type than the schema's")
            name = self.field(key, parsed, None, depth + 1)
            read = self.field(value, parsed, item, depth + 1)
            text = {True: "true", False: "false"}[name] if isinstance(name, bool) else str(name)
            found[text] = self._one(value, None, item, depth + 1) if read is ... else read
        for _ in _bounded(found.items()):
            pass
        return found

    def times(self, parsed: _Parsed) -> tuple[int, int]:
        """Seconds and nanoseconds."""
        if parsed.misfits & {1, 2}:
            raise ValueError("another type than the schema's")
        seconds, nanos = (parsed.values.get(number, [0])[-1] for number in (1, 2))
        return _whole("int64", seconds), _whole("int32", nanos)


def _whole(kind: str, raw: int) -> int:
    """A varint as a whole number of some type."""
    bits = 32 if kind.endswith("32") or kind == "enum" else 64
    number = raw & ((1 << bits) - 1)
    if kind.startswith("s"):
        return (number >> 1) ^ -(number & 1)
    return number - (1 << bits) if not kind.startswith("u") and number >> (bits - 1) and kind != "bool" else number


def _scalar(kind: str, raw: Any) -> Any:
    """A value as JSON has it; of None the default."""
    if kind == "string":
        return (raw or b"").decode()
    if kind == "bytes":
        return b64encode(raw or b"").decode()
    if kind in _FIXED:
        [number] = struct.unpack(_FIXED[kind][0], raw) if raw is not None else (0,)
        return float_number(float(number), kind) if kind in ("double", "float") else Number(number)
    return bool(raw) if kind == "bool" else Number(_whole(kind, raw or 0))


def _bounded(values: Iterable[Any]) -> Iterator[Any]:
    length = 0
    for value in values:
        length += _length(value) + 1
        if length > _LARGEST:
            raise ValueError("too large")
        yield value


def _length(value: Any) -> int:
    """The bytes of a JSON value's text."""
    if isinstance(value, dict):
        return 2 + sum(_length(name) + _length(part) + 2 for name, part in value.items()) - bool(value)
    if isinstance(value, list | tuple):
        return 2 + sum(_length(part) + 1 for part in value) - bool(value)
    return len(value if isinstance(value, Number) else json.dumps(value, ensure_ascii=False).encode())


# What Google means by its own messages.


def _timestamp(reader: _Reader, parsed: _Parsed, _: int) -> Any:
    seconds, nanos = reader.times(parsed)
    try:
        at = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        at = None
    if at is None or not 0 <= nanos < _BILLION:
        return {"seconds": Number(seconds), "nanos": Number(nanos)}
    digits = f"{nanos:09d}"
    return f"{at.replace(tzinfo=None).isoformat()}.{digits[:6] if digits.endswith('000') else digits}Z"


def _duration(reader: _Reader, parsed: _Parsed, _: int) -> Any:
    seconds, nanos = reader.times(parsed)
    signs = {number < 0 for number in (seconds, nanos) if number}
    if abs(seconds) > 315_576_000_000 or abs(nanos) >= _BILLION or len(signs) > 1:
        return {"seconds": Number(seconds), "nanos": Number(nanos)}
    text = f"{'-' if signs == {True} else ''}{abs(seconds)}.{abs(nanos):09d}"
    return Number(text.rstrip("0").rstrip("."))


def _wrapped(kind: str) -> Callable[[_Reader, _Parsed, int], Any]:
    return lambda reader, parsed, depth: reader.field({"number": 1, "type": kind}, parsed, None, depth)


def _json_value(reader: _Reader, parsed: _Parsed, depth: int) -> Any:
    if parsed.misfits & set(range(1, 7)) or len(parsed.values) != 1:
        raise ValueError("a value that is none")
    [(number, values)] = parsed.values.items()
    kind = {2: "double", 3: "string", 4: "bool"}.get(number)
    if number == 1:
        return None
    if kind:
        value = _scalar(kind, values[-1])
        if kind == "double" and not isfinite(float(value)):
            raise ValueError("no JSON")
        return value
    return reader.message(
        f"{_GOOGLE}{'Struct' if number == 5 else 'ListValue'}", b"".join(values), None, depth=depth + 1
    )


def _json_object(reader: _Reader, parsed: _Parsed, depth: int) -> Any:
    of_value = {"number": 1, "key": "string", "type": "message", "of": f"{_GOOGLE}Value"}
    return reader.field(of_value, parsed, None, depth)


def _json_list(reader: _Reader, parsed: _Parsed, depth: int) -> Any:
    of_value = {"number": 1, "repeated": True, "type": "message", "of": f"{_GOOGLE}Value"}
    return reader.field(of_value, parsed, None, depth)


_MEANINGS: dict[str, Callable[[_Reader, _Parsed, int], Any]] = {
    "Timestamp": _timestamp, "Duration": _duration, "Value": _json_value, "Struct": _json_object,
    "ListValue": _json_list, "DoubleValue": _wrapped("double"), "FloatValue": _wrapped("float"),
    "Int64Value": _wrapped("int64"), "UInt64Value": _wrapped("uint64"), "Int32Value": _wrapped("int32"),
    "UInt32Value": _wrapped("uint32"), "BoolValue": _wrapped("bool"), "StringValue": _wrapped("string"),
    "BytesValue": _wrapped("bytes"),
}  # fmt: skip
