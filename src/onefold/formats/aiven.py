"""Lines of Aiven's S3 sink (`format.output.type=jsonl`): a JSON object a record, with the fields of its settings.

`{"key": …, "value": …, "offset": 7, "timestamp": "2026-01-01T00:00:01Z", "headers": [{"key": "h", "value": …}]}`.
A StringConverter makes key and value JSON strings, a JsonConverter any JSON, a ByteArrayConverter base64 in a string
(Aiven-Open/cloud-storage-connectors-for-apache-kafka, `output/jsonwriter`).
"""

from __future__ import annotations

import binascii
import json
import re
from base64 import b64decode
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onefold.dataset.layouts.aiven import Encoding
from onefold.formats.text import bytes_of, header_of, line_of, parse_exactly

_SPACE = re.compile(r"[ \t\n\r]*")
_INSTANT = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST = 1 << 63


@dataclass(frozen=True, slots=True)
class Line:
    """What one line says. `problem`: why it is no record; then all that can be read is there."""

    offset: int | None = None
    timestamp: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    problem: str | None = None


class _Texts(msgspec.Struct):
    """Key and value of a line as they are written."""

    key: msgspec.Raw = msgspec.Raw(b"null")
    value: msgspec.Raw = msgspec.Raw(b"null")


_decode, _decode_texts = msgspec.json.Decoder().decode, msgspec.json.Decoder(_Texts).decode


def read_line(line: bytes, encoding: Encoding) -> Line:
    """One line as a record; a value that is no string stays the text of the line, digit by digit."""
    return _plain_line(line, encoding) or read_exactly(line, encoding)


def _plain_line(line: bytes, encoding: Encoding) -> Line | None:
    """The record of an ordinary line; None: it has to go the exact way."""
    try:
        members = _decode(line)  # of all of it: `_Texts` does not look at what it skips
        given = [members.get(name) for name in ("key", "value")]
        texts: list[Any] = [None, None]
        if any(part is not None and type(part) is not str for part in given):
            found = _decode_texts(line)
            texts = [bytes(found.key), bytes(found.value)]
        if type(offset := members["offset"]) is not int or not 0 <= offset < _MOST or "value" not in members:
            return None
        listed = members.get("headers")
        headers = [] if listed is None else [(header["key"], header.get("value")) for header in listed]
        if not (listed is None or type(listed) is list) or not all(type(name) is str for name, _ in headers):
            return None
        return Line(
            offset,
            _millis(members.get("timestamp")),
            _plain_bytes("key", given[0], texts[0], encoding.key),
            _plain_bytes("value", given[1], texts[1], encoding.value),
            tuple([(name, _plain_bytes("headers", value, None, encoding.headers)) for name, value in headers]),
        )
    except Exception:  # an odd line: the exact way says what is wrong
        return None


def _plain_bytes(name: str, value: Any, text: bytes | None, encoding: str) -> bytes | None:
    if value is None:
        return None
    if encoding == "base64":
        return _unpacked(name, value)
    if type(value) is str:
        return value.encode()
    if text is None:
        raise TypeError(value)
    return text


def read_exactly(line: bytes, encoding: Encoding) -> Line:
    """The same, for any line."""
    try:
        members = _members(line_of(line))
    except (ValueError, RecursionError):
        return Line(problem="the line is not one JSON object")
    offset = members.get("offset", (None,))[0]
    if type(offset) is not int or not 0 <= offset < _MOST:
        return Line(problem="the line has no offset: format.output.fields must name it")
    if "value" not in members:
        return Line(offset, problem="the line has no value: format.output.fields must name it")
    try:
        return Line(
            offset,
            _millis(members.get("timestamp", (None,))[0]),
            _bytes("key", members, encoding.key),
            _bytes("value", members, encoding.value),
            _headers(members, encoding.headers),
        )
    except ValueError as error:
        return Line(offset, problem=str(error))


def _refuse(word: str) -> Any:
    raise ValueError(word)


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _members(text: str) -> dict[str, tuple[Any, str]]:
    """The members of one JSON object, each with its value and the text of it; of equal names the last counts."""
    found: dict[str, tuple[Any, str]] = {}
    at = _after(text, _space(text, 0), "{")
    if text[at : at + 1] == "}":
        at += 1
    else:
        while True:
            name, at = _DECODER.raw_decode(text, _at(text, at, '"'))
            start = _after(text, _space(text, at), ":")
            value, at = _DECODER.raw_decode(text, start)
            found[name] = (value, text[start:at])
            at = _space(text, at)
            if text[at : at + 1] == "}":
                at += 1
                break
            at = _after(text, at, ",")
    if _space(text, at) != len(text):
        raise ValueError("more than one value")
    return found


def _space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


def _at(text: str, at: int, letter: str) -> int:
    if text[at : at + 1] != letter:
        raise ValueError(f"no {letter}")
    return at


def _after(text: str, at: int, letter: str) -> int:
    return _space(text, _at(text, at, letter) + 1)


def _millis(given: Any) -> int | None:
    if given is None:
        return None
    if type(given) is int:
        if given >= _MOST:
            raise ValueError("the timestamp is no long")
        return given if given >= 0 else None
    found = _INSTANT.fullmatch(given) if isinstance(given, str) else None
    try:
        at = datetime.fromisoformat(found[1] if found else "").replace(tzinfo=UTC)
    except ValueError as error:
        raise ValueError("the timestamp is no instant such as 2026-01-01T00:00:01Z") from error
    assert found
    return (at - _EPOCH) // timedelta(milliseconds=1) + int((found[2] or "0").ljust(3, "0")[:3])


def _bytes(name: str, members: dict[str, tuple[Any, str]], encoding: str) -> bytes | None:
    value, text = members.get(name, (None, ""))
    if value is None:
        return None
    if encoding == "base64":
        return _unpacked(name, value)
    return bytes_of(value if isinstance(value, str) else text)


def _unpacked(name: str, value: Any) -> bytes:
    try:
        return b64decode(value, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"the {name} is not base64, as source.exports.encoding.{name} says") from error


def _headers(members: dict[str, tuple[Any, str]], encoding: str) -> tuple[tuple[str, bytes | None], ...]:
    if members.get("headers", (None,))[0] is None:
        return ()
    given = parse_exactly(members["headers"][1])
    if not isinstance(given, list) or any(
        type(header) is not dict or type(header.get("key")) is not str for header in given
    ):
        raise ValueError("the headers are no list of objects with key and value")
    return tuple((_name(header["key"]), _header(header.get("value"), encoding)) for header in given)


def _name(name: str) -> str:
    """A header's name; bytes that are no text are a name that no dataset file says."""
    return bytes_of(name).decode("utf-8", "replace")


def _header(value: Any, encoding: str) -> bytes | None:
    if value is not None and encoding == "base64":
        return _unpacked("headers", value)
    return header_of(value)
