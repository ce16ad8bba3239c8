"""Messages that a schema is needed for: each becomes JSON that says the same, which is then read by the strict rules of
JSON. So one logical stream has the same rows and verdicts in every format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.records import envelope as E
from onefold.values import json
from onefold.values.arrow_functions import ToJson, decoded, fields_of
from onefold.values.columns import Fields

_KEY = "_key_decoded"
"""The key as JSON (`onefold.values.arrow_functions.DECODED`)."""


def never() -> Column:
    """Of a format that has no value which means NULL."""
    return F.lit(False)


class MessageValues(json.ValueReader, ABC):
    """`onefold.values.format.ReadsValues` for one message a value."""

    @abstractmethod
    def decoder(self, dataset: Dataset) -> Callable[[], ToJson]:
        """What makes, once a task, what turns messages into JSON."""

    def read(self, values: Column) -> Column:
        """The JSON of each message is read by the rules of JSON."""
        return fields_of(values, Fields.of(self.dataset), "value", self.decoder(self.dataset))


class MessageKeys(json.KeyReader, ABC):
    """`onefold.values.format.ReadsKeys` for one message a key."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset)
        self._dataset = dataset

    @abstractmethod
    def decoder(self, dataset: Dataset) -> Callable[[], ToJson]:
        """What makes, once a task, what turns messages into JSON."""

    @property
    def json(self) -> Column:
        """The key as JSON."""
        return F.col(_KEY)["json"]

    def opened(self, records: DataFrame) -> DataFrame:
        """With the key as JSON, as VARIANT and as text."""
        return super().opened(records.withColumn(_KEY, decoded(F.col(E.KEY_BYTES), "key", self.decoder(self._dataset))))

    def unreadable(self, path: Path) -> Column:
        """Why the key, or a part of it, cannot be read."""
        return F.coalesce(F.concat(F.lit("the key: "), F.col(_KEY)["problem"]), super().unreadable(path))

    def reason(self) -> Column:
        """That its schema is unknown, or that the key is no message of it."""
        return F.coalesce(F.col(_KEY)["reason"], super().reason())
