"""Exactly one JSON object in a text, by Spark's own parser: strict, and without a UDF."""

from __future__ import annotations

import secrets

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LARGEST = 16_000_000
"""Bytes of a text that is parsed; a VARIANT holds no more than 16 MiB."""
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_END = f"end_{secrets.token_hex(8)}"
"""A name that no text can know."""


def one_object(records: DataFrame, text: Column, fields: str, name: str) -> DataFrame:
    """Add `name`: struct<`fields`> of a text that is exactly one JSON object, else null.

    Of duplicate names the last counts; a field that is absent is null, and in a VARIANT field a JSON null is a
    value. The parser ignores what follows a value, so the text is parsed as the first of two objects in an
    array: junk behind it breaks the array, a bracket of its own takes our second object out of it, and more
    objects put it elsewhere.
    """
    wrapped, array = f"{name}_text", f"{name}_array"
    objects = F.concat(F.lit("["), text, F.lit(f',{{"{_END}":true}}]'))
    parsed = F.from_json(wrapped, f"array<struct<{fields}, {_END}: boolean>>", _STRICT)
    # Asked for twice, so that the text is put together in compiled code before the parser gets it.
    opened = records.withColumn(wrapped, objects).withColumn(array, F.when(F.col(wrapped).isNotNull(), parsed))
    alone = (F.size(array) == 2) & F.get(array, F.lit(1))[_END]
    return opened.withColumn(name, F.when(alone, F.get(array, F.lit(0)))).drop(wrapped, array)


def one_value(records: DataFrame, text: Column, name: str) -> DataFrame:
    """Add `name`: VARIANT of a text that is exactly one JSON value of any kind, else null."""
    array = f"{name}_array"
    parsed = records.withColumn(array, F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))))
    alone = F.try_variant_get(array, "$[1]", "variant").isNull()
    whole = F.when(F.contains(text, F.lit("]")), is_within(text)).otherwise(F.lit(True))
    return parsed.withColumn(name, F.when(alone & whole, F.try_variant_get(array, "$[0]", "variant"))).drop(array)


def is_one_value(text: Column) -> Column:
    """Whether a text is exactly one JSON value."""
    array = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    alone = (
        F.try_variant_get(array, "$[0]", "variant").isNotNull() & F.try_variant_get(array, "$[1]", "variant").isNull()
    )
    return alone & is_within(text)


def is_within(text: Column) -> Column:
    """Whether a text can stand as a member of a JSON object: it closes no bracket that it did not open."""
    return F.try_parse_json(F.concat(F.lit('{"v":'), text, F.lit("}"))).isNotNull()
