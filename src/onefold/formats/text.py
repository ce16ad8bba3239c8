"""Texts as bytes and back: what is no Unicode text stays what it is, and is never repaired into such a text.

JSON can say half of a surrogate pair (`"\\ud83d"`), which no UTF-8 text holds, and exports are written with bytes in
their lines that are no UTF-8. Readers hand both on as bytes that are no UTF-8; a step that reads these as a text
rejects them (`onefold.values.decode`), and a record that does not loses nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

BOM = "\ufeff"
"""A byte order mark, which a reader of JSON may ignore where a text begins (RFC 8259, section 8.1)."""


MOST_BYTES = 16_000_000
"""Bytes of a line, a key or a value that is read."""
MOST_LEVELS = 500
"""How deep a value that is decoded may nest: what reads deeper ones depends on the stack of a process."""
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"', re.DOTALL)


def line_of(data: bytes) -> str:
    """A line of an export, without a byte order mark. `bytes_of` gives the bytes of any part of it."""
    return data.decode("utf-8", "surrogateescape").removeprefix(BOM)


def bytes_of(text: str) -> bytes:
    """The UTF-8 of a text or of a part of a line. Half of a surrogate pair, and what was no UTF-8 in the line, are
    bytes that are no UTF-8."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return b"".join(map(_bytes_of_one, text))


def _bytes_of_one(letter: str) -> bytes:
    if "\udc80" <= letter <= "\udcff":  # a byte that was no UTF-8
        return letter.encode("utf-8", "surrogateescape")
    return letter.encode("utf-8", "surrogatepass")


def text_of(data: bytes | None) -> str | None:
    """The text; None: there is none, or the bytes are no UTF-8."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def binary_pairs(pairs: Iterable[tuple[str, bytes | None]]) -> tuple[tuple[str, bytes], ...]:
    """Of headers, those whose bytes are no text."""
    return tuple((name, value) for name, value in pairs if value is not None and text_of(value) is None)


def nests_too_deep(text: str) -> bool:
    """Whether a JSON text nests deeper than `MOST_LEVELS`."""
    if text.count("[") + text.count("{") <= MOST_LEVELS:
        return False
    level = 0
    for bracket in re.finditer(r"[\[\]{}]", _STRING.sub("", text)):
        level += 1 if bracket[0] in "[{" else -1
        if level > MOST_LEVELS:
            return True
    return False


class Number(str):
    """A JSON number as it is written."""

    __slots__ = ()


def parse_exactly(text: str) -> Any:
    """One JSON value whose numbers are `Number`; `json_text` gives its text again, digit by digit.

    Raises:
        ValueError: it is not exactly one JSON value.
    """
    try:
        return json.loads(text, parse_float=Number, parse_int=Number, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def scaled_text(number: int, scale: int) -> str:
    """The digits of a whole number with so many of them behind the point; a negative scale adds zeros."""
    if scale <= 0:
        return str(number * 10**-scale)
    digits = str(abs(number)).rjust(scale + 1, "0")
    return f"{'-' * (number < 0)}{digits[:-scale]}.{digits[-scale:]}"


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


def json_text(value: Any, write: Callable[[str], str] = lambda text: json.dumps(text, ensure_ascii=False)) -> str:
    """The text of a value of `parse_exactly`."""
    match value:
        case Number():
            return value
        case str():
            return write(value)
        case dict():
            return "{" + ", ".join(f"{write(name)}: {json_text(member, write)}" for name, member in value.items()) + "}"
        case list():
            return "[" + ", ".join(json_text(item, write) for item in value) + "]"
        case _:
            return json.dumps(value)


def header_of(value: Any) -> bytes | None:
    """The bytes of a header's value, as `parse_exactly` gives it: of a string its text, else the JSON text."""
    if value is None:
        return None
    return bytes_of(value if isinstance(value, str) else json_text(value))


MOST_SHOWN = 80
"""Characters of a value that a problem shows."""
SURROGATE = re.compile("[\ud800-\udfff]")


def shown(text: str) -> str:
    """The beginning of a text, with half of a surrogate pair as JSON escapes it, which no UTF-8 text holds."""
    return SURROGATE.sub(lambda half: f"\\u{ord(half[0]):04x}", text[:MOST_SHOWN])
