"""Keys and values of sampled records as JSON, and what they are where they are none."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from onefold.dataset.value_formats import ValueFormat
from onefold.draft.changes import Changes, are_service_records, open_envelopes
from onefold.draft.events import Events, open_events
from onefold.draft.message import Message
from onefold.draft.sample import Sample
from onefold.errors import NoDraftError
from onefold.formats.text import BOM
from onefold.kafka.record import Record

_MAGIC = 0
"""The first byte of the schema registry's wire format; four bytes of schema id follow."""
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class Opened:
    """The messages of a sample, how their keys are read and why, and how many values could not be used, by reason."""

    messages: list[Message]
    key_format: str
    key_reason: str
    problems: Counter[str]
    changes: Changes | None = None
    """What envelopes said around the rows of the messages."""
    events: Events | None = None
    """What CloudEvents said around them."""

    @property
    def tombstones(self) -> int:
        """Records with a key and no value."""
        return sum(1 for message in self.messages if message.value is None and message.record.key is not None)


def open_sample(name: str, sample: Sample) -> Opened:
    """The messages of a sample, for the dataset `name`.

    Raises:
        NoDraftError: most values are no JSON objects, all of them are null, or they are no rows.
    """
    key_format, reason = _key_format(sample.records)
    messages, problems = [], Counter[str]()
    for record in sample.records:
        value, problem = _value(record.value)
        if problem:
            problems[problem] += 1
        else:
            key = _key(record.key, key_format)
            messages.append(Message(record, value, key, dict(record.headers)))
    objects = [message.value for message in messages if message.value is not None]
    if not objects or problems.total() > len(objects):
        raise _no_objects(name, sample, len(messages) - len(objects), problems)
    if are_service_records(objects):
        problem = "most values are records of a connector's own (heartbeats, borders of transactions, schema changes)"
        raise NoDraftError(name, sample.place, problem, "Draft from a topic of a table.")
    if (events := open_events(messages, lambda data: _value(data)[0])) is not None:
        rows, seen = events
        if not any(message.value is not None for message in rows):
            problem = "no CloudEvent in the sample has an object as its data"
            raise NoDraftError(name, sample.place, problem, "Draft from more records (--sample).")
        return Opened(rows, key_format, reason, problems + seen.problems, events=seen)
    if (opened := open_envelopes(messages)) is None:
        return Opened(messages, key_format, reason, problems)
    rows, changes = opened
    if not any(message.value is not None for message in rows):
        problem = "no value in the sample is a row: they delete, or are a connector's own records"
        raise NoDraftError(name, sample.place, problem, "Draft from more records (--sample).")
    return Opened(rows, key_format, reason, problems, changes)


def parse_json(text: str) -> Any:
    """One JSON value, its decimals exact; a number of more than 38 digits is a float.

    Raises:
        ValueError: it is not exactly one JSON value.
    """

    def decimal(word: str) -> Decimal | float:
        try:
            exact = Decimal(word)
        except ArithmeticError:  # an exponent that no decimal has
            return float(word)
        spelled = abs(exact.adjusted()) <= _MOST_DIGITS and sum(map(str.isdigit, f"{exact:f}")) <= _MOST_DIGITS
        return exact if spelled else float(word)

    def whole(word: str) -> int | float:
        return int(word) if len(word) <= _MOST_DIGITS else float(word)

    def refuse(word: str) -> Any:
        raise ValueError(f"{word} is no JSON")

    try:
        return json.loads(text, parse_float=decimal, parse_int=whole, parse_constant=refuse)
    except RecursionError:
        raise ValueError("it nests too deep") from None


def _value(data: bytes | None) -> tuple[dict[str, Any] | None, str]:
    """A value's JSON object, and else what it is."""
    if data is None:
        return None, ""
    if data == b"":
        return None, "empty"
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return None, _bytes_like(data)
    try:
        value = parse_json(text.removeprefix(BOM))
    except ValueError:
        return None, _bytes_like(data) if data[0] == _MAGIC else f"text that is not JSON{_text_like(text)}"
    if _HALF.search(text) and _has_half_pairs(value):
        return None, "text with half of a surrogate pair"
    if isinstance(value, dict):
        return value, ""
    return None, f"a JSON {_NAMES.get(type(value), 'number')}, no object"


_HALF = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape of a surrogate: of a pair, or of half a pair."""


def _has_half_pairs(value: Any) -> bool:
    match value:
        case str():
            return any("\ud800" <= letter <= "\udfff" for letter in value)
        case dict():
            return any(map(_has_half_pairs, (*value, *value.values())))
        case list():
            return any(map(_has_half_pairs, value))
        case _:
            return False


_NAMES: dict[type, str] = {str: "string", list: "array", bool: "boolean", type(None): "null"}


def _bytes_like(data: bytes) -> str:
    if data[0] == _MAGIC and len(data) > 5:
        schema = int.from_bytes(data[1:5], "big")
        return f"bytes in the schema registry's wire format, schema id {schema} (Avro, Protobuf or JSON Schema)"
    return "bytes that are not UTF-8"


def _text_like(text: str) -> str:
    start = text.lstrip()[:1]
    return {"<": " (XML?)", "": " (blank)"}.get(start, "")


def _no_objects(name: str, sample: Sample, nulls: int, problems: Counter[str]) -> NoDraftError:
    seen = [f"{count} are {what}" for what, count in problems.most_common(3)]
    seen += [f"{nulls} are null"] if nulls else []
    problem = f"of {len(sample.records)} values in the sample, {'; '.join(seen)}"
    advice = (
        "Only values that are JSON objects can be drafted. Avro, or values that name the schema of a registry, can be "
        "folded: write value.format with value.schema or value.registry by hand (docs/datasets.md)."
    )
    return NoDraftError(name, sample.place, problem, advice)


# Keys.


def _key_format(records: list[Record]) -> tuple[str, str]:
    keys = [record.key for record in records if record.key is not None]
    if not keys:
        return ValueFormat.STRING, "no record in the sample has a key"
    texts = [text for text in map(_utf8, keys) if text is not None]
    objects = sum(isinstance(_json(text), dict) for text in texts)
    of = f"of {len(keys)} keys"
    if 2 * objects > len(keys):
        return ValueFormat.JSON, f"{objects} {of} are JSON objects"
    if 2 * len(texts) > len(keys) and not any("\0" in text for text in texts):
        return ValueFormat.STRING, f"{len(texts)} {of} are text"
    return ValueFormat.BYTES, f"{len(texts)} {of} are text; bytes cannot be used in expressions"


def _key(data: bytes | None, key_format: str) -> Any:
    text = None if data is None else _utf8(data)
    if text is None or key_format == ValueFormat.BYTES:
        return None
    if key_format == ValueFormat.STRING:
        return text
    parts = _json(text)
    return parts if isinstance(parts, dict) else None


def _utf8(data: bytes) -> str | None:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _json(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None
