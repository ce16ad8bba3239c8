"""Avro: by one schema, of a file, or each message by the schema that it names of a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from onefold.dataset import Dataset
from onefold.dataset.types import FieldType
from onefold.dataset.writer_schema import WriterSchema
from onefold.errors import UsageError
from onefold.formats.avro import message_reader
from onefold.formats.structured_json import FormatError
from onefold.values import messages, registered
from onefold.values.registered import Read
from onefold.vocabulary import Reason


class ValueReader(messages.MessageValues):
    """`onefold.values.format.ReadsValues` for one Avro record a value."""

    def decoder(self, dataset: Dataset) -> Callable[[Column], Column]:
        """By the schema that the file or the message names."""
        return _decoder(dataset, "value", dataset.read_fields)

    def is_null(self) -> Column:
        """Never: its schema is a record's."""
        return messages.never()


class KeyReader(messages.MessageKeys):
    """`onefold.values.format.ReadsKeys` for one Avro value a key."""

    def decoder(self, dataset: Dataset) -> Callable[[Column], Column]:
        """By the schema that the file or the message names."""
        return _decoder(dataset, "key", {})


def _decoder(dataset: Dataset, section: str, fields: Mapping[str, FieldType]) -> Callable[[Column], Column]:
    if section not in dataset.registries:
        return _by_file(dataset, section, fields)

    def reader_of(schema: WriterSchema | None) -> Read:
        assert schema
        return message_reader(schema.text, fields, [part.text for part in schema.references])

    return registered.decoder(dataset, section, reader_of)


def _by_file(dataset: Dataset, section: str, fields: Mapping[str, FieldType]) -> Callable[[Column], Column]:
    """A function of a column of messages, all by the schema of a file.

    Raises:
        UsageError: messages of the schema cannot be read.
    """
    schema = dataset.schemas[section]
    try:
        message_reader(schema, fields)
    except FormatError as error:
        file = dataset.schema_files[section]
        raise UsageError(f"{dataset.name}: {section}.schema {file}: {error}. Nothing was changed.") from None

    def decode(batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
        read = message_reader(schema, fields)
        for batch in batches:
            yield pa.array([_decoded(read, data) for data in batch.to_pylist()], registered.ARROW)

    function: Any = arrow_udf(decode, registered.DECODED, ArrowUDFType.SCALAR_ITER)
    by_column: Callable[[Column], Column] = function
    return by_column


def _decoded(read: Read, data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        return {"json": read(data), "problem": None, "reason": None}
    except FormatError as error:
        return {"json": None, "problem": str(error), "reason": Reason.UNDECODABLE.value}
