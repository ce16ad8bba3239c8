"""Messages that are all written by one schema, which a file of the dataset has."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onefold.dataset import Dataset
from onefold.dataset.types import FieldType
from onefold.errors import UsageError
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import Header
from onefold.values.arrow_functions import Read, ToJson, json_by
from onefold.values.columns import Json

ReaderOf = Callable[[str, Mapping[str, FieldType]], Read]
"""The text of a schema and the declared fields to what reads messages."""


def decoder(
    dataset: Dataset, section: str, fields: Mapping[str, FieldType], reader_of: ReaderOf
) -> Callable[[], ToJson]:
    """What makes, once a task, what turns messages into JSON.

    Raises:
        UsageError: messages of the schema cannot be read.
    """
    schema = dataset.schemas[section]
    try:
        reader_of(schema, fields)
    except FormatError as error:
        file = dataset.schema_files[section]
        raise UsageError(f"{dataset.name}: {section}.schema {file}: {error}. Nothing was changed.") from None

    def made() -> ToJson:
        read = reader_of(schema, fields)

        def to_json(data: bytes | None, header: Header | None) -> Json:
            del header  # the file names the schema
            return None if data is None else json_by(read, data)

        return to_json

    return made
