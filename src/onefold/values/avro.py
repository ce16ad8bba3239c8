"""Avro: each message becomes the JSON that says the same (`onefold.formats.structured_json`), which is then read by the
strict rules of JSON. So one logical stream has the same rows and verdicts in both formats."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import ArrowUDFType, arrow_udf

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.dataset.types import FieldType
from onefold.errors import UsageError
from onefold.formats.avro import message_reader
from onefold.formats.structured_json import FormatError
from onefold.records import envelope as E
from onefold.values import json
from onefold.values.rejection import rejected
from onefold.vocabulary import Reason

_VALUE, _KEY = "_value_decoded", "_key_decoded"
"""struct<json: binary, problem: string> of a message: one of the two, none of a null."""
_DECODED, _ARROW = "struct<json: binary, problem: string>", pa.struct([("json", pa.binary()), ("problem", pa.string())])


class ValueReader(json.ValueReader):
    """`onefold.values.format.ReadsValues` for one Avro record a value."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset)
        self._decode = _decoder(dataset, "value", dataset.read_fields)

    @property
    def json(self) -> Column:
        """The record as JSON."""
        return F.col(_VALUE)["json"]

    @property
    def scratch(self) -> list[str]:
        """What was decoded, too."""
        return [_VALUE, *super().scratch]

    def opened(self, records: DataFrame) -> DataFrame:
        """With the record as JSON, and its fields."""
        return super().opened(records.withColumn(_VALUE, self._decode(F.col(E.VALUE_BYTES))))

    def is_null(self) -> Column:
        """Never: its schema is a record's."""
        return F.lit(False)

    def unusable(self) -> Column:
        """Why the value is not exactly one record of the schema."""
        problem = F.col(_VALUE)["problem"]
        return F.when(problem.isNotNull(), rejected(Reason.UNDECODABLE, problem)).otherwise(super().unusable())


class KeyReader(json.KeyReader):
    """`onefold.values.format.ReadsKeys` for one Avro value a key."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset)
        self._decode = _decoder(dataset, "key", {})

    @property
    def json(self) -> Column:
        """The key as JSON."""
        return F.col(_KEY)["json"]

    def opened(self, records: DataFrame) -> DataFrame:
        """With the key as JSON, as VARIANT and as text."""
        return super().opened(records.withColumn(_KEY, self._decode(F.col(E.KEY_BYTES))))

    def unreadable(self, path: Path) -> Column:
        """Why the key, or a part of it, cannot be read."""
        return F.coalesce(F.concat(F.lit("the key: "), F.col(_KEY)["problem"]), super().unreadable(path))


def _decoder(dataset: Dataset, section: str, fields: Mapping[str, FieldType]) -> Any:
    """A function of a binary column that gives `_DECODED`, decoding Arrow batches in Python.

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
            yield pa.array([_decoded(read, data) for data in batch.to_pylist()], _ARROW)

    return arrow_udf(decode, _DECODED, ArrowUDFType.SCALAR_ITER)


def _decoded(read: Callable[[bytes], bytes], data: bytes | None) -> dict[str, Any] | None:
    if data is None:
        return None
    try:
        return {"json": read(data), "problem": None}
    except FormatError as error:
        return {"json": None, "problem": str(error)}
