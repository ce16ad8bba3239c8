"""Protobuf: by one schema, of a file, or each message by the schema that it names of a registry."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import Column

from onefold.dataset import Dataset
from onefold.dataset.types import FieldType
from onefold.dataset.writer_schema import WriterSchema
from onefold.formats import registered_protobuf
from onefold.formats.protobuf import message_reader
from onefold.formats.wire import MessagePlace
from onefold.values import messages, registered, schema_file
from onefold.values.arrow_functions import Read, ToJson


class ValueReader(messages.MessageValues):
    """`onefold.values.format.ReadsValues` for one Protobuf message a value."""

    def decoder(self, dataset: Dataset) -> Callable[[], ToJson]:
        """By the schema that the file or the message names."""
        return _decoder(dataset, "value", dataset.read_fields)

    def is_null(self) -> Column:
        """Never: no message is null."""
        return messages.never()


class KeyReader(messages.MessageKeys):
    """`onefold.values.format.ReadsKeys` for one Protobuf message a key."""

    def decoder(self, dataset: Dataset) -> Callable[[], ToJson]:
        """By the schema that the file or the message names."""
        return _decoder(dataset, "key", {})


def _decoder(dataset: Dataset, section: str, fields: Mapping[str, FieldType]) -> Callable[[], ToJson]:
    if section not in dataset.registries:
        return schema_file.decoder(dataset, section, fields, message_reader)
    compiled = registered_protobuf.described(dataset.writer_schemas.get(section, {}))

    def reader_of(name: str, schema: WriterSchema, place: MessagePlace) -> Read:
        del schema
        return registered_protobuf.reader(compiled[name], place, fields)

    return registered.decoder(dataset, section, reader_of)
