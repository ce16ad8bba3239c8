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
"""In a parsed text, before the four digits of half a surrogate pair: such a text is none (`as_parsed`)."""
EXPONENT = "\ufdd4"
"""In a parsed text, before the digits of a number with an exponent or more than 38 digits, which is a string
there (`as_parsed`)."""
_ESCAPE, _BACKSLASH, _QUOTE = "\ufdd2", "\ufdd1", "\ufdd3"
"""Letters for what is put aside meanwhile: noncharacters, which no text has."""
_LONG = r"(?<=[0-9.]{39})"
"""Behind a number with more digits than VARIANT's decimals have (38)."""
_HAS_EXPONENT = rf"[:\[,]\s*+-?[0-9]++(\.[0-9]++)?+([eE][-+]?[0-9]|{_LONG})"
_EXPONENT = rf"(?<![\w.+-])-?(0|[1-9][0-9]*+)(\.[0-9]++)?+([eE][-+]?[0-9]++|{_LONG})(?![\w.+-])"
"""A number as JSON has it: what is none stays as it is, and is refused."""
_PARTS = r"^-?(\d++)(?:\.(\d++))?+[eE]([+-]?\d{1,3})\z"
"""Of a number with an exponent: what is before the point, behind it, and the exponent."""
_ESCAPED_MARK = rf"\\u(?i:{ord(EXPONENT):04x})"
_PLAIN_NUMBERS = (
    (rf'"{EXPONENT}(-?)0+(?=\d)', f'"{EXPONENT}$1'),
    (rf'"{EXPONENT}-?0(?:\.0++)?+"', "0"),
    (rf'"{EXPONENT}(-?\d++)(?:\.0++)?+"', "$1"),
    (rf'"{EXPONENT}(-?\d++\.\d*?[1-9])0*+"', "$1"),
    (rf'"{EXPONENT}([^"]++)"', "$1"),
)
"""What makes numbers of strings behind `EXPONENT`: zeros in front go, those at the end, and then the quotes."""
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


def as_parsed(text: Column) -> Column:
    """A JSON text as a value is parsed: without a byte order mark, with `HALF` before the digits of half a surrogate
    pair, and with each number that has an exponent or more than 38 digits as a string of its digits behind `EXPONENT`:
    Spark's parser makes a double of such a number. Null where the text has such letters of its own, too."""
    plain = without_mark(text)
    marked = F.when(~has_own_letters(plain), _with_exponents(plain))
    return F.when(_is_odd(plain), marked).otherwise(plain)


def key_as_parsed(text: Column) -> Column:
    """The same of a key, whose numbers with an exponent are no parts of a row's key."""
    plain = without_mark(text)
    marked = F.when(~has_own_letters(plain), without_half_pairs(plain, HALF))
    return F.when(has_escaped_surrogates(plain), marked).otherwise(plain)


def has_own_letters(text: Column) -> Column:
    """Whether a text has an escape of a surrogate or a number with an exponent, and letters that `as_parsed` would take
    for its own."""
    own = [F.contains(text, F.lit(letter)) for letter in (HALF, _ESCAPE, _BACKSLASH, _QUOTE, EXPONENT)]
    return _is_odd(text) & reduce(Column.__or__, own)


def _is_odd(text: Column) -> Column:
    return has_escaped_surrogates(text) | text.rlike(_HAS_EXPONENT)


def _with_exponents(text: Column) -> Column:
    """Where quotes that begin or end a string are all that is left of quotes, each second part between them is none."""
    text = F.replace(without_half_pairs(text, HALF), F.lit("\\\\"), F.lit(_BACKSLASH))
    parts = F.split(F.replace(text, F.lit('\\"'), F.lit(_QUOTE)), '"', -1)

    def marked(part: Column, index: Column) -> Column:
        return F.when(index % 2 == 0, F.regexp_replace(part, _EXPONENT, f'"{EXPONENT}$0"')).otherwise(part)

    def spelled(piece: Column, index: Column) -> Column:
        number = F.regexp_extract(piece, '^[^"]*+', 0)
        rest = F.substr(piece, F.length(number) + 1)
        return F.when(index > 0, F.concat(digits_of(number), rest)).otherwise(piece)

    joined = F.array_join(F.transform(parts, marked), '"')
    plain = F.array_join(F.transform(F.split(joined, EXPONENT, -1), spelled), EXPONENT)
    return F.replace(F.replace(plain, F.lit(_QUOTE), F.lit('\\"')), F.lit(_BACKSLASH), F.lit("\\\\"))


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


def is_one_value(text: Column) -> Column:
    """Whether a text is exactly one JSON value."""
    array = F.try_parse_json(F.concat(F.lit("["), text, F.lit("]")))
    alone = (
        F.try_variant_get(array, "$[0]", "variant").isNotNull() & F.try_variant_get(array, "$[1]", "variant").isNull()
    )
    return alone & is_within(text)


def is_within(text: Column) -> Column:
    """Whether a text can be a member of a JSON object: it closes no bracket that it did not open."""
    return F.try_parse_json(F.concat(F.lit('{"v":'), text, F.lit("}"))).isNotNull()


def may_have_mark(text: Column) -> Column:
    """Whether a string of a JSON text may begin with `EXPONENT`, as it is or escaped: `canonical_json` would take it
    for a number."""
    return F.contains(text, F.lit(EXPONENT)) | (F.contains(text, F.lit("\\u")) & text.rlike(_ESCAPED_MARK))


def canonical_json(value: Column) -> Column:
    """The one JSON text of a VARIANT whose text was put in order by `as_parsed`: no space, names in the order of their
    UTF-16 units, numbers with all digits that count and without an exponent. One with an exponent of more than three
    digits stays as it is."""
    text = F.to_json(value)
    marked = text
    for pattern, replacement in _PLAIN_NUMBERS:
        marked = F.regexp_replace(marked, pattern, replacement)
    return F.when(F.contains(text, F.lit(EXPONENT)), marked).otherwise(text)


def digits_of(number: Column) -> Column:
    """A number's digits, without an exponent."""
    return F.when(number.rlike(_PARTS), _spelled_out(number)).otherwise(number)


def _spelled_out(number: Column) -> Column:
    """`1.5e2` as `150`."""
    whole, fraction, exponent = (F.regexp_extract(number, _PARTS, group) for group in (1, 2, 3))
    digits, place = F.concat(whole, fraction), F.length(whole) + exponent.try_cast("int")
    missing = place - F.length(digits)
    spelled = (
        F.when(place <= 0, F.concat(F.lit("0."), F.repeat(F.lit("0"), -place), digits))
        .when(missing >= 0, F.concat(digits, F.repeat(F.lit("0"), missing)))
        .otherwise(F.concat(F.substr(digits, F.lit(1), place), F.lit("."), F.substr(digits, place + 1)))
    )
    return F.concat(F.when(number.startswith("-"), "-").otherwise(""), spelled)
