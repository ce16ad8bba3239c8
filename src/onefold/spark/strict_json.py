"""Exactly one JSON value in a text, as VARIANT: strict, and by Spark's own parser."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

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
    return F.when(text.startswith(_BOM), F.substr(text, F.lit(2))).otherwise(text)


def _has_escaped_surrogates(text: Column) -> Column:
    """Whether a JSON text has an escape of a surrogate: of a pair, or of half a pair."""
    return F.contains(text, F.lit("\\ud")) | F.contains(text, F.lit("\\uD"))


def _without_half_pairs(text: Column) -> Column:
    """A JSON text in which each escape of half a surrogate pair (`\\ud83d` alone) is `HALF` and the four digits.

    No UTF-8 text has half a pair, and Spark's parser makes a question mark of it. To be asked of few texts
    (`_has_escaped_surrogates`): it goes over them five times.
    """
    text = F.replace(text, F.lit("\\\\"), F.lit(_BACKSLASH))  # an escaped backslash begins no escape
    text = F.regexp_replace(text, _PAIR, f"{_ESCAPE}$1{_ESCAPE}$2")
    text = F.regexp_replace(text, _HALF, f"{HALF}$1")
    return F.replace(F.replace(text, F.lit(_ESCAPE), F.lit("\\u")), F.lit(_BACKSLASH), F.lit("\\\\"))


def key_as_parsed(text: Column) -> Column:
    """A JSON text as a key is parsed: without a byte order mark, and with `HALF` before the digits of half a surrogate
    pair. Null where it has such a half, and letters that would be taken for those put aside."""
    plain = without_mark(text)
    own = reduce(Column.__or__, (F.contains(plain, F.lit(letter)) for letter in (HALF, _ESCAPE, _BACKSLASH)))
    return F.when(_has_escaped_surrogates(plain), F.when(~own, _without_half_pairs(plain))).otherwise(plain)


def path_to(names: Iterable[str]) -> str:
    """Spark's JSON path to what lies below an object, by its names.

    `onefold.dataset.names` refuses the few that it cannot say.
    """
    return "$" + "".join(map(_step, names))


def _step(name: str) -> str:
    if not {".", "["} & {*name}:
        return f".{name}"
    return f'["{name}"]' if "'" in name else f"['{name}']"


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
