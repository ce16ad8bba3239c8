"""Protobuf: each message by the schema of a file."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column

from onefold.dataset import Dataset
from onefold.formats.protobuf import message_reader
from onefold.values import messages, schema_file


class ValueReader(messages.MessageValues):
    """`onefold.values.format.ReadsValues` for one Protobuf message a value."""

    def decoder(self, dataset: Dataset) -> Callable[[Column], Column]:
        """By the schema that the file names."""
        return schema_file.decoder(dataset, "value", dataset.read_fields, message_reader)

    def is_null(self) -> Column:
        """Never: no message is null."""
        return messages.never()


class KeyReader(messages.MessageKeys):
    """`onefold.values.format.ReadsKeys` for one Protobuf message a key."""

    def decoder(self, dataset: Dataset) -> Callable[[Column], Column]:
        """By the schema that the file names."""
        return schema_file.decoder(dataset, "key", {}, message_reader)
