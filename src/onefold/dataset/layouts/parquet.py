"""Layout parquet: Parquet with the columns that Kafka has, a record a row, with its offset."""

from __future__ import annotations

import re

from pydantic import Field

from onefold.dataset.base import Model
from onefold.dataset.layouts.layout import Layout


class Columns(Model):
    """Which columns of a Parquet export are what Kafka had; by default they are called as Spark's source calls them."""

    topic: str = Field(default="topic", min_length=1, description="Text")
    partition: str = Field(default="partition", min_length=1, description="A whole number")
    offset: str = Field(default="offset", min_length=1, description="A whole number")
    timestamp: str | None = Field(
        default="timestamp", min_length=1, description="A timestamp, or whole milliseconds since 1970; null: none"
    )
    key: str | None = Field(default="key", min_length=1, description="Binary or text; null: none")
    value: str = Field(default="value", min_length=1, description="Binary, text, or a struct")
    headers: str | None = Field(
        default="headers", min_length=1, description="A list of structs of key and value, or a map; null: none"
    )

    def required(self, role: str) -> bool:
        """Whether an object must have this column: all but timestamp, key and headers under their usual names."""
        usual = type(self).model_fields[role].default
        return role in ("topic", "partition", "offset", "value") or getattr(self, role) != usual


class ParquetOptions(Model):
    """The keys that this layout adds to `source.exports`."""

    columns: Columns = Field(default=Columns(), description="Layout parquet: which column is what")


class ParquetLayout(Layout):
    """Objects with any name that ends in `.parquet`."""

    name = "parquet"
    names = re.compile(r"\.parquet$")
    options = ParquetOptions


PARQUET = ParquetLayout()
