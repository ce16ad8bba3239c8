"""The fields of the values: names that a table can have, types that most values are of."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from onefold.dataset.base import SAFE_NAME
from onefold.dataset.types import parse_type
from onefold.draft.entries import mapped, scalar
from onefold.draft.evidence import snake
from onefold.draft.message import Message
from onefold.draft.types import TIME_NAME, Scalar, infer, type_text

_LONGEST = 64
"""Letters of a field's name."""
_MOST_FIELDS = 200


@dataclass(frozen=True, slots=True)
class Field:
    """A field as it is declared, and why so."""

    name: str
    type: str
    reason: str = ""
    read_as: str = ""
    """Its name in the record."""

    @property
    def as_declared(self) -> str:
        """The field as a dataset file has it."""
        if self.read_as == self.name:
            return scalar(self.type)
        quoted = self.read_as.replace('"', '""')
        plain = not {".", '"'} & {*self.read_as}
        return mapped(type=scalar(self.type), **{"from": scalar(self.read_as if plain else f'"{quoted}"')})

    @property
    def scalar(self) -> bool:
        """Whether it can be part of a key or an identity."""
        kind = parse_type(self.type)
        return kind.name != "double" and not kind.instead

    @property
    def is_time(self) -> bool:
        """Whether it is a time, by its type or its name."""
        return self.type.startswith(("timestamp", "date")) or TIME_NAME.search(snake(self.name)) is not None

    @property
    def required(self) -> bool:
        """Whether it was there in every value."""
        return not self.type.endswith("?")


@dataclass(frozen=True, slots=True)
class Fields:
    """Declared fields, those left out with the reason, and the messages (by index) that they would reject."""

    declared: tuple[Field, ...]
    left_out: tuple[tuple[str, str], ...]
    rejected: frozenset[int]

    def without(self, names: Sequence[str], reason: str) -> Fields:
        """The same without fields that would have the column of one of these names."""
        taken = {name.lower() for name in names}
        gone = tuple((field.name, reason) for field in self.declared if field.name.lower() in taken)
        kept = tuple(field for field in self.declared if field.name.lower() not in taken)
        return Fields(kept, self.left_out + gone, self.rejected)


def draft_fields(messages: Sequence[Message], types: Mapping[str, str]) -> Fields:
    """The fields of all values that are objects. `types`: those that a schema next to the values has, by name."""
    values = {index: message.value for index, message in enumerate(messages) if message.value is not None}
    found: dict[str, dict[int, Any]] = {}
    for index, value in values.items():
        for name, member in value.items():
            found.setdefault(name, {})[index] = member
    declared: dict[str, Field] = {}
    left_out: list[tuple[str, str]] = []
    rejected: set[int] = set()
    for name, members in sorted(found.items(), key=lambda item: -len(item[1]))[_MOST_FIELDS:]:
        left_out.append((name, f"in {len(members)} values, and {_MOST_FIELDS} other fields are in more"))
    for name in found.keys() - dict(left_out).keys() if left_out else found:
        members = found[name]
        column = _column_for(name, declared)
        problem = "" if 0 < len(name) <= _LONGEST else f"a name of none, or of more than {_LONGEST} letters"
        field, misfits = ("", frozenset[int]()) if problem else _field(name, column, members, len(values))
        if name in types and not problem:
            field, misfits = Field(column, types[name], "the converter's schema", name), frozenset()
        if isinstance(field, Field):
            declared[column.lower()] = field
            rejected |= misfits
        else:
            left_out.append((name, problem or field))
    return Fields(tuple(declared.values()), tuple(left_out), frozenset(rejected))


def _column_for(name: str, declared: Mapping[str, Field]) -> str:
    """The column for a field: its own name where that can be a column's, else a free name like it."""
    column = name
    if not re.fullmatch(SAFE_NAME, name) or name.startswith("_"):
        column = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
        column = column if column[:1].isalpha() else f"field_{column}".rstrip("_")
    made, number = column, 1
    while made.lower() in declared:
        number += 1
        made = f"{column}_{number}"
    return made


def _field(name: str, column: str, members: dict[int, Any], total: int) -> tuple[Field | str, frozenset[int]]:
    """The field, or why it is left out, and the messages whose value would be rejected."""
    there = {index: value for index, value in members.items() if value is not None}
    if not there:
        return f"null in all {len(members)} values that have it: no type to tell", frozenset()
    places = list(there)
    found = infer(name, list(there.values()))
    if found.kind is None:
        return "; ".join(found.reasons), frozenset()
    absent, nulls = total - len(members), len(members) - len(there)
    seen = [f"null in {nulls}"] if nulls else []
    seen += [f"absent in {absent}"] if absent else []
    reasons = (f"{', '.join(seen)} of {total}", *found.reasons) if seen else found.reasons
    text = type_text(found.kind, optional=bool(absent or nulls))
    try:
        parse_type(text)
    except ValueError:  # a type with names in it that cannot be declared
        return f"{_what(found.kind)} that cannot be declared", frozenset()
    return Field(column, text, "; ".join(reasons), name), frozenset(places[index] for index in found.misfits)


def contents_of(messages: Sequence[Message], fields: Sequence[Field]) -> list[str]:
    """Key and declared fields of each message in one form: equal where the fold takes them for equal."""
    rows = ((message, canonical_row(message, fields)) for message in messages)
    return [json.dumps([repr(message.record.key), row], sort_keys=True, default=str) for message, row in rows]


def canonical_row(message: Message, fields: Sequence[Field]) -> list[Any] | None:
    """The declared fields of a message, each in a form that is equal where the fold takes them for equal; None: a
    tombstone."""
    value = message.value
    if value is None:
        return None
    return [_canonical(value.get(field.read_as), parse_type(field.type).name) for field in fields]


def _canonical(value: Any, kind: str) -> Any:
    try:
        if kind == "decimal" and not isinstance(value, bool | None):
            return f"{Decimal(value).normalize():f}"
        if kind == "timestamp" and isinstance(value, str):
            at = datetime.fromisoformat(value)
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC).isoformat()
    except (ValueError, TypeError, ArithmeticError):
        pass  # it will be rejected
    return value


def _what(kind: object) -> str:
    return "a value" if isinstance(kind, Scalar) else "an array or object"
