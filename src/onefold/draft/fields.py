"""The fields of the values: names that a table can have, types that most values are of."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from onefold.dataset.base import SAFE_NAME
from onefold.dataset.defaults import Default, json_of
from onefold.dataset.types import FieldType, parse_type
from onefold.draft.entries import mapped, scalar
from onefold.draft.evidence import snake
from onefold.draft.message import Message
from onefold.draft.schema_fields import SchemaField, described
from onefold.draft.types import TIME_NAME, Scalar, infer, is_timestamp, type_text

_LONGEST = 64
"""Letters of a field's name."""
_MOST_FIELDS = 200
_MOST_LETTERS = 200
"""Of a schema's words on a field."""


@dataclass(frozen=True, slots=True)
class Field:
    """A field as it is declared, and why so."""

    name: str
    type: str
    reason: str = ""
    read_as: str = ""
    """Its name in the record."""
    default: Default | None = None
    former: tuple[str, ...] = ()
    """Names that it had before."""
    is_in_all: bool = True
    """Whether every version of the schema has it."""

    @property
    def as_declared(self) -> str:
        """The field as a dataset file has it."""
        more: dict[str, str] = {}
        if self.read_as != self.name:
            quoted = self.read_as.replace('"', '""')
            plain = not {".", '"'} & {*self.read_as}
            more["from"] = scalar(self.read_as if plain else f'"{quoted}"')
        if self.default is not None:
            more["default"] = _default_text(self.default)
        return mapped(type=scalar(self.type), **more) if more else scalar(self.type)

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

    def without_defaults(self, names: Collection[str]) -> Fields:
        """The same without the defaults of these fields: all records that lack such a field would be one message, key
        or version."""
        kept = tuple(_without_default(field) if field.name in names else field for field in self.declared)
        return replace(self, declared=kept)

    def without(self, names: Sequence[str], reason: str) -> Fields:
        """The same without fields that would have the column of one of these names."""
        taken = {name.lower() for name in names}
        gone = tuple((field.name, reason) for field in self.declared if field.name.lower() in taken)
        kept = tuple(_without_former(field, taken) for field in self.declared if field.name.lower() not in taken)
        return Fields(kept, self.left_out + gone, self.rejected)


def _without_former(field: Field, taken: Collection[str]) -> Field:
    return replace(field, former=tuple(name for name in field.former if name.lower() not in taken))


def _without_default(field: Field) -> Field:
    if field.default is None:
        return field
    return replace(field, default=None, type=field.type if field.is_in_all else f"{field.type.removesuffix('?')}?")


def _default_text(default: Default) -> str:
    """A default as YAML."""
    if isinstance(default, str):
        return scalar(default)
    return f"{Decimal(repr(default)):f}" if isinstance(default, float) else json.dumps(default)


def draft_fields(messages: Sequence[Message], known: Mapping[str, SchemaField]) -> Fields:
    """The fields of all values that are objects. `known`: those that a schema declares, by name."""
    values = {index: message.value for index, message in enumerate(messages) if message.value is not None}
    found: dict[str, dict[int, Any]] = {}
    for index, value in values.items():
        for name, member in value.items():
            found.setdefault(name, {})[index] = member
    declared: dict[str, Field] = {}
    rejected: set[int] = set()
    others = [name for name in found if name not in known]
    rare = sorted(others, key=lambda name: -len(found[name]))[max(0, _MOST_FIELDS - len(known)) :]
    left_out = [(name, f"in {len(found[name])} values, and {_MOST_FIELDS} other fields are in more") for name in rare]
    for name in [*known, *(name for name in others if name not in {*rare})]:
        members = found.get(name, {})
        column = _column_for(name, declared)
        field, misfits = _declared(name, column, members, len(values), known.get(name))
        if isinstance(field, Field):
            declared[column.lower()] = field
            rejected |= misfits
        else:
            left_out.append((name, field))
    return Fields(_with_own_names(declared.values()), tuple(left_out), frozenset(rejected))


def _with_own_names(fields: Collection[Field]) -> tuple[Field, ...]:
    """The fields without former names that a dataset file cannot have: another field's, or that of a column with
    another name than in the record."""
    taken = {name.lower() for field in fields for name in (field.name, field.read_as)}
    found = []
    for field in fields:
        former = tuple(name for name in field.former if _is_former(name, taken)) if field.read_as == field.name else ()
        taken |= {name.lower() for name in former}
        found.append(replace(field, former=former))
    return tuple(found)


def _is_former(name: str, taken: set[str]) -> bool:
    return re.fullmatch(SAFE_NAME, name) is not None and len(name) <= _LONGEST and name.lower() not in taken


def _declared(
    name: str, column: str, members: dict[int, Any], total: int, known: SchemaField | None
) -> tuple[Field | str, frozenset[int]]:
    """The field, or why it is left out, and the messages whose value would be rejected."""
    if not 0 < len(name) <= _LONGEST:
        return f"a name of none, or of more than {_LONGEST} letters", frozenset()
    if known is None or (known.type is None and not known.problem):
        return _field(name, column, members, total)
    if known.type is None:
        return known.problem, frozenset()
    return _of_schema(column, members, total, known)


def _of_schema(column: str, members: dict[int, Any], total: int, known: SchemaField) -> tuple[Field, frozenset[int]]:
    kind, notes, misfits = known.type, [known.note], frozenset[int]()
    assert kind
    if not known.is_exact:
        found, others = _field(known.name, column, members, total)
        inferred = parse_type(found.type) if isinstance(found, Field) else kind
        if isinstance(found, Field) and inferred.family == "number":
            kind, misfits = replace(inferred, nullable=kind.nullable or inferred.nullable), others
            notes.append(found.reason)
    if kind.name == "timestamp" and not kind.unit:
        odd = [index for index, value in members.items() if isinstance(value, str) and not is_timestamp(value)]
        if odd:
            kind = FieldType("string", kind.nullable)
            notes.append(f"{len(odd)} of {total} are times with nanoseconds, which no timestamp has")
    default = known.default if _is_default(known.default, kind) else None
    if default is None and not known.is_in_all:
        kind = replace(kind, nullable=True)
    reason = "; ".join(filter(None, (described(known.doc, _MOST_LETTERS), *notes)))
    return Field(column, str(kind), reason, known.name, default, known.aliases, known.is_in_all), misfits


def _is_default(default: Default | None, kind: FieldType) -> bool:
    """Whether a dataset file can have it."""
    if isinstance(default, str) and not default.isprintable():
        return False
    try:
        return default is not None and bool(json_of(default, kind))
    except ValueError:
        return False


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
