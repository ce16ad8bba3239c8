"""Names of a record's parts that are no names of columns, and names that mean two things."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from onefold.dataset.base import DELETES_WITHOUT_VALUE
from onefold.dataset.envelopes import roots_of
from onefold.dataset.expressions import OF_ENVELOPE, OF_THE_LOG, ROOTS, Spelled, spelled
from onefold.dataset.types import FieldType

_SEGMENT = re.compile(r'"((?:[^"]|"")+)"|([^."]+)')
Place = tuple[str, ...]
"""The names that lead to a part of a value, from the outside in."""


def parse_place(text: str) -> Place:
    """Where a field says that it lies: `__deleted`, `address.city`, `"event.id"`.

    Raises:
        ValueError: it is no list of names with dots between them.
    """
    found, at = list[str](), 0
    while match := _SEGMENT.match(text, at):
        found.append(match[1].replace('""', '"') if match[1] else match[2])
        at = match.end()
        if at == len(text):
            break
        if text[at] != ".":
            break
        at += 1
    if not found or at != len(text) or text.endswith("."):
        raise ValueError(f"{text!r} is no name in the record, such as __deleted, address.city or '\"event.id\"'")
    if odd := next((name for name in found[1:] if {".", "["} & {*name} and {"'", "?"} & {*name}), None):
        raise ValueError(f"{odd!r}: a name with a dot and a quote or question mark cannot be read below another")
    return tuple(found)


def with_field_names(given: Any) -> Any:
    """A dataset file in which expressions that name a part of the value by its place (`value."event.id"`) name the
    field that is read from there."""
    try:
        fields = given["value"]["fields"]
        places = {
            parse_place(field["from"]): name
            for name, field in fields.items()
            if isinstance(field, Mapping) and isinstance(field.get("from"), str)
        }
    except (KeyError, TypeError, AttributeError, ValueError):  # another check reports that
        return given
    if "schema" in fields and not given["value"].get("registry"):
        given = _with_texts(given, lambda text: _of_value(text, "schema"))
    for name in OF_ENVELOPE:
        if name in fields and name not in roots_of(given["value"].get("envelope")):
            given = _with_texts(given, partial(_of_value, root=name))
    if not places:
        return given
    return _with_texts(given, lambda text: _renamed(text, places, fields))


def _of_value(text: str, root: str) -> str:
    """An expression in which `schema.name` is a part of the field `schema`: without a registry it is nothing else; and
    likewise `envelope.NAME` without an envelope."""
    for reference in reversed(spelled(text)):
        first, *rest = reference.names
        if first == root and rest and not reference.quoted and (root != "schema" or rest == ["name"]):
            text = f"{text[: reference.start]}value.{text[reference.start :]}"
    return text


def _renamed(text: str, places: Mapping[Place, str], fields: Mapping[str, Any]) -> str:
    """An expression with the names of fields in place of those in the record."""
    for reference in reversed(spelled(text)):
        names = reference.names
        if not reference.quoted and names[0] in (*ROOTS, "log"):
            if names[0] != "value" or len(names) == 1:
                continue
            names = names[1:]
        if names[0] in fields:
            continue
        for length in range(len(names), 0, -1):
            if field := places.get(names[:length]):
                rest = "".join(f'."{name}"' for name in names[length:])
                text = f"{text[: reference.start]}value.{field}{rest}{text[reference.end :]}"
                break
    return text


def _with_texts(given: Any, change: Callable[[str], str]) -> Any:
    """A file with each of its expressions changed."""

    def texts(value: Any) -> Any:
        match value:
            case str():
                return change(value)
            case list():
                return [texts(item) for item in value]
            case dict():
                return {name: texts(item) for name, item in value.items()}
            case _:
                return value

    def section(value: Any, *names: str) -> Any:
        if not isinstance(value, dict):
            return value
        return {name: texts(item) if name in names else item for name, item in value.items()}

    made = dict(given)
    made["source"] = section(given.get("source"), "filter")
    made["target"] = section(given.get("target"), "where")
    made["identity"] = section(given.get("identity", {}), "producer", "message_id", "business_key", "within")
    applied = section(given.get("apply"), "key", "add")
    if isinstance(applied, dict):
        if "version" in applied:
            applied["version"] = section(applied["version"], "from", "expected")
        if applied.get("delete_when") not in (None, *DELETES_WITHOUT_VALUE):
            applied["delete_when"] = texts(applied["delete_when"])
    made["apply"] = applied
    return made


def two_meanings(text: str, fields: Mapping[str, FieldType]) -> tuple[str, str, str] | None:
    """A reference of an expression that could be a field or what the log has: as it is written, and both
    spellings that are clear, that of its former meaning first."""
    return next((found for reference in spelled(text) if (found := _two_meanings(reference, fields))), None)


def of_the_log(text: str, fields: Mapping[str, FieldType]) -> str:
    """An expression in which names that fields have, too, mean what the log has: `log.offset` for `offset`."""
    for reference in reversed(spelled(text)):
        if meanings := _two_meanings(reference, fields):
            text = f"{text[: reference.start]}{meanings[1]}{text[reference.end :]}"
    return text


def _two_meanings(reference: Spelled, fields: Mapping[str, FieldType]) -> tuple[str, str, str] | None:
    root, *rest = reference.names
    kind = fields.get(root)
    if reference.quoted or kind is None:
        return None
    written, below = ".".join(reference.names), bool(rest) and kind.part(tuple(rest)) is not None
    if root in OF_THE_LOG and (not rest or below):
        return written, f"log.{written}", f"value.{written}"
    if (root == "header" and below) or (root == "schema" and rest == ["name"] and below):
        return written, f"log.{written}", f"value.{written}"
    if root == "log" and below and rest[0] in (*OF_THE_LOG, "header", "schema"):
        return written, f"value.{written}", ".".join(rest)
    return None
