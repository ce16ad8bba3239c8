"""The seam between bytes and declared fields: what a value format answers, and which module answers for it.

A format has a row in `onefold.dataset.value_formats` and a module of its name here with a class `ValueReader`, a class
`KeyReader`, or both. Filter, deletes, and which reason comes first are the same for all (`onefold.values.decode`).
"""

from __future__ import annotations

import importlib
from typing import Protocol

from pyspark.sql import Column, DataFrame

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path

SCHEMA_NAME = "_schema_name"
"""Where an expression asks for `schema.name`: the name of the schema that the value was written by; null where that is
unknown."""
LEFT_UNREAD = "_left_unread"
"""Where the filter asks for `schema.name`: whether that, headers and the log alone say that the record is filtered."""
ENVELOPE = "_envelope"
"""Where an expression asks for `envelope.NAME`: a struct of texts by name, `source.table`; null where one is absent."""
KEY_VARIANT, KEY_TEXT = "_key_variant", "_key_text"
"""What `ReadsKeys.opened` adds: the key as VARIANT, where it has parts, and the key as text."""


class ReadsValues(Protocol):
    """The values of one dataset's records. Columns are those of `opened`."""

    null: str
    """What a value that means NULL is called in a message."""

    def __init__(self, dataset: Dataset) -> None: ...

    def opened(self, records: DataFrame) -> DataFrame:
        """The records with the columns that the other answers look at."""

    @property
    def scratch(self) -> list[str]:
        """The columns that `opened` added, to be dropped in the end."""

    def field(self, name: str) -> Column:
        """A field as its declared type, exactly; null where the record has none, or none of that type."""

    def attributes(self) -> Column:
        """`ENVELOPE`, where the dataset asks for it."""

    def is_null_within(self) -> Column:
        """Whether the value is an envelope around null."""

    def problem(self, name: str) -> Column:
        """Why a field cannot be used, a `REJECTED_TYPE` struct; null where it can. One that the key has, too, may be
        absent."""

    def is_usable(self) -> Column:
        """Whether the value is one record with fields."""

    def unusable(self) -> Column:
        """Why the value is not one record with fields, a `REJECTED_TYPE` struct, where `is_usable` is false."""

    def unknown_names(self) -> Column:
        """The names at the top of the value that the file does not know, an array of strings."""

    def is_null(self) -> Column:
        """Whether the value is there and means NULL. Asks the envelope alone."""


class ReadsKeys(Protocol):
    """The Kafka keys of one dataset's records, where expressions ask for them."""

    def __init__(self, dataset: Dataset) -> None: ...

    def opened(self, records: DataFrame) -> DataFrame:
        """The records with `KEY_TEXT` and, where the key has parts, `KEY_VARIANT`."""

    def unreadable(self, path: Path) -> Column:
        """Why what a path names of a key is there and cannot be read, as text for people; else null."""

    def reason(self) -> Column:
        """The reason of a record whose key cannot be read."""


def value_reader(dataset: Dataset) -> ReadsValues:
    """The reader of a dataset's values."""
    reader: ReadsValues = _module(dataset.value.format).ValueReader(dataset)
    return reader


def key_reader(dataset: Dataset) -> ReadsKeys:
    """The reader of a dataset's keys."""
    reader: ReadsKeys = _module(dataset.key.format).KeyReader(dataset)
    return reader


def _module(name: str):  # type: ignore[no-untyped-def]
    return importlib.import_module(f"onefold.values.{name}")
