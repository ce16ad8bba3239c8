"""Parts of a Kafka key, which is parsed as VARIANT."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.spark.strict_json import HALF, path_to
from onefold.values.format import KEY_VARIANT


def part_of_key(*names: str) -> tuple[Column, Column]:
    """The JSON type and the text of a part of the key; of all of it, if no part is named."""
    part = F.try_variant_get(KEY_VARIANT, path_to(names), "variant")
    return F.schema_of_variant(part), F.try_variant_get(KEY_VARIANT, path_to(names), "string")


def unwrapped_key() -> Column:
    """The key within `{schema, payload}`, else the key."""
    key = F.col(KEY_VARIANT)
    names = F.map_keys(F.try_variant_get(key, "$", "map<string,variant>"))
    is_wrapper = F.array_contains(names, "payload") & (
        F.size(F.array_except(names, F.array(*map(F.lit, _WRAPPER)))) == 0
    )
    return F.when(is_wrapper, F.try_variant_get(key, "$.payload", "variant")).otherwise(key)


_WRAPPER = ("schema", "payload")


def scalar_text(kind: Column, text: Column) -> Column:
    """The text of a JSON string or of a number without an exponent; null elsewhere."""
    scalar = kind.isin("STRING", "BIGINT") | kind.startswith("DECIMAL")
    return F.when(scalar & ~F.contains(text, F.lit(HALF)), text)
