"""Messages that are all written by one schema, which a file of the dataset has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from onefold.dataset import Dataset
from onefold.dataset.types import FieldType
from onefold.errors import UsageError
from onefold.formats.structured_json import FormatError, TooLargeError
from onefold.values.registered import ARROW, DECODED, Read
from onefold.vocabulary import Reason

ReaderOf = Callable[[str, Mapping[str, FieldType]], Read]
"""The text of a schema and the declared fields to what reads messages."""


def decoder(
    dataset: Dataset, section: str, fields: Mapping[str, FieldType], reader_of: ReaderOf
) -> Callable[[Column], Column]:
    """A function of a column of messages that gives `DECODED`, decoding Arrow batches in Python.

    Raises:
        UsageError: messages of the schema cannot be read.
    """
    schema = dataset.schemas[section]
    try:
        reader_of(schema, fields)
    except FormatError as error:
        file = dataset.schema_files[section]
        raise UsageError(f"{dataset.name}: {section}.schema {file}: {error}. Nothing was changed.") from None

    def decode(batches: Iterable[pa.Array]) -> Iterator[pa.Array]:
        read = reader_of(schema, fields)
        for batch in batches:
            yield pa.array([_decoded(read, data) for data in batch.to_pylist()], ARROW)

    function: Any = arrow_udf(decode, DECODED, ArrowUDFType.SCALAR_ITER)
    by_column: Callable[[Column], Column] = function
    return by_column


def _decoded(read: Read, data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        return {"json": read(data), "problem": None, "reason": None}
    except TooLargeError as error:
        return {"json": None, "problem": str(error), "reason": Reason.TOO_LARGE.value}
    except FormatError as error:
        return {"json": None, "problem": str(error), "reason": Reason.UNDECODABLE.value}
