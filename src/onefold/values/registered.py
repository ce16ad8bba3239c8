"""Messages that name their schema (`onefold.formats.wire`): which schemas records name, and each message by its own.

`Dataset.writer_schemas` has what is known of ids. Nothing here asks a registry.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Protocol

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.value_formats import ValueFormat
from onefold.dataset.writer_schema import SchemaType, WriterSchema
from onefold.formats import registered_protobuf
from onefold.formats.avro import full_name
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import (
    PREFIX,
    Header,
    IdSpace,
    MessagePlace,
    SchemaId,
    message_place,
    payload,
    schema_id,
)
from onefold.records import envelope as E
from onefold.values.arrow_functions import Read, ToJson, json_by, text_of
from onefold.values.columns import Json
from onefold.vocabulary import Reason

MOST_NAMED = 10_000
"""Schemas of a batch, at most: bytes that are no message may name any number."""
_MOST_READERS = 1_000
"""Messages of schemas whose readers a task keeps."""
_START = 600
"""Bytes of a value in which its schema and the place of its message are named, at most."""
_BYTES = {"key": E.KEY_BYTES, "value": E.VALUE_BYTES}
_TYPES: dict[str, SchemaType] = {
    ValueFormat.AVRO: "AVRO",
    ValueFormat.JSON_SCHEMA: "JSON",
    ValueFormat.PROTOBUF: "PROTOBUF",
}
"""The type of a registry's schemas that messages of a format are written by."""


class UnknownSchemaError(Exception):
    """Nothing is known of the schema that a message names."""


def ids_named(records: DataFrame, dataset: Dataset) -> dict[str, list[SchemaId]]:
    """The schemas that the records of a batch name, by section of the dataset file that has a registry, those of the
    most records first, and at most `MOST_NAMED`. Looks at the first bytes of a key and a value only; of what is no
    record, at none."""
    sections = list(dataset.registries)
    counts = F.col(E.FATE).isNull() | (F.col(E.FATE) == E.COVERED)
    read = records.where(counts & F.col(E.UNREADABLE).isNull())
    first = {section: F.substring(_BYTES[section], 1, PREFIX) for section in sections}
    names = [
        F.struct(F.lit(section).alias("section"), _name(first[section], dataset, section).alias("id"))
        for section in sections
    ]
    named = read.select(F.explode(F.array(*names)).alias("named")).select("named.*").where("id IS NOT NULL")
    counted = named.groupBy("section", "id").count().orderBy(F.desc("count"), "id")
    found: dict[str, list[SchemaId]] = {section: [] for section in sections}
    for row in counted.limit(MOST_NAMED).collect():
        found[row["section"]].append(SchemaId.of(row["id"]))
    return found


def _has_places(dataset: Dataset, section: str) -> bool:
    """Whether a schema has several messages, and each message says which it is."""
    return _format(dataset, section) == ValueFormat.PROTOBUF


def _format(dataset: Dataset, section: str) -> str:
    return dataset.value.format if section == "value" else dataset.key.format


def _space(dataset: Dataset, section: str) -> IdSpace | None:
    registry = dataset.registries.get(section)
    return IdSpace(registry.ids) if registry and registry.ids else None


def _name(data: Column, dataset: Dataset, section: str) -> Column:
    """The id that each of some messages names, by their first bytes; null: none."""
    space, places = _space(dataset, section), _has_places(dataset, section)

    def name(data: bytes | None, header: Header | None) -> str | None:
        if data is None:
            return None
        try:
            return str(schema_id(data, header, space, places=places)[0])
        except FormatError:
            return None

    return text_of(data, section, lambda: name)


def name_of_schema(dataset: Dataset) -> Column:
    """`schema.name`: the full name of the Avro type or of the Protobuf message, or the title of the JSON schema, that
    the value was written by; null: it names none that is known."""
    space, places = _space(dataset, "value"), _has_places(dataset, "value")
    schemas, given = dataset.writer_schemas.get("value", {}), dataset.value.format
    compiled = registered_protobuf.described(schemas) if places else {}
    names = {id_: None if places else _named(schema, given) for id_, schema in schemas.items()}

    def made() -> Callable[[bytes | None, Header | None], str | None]:
        @lru_cache(maxsize=_MOST_READERS)
        def message(id_: str, place: MessagePlace) -> str | None:
            return registered_protobuf.message_of(compiled[id_], place) if id_ in compiled else None

        def name(data: bytes | None, header: Header | None) -> str | None:
            if data is None:
                return None
            try:
                id_, at = schema_id(data, header, space, places=places)
                if not places or str(id_) not in names:
                    return names.get(str(id_))
                return message(str(id_), message_place(data[at:], id_, header)[0])
            except FormatError:
                return None

        return name

    first = F.substring(E.VALUE_BYTES, 1, _START if places else PREFIX)
    return text_of(first, "value", made)


def _named(schema: WriterSchema, of_format: str) -> str | None:
    try:
        if of_format == ValueFormat.AVRO:
            return full_name(schema.text)
        title = json.loads(schema.text).get("title")
        return title if isinstance(title, str) else None
    except (ValueError, AttributeError, RecursionError):
        return None


class ReaderOf(Protocol):
    """What makes the reader of the messages of a schema; a FormatError says that none can be read."""

    def __call__(self, name: str, schema: WriterSchema, place: MessagePlace) -> Read:
        """The reader by a schema, by its id and, of several messages that it has, the place."""


def decoder(dataset: Dataset, section: str, reader_of: ReaderOf, *, bare: Read | None = None) -> Callable[[], ToJson]:
    """What makes, once a task, what turns messages into JSON, each by the schema that it names.

    Args:
        dataset: with the schemas that are known (`writer_schemas`).
        section: key or value.
        reader_of: what reads the messages of a schema.
        bare: what reads messages that no schema is needed for: those that do not begin as a prefix does and, where the
            dataset file names no registry, all.
    """
    schemas: Mapping[str, WriterSchema] = dataset.writer_schemas.get(section, {})
    registry, space = dataset.registries.get(section), _space(dataset, section)
    places, expected = _has_places(dataset, section), _TYPES[_format(dataset, section)]

    def made() -> ToJson:
        @lru_cache(maxsize=_MOST_READERS)
        def reader(name: str, place: MessagePlace) -> Read | FormatError:
            schema = schemas[name]
            if schema.type not in ("", expected):
                return FormatError(f"its schema {name} is of type {schema.type}, and no {expected} schema")
            try:
                return reader_of(name, schema, place)
            except FormatError as error:
                return error
            except Exception as error:  # a registry may hold any schema, and one record that names it is no batch
                return FormatError(f"messages of its schema {name} cannot be read: {type(error).__name__}")

        def read(data: bytes, header: Header | None) -> bytes:
            if bare and header is None and data[:1] not in (b"\x00", b"\x03"):
                return bare(data)
            id_, at = schema_id(data, header, space, places=places)
            if bare and registry is None:
                return bare(payload(data, at))
            if str(id_) not in schemas:
                raise UnknownSchemaError(f"schema {id_} is not known to the registry {registry and registry.label}")
            place, message = message_place(payload(data, at), id_, header) if places else ((), payload(data, at))
            by = reader(str(id_), place)
            if isinstance(by, FormatError):
                raise by
            return by(message)

        def to_json(data: bytes | None, header: Header | None) -> Json:
            try:
                return None if data is None else json_by(lambda message: read(message, header), data)
            except UnknownSchemaError as error:
                return Reason.SCHEMA_NOT_FOUND.value, str(error)

        return to_json

    return made
