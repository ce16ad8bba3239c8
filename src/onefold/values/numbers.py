"""Numbers and times as records write them: each digit counts, and none is cut or made up."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.types import FieldType
from onefold.instants import FIRST, LAST

_EXPONENT = r"^-?(\d+)(?:\.(\d+))?[eE]([+-]?\d{1,3})\z"
_WHOLE = r"^(-?\d+)(?:\.0+)?\z"
_ZONE = r"(Z|[+-]\d\d:?\d\d)?\z"
_TO_MINUTES = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
TIMESTAMP = rf"{_TO_MINUTES}(:\d\d(\.(\d{{1,6}}|\d{{6}}0{{1,3}}))?)?{_ZONE}"
"""Text that is a timestamp: a cast alone would take less of one, and put today's date before a time. Behind the
microseconds there may be zeros."""
_FINER = rf"{_TO_MINUTES}:\d\d\.\d{{6}}(\d{{1,3}}){_ZONE}"
DATE = r"^\d{4}-\d\d-\d\d\z"  # not $, which a line's end may follow
_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days since 1970."""
_PER_SECOND = {"seconds": 1, "millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}


def digits_of(number: Column) -> Column:
    """A number's digits, without an exponent."""
    return F.when(number.rlike(_EXPONENT), _spelled_out(number)).otherwise(number)


def _spelled_out(number: Column) -> Column:
    """`1.5e2` as `150`."""
    whole, fraction, exponent = (F.regexp_extract(number, _EXPONENT, group) for group in (1, 2, 3))
    digits, place = F.concat(whole, fraction), F.length(whole) + exponent.try_cast("int")
    missing = place - F.length(digits)
    spelled = (
        F.when(place <= 0, F.concat(F.lit("0."), F.repeat(F.lit("0"), -place), digits))
        .when(missing >= 0, F.concat(digits, F.repeat(F.lit("0"), missing)))
        .otherwise(F.concat(F.substr(digits, F.lit(1), place), F.lit("."), F.substr(digits, place + 1)))
    )
    return F.concat(F.when(number.startswith("-"), "-").otherwise(""), spelled)


def whole(digits: Column, sql: str) -> Column:
    """Digits as a whole number; null where they are none: `1.0` is 1, and `1.5` nothing."""
    return F.regexp_extract(F.when(digits.rlike(_WHOLE), digits), _WHOLE, 1).try_cast(sql)


def decimal(digits: Column, kind: FieldType) -> Column:
    """Digits as a decimal; null where it has not room for each of them. Zeros at the end are no digits."""
    before, scale = kind.precision - kind.scale, kind.scale
    fits = rf"^-?(?=\d)0*\d{{0,{before}}}(\.(?=\d)\d{{0,{scale}}}0*)?\z"
    return F.when(digits.rlike(fits), digits.try_cast(kind.sql))


def timestamp(text: Column) -> Column:
    """Text as a timestamp; null where it is none, or finer than microseconds. Seconds may be left out."""
    seconds = F.regexp_replace(text, r"^(.{16})(Z|[+-]|\z)", "$1:00$2")
    return F.when(text.rlike(TIMESTAMP), F.regexp_replace(seconds, r"(\.\d{6})0+", "$1").try_cast("timestamp"))


def date(text: Column) -> Column:
    """Text as a date; null where it is none."""
    return F.when(text.rlike(DATE), text.try_cast("date"))


def since_1970(count: Column, kind: FieldType) -> Column:
    """A whole number since 1970 as a date or timestamp; null where there is none, or where nanoseconds are left."""
    if kind.name == "date":
        return F.date_from_unix_date(F.when(count.between(*_DAYS), count).cast("int"))
    of_second = _PER_SECOND[kind.unit]
    first, last = (max(-(2**63), min(2**63 - 1, one * of_second // 1000)) for one in (FIRST, LAST))
    count = F.when(count.between(first, last), count)
    if kind.unit == "nanos":
        count = F.call_function("div", F.when(count % 1000 == 0, count), F.lit(1000))
    made = {"seconds": F.timestamp_seconds, "millis": F.timestamp_millis}
    return made.get(kind.unit, F.timestamp_micros)(count)


def too_fine(text: Column, kind: FieldType) -> Column:
    """What is finer than microseconds in a time that cannot be read, for people; null where nothing is."""
    if kind.unit == "nanos":
        left = F.abs(whole(text, "bigint") % 1000)
        return F.when(left > 0, F.concat(F.lit("it has nanoseconds behind the microseconds: "), left.cast("string")))
    if kind.name != "timestamp" or kind.unit:
        return F.lit(None).cast("string")
    behind = F.regexp_extract(text, _FINER, 1)
    return F.when(text.rlike(_FINER), F.concat(F.lit("it has digits behind the microseconds: "), behind))
