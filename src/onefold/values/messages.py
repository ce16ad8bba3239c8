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
from onefold.values.format import LEFT_UNREAD
from onefold.values.rejection import rejected

_VALUE, _KEY = "_value_decoded", "_key_decoded"
"""struct<json: binary, problem: string, reason: string> of a message (`onefold.values.registered.DECODED`)."""


def never() -> Column:
    """Of a format that has no value which means NULL."""
    return F.lit(False)


class MessageValues(json.ValueReader, ABC):
    """`onefold.values.format.ReadsValues` for one message a value."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset)
        self._dataset = dataset

    @abstractmethod
    def decoder(self, dataset: Dataset) -> Callable[[Column], Column]:
        """A function of a column of messages that gives `DECODED`."""

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
        data = F.col(E.VALUE_BYTES)
        wanted = F.when(~F.col(LEFT_UNREAD), data) if LEFT_UNREAD in records.columns else data
        return super().opened(records.withColumn(_VALUE, self.decoder(self._dataset)(wanted)))

    def unusable(self) -> Column:
        """Why the value is not exactly one record of its schema."""
        problem, reason = F.col(_VALUE)["problem"], F.col(_VALUE)["reason"]
        return F.when(problem.isNotNull(), rejected(reason, problem)).otherwise(super().unusable())


class MessageKeys(json.KeyReader, ABC):
    """`onefold.values.format.ReadsKeys` for one message a key."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset)
        self._dataset = dataset

    @abstractmethod
    def decoder(self, dataset: Dataset) -> Callable[[Column], Column]:
        """A function of a column of messages that gives `DECODED`."""

    @property
    def json(self) -> Column:
        """The key as JSON."""
        return F.col(_KEY)["json"]

    def opened(self, records: DataFrame) -> DataFrame:
        """With the key as JSON, as VARIANT and as text."""
        return super().opened(records.withColumn(_KEY, self.decoder(self._dataset)(F.col(E.KEY_BYTES))))

    def unreadable(self, path: Path) -> Column:
        """Why the key, or a part of it, cannot be read."""
        return F.coalesce(F.concat(F.lit("the key: "), F.col(_KEY)["problem"]), super().unreadable(path))

    def reason(self) -> Column:
        """That its schema is unknown, or that the key is no message of it."""
        return F.coalesce(F.col(_KEY)["reason"], super().reason())
