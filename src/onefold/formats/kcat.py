"""Lines of `kcat -J`: a JSON object a record, with its position, and with key, payload and headers as strings.

kcat prints bytes as they are (its json.c), so a key or payload that is no UTF-8 is bytes that are none, in a line of
JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from onefold.formats.text import (
    MOST_BYTES,
    Number,
    bytes_of,
    header_of,
    json_text,
    line_of,
    nests_too_deep,
    parse_exactly,
)

_LONGEST = 300
"""Characters of kcat's own error that are kept; the line has them all."""
_NO_LINE = "not a line of kcat -J with topic, partition and offset"
_INT, _LONG = 1 << 31, 1 << 63
Headers = list[dict[str, Any]]
"""Each `{"key": str, "value": bytes or None}`, in their order."""


class Line(msgspec.Struct, frozen=True):  # a dataclass costs more to make than a line to decode
    """What one line says. `problem`: why it is no record; then all that can be read is there."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: Headers | None = None
    """None: they cannot be read."""
    problem: str | None = None


class _Plain(msgspec.Struct):
    """A line that is one record, whatever else it has."""

    topic: str
    partition: Annotated[int, Meta(ge=-_INT, lt=_INT)]
    offset: Annotated[int, Meta(ge=-_LONG, le=_LONG - 1)]
    payload: str | None
    key: str | None = None
    ts: Annotated[int, Meta(ge=-_LONG, le=_LONG - 1)] | None = None
    headers: list[str | None] | None = None
    key_error: None = None
    payload_error: None = None


class _Printed(_Plain, forbid_unknown_fields=True):
    """An ordinary line of kcat."""

    tstype: str | None = None
    broker: int | None = None


_decode, _decode_all = msgspec.json.Decoder(_Plain).decode, msgspec.json.Decoder(list[_Printed]).decode


@dataclass(slots=True)
class Lines:
    """What lines say, a column an attribute of `Line`."""

    topic: list[str | None]
    partition: list[int | None]
    offset: list[int | None]
    timestamp: list[int | None]
    key: list[bytes | str | None]
    """A text is its UTF-8."""
    value: list[bytes | str | None]
    """A text is its UTF-8; of a line that cannot be read the line."""
    headers: list[Headers | None]
    problem: list[str | None]


def read_lines(data: bytes) -> Lines:
    """Lines as records; `data` has `\\n` between them and none behind the last."""
    plain = _plain_lines(data)
    if plain is None:
        lines = data.split(b"\n")
        read = [read_line(line) for line in lines]
        return Lines(
            [record.topic for record in read],
            [record.partition for record in read],
            [record.offset for record in read],
            [record.timestamp for record in read],
            [record.key for record in read],
            [line if record.problem else record.value for line, record in zip(lines, read, strict=True)],
            [record.headers for record in read],
            [record.problem for record in read],
        )
    return Lines(
        [record.topic for record in plain],
        [record.partition for record in plain],
        [record.offset for record in plain],
        [record.ts for record in plain],
        [record.key for record in plain],
        [record.payload for record in plain],
        [_plain_headers(record.headers) if record.headers else [] for record in plain],
        [None] * len(plain),
    )


def _plain_lines(data: bytes) -> list[_Printed] | None:
    """The lines, if all are ordinary: decoded as one list, which takes half the time.

    No line can become part of another one. Each begins with an opening brace and ends with a closing one; a string has
    no end of line; and no other object is in the list, for a record has no unknown name. So a line is one object of the
    list, or several, which the count shows.
    """
    listed = data.replace(b"}\n{", b"},\n{")
    count = len(listed) - len(data)
    if data.count(b"\n") != count or len(data) > MOST_BYTES:
        return None
    try:
        found = _decode_all(b"[%b]" % listed)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    if len(found) != count + 1 or any(record.headers and None in record.headers[::2] for record in found):
        return None
    return found


def read_line(line: bytes) -> Line:
    """One line as a record."""
    if len(line) > MOST_BYTES:
        return Line(problem=f"the line has more than {MOST_BYTES:,} bytes")
    try:
        record = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return _read_exactly(line)
    if record.headers and None in record.headers[::2]:
        return _read_exactly(line)
    return Line(
        record.topic,
        record.partition,
        record.offset,
        record.ts,
        _bytes(record.key),
        _bytes(record.payload),
        _plain_headers(record.headers) if record.headers else [],
    )


def _plain_headers(flat: list[str | None]) -> Headers:
    return [{"key": name, "value": _bytes(value)} for name, value in _pairs(flat)]


def _read_exactly(line: bytes) -> Line:
    text = line_of(line)
    try:
        found = None if nests_too_deep(text) else parse_exactly(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        return Line(problem=_NO_LINE)
    topic, partition, offset = (
        found.get("topic"),
        _whole(found.get("partition"), _INT),
        _whole(found.get("offset"), _LONG),
    )
    if partition is None or offset is None or not _is_text(topic):
        return Line(problem=_NO_LINE)
    place = (topic, partition, offset, _whole(found.get("ts"), _LONG))
    for part in ("payload", "key"):
        if (error := found.get(f"{part}_error")) is not None:
            said = _shown(error if isinstance(error, str) else json_text(error))[:_LONGEST]
            return Line(*place, problem=f"kcat could not decode the {part}: {said}")
    key, payload = found.get("key"), found.get("payload")
    if "payload" not in found or not all(part is None or _is_string(part) for part in (key, payload)):
        return Line(*place, problem="payload and key of a line of kcat -J are strings or null")
    return Line(*place, _bytes(key), _bytes(payload), _headers(found.get("headers")))


def _headers(given: Any) -> Headers | None:
    """kcat's flat list [name, value, name, value, …], or its map of names and values."""
    if given is None:
        return []
    pairs = (
        list(given.items() if isinstance(given, dict) else _pairs(given)) if isinstance(given, dict | list) else None
    )
    if pairs is None or not all(_is_string(name) for name, _ in pairs):
        return None
    return [{"key": _shown(name), "value": header_of(value)} for name, value in pairs]


def _pairs(flat: list[Any]) -> Any:
    return zip(flat[::2], flat[1::2], strict=False)


def _shown(text: str) -> str:
    """A text in which bytes that are no UTF-8 are replaced: a header's name that no dataset file says."""
    return bytes_of(text).decode("utf-8", "replace")


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes_of(text)


def _whole(given: Any, end: int) -> int | None:
    """A whole number below an end, and not less than minus that."""
    if not isinstance(given, Number) or len(given) > len(str(end)) + 1 or not given.removeprefix("-").isdigit():
        return None
    return number if -end <= (number := int(given)) < end else None


def _is_string(given: Any) -> bool:
    return isinstance(given, str) and not isinstance(given, Number)


def _is_text(given: Any) -> bool:
    """Whether it is a string that UTF-8 can hold."""
    return _is_string(given) and _shown(given) == given
