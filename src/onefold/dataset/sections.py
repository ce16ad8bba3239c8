"""The sections of a dataset file: what each may say, by itself."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from onefold.dataset.base import SAFE_NAME, ExpressionText, Model, Name, not_built
from onefold.dataset.defaults import Default, json_of
from onefold.dataset.envelopes import Envelope
from onefold.dataset.names import Place, parse_place
from onefold.dataset.reserved_columns import is_own
from onefold.dataset.types import parse_type
from onefold.dataset.value_formats import (
    ValueFormat,
    of_values,
    with_messages,
    with_registry,
    with_schema,
)
from onefold.instants import Duration

SCHEMA_FILE: Any = Field(
    default=None,
    alias="schema",
    pattern=r"^[\w-][\w.-]*(/[\w-][\w.-]*)*$",
    description="The file with their writer's schema, below the folder of dataset files: schemas/order.avsc",
)
MESSAGE: Any = Field(
    default=None,
    pattern=r"^\w+(\.\w+)*$",
    max_length=500,
    description="Format protobuf: the full name of the message, such as shop.Order; not needed where the schema file "
    "has one message at its top",
)


class Registry(Model):
    """The schema registry that has the schemas that keys or values name."""

    connection: Name = Field(description="How it is reached: the settings, or Airflow, have a connection of this name")
    name: Name | None = Field(
        default=None,
        description="What the registry is called, whatever the connection: it is part of the generation, and schemas "
        "are kept under it. Default: the connection's name",
    )
    ids: Literal["global", "content"] | None = Field(
        default=None,
        description="Of Apicurio, whose numbers the ids are. Default: ids of 8 bytes global, of 4 bytes Confluent's",
    )

    @property
    def label(self) -> str:
        """What the registry is called."""
        return self.name or self.connection

    @property
    def meaning(self) -> dict[str, str]:
        """What of it can change a row."""
        return {"name": self.label, **({"ids": self.ids} if self.ids else {})}


def check_schema_named(given: str, file: str | None, message: str | None, registry: Registry | None) -> None:
    """Refuse a format that needs a schema without one, and a schema or a message that nothing reads.

    Raises:
        ValueError: it says which.
    """
    if registry and given not in with_registry():
        raise ValueError(f"format {given} has no schema in a registry ({', '.join(with_registry())} has)")
    if registry and file:
        raise ValueError("schema and registry exclude each other: a file has the one schema, or a registry has them")
    if registry and message:
        raise ValueError("message and registry exclude each other: each value says which message of its schema it is")
    if given in with_schema() and file is None and registry is None:
        raise ValueError(
            f"format {given} needs schema, the file with the schema, such as schemas/order.avsc, or registry, such as "
            "{connection: registry_default}"
        )
    if given not in with_schema() and file is not None:
        raise ValueError(f"format {given} has no schema ({', '.join(with_schema())} has)")
    if given not in with_messages() and message is not None:
        raise ValueError(f"format {given} has no message ({', '.join(with_messages())} has)")


class KeyFormat(Model):
    """How the Kafka key is read."""

    format: ValueFormat = ValueFormat.STRING
    schema_file: str | None = SCHEMA_FILE
    message: str | None = MESSAGE
    registry: Registry | None = None

    @model_validator(mode="after")
    def _schema(self) -> Self:
        check_schema_named(self.format, self.schema_file, self.message, self.registry)
        return self


class DeclaredField(Model):
    """A field of the value: its type, and where a record has it."""

    type: str = Field(description="Such as string, decimal(18,2) or timestamp(millis); `?` for optional")
    from_: str | None = Field(
        default=None,
        alias="from",
        description="Where it lies, if not at the top under its own name: address.city, __deleted, '\"event.id\"'",
    )

    default: Default | None = Field(
        default=None, description="What the field is where a record has none of it; an explicit null stays null"
    )

    @field_validator("from_")
    @classmethod
    def _readable(cls, text: str | None) -> str | None:
        if text is not None:
            parse_place(text)
        return text


def _elsewhere(name: str, kind: Any) -> str:
    """How a file declares a field whose name in the record cannot be a column."""
    column = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    column = column if column[:1].isalpha() else f"field_{column}".rstrip("_")
    place = f"'\"{name}\"'" if {".", '"'} & {*name} else f'"{name}"'
    return f'{column}: {{type: "{kind if isinstance(kind, str) else "string?"}", from: {place}}}'


def _declared(given: Any) -> Any:
    return {"type": given} if isinstance(given, str) else given


class Value(Model):
    """How the value is read."""

    format: str = ValueFormat.JSON.value
    schema_file: str | None = SCHEMA_FILE
    message: str | None = MESSAGE
    registry: Registry | None = None
    envelope: Envelope = Field(
        default=Envelope.NONE,
        description="What lies around the row: none; connect ({schema, payload}); debezium (before, after, op, source, "
        "or flattened with __op and __deleted; also in {schema, payload}); cloudevents (attributes around data, or in "
        "headers ce_NAME)",
    )
    fields: dict[Name, Annotated[DeclaredField, BeforeValidator(_declared)]] = Field(
        min_length=1, description="Field name to type, `?` for optional; or to {type: …, from: …}"
    )
    renamed: dict[Name, list[Name]] = Field(default={}, description="Field name to the name it had, or the names")
    schema_changes: Literal["evolve", "freeze", "quarantine"] = Field(
        default="evolve",
        description="evolve: the file's compatible changes are made in place; freeze: none is; quarantine: as evolve, "
        "and a record with a field that the file does not name is rejected",
    )

    @property
    def places(self) -> dict[str, Place]:
        """Where a record has each field: the names that lead there."""
        return {name: parse_place(field.from_) if field.from_ else (name,) for name, field in self.fields.items()}

    @property
    def former_columns(self) -> dict[str, list[str]]:
        """Of `renamed` the names that a column of the table may have had: records have others, too (`_version`)."""
        return {name: [place for place in former if not is_own(place)] for name, former in self.renamed.items()}

    @field_validator("fields", mode="before")
    @classmethod
    def _columns(cls, given: Any) -> Any:
        for name in given if isinstance(given, dict) else ():
            if isinstance(name, str) and not re.fullmatch(SAFE_NAME, name):
                raise ValueError(f"{name!r} cannot be the name of a column; write {_elsewhere(name, given[name])}")
        return given

    @field_validator("renamed", mode="before")
    @classmethod
    def _lists(cls, given: Any) -> Any:
        pairs = given.items() if isinstance(given, dict) else ()
        return {name: [names] if isinstance(names, str) else names for name, names in pairs} if pairs else given

    @model_validator(mode="after")
    def _once(self) -> Self:
        seen = {*self.fields, *(place[0] for place in self.places.values() if len(place) == 1)}
        for name, former in self.renamed.items():
            if name not in self.fields:
                raise ValueError(f"renamed: {name} is no field of value.fields (it is the new name to the former name)")
            for earlier_name in former:
                if earlier_name in seen:
                    raise ValueError(f"renamed: {earlier_name}, the former name of {name}, is another field's name")
                seen.add(earlier_name)
        return self

    @model_validator(mode="after")
    def _built(self) -> Self:
        if self.format not in of_values():
            built = ", ".join(of_values())
            if self.format.split("+")[0] in of_values():
                raise not_built(f"value format {self.format} ({built} is)")
            raise ValueError(f"no value format {self.format!r} ({built})")
        check_schema_named(self.format, self.schema_file, self.message, self.registry)
        for name, field in self.fields.items():
            try:
                kind = parse_type(field.type)
                if field.default is not None:
                    json_of(field.default, kind)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
            if name.startswith("_"):
                written = _elsewhere(name, field.type)
                raise ValueError(f"{name}: names that start with _ are Onefold's own; write {written}")
        return self


class NamedProducer(Model):
    """A producer's name and the sequence that it counts for a partition, where records carry them."""

    name: ExpressionText = Field(description="The producer's name, such as header.producer")
    epoch: ExpressionText | None = Field(
        default=None, description="A whole number that the producer raises whenever its sequence begins again"
    )
    sequence: ExpressionText = Field(description="A whole number that the producer raises by one a record")


class Identity(Model):
    """What makes two records the same message; position is always on."""

    producer: NamedProducer | None = Field(default=None, description="Of a source that does not show the log's own")
    message_id: ExpressionText | Annotated[list[ExpressionText], Field(min_length=1)] | None = Field(
        default=None, description="A globally unique id that the sender gives a message; several parts are one id"
    )
    business_key: list[ExpressionText] | None = Field(default=None, min_length=1)
    within: ExpressionText | None = Field(
        default=None, description="A period that never changes for a message, such as day(booked_at)"
    )

    @property
    def message_parts(self) -> list[str]:
        """The expressions that make the message id; none: it is not declared."""
        given = self.message_id or []
        return given if isinstance(given, list) else [given]


_LONGEST_NAMESPACE, _LONGEST_TABLE = 100, 128


class Target(Model):
    """Where readers find it."""

    table: str = Field(pattern=r"^[a-z_][a-z0-9_]*\.[a-z_][a-z0-9_]*$", description="namespace.name")
    buckets: int = Field(default=8, ge=1, le=4096, description="Buckets of the key's digest")
    where: ExpressionText | None = Field(
        default=None, description="upsert: which rows readers see; another row is hidden until a later version shows it"
    )

    @field_validator("table")
    @classmethod
    def _free(cls, table: str) -> str:
        namespace, name = table.split(".")
        if len(namespace) > _LONGEST_NAMESPACE:
            raise ValueError(f"a namespace has at most {_LONGEST_NAMESPACE} letters, as Airflow's tags have")
        if len(name) > _LONGEST_TABLE:
            raise ValueError(
                f"a table's name has at most {_LONGEST_TABLE} letters: folders have Onefold's own behind it"
            )
        if table.endswith("__quarantine"):
            raise ValueError(f"{table!r}: names that end in __quarantine are those of rejected records")
        return table

    @property
    def namespace(self) -> str:
        """The namespace part."""
        return self.table.split(".")[0]

    @property
    def name(self) -> str:
        """The name part."""
        return self.table.split(".")[1]


Rate = Annotated[float, Field(ge=0, le=1)]


class Quality(Model):
    """What the gate asks."""

    max_duplicate_rate: Rate | None = Field(default=None, description="Of the records not covered before")
    max_rejected_rate: Rate | None = Field(
        default=None, description="Of the records not covered before; usually 0.01, and 0 for sums and chains"
    )
    max_rejected_deletes: int | None = Field(
        default=None,
        ge=0,
        description="upsert: rejected records that delete, and null values that delete_when does not cover; usually 0",
    )
    max_filtered_newer: int | None = Field(
        default=None, ge=0, description="upsert: filtered records that are newer than the row of their key; usually 0"
    )
    max_conflicts: int = Field(default=0, ge=0)
    max_backwards_rate: Rate | None = Field(
        default=None,
        description="upsert: of the records not covered before, those whose version is below an earlier one of their "
        "key and partition; usually 0.5",
    )
    max_late_copies: int = Field(
        default=0,
        ge=0,
        description="upsert, where a delivery decides: messages sent again after another one of their key; more warn",
    )
    min_records: int = Field(default=100, ge=0, description="Below it, a rate only warns")
    freshness: Duration | None = Field(default=None, description="At the live edge: age of the newest record")
    max_held_age: Duration | None = Field(
        default=None, description="Guard contiguous: how far the newest record may be ahead of the oldest that is held"
    )
    max_held: int | None = Field(default=None, ge=0, description="Guard contiguous: records that wait in the table")
    loss: Literal["refused", "tolerated"] = Field(
        default="refused",
        description="Whether a batch may be published of which records were gone before they were landed",
    )
    max_gap_age: Duration | None = Field(
        default=None, description="How old the records after offsets that no batch has landed may be; older: red"
    )
    suite: str | None = Field(default=None, pattern=r"^[\w.-]+\.ya?ml$", description="A file in expectations/")
