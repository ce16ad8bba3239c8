"""Protobuf: fields with the types that docs/types.md has for them, from a message's descriptors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from onefold.dataset.types import FieldType
from onefold.dataset.writer_schema import WriterSchema
from onefold.draft.languages import RecordType
from onefold.draft.schema_fields import SchemaField, declarable
from onefold.formats import registered_protobuf
from onefold.formats.protobuf import message_reader
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import MessagePlace

_SCALARS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), FieldType("int")),
    **dict.fromkeys(("int64", "sint64", "sfixed64", "uint32", "fixed32"), FieldType("long")),
    **dict.fromkeys(("uint64", "fixed64"), FieldType("decimal", precision=20)),
    **dict.fromkeys(("float", "double"), FieldType("double")),
    "bool": FieldType("boolean"),
    "string": FieldType("string"),
    "bytes": FieldType("binary"),
    "enum": FieldType("string"),
}
_GOOGLE = "google.protobuf."
_WELL_KNOWN = {
    "Timestamp": FieldType("timestamp"),
    "Duration": FieldType("decimal", precision=21, scale=9),
    "DoubleValue": FieldType("double"),
    "FloatValue": FieldType("double"),
    "Int64Value": FieldType("long"),
    "UInt64Value": FieldType("decimal", precision=20),
    "Int32Value": FieldType("int"),
    "UInt32Value": FieldType("long"),
    "BoolValue": FieldType("boolean"),
    "StringValue": FieldType("string"),
    "BytesValue": FieldType("binary"),
    "Struct": FieldType("json"),
    "Value": FieldType("json"),
    "ListValue": FieldType("json"),
}
_MESSAGES = ("message", "group")


class _UnreadableError(Exception):
    """Values of a type cannot be read at all."""


def open_message(schema: WriterSchema, place: MessagePlace) -> RecordType:
    """The record type of the message at a place of the schema."""
    compiled = _compiled(schema)
    return _record_type(compiled, registered_protobuf.message_of(compiled, place))


def open_named(schema: WriterSchema, name: str | None) -> RecordType | None:
    """The record type of the message of this full name."""
    try:
        return _record_type(_compiled(schema), name) if name else None
    except FormatError:
        return None


def _compiled(schema: WriterSchema) -> registered_protobuf.Described:
    return registered_protobuf.described({"": schema.model_copy(update={"type": "PROTOBUF"})}, comments=True)[""]


def _record_type(compiled: registered_protobuf.Described, name: str) -> RecordType:
    text = registered_protobuf.text_of_named(compiled, name)
    docs = registered_protobuf.comments_of(compiled, name)
    schema: dict[str, Any] = json.loads(text)
    types = _Types(schema)

    def fields(within: Sequence[str]) -> list[SchemaField]:
        return types.fields(schema["message"], docs) if not within else []

    return RecordType(name, docs.get("", ""), message_reader(text, {}), fields)


class _Types:
    """The types of the messages of one schema."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._messages: Mapping[str, Mapping[str, Any]] = schema["messages"]
        self._enums: Mapping[str, Mapping[str, str]] = schema["enums"]
        self._reach: dict[str, set[str]] = {}
        self._structs: dict[str, FieldType] = {}

    def fields(self, message: str, docs: Mapping[str, str]) -> list[SchemaField]:
        """The fields of a message, by their numbers; `docs`: the comments on them, by name."""
        found = []
        for name, field in sorted(self._messages[message].items(), key=lambda item: item[1]["number"]):
            doc = docs.get(name, "")
            try:
                kind = declarable(self._field(field))
            except _UnreadableError as error:
                found.append(SchemaField(name, None, problem=str(error), doc=doc))
                continue
            found.append(SchemaField(name, kind, doc=doc, note=self._note(field)))
        return found

    def _note(self, field: Mapping[str, Any]) -> str:
        if field["type"] == "enum":
            return f"an enum of {len(self._enums[field['of']])} names"
        return f"of oneof {field['oneof']}" if "oneof" in field else ""

    def _field(self, field: Mapping[str, Any]) -> FieldType:
        kind = self._value(field)
        if "key" in field:
            return FieldType("map", item=kind)
        if field.get("repeated"):
            return FieldType("list", item=kind)
        return replace(kind, nullable=bool(field.get("presence")))

    def _value(self, field: Mapping[str, Any]) -> FieldType:
        if field["type"] not in _MESSAGES:
            return _SCALARS[field["type"]]
        name = field["of"]
        short = name.removeprefix(_GOOGLE)
        if name.startswith(_GOOGLE) and short == "Any":
            raise _UnreadableError(f"{name} may be any message, and cannot be read")
        if name.startswith(_GOOGLE) and short in _WELL_KNOWN:
            return _WELL_KNOWN[short]
        if name in self._reached(name):
            if f"{_GOOGLE}Any" in self._reached(name):
                raise _UnreadableError(f"{name} holds itself, and a message of any type, and cannot be read")
            return FieldType("json")
        if name not in self._structs:
            self._structs[name] = self._struct(name)
        return self._structs[name]

    def _struct(self, name: str) -> FieldType:
        members = []
        for word, field in sorted(self._messages[name].items(), key=lambda item: item[1]["number"]):
            try:
                members.append((word, self._field(field)))
            except _UnreadableError:
                continue
        if self._messages[name] and not members:
            raise _UnreadableError(f"{name} has no field that can be read")
        return declarable(FieldType("struct", fields=tuple(members)))

    def _reached(self, name: str) -> set[str]:
        """The messages that a message may hold, at whatever depth."""
        if name not in self._reach:
            found, left = set[str](), [name]
            while left:
                inner = {field["of"] for field in self._messages[left.pop()].values() if field["type"] in _MESSAGES}
                left += inner - found
                found |= inner
            self._reach[name] = found
        return self._reach[name]
