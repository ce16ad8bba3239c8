"""Keys that are text in UTF-8."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.records import envelope as E
from onefold.values.format import KEY_TEXT
from onefold.values.rejection import not_utf8
from onefold.vocabulary import Reason


class KeyReader:
    """`onefold.values.format.ReadsKeys` for text."""

    def __init__(self, dataset: Dataset) -> None:
        del dataset

    def opened(self, records: DataFrame) -> DataFrame:
        """With the key as text; null where it is not UTF-8."""
        return records.withColumn(KEY_TEXT, F.try_validate_utf8(F.col(E.KEY_BYTES).cast("string")))

    def unreadable(self, path: Path) -> Column:
        """Why the key is no text."""
        del path  # it has no parts
        return not_utf8("the key", F.col(E.KEY_BYTES))

    def reason(self) -> Column:
        """That the key is not in its format."""
        return F.lit(Reason.UNDECODABLE)
