"""Text as a value of a scalar type, as strictly as its own format would give it: each digit counts, and none is cut or
made up."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.types import FieldType
from onefold.instants import FIRST, LAST

# Whatever is repeated without a bound is possessive: else text of a producer's costs its square.
_WHOLE = r"^(-?\d++)(?:\.0++)?+\z"
_ZONE = r"(Z|[+-]\d\d:?\d\d)?\z"
_TO_MINUTES = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d"
TIMESTAMP = rf"{_TO_MINUTES}(:\d\d(\.(\d{{1,6}}|\d{{6}}0{{1,3}}))?)?{_ZONE}"
"""Text that is a timestamp: a cast alone would take less of one, and put today's date before a time. Behind the
microseconds there may be zeros."""
DATE = r"^\d{4}-\d\d-\d\d\z"  # not $, which a line's end may follow
_FEW = 100
"""Letters of a number that are cast as they are."""
_LAST_ZEROS = r"(?<!0)0++\z"
_DAYS = (-719_162, 2_932_896)
"""0001-01-01 and 9999-12-31, in days since 1970."""
_PER_SECOND = {"seconds": 1, "millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}


def of_text(text: Column, kind: FieldType) -> Column:
    """Text as a scalar type, as strictly as a JSON value; null where it is not one."""
    if kind.unit:
        return since_1970(whole(text, "bigint"), kind)
    match kind.name:
        case "int" | "long":
            return whole(text, kind.sql)
        case "decimal":
            return decimal(text, kind)
        case "boolean":
            return F.when(text.isin("true", "false"), text == "true")
        case "date":
            return date(text)
        case "timestamp":
            return timestamp(text)
        case _:
            return text


def whole(digits: Column, sql: str) -> Column:
    """Digits as a whole number; null where they are none: `1.0` is 1, and `1.5` nothing."""
    return F.regexp_extract(F.when(digits.rlike(_WHOLE), digits), _WHOLE, 1).try_cast(sql)


def fits(kind: FieldType) -> str:
    """The pattern of the digits that a decimal has room for."""
    before, scale = kind.precision - kind.scale, kind.scale
    return rf"^-?(?=\d)0*+\d{{0,{before}}}+(\.(?=\d)\d{{0,{scale}}}+0*+)?+\z"


def decimal(digits: Column, kind: FieldType) -> Column:
    """Digits as a decimal; null where it has not room for each of them. Zeros at the end are no digits."""
    # Java makes a number of all digits, at the cost of their square, before it asks how many count.
    counting = F.when(F.length(digits) <= _FEW, digits).otherwise(F.regexp_replace(digits, _LAST_ZEROS, ""))
    return F.when(digits.rlike(fits(kind)), counting.try_cast(kind.sql))


def timestamp(text: Column) -> Column:
    """Text as a timestamp; null where it is none, or finer than microseconds. Seconds may be left out."""
    seconds = F.regexp_replace(text, r"^(.{16})(Z|[+-]|\z)", "$1:00$2")
    return F.when(text.rlike(TIMESTAMP), F.regexp_replace(seconds, r"(\.\d{6})0++", "$1").try_cast("timestamp"))


def date(text: Column) -> Column:
    """Text as a date; null where it is none."""
    return F.when(text.rlike(DATE), text.try_cast("date"))


def since_1970(count: Column, kind: FieldType) -> Column:
    """A whole number since 1970 as a date or timestamp; null where there is none, or where nanoseconds are left."""
    if kind.name == "date":
        return F.date_from_unix_date(F.when(count.between(*_DAYS), count).cast("int"))
    of_second = _PER_SECOND[kind.unit]
    first, last = (max(-(2**63), min(2**63 - 1, instant * of_second // 1000)) for instant in (FIRST, LAST))
    count = F.when(count.between(first, last), count)
    if kind.unit == "nanos":
        count = F.call_function("div", F.when(count % 1000 == 0, count), F.lit(1000))
    made = {"seconds": F.timestamp_seconds, "millis": F.timestamp_millis}
    return made.get(kind.unit, F.timestamp_micros)(count)
