"""LANGUAGES: what schemas of a registry are written in. Each has a module of its name here with `open_message` and
`open_named`."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

from onefold.dataset.value_formats import ValueFormat
from onefold.dataset.writer_schema import WriterSchema
from onefold.draft.schema_fields import SchemaField
from onefold.formats.wire import MessagePlace

LANGUAGES = {"AVRO": ValueFormat.AVRO, "PROTOBUF": ValueFormat.PROTOBUF, "JSON": ValueFormat.JSON_SCHEMA}
"""The format of messages by the type of their schema."""


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record type that a schema declares."""

    name: str | None
    """What `schema.name` is of its records; None: it has no name."""
    doc: str
    read: Callable[[bytes], bytes]
    """A message to JSON; FormatError: it is none."""
    fields: Callable[[Sequence[str]], list[SchemaField]]
    """The fields of its records; with names, those of the part that they lead to. None if there is no such part."""


def format_of(schema: WriterSchema) -> ValueFormat:
    """The format of messages of a schema; where the registry does not say its type, by its text."""
    if schema.type:
        return LANGUAGES[schema.type]
    try:
        parsed = json.loads(schema.text)
    except (ValueError, RecursionError):
        return ValueFormat.PROTOBUF
    is_avro = not isinstance(parsed, dict) or parsed.get("type") in ("record", "error", "enum", "fixed")
    return ValueFormat.AVRO if is_avro or "items" in parsed else ValueFormat.JSON_SCHEMA


def open_message(schema: WriterSchema, place: MessagePlace) -> RecordType:
    """The record type of a message; `place`: of several messages that a Protobuf schema has, which.

    Raises:
        FormatError: its messages cannot be read.
    """
    return cast(RecordType, _module(schema).open_message(schema, place))


def open_named(schema: WriterSchema, name: str | None) -> RecordType | None:
    """The record type of a name that a schema declares; None: it declares no such type.

    Raises:
        FormatError: its messages cannot be read.
    """
    return cast("RecordType | None", _module(schema).open_named(schema, name))


def _module(schema: WriterSchema):  # type: ignore[no-untyped-def]
    return importlib.import_module(f"onefold.draft.languages.{format_of(schema)}")
