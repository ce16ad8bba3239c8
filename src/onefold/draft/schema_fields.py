"""Fields that a schema declares, next to values or in a registry, and what they are over several of its versions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from onefold.dataset.defaults import Default
from onefold.dataset.types import FieldType, parse_type

_MOST_NAMED = 3
"""Versions that a reason names."""
_MOST_PARTS = 1_000
"""Parts of a type that is written into a dataset file, at most."""
_WHOLE = {"int": 10, "long": 19}
"""Digits of whole numbers."""
_MOST_DIGITS = 38


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A field as a schema declares it."""

    name: str
    type: FieldType | None
    """None: it cannot be declared, or the schema does not say, and the sample's values have to tell."""
    problem: str = ""
    """Why it cannot be declared."""
    doc: str = ""
    note: str = ""
    """What a reader should know of it."""
    default: Default | None = None
    aliases: tuple[str, ...] = ()
    """Names that it had before."""
    is_in_all: bool = True
    """Whether every version has it."""
    is_exact: bool = True
    """Whether the type is the schema's; else the sample's values may say it better (JSON Schema's number)."""


@dataclass(frozen=True, slots=True)
class Version:
    """A version of a schema: what it is called, and its fields in their order."""

    label: str
    fields: Sequence[SchemaField]


def merge(versions: Sequence[Version]) -> dict[str, SchemaField]:
    """The fields of the newest version (the first), each of a type that takes the records of all versions, and then
    those that only older versions have.

    A field that some version lacks says so (`is_in_all`).
    """
    newest, *older = versions
    own = {field.name for field in newest.fields}
    found: dict[str, SchemaField] = {}
    former: set[str] = set()
    for field in newest.fields:
        aliases = tuple(name for name in _all_aliases(field, older) if name not in own and name not in former)
        former.update(aliases)
        found[field.name] = _over(replace(field, aliases=aliases), older)
    for version in older:
        for field in version.fields:
            if field.name in found or field.name in former:
                continue
            labels = [each.label for each in older if any(other.name == field.name for other in each.fields)]
            only = f"only in {_named(labels)}"
            alone = _over(replace(field, aliases=(), default=None), [each for each in older if each.label in labels])
            optional = replace(alone.type, nullable=True) if alone.type else None
            found[field.name] = replace(alone, type=optional, is_in_all=False, note=_joined(only, alone.note))
    return found


def _all_aliases(field: SchemaField, older: Sequence[Version]) -> list[str]:
    """The former names of a field that any version declares, those of the newest first."""
    names = list(field.aliases)
    for _, other in _same(field, older):
        names += [name for name in (other.aliases if other else ()) if name not in names]
    return names


def _same(field: SchemaField, older: Sequence[Version]) -> Iterator[tuple[Version, SchemaField | None]]:
    """The field in each older version, by its name or a former one; None: the version lacks it."""
    for version in older:
        by_name = {other.name: other for other in version.fields}
        yield version, next((by_name[name] for name in (field.name, *field.aliases) if name in by_name), None)


def _over(field: SchemaField, older: Sequence[Version]) -> SchemaField:
    lacking, others, rejected = [], dict[str, list[str]](), dict[str, list[str]]()
    kind, is_exact = field.type, field.is_exact
    for version, other in _same(field, older):
        if other is None:
            lacking.append(version.label)
            continue
        if kind is None or other.type is None:
            continue
        is_exact = is_exact and other.is_exact
        wider = widened(kind, other.type)
        if wider is None:
            rejected.setdefault(str(other.type), []).append(version.label)
        elif wider != kind:
            others.setdefault(str(other.type), []).append(version.label)
        kind = wider or kind
    notes = [f"not in {_named(lacking)}"] if lacking else []
    notes += [f"{text} in {_named(labels)}" for text, labels in others.items()]
    notes += [f"{text} in {_named(labels)}, whose records are rejected" for text, labels in rejected.items()]
    return replace(field, type=kind, note=_joined(field.note, *notes), is_in_all=not lacking, is_exact=is_exact)


def widened(first: FieldType, other: FieldType) -> FieldType | None:
    """The type that takes values of both, without loss; None: there is none."""
    nullable = first.nullable or other.nullable
    if "json" in (first.name, other.name):
        return FieldType("json", nullable)
    if first.name == other.name == "struct":
        return FieldType("struct", nullable, fields=_members(first, other))
    if first.name == other.name and first.item and other.item:
        item = widened(first.item, other.item)
        return item and FieldType(first.name, nullable, item=replace(item, nullable=False))
    if replace(first, nullable=nullable) == replace(other, nullable=nullable):
        return replace(first, nullable=nullable)
    return _number(first, other, nullable)


def _number(first: FieldType, other: FieldType, nullable: bool) -> FieldType | None:
    names = {first.name, other.name}
    if first.unit or other.unit or not names <= {"int", "long", "double", "decimal"}:
        return None
    if "double" in names:
        return FieldType("double", nullable) if "decimal" not in names else None
    if "decimal" not in names:
        return FieldType("long", nullable)
    whole = max(_WHOLE.get(kind.name, kind.precision - kind.scale) for kind in (first, other))
    scale = max(first.scale, other.scale)
    digits = whole + scale
    return FieldType("decimal", nullable, precision=digits, scale=scale) if digits <= _MOST_DIGITS else None


def _members(first: FieldType, other: FieldType) -> tuple[tuple[str, FieldType], ...]:
    """The members of two structs; what one of them lacks is optional."""
    others = dict(other.fields)
    found: dict[str, FieldType] = {}
    for name, kind in first.fields:
        there = others.get(name)
        found[name] = (widened(kind, there) or kind) if there else replace(kind, nullable=True)
    for name, kind in other.fields:
        found.setdefault(name, replace(kind, nullable=True))
    return tuple(found.items())


def declarable(kind: FieldType) -> FieldType:
    """The type, if a dataset file can declare it. Without any part, too deep or too large, or with two members that
    would be one, a value is read as the JSON that says it."""
    if _size(kind) > _MOST_PARTS:
        return FieldType("json", kind.nullable)
    try:
        parse_type(str(kind))
    except ValueError:
        return FieldType("json", kind.nullable)
    return kind


def described(doc: str, most: int) -> str:
    """A schema's own words on one line, at most so many letters."""
    text = " ".join("".join(letter if letter.isprintable() else " " for letter in doc).split())
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _size(kind: FieldType) -> int:
    return 1 + sum(map(_size, [kind.item] if kind.item else [part for _, part in kind.fields]))


def _named(labels: Sequence[str]) -> str:
    more = f" and {len(labels) - _MOST_NAMED} more" if len(labels) > _MOST_NAMED else ""
    return ", ".join(labels[:_MOST_NAMED]) + more


def _joined(*notes: str) -> str:
    return "; ".join(filter(None, notes))
