"""JSON behind the id of its schema in a registry, as JSON Schema serializers write it: decoded as JSON. A value without
an id is JSON, too."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.writer_schema import WriterSchema
from onefold.formats.wire import MessagePlace
from onefold.records import envelope as E
from onefold.values import messages
from onefold.values.arrow_functions import Read, ToJson, header_of
from onefold.values.registered import decoder

_SHORT = 64
"""Bytes of a value that is looked at for the word null."""


class ValueReader(messages.MessageValues):
    """`onefold.values.format.ReadsValues` for one JSON object a value."""

    def decoder(self, dataset: Dataset) -> Callable[[], ToJson]:
        """The JSON behind the id."""
        return decoder(dataset, "value", _as_it_is, bare=bytes)

    def is_null(self) -> Column:
        """Whether the word null is behind the id."""
        data, first = F.col(E.VALUE_BYTES), F.substring(E.VALUE_BYTES, 1, 1)
        numbered = F.when(F.substring(data, 2, 4) == F.lit(bytes(4)), 9).otherwise(5)
        behind = F.when(header_of("value").isNotNull(), 0).when(first == F.lit(b"\x00"), numbered).otherwise(0)
        text = F.trim(F.substr(data, behind + 1).cast("string"), F.lit(" \t\r\n"))
        return F.coalesce((F.octet_length(data) < _SHORT) & (text == "null"), F.lit(False))


class KeyReader(messages.MessageKeys):
    """`onefold.values.format.ReadsKeys` for one JSON value a key."""

    def decoder(self, dataset: Dataset) -> Callable[[], ToJson]:
        """The JSON behind the id."""
        return decoder(dataset, "key", _as_it_is, bare=bytes)


def _as_it_is(name: str, schema: WriterSchema, place: MessagePlace) -> Read:
    del name, schema, place
    return bytes
