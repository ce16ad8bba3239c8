"""Exactly one JSON object in a text, by Spark's own parser: strict, and without a UDF."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

LARGEST = 16_000_000
"""Bytes of a text that is parsed; a VARIANT holds no more than 16 MiB."""
_STRICT = {"allowSingleQuotes": "false", "allowNonNumericNumbers": "false"}
_END = f"end_{secrets.token_hex(8)}"
"""A name that no text can know."""


_BOM = "\ufeff"
HALF = "\ufdd0"
"""In a parsed key, before the four digits of half a surrogate pair: such a text is none (`key_as_parsed`)."""
_ESCAPE, _BACKSLASH = "\ufdd2", "\ufdd1"
"""Letters for what is put aside meanwhile: noncharacters, which no text has."""
_DIGITS = "[0-9a-fA-F]{2}"
_PAIR = rf"\\u([dD][89abAB]{_DIGITS})\\u([dD][c-fC-F]{_DIGITS})"
_HALF = rf"\\u([dD][89a-fA-F]{_DIGITS})"


def without_mark(text: Column) -> Column:
    """A text without the byte order mark that it may begin with (RFC 8259, section 8.1)."""
    return F.when(text.startswith(_BOM), F.substring(text, 2, LARGEST)).otherwise(text)


def has_escaped_surrogates(text: Column) -> Column:
    """Whether a JSON text has an escape of a surrogate: of a pair, or of half a pair."""
    return F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))


def without_half_pairs(text: Column, mark: str) -> Column:
    """A JSON text in which each escape of half a surrogate pair (`\\ud83d` alone) is `mark` and the four digits.

    No UTF-8 text has half a pair, and Spark's parser makes a question mark of it. To be asked of few texts
    (`has_escaped_surrogates`): it goes over them five times.
    """
    text = F.replace(text, F.lit("\\\\"), F.lit(_BACKSLASH))  # an escaped backslash begins no escape
    text = F.regexp_replace(text, _PAIR, f"{_ESCAPE}$1{_ESCAPE}$2")
    text = F.regexp_replace(text, _HALF, f"{mark}$1")
    return F.replace(F.replace(text, F.lit(_ESCAPE), F.lit("\\u")), F.lit(_BACKSLASH), F.lit("\\\\"))


def key_as_parsed(text: Column) -> Column:
    """A JSON text as a key is parsed: without a byte order mark, and with `HALF` before the digits of half a surrogate
    pair. Null where it has such a half, and letters that would be taken for those put aside."""
    plain = without_mark(text)
    own = reduce(Column.__or__, (F.contains(plain, F.lit(letter)) for letter in (HALF, _ESCAPE, _BACKSLASH)))
    return F.when(has_escaped_surrogates(plain), F.when(~own, without_half_pairs(plain, HALF))).otherwise(plain)


def path_to(names: Iterable[str]) -> str:
    """Spark's JSON path to what lies below an object, by its names.

    `onefold.dataset.names` refuses the few that it cannot say.
    """
    return "$" + "".join(map(_step, names))


def _step(name: str) -> str:
    if not {".", "["} & {*name}:
        return f".{name}"
    return f'["{name}"]' if "'" in name else f"['{name}']"


def one_object(records: DataFrame, text: Column, fields: Mapping[str, str], name: str) -> DataFrame:
    """Add `name`: a struct of the `fields` (name to type) of a text that is exactly one JSON object, else null.

    Its fields are called `f0`, `f1`, …: to Spark names that differ in case are the same.
    Of duplicate names the last counts; a field that is absent is null, and in a VARIANT field a JSON null is a
    value. The parser ignores what follows a value, so the text is parsed as the first of two objects in an
    array: junk behind it breaks the array, a bracket of its own takes our second object out of it, and more
    objects put it elsewhere.
    """
    wrapped, array = f"{name}_text", f"{name}_array"
    objects = F.concat(F.lit("["), text, F.lit(f',{{"{_END}":true}}]'))
    given = ", ".join(f"{quoted(field)} {kind}" for field, kind in fields.items())
    columns = ", ".join(f"f{number} {kind}" for number, kind in enumerate(fields.values()))
    parsed = F.from_json(wrapped, f"array<struct<{given}, {_END} boolean>>", _STRICT)
    parsed = parsed.cast(f"array<struct<{columns}, {_END} boolean>>")
    # Asked for twice, so that the text is put together in compiled code before the parser gets it.
    opened = records.withColumn(wrapped, objects).withColumn(array, F.when(F.col(wrapped).isNotNull(), parsed))
    alone = (F.size(array) == 2) & F.get(array, F.lit(1))[_END]
    return opened.withColumn(name, F.when(alone, F.get(array, F.lit(0)))).drop(wrapped, array)


def quoted(name: str) -> str:
    """A name as Spark's types have it."""
    return "`" + name.replace("`", "``") + "`"


def one_value(records: DataFrame, text: Column, name: str) -> DataFrame:
    """Add `name`: VARIANT of a text that is exactly one JSON value of any kind, else null."""
    array = f"{name}_array"
    parsed = records.withColumn(array, F.try_parse_json(F.concat(F.lit("["), text, F.lit("]"))))
    alone = F.try_variant_get(array, "$[1]", "variant").isNull()
    whole = F.when(F.contains(text, F.lit("]")), is_within(text)).otherwise(F.lit(True))
    return parsed.withColumn(name, F.when(alone & whole, F.try_variant_get(array, "$[0]", "variant"))).drop(array)


def is_within(text: Column) -> Column:
    """Whether a text can be a member of a JSON object: it closes no bracket that it did not open."""
    return F.try_parse_json(F.concat(F.lit('{"v":'), text, F.lit("}"))).isNotNull()
