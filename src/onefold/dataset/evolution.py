"""The fields of a dataset through time: what may change in place, and what a field was when its generation began."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from onefold.dataset.types import FieldType, parse_type


class Shape(BaseModel):
    """The value's fields at one time, as the file declares them."""

    model_config = ConfigDict(frozen=True)

    fields: dict[str, str] = Field(description="Field name to type, in its own spelling")
    renamed: dict[str, list[str]] = Field(default={}, description="Field name to its former names")
    places: dict[str, str] = Field(default={}, description="Field name to where it lies, if not under its own name")

    @property
    def digest(self) -> str:
        """Twelve hex digits of it."""
        return _digest(json.dumps(self.model_dump(), sort_keys=True), 12)

    @property
    def types(self) -> dict[str, FieldType]:
        """The fields with their types."""
        return {name: parse_type(text) for name, text in self.fields.items()}


@dataclass(frozen=True, slots=True)
class Origin:
    """A field as its generation knew it first. What is `added` was declared after the generation began."""

    name: str
    kind: FieldType
    added: bool


@dataclass(frozen=True, slots=True)
class FieldHistory:
    """What a published generation makes of a dataset file: its name, and what each field of the file was in it."""

    generation: str
    origins: Mapping[str, Origin]
    shape: str
    """Digest of the fields; empty while they are those that the generation began with."""
    again: int = 0
    """How many generations of this very meaning had their fields changed in place before."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field that is not what it was; a `problem` says why that is no change in place."""

    field: str
    was: str
    now: str
    problem: str = ""

    @property
    def sentence(self) -> str:
        """What changed, and why it is not made in place."""
        change = f"{self.field} was {self.was}, and is {self.now}"
        return f"{change}: {self.problem}" if self.problem else change


NONE = "none"
"""What a field was, or is, where there is none."""


def field_changes(before: Shape, now: Shape, used: Mapping[str, str]) -> list[FieldChange]:
    """What is different in the fields. `used` names the key of the file whose expression uses a field."""
    types, changes = now.types, []
    kept: dict[str, str] = {}
    for name, kind in types.items():
        former = name if name in before.fields else _former(before, now, name)
        if former is None:
            required = "" if kind.nullable else f"what is folded already has none; declare it as {kind}?"
            changes.append(FieldChange(name, NONE, str(kind), required))
            continue
        kept[former] = name
        was = before.types[former]
        earlier = str(was) if former == name else f"{former}: {was}"
        named = now.renamed.get(name, [])
        older = named[named.index(former) + 1 :] if former in named else named  # those before it were skipped here
        known = before.renamed.get(former, [])
        misnamed = _misnamed({*known} - {*named}, {*older} - {*known})
        moved = before.places.get(former) != now.places.get(name)
        elsewhere = "what is folded was read from elsewhere in the record" if moved else ""
        problem = _problem(was, kind, used.get(name)) or misnamed or elsewhere
        if earlier != str(kind) or problem:
            changes.append(FieldChange(name, earlier, str(kind), problem))
    for name, kind in before.types.items():
        if name not in kept:
            changes.append(FieldChange(name, str(kind), NONE, "a field does not go; or is it another's former name?"))
    return changes


def origins_of(shapes: Sequence[Shape]) -> dict[str, Origin]:
    """What each field of the last shape was at first; `shapes` from the generation's beginning on."""
    first, *later = shapes
    origins = {name: Origin(name, kind, added=False) for name, kind in first.types.items()}
    before = first
    for now in later:
        next_origins = {}
        for name, kind in now.types.items():
            former = name if name in before.fields else _former(before, now, name)
            next_origins[name] = origins[former] if former else Origin(name, kind, added=True)
        origins, before = next_origins, now
    return origins


def mark_of(origins: Mapping[str, Origin]) -> bytes:
    """Four bytes that tell which fields were added; none where none was."""
    added = sorted(f"{origin.name}:{origin.kind}" for origin in origins.values() if origin.added)
    return bytes.fromhex(_digest(json.dumps(added), 8)) if added else b""


def _former(before: Shape, now: Shape, name: str) -> str | None:
    gone = (former for former in now.renamed.get(name, ()) if former in before.fields and former not in now.fields)
    return next(gone, None)


def _problem(was: FieldType, now: FieldType, used: str | None) -> str:
    if was.nullable and not now.nullable:
        return "what is folded may have none"
    if _plain(was) == _plain(now):
        return ""
    if not _widens(was, now):
        return "a type widens from int to long, or a decimal to more digits before the point"
    return f"{used} uses it" if used else ""


def _misnamed(lost: set[str], more: set[str]) -> str:
    if lost:
        return f"landed records have it as {', '.join(sorted(lost))}; keep that in value.renamed"
    names = ", ".join(sorted(more))
    return f"value.renamed says that records have it as {names}, too, and they were read without" if names else ""


def _widens(was: FieldType, now: FieldType) -> bool:
    if (was.name, now.name) == ("int", "long"):
        return True
    alike = (was.name, was.scale, was.base64) == ("decimal", now.scale, now.base64)
    return alike and now.name == "decimal" and now.precision > was.precision


def _plain(kind: FieldType) -> str:
    return str(kind).removesuffix("?")


def _digest(text: str, digits: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:digits]
