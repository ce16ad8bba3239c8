"""JSON Schema: fields with the types of docs/types.md, as far as a schema says them. What it leaves open is `json`, and
of numbers the sample's values tell how many digits they have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from onefold.dataset.base import SAFE_NAME
from onefold.dataset.types import DEEPEST, FieldType, parse_type
from onefold.dataset.writer_schema import WriterSchema
from onefold.draft.languages import RecordType
from onefold.draft.languages.connect_names import TYPES
from onefold.draft.schema_fields import SchemaField, declarable
from onefold.formats.connect_decimals import DECIMAL
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import MessagePlace

_JSON = FieldType("json")
_NOTHING: Mapping[str, Any] = {}
"""A schema that says nothing."""
_FORMATS = {"date": "date", "date-time": "timestamp"}
_INT, _LONG = 1 << 31, 1 << 63
_MOST_DIGITS = 38
_USUAL_DIGITS = 18
_MOST_REFERENCES = 50


def open_message(schema: WriterSchema, place: MessagePlace) -> RecordType:
    """The record type that a schema is."""
    del place
    try:
        top = json.loads(schema.text)
        documents = {part.name: json.loads(part.text) for part in schema.references}
    except (ValueError, RecursionError):
        raise FormatError("its schema is no JSON") from None
    top = top if isinstance(top, dict) else {}
    title, doc = top.get("title"), top.get("description")
    types = _Types({"": top, **documents})

    def fields(within: Sequence[str]) -> list[SchemaField]:
        return types.fields(_Part(top, ""), within)

    return RecordType(title if isinstance(title, str) else None, doc if isinstance(doc, str) else "", bytes, fields)


def open_named(schema: WriterSchema, name: str | None) -> RecordType | None:
    """The record type that a schema is, if it has this name."""
    found = open_message(schema, ())
    return found if found.name == name else None


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a document, by the document's name."""

    schema: Mapping[str, Any]
    document: str


class _Types:
    """The types of the parts of a schema, and of the documents that it refers to by name."""

    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = documents
        self._kinds: dict[int, FieldType] = {}
        """By the identity of a part: of those that hold themselves, JSON."""

    def fields(self, top: _Part, within: Sequence[str]) -> list[SchemaField]:
        """The properties of an object, or of the part that names lead to, in the order of the schema."""
        for name in within:
            top = self._one_object(self._properties(top)[0].get(name, _Part(_NOTHING, "")))
        properties, required = self._properties(top)
        found = []
        for name, part in properties.items():
            schema = self._resolved(part).schema
            kind, is_exact = self._kind(part, 1), not self._is_number(part)
            kind = declarable(replace(kind, nullable=kind.nullable or name not in required))
            doc, default = part.schema.get("description") or schema.get("description"), schema.get("default")
            found.append(
                SchemaField(
                    name,
                    kind,
                    doc=doc if isinstance(doc, str) else "",
                    default=default if isinstance(default, bool | int | float | str) else None,
                    is_exact=is_exact,
                )
            )
        return found

    def _properties(self, part: _Part) -> tuple[dict[str, _Part], set[str]]:
        """The properties of an object, also of all the parts that it is put together of, and which it always has."""
        part = self._resolved(part)
        properties: dict[str, _Part] = {}
        required = {name for name in _listed(part.schema.get("required")) if isinstance(name, str)}
        for inner in _listed(part.schema.get("allOf")):
            if isinstance(inner, dict):
                others, needed = self._properties(_Part(inner, part.document))
                properties |= others
                required |= needed
        for name, schema in _members(part.schema.get("properties")).items():
            properties[name] = _Part(schema if isinstance(schema, dict) else _NOTHING, part.document)
        return properties, required

    def _one_object(self, part: _Part) -> _Part:
        """An object, also where it may be null."""
        schema = self._resolved(part).schema
        branches = [_Part(each, part.document) for word in ("oneOf", "anyOf") for each in _listed(schema.get(word))]
        return next((each for each in branches if self._properties(each)[0]), part) if branches else part

    def _resolved(self, part: _Part) -> _Part:
        """What a part refers to, in the end; an empty schema where that is not there."""
        for _ in range(_MOST_REFERENCES):
            reference = part.schema.get("$ref")
            if not isinstance(reference, str):
                return part
            name, _, pointer = reference.partition("#")
            document = name or part.document
            found: Any = self._documents.get(document)
            for word in pointer.split("/")[1:]:
                name = word.replace("~1", "/").replace("~0", "~")
                found = found.get(name) if isinstance(found, dict) else None
            part = _Part(found if isinstance(found, dict) else _NOTHING, document)
        return _Part(_NOTHING, "")

    def _kind(self, part: _Part, depth: int) -> FieldType:
        if depth > DEEPEST:
            return _JSON
        part = self._resolved(part)
        place = id(part.schema)
        if place not in self._kinds:
            self._kinds[place] = _JSON  # where it holds itself
            self._kinds[place] = self._found(part, depth)
        return self._kinds[place]

    def _found(self, part: _Part, depth: int) -> FieldType:
        schema = part.schema
        for word in ("oneOf", "anyOf"):
            if branches := _listed(schema.get(word)):
                return self._of_several(branches, part.document, depth)
        names = _types_of(schema)
        nullable = "null" in names
        others = names - {"null"}
        if others == {"integer", "number"}:
            others = {"number"}
        if len(others) != 1:
            return replace(_JSON, nullable=nullable)
        [name] = others
        return replace(self._of_type(name, part, depth), nullable=nullable)

    def _of_several(self, branches: Sequence[Any], document: str, depth: int) -> FieldType:
        given = [each for each in branches if isinstance(each, dict)]
        others = [each for each in given if _types_of(each) != {"null"}]
        kinds = [self._kind(_Part(each, document), depth + 1) for each in others]
        nullable = len(others) < len(given) or any(kind.nullable for kind in kinds)
        plain = {replace(kind, nullable=False) for kind in kinds}
        return replace(plain.pop() if len(plain) == 1 else _JSON, nullable=nullable)

    def _of_type(self, name: str, part: _Part, depth: int) -> FieldType:
        schema = part.schema
        if name in ("integer", "string") and schema.get("title") in TYPES:  # by Connect's converter
            return parse_type(TYPES[schema["title"]])
        match name:
            case "boolean":
                return FieldType("boolean")
            case "integer":
                return _integer(schema)
            case "number":
                return _number(schema)
            case "string":
                return _string(schema)
            case "array":
                items = schema.get("items")
                if not isinstance(items, dict):
                    return FieldType("list", item=_JSON)
                item = self._kind(_Part(items, part.document), depth + 1)
                return FieldType("list", item=replace(item, nullable=False))
            case "object":
                return self._object(part, depth)
            case _:
                return _JSON

    def _object(self, part: _Part, depth: int) -> FieldType:
        properties, required = self._properties(part)
        if properties:
            members = []
            for name, inner in properties.items():
                kind = self._kind(inner, depth + 1)
                members.append((name, replace(kind, nullable=kind.nullable or name not in required)))
            return declarable(FieldType("struct", fields=tuple(each for each in members if _is_name(each[0]))))
        more = part.schema.get("additionalProperties")
        if isinstance(more, dict) and more:
            item = self._kind(_Part(more, part.document), depth + 1)
            return FieldType("map", item=replace(item, nullable=False))
        return _JSON

    def _is_number(self, part: _Part) -> bool:
        """Whether it may be any number, of which the schema does not say how many digits it has."""
        return self._kind(part, 1).name == "double"


def _integer(schema: Mapping[str, Any]) -> FieldType:
    low, high = (schema.get(word) for word in ("minimum", "maximum"))
    if schema.get("format") == "int32" or schema.get("connect.type") in ("int8", "int16", "int32"):
        return FieldType("int")
    if isinstance(low, int | float) and isinstance(high, int | float):
        if low >= -_INT and high < _INT:
            return FieldType("int")
        if low < -_LONG or high >= _LONG:
            return FieldType("decimal", precision=_MOST_DIGITS)
    return FieldType("long")


def _number(schema: Mapping[str, Any]) -> FieldType:
    if schema.get("title") == DECIMAL:
        scale = _members(schema.get("connect.parameters")).get("scale")
        if str(scale).isdigit() and int(str(scale)) <= _MOST_DIGITS:
            return FieldType("decimal", precision=_MOST_DIGITS, scale=int(str(scale)))
    step = schema.get("multipleOf")
    if isinstance(step, int | float) and not isinstance(step, bool) and step > 0:
        _, _, exponent = Decimal(str(step)).normalize().as_tuple()
        scale = max(0, -exponent) if isinstance(exponent, int) else 0
        if scale < _USUAL_DIGITS:
            return FieldType("decimal", precision=_USUAL_DIGITS, scale=scale)
    return FieldType("double")


def _string(schema: Mapping[str, Any]) -> FieldType:
    if schema.get("contentEncoding") == "base64" or schema.get("connect.type") == "bytes":
        return FieldType("binary")
    return FieldType(_FORMATS.get(str(schema.get("format")), "string"))


def _types_of(schema: Mapping[str, Any]) -> set[str]:
    """The JSON types that a value may be of, as far as the schema says."""
    given = schema.get("type")
    if isinstance(given, str):
        return {given}
    if isinstance(given, list):
        return {name for name in given if isinstance(name, str)}
    values = _listed(schema.get("enum")) or ([schema["const"]] if "const" in schema else [])
    if values:
        return {_type_of(value) for value in values}
    if "properties" in schema or "allOf" in schema:
        return {"object"}
    return {"array"} if "items" in schema else set()


def _type_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _is_name(text: str) -> bool:
    """Whether a struct's member can have this name."""
    return re.fullmatch(SAFE_NAME, text) is not None


def _listed(given: Any) -> list[Any]:
    return given if isinstance(given, list) else []


def _members(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}
