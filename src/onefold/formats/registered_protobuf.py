"""Protobuf schemas of a registry: text with what it imports, of which a message says by its place or name which message
of it that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from onefold.dataset.protobuf_schema import comments_on, compile_texts, message_at, message_names, schema_text
from onefold.dataset.types import FieldType
from onefold.dataset.writer_schema import WriterSchema
from onefold.formats.protobuf import message_reader
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import MessagePlace

_MAIN = "onefold_written_by.proto"
"""What the schema itself is called among what it imports."""
Described = bytes | str
"""A set of descriptors; text: why there is none."""


def described(schemas: Mapping[str, WriterSchema], *, comments: bool = False) -> dict[str, Described]:
    """The Protobuf schemas of a registry as descriptors, by id, with `comments` for those who read them. Compiles each
    once a process: for the driver."""
    return {
        name: _described(schema.text, tuple((part.name, part.text) for part in schema.references), comments)
        for name, schema in schemas.items()
        if schema.type in ("", "PROTOBUF")
    }


@lru_cache(maxsize=10_000)
def _described(text: str, references: tuple[tuple[str, str], ...], comments: bool) -> Described:
    try:
        return compile_texts({**dict(references), _MAIN: text}, _MAIN, comments=comments)
    except ValueError as error:
        return str(error)[:300]


def message_of(schema: Described, place: MessagePlace) -> str:
    """The full name of a message.

    Raises:
        FormatError: the schema is none, or has no such message.
    """
    if isinstance(schema, str):
        raise FormatError(f"its schema cannot be read: {schema}")
    try:
        if not isinstance(place, str):
            return message_at(schema, _MAIN, place)
        names = [name for name in message_names(schema, _MAIN) if place in ("", name.rpartition(".")[2])]
    except ValueError as error:
        raise FormatError(str(error)) from None
    if len(names) != 1:
        raise FormatError(f"its schema has no message {place!r}" if place else "it does not say which message it is")
    return names[0]


def reader(schema: Described, place: MessagePlace, fields: Mapping[str, FieldType]) -> Callable[[bytes], bytes]:
    """What turns messages of a place into JSON (`onefold.formats.protobuf`).

    Raises:
        FormatError: there are none, or they cannot be read.
    """
    return message_reader(text_of(schema, place), fields)


def text_of(schema: Described, place: MessagePlace) -> str:
    """The text of a message's schema (`onefold.dataset.protobuf_schema`).

    Raises:
        FormatError: there is none.
    """
    return text_of_named(schema, message_of(schema, place))


def texts_at_top(schema: Described) -> list[str]:
    """The texts of all messages at the top of a schema's file, in its order, at least one.

    Raises:
        FormatError: there is none.
    """
    if isinstance(schema, str):
        raise FormatError(f"its schema cannot be read: {schema}")
    if names := message_names(schema, _MAIN):
        return [text_of_named(schema, name) for name in names]
    raise FormatError("its schema has no message")


def text_of_named(schema: Described, name: str) -> str:
    """The same of the message of a full name.

    Raises:
        FormatError: there is none.
    """
    if isinstance(schema, str):
        raise FormatError(f"its schema cannot be read: {schema}")
    try:
        return schema_text(schema, name, _MAIN)
    except ValueError as error:
        raise FormatError(f"its schema cannot be read: {error}") from None


def comments_of(schema: Described, name: str) -> dict[str, str]:
    """The comments on a message, by an empty name, and on its fields, by theirs."""
    return {} if isinstance(schema, str) else comments_on(schema, name)
