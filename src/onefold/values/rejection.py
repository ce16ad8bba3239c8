"""Why a record cannot be used, as a column."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

REJECTED_TYPE = "struct<reason:string,detail:string>"


def rejected(reason: str, detail: str | Column) -> Column:
    """A `REJECTED_TYPE` struct."""
    detail = F.lit(detail) if isinstance(detail, str) else detail
    return F.struct(F.lit(reason).alias("reason"), detail.alias("detail"))


def of_part(place: Column, problem: Column) -> Column:
    """A problem of a part as one of the whole: `[1].sku` and ` is absent` become ` lines[1].sku is absent`."""
    detail = F.concat(place, problem["detail"])
    return F.when(problem.isNotNull(), F.struct(problem["reason"].alias("reason"), detail.alias("detail")))


def not_utf8(what: str, data: Column) -> Column:
    """Where bytes are no UTF-8, as text for people; null where they are UTF-8, or null."""
    text = data.cast("string")
    place = F.locate("\ufffd", F.make_valid_utf8(text)).cast("string")
    return F.when(~F.is_valid_utf8(text), F.concat(F.lit(f"{what} is not UTF-8 at character "), place))
