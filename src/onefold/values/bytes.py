"""Keys that may be any bytes: no expression asks for them, so there is nothing to read."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import Path
from onefold.values.format import KEY_TEXT
from onefold.vocabulary import Reason


class KeyReader:
    """`onefold.values.format.ReadsKeys` for bytes."""

    def __init__(self, dataset: Dataset) -> None:
        del dataset

    def opened(self, records: DataFrame) -> DataFrame:
        """With no text."""
        return records.withColumn(KEY_TEXT, F.lit(None).cast("string"))

    def unreadable(self, path: Path) -> Column:
        """Nothing is asked for, so nothing is unreadable."""
        del path
        return F.lit(None).cast("string")

    def reason(self) -> Column:
        """That the key is not in its format."""
        return F.lit(Reason.UNDECODABLE)
