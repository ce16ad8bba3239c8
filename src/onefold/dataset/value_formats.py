"""VALUE_FORMATS: how the bytes of a key or a value are read. Each has a module of its name in `onefold.values`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ValueFormat(StrEnum):
    """A format that `key.format`, and perhaps `value.format`, names."""

    JSON = "json"
    STRING = "string"
    BYTES = "bytes"
    AVRO = "avro"
    JSON_SCHEMA = "json_schema"
    PROTOBUF = "protobuf"


@dataclass(frozen=True, slots=True)
class Format:
    """What a file may do with a format."""

    meaning: str
    of_values: bool
    """Whether a value may have it: a format without fields is a key's only."""
    has_parts: bool
    """Whether expressions may ask for `key.NAME`."""
    is_text: bool
    """Whether expressions may ask for `key`."""
    has_schema: bool = False
    """Whether `key.schema` and `value.schema` name the file with the schema that they are written by."""
    has_registry: bool = False
    """Whether `key.registry` and `value.registry` name the registry that has the schemas that they are written by: in
    place of a file, or where the format has none, as an option."""
    has_messages: bool = False
    """Whether such a file may have several messages, of which `message` names one."""


VALUE_FORMATS = {
    ValueFormat.JSON: Format("one JSON value in UTF-8", of_values=True, has_parts=True, is_text=True),
    ValueFormat.STRING: Format("text in UTF-8", of_values=False, has_parts=False, is_text=True),
    ValueFormat.BYTES: Format("any bytes, which nothing reads", of_values=False, has_parts=False, is_text=False),
    ValueFormat.AVRO: Format(
        "one Avro value, without a prefix by a schema file, or behind the id of its schema in a registry",
        of_values=True,
        has_parts=True,
        is_text=True,
        has_schema=True,
        has_registry=True,
    ),
    ValueFormat.JSON_SCHEMA: Format(
        "one JSON value in UTF-8, behind the id of its schema in a registry or without one",
        of_values=True,
        has_parts=True,
        is_text=True,
        has_registry=True,
    ),
    ValueFormat.PROTOBUF: Format(
        "one Protobuf message, without a prefix by a schema file, or behind the id of its schema in a registry",
        of_values=True,
        has_parts=True,
        is_text=True,
        has_schema=True,
        has_registry=True,
        has_messages=True,
    ),
}


def of_values() -> list[ValueFormat]:
    """The formats that `value.format` may name."""
    return [name for name, format_ in VALUE_FORMATS.items() if format_.of_values]


def with_schema() -> list[ValueFormat]:
    """The formats of which a file names the schema."""
    return [name for name, format_ in VALUE_FORMATS.items() if format_.has_schema]


def with_registry() -> list[ValueFormat]:
    """The formats of which a registry may have the schemas."""
    return [name for name, format_ in VALUE_FORMATS.items() if format_.has_registry]


def of_messages() -> list[ValueFormat]:
    """The formats that only the records' own bytes have, and nothing that an exporter has made of them."""
    return [name for name, format_ in VALUE_FORMATS.items() if format_.has_schema or format_.has_registry]


def with_messages() -> list[ValueFormat]:
    """The formats of which a schema file may have several messages."""
    return [name for name, format_ in VALUE_FORMATS.items() if format_.has_messages]


def with_parts() -> list[ValueFormat]:
    """The formats of keys that have parts."""
    return [name for name, format_ in VALUE_FORMATS.items() if format_.has_parts]
