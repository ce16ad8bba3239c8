"""Kafka keys that are spelled in two ways: `7` and `"7"` are two keys to Kafka."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from onefold.dataset.value_formats import ValueFormat
from onefold.draft.entries import counted
from onefold.draft.evidence import key_part_values
from onefold.draft.json_values import parse_json
from onefold.draft.message import Message


def find_spellings(messages: Sequence[Message], key_format: str) -> list[str]:
    """A sentence for the whole key, or for each part of JSON keys, that the sample spells in two ways."""
    if key_format == ValueFormat.STRING:
        return _of_text([message.key for message in messages if message.key is not None])
    parts = key_part_values(messages) if key_format == ValueFormat.JSON else {}
    return [text for expression, values in parts.items() if (text := _of_part(expression, values))]


def _of_text(keys: Sequence[str]) -> list[str]:
    """Keys as bare text, and as JSON strings."""
    quoted = [(key, _in_quotes(key)) for key in keys]
    in_quotes = Counter(text for _, text in quoted if text is not None)
    bare = Counter(key for key, text in quoted if text is None)
    if not (both := bare.keys() & in_quotes.keys()):
        return []
    counts = f"bare in {_records(bare, both)} and in JSON's quotes in {_records(in_quotes, both)}"
    advice = "they are two keys, and two rows; where every key is JSON, `{format: json}` reads both as the same key"
    return [f"{counted(len(both), 'key')} spelled in two ways, {counts}: {advice}"]


def _in_quotes(key: str) -> str | None:
    """What a JSON string says; None: the key is none."""
    if not key.startswith('"'):
        return None
    try:
        value = parse_json(key)
    except ValueError:
        return None
    return value if isinstance(value, str) else None


def _of_part(expression: str, values: Sequence[Any]) -> str:
    """A part of JSON keys as a number, and as text."""
    numbers = Counter(_digits(value) for value in values if _is_number(value))
    texts = Counter(value for value in values if isinstance(value, str))
    if not (both := numbers.keys() & texts.keys()):
        return ""
    counts = f"a number in {_records(numbers, both)} and text in {_records(texts, both)}"
    return (
        f"{counted(len(both), 'value')} of {expression} spelled in two ways, {counts}: Kafka takes them for two keys, "
        "which may lie in two partitions and are compacted apart; the table has one row for both"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _digits(number: int | Decimal) -> str:
    """A number as the text that an expression reads of it: without zeros at the end of its decimals."""
    return f"{number.normalize():f}" if isinstance(number, Decimal) else str(number)


def _records(counts: Counter[str], keys: set[str]) -> str:
    return counted(sum(counts[key] for key in keys), "record")
