"""MongoDB's documents, which its connector sends as text: extended JSON, in its canonical or its relaxed form.

What each type wrapper means is in MongoDB's specification "Extended JSON", version 2, and the forms of version 1 that
Debezium's connector writes: `{"$oid": "…"}` is its text, `{"$numberLong": "5"}` the number, `{"$date": …}` the instant
as text, `{"$binary": …}` Base64. All other wrappers stay what they are.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from onefold.formats.text import Number, nests_too_deep, parse_exactly

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_MILLIS = 253_402_300_799_999
"""The end of the year 9999."""


def document_of(text: str) -> dict[str, Any]:
    """A document as the JSON object that it means, as `parse_exactly` gives it.

    Raises:
        ValueError: it is none.
    """
    found = None if nests_too_deep(text) else parse_exactly(text)
    match found:
        case dict():
            return {name: _plain(value) for name, value in found.items()}
        case _:
            raise ValueError("it is no document")


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    members = {name: _plain(member) for name, member in value.items()}
    names = [name for name in members if name != "$type"]
    if len(names) == 1 and names[0] in _MEANINGS:
        meaning = _MEANINGS[names[0]](members[names[0]])
        return members if meaning is None else meaning
    return members


def _text(given: Any) -> str | None:
    return given if isinstance(given, str) and not isinstance(given, Number) else None


def _number(given: Any) -> Number | None:
    text = _text(given)
    try:
        found = parse_exactly(text) if text is not None else None
    except ValueError:  # Infinity, and a number with a plus sign
        return None
    return found if isinstance(found, Number) else None


def _instant(given: Any) -> str | None:
    """ISO 8601; of a number, which counts milliseconds since 1970."""
    if not isinstance(given, Number):
        return _text(given)
    if not given.removeprefix("-").isdigit() or not -62_135_596_800_000 <= int(given) <= _MOST_MILLIS:
        return None
    return (_EPOCH + timedelta(milliseconds=int(given))).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _bytes(given: Any) -> str | None:
    if isinstance(given, dict) and given.keys() == {"base64", "subType"}:
        given = given["base64"]
    return _text(given)


_MEANINGS: dict[str, Callable[[Any], Any]] = {
    "$oid": _text,
    "$numberInt": _number,
    "$numberLong": _number,
    "$numberDouble": _number,
    "$numberDecimal": _number,
    "$date": _instant,
    "$binary": _bytes,
}
