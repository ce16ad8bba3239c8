"""Why a record cannot be used, as a column."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.vocabulary import Reason

REJECTED_TYPE = "struct<reason:string,detail:string>"


@dataclass(frozen=True, slots=True)
class Compiled:
    """A column, and the condition under which a cast failed that it needs."""

    value: Column
    failed: Column


def rejected(reason: str | Column, detail: str | Column) -> Column:
    """A `REJECTED_TYPE` struct."""
    reason = F.lit(reason) if isinstance(reason, str) else reason
    detail = F.lit(detail) if isinstance(detail, str) else detail
    return F.struct(reason.alias("reason"), detail.alias("detail"))


def of_part(place: Column, problem: Column) -> Column:
    """A problem of a part as one of the whole: `[1].sku` and ` is absent` become ` lines[1].sku is absent`."""
    detail = F.concat(place, problem["detail"])
    return F.when(problem.isNotNull(), F.struct(problem["reason"].alias("reason"), detail.alias("detail")))


def not_utf8(what: str, data: Column) -> Column:
    """Where bytes are no UTF-8, as text for people; null where they are UTF-8, or null."""
    text = data.cast("string")
    place = F.locate("\ufffd", F.make_valid_utf8(text)).cast("string")
    return F.when(~F.is_valid_utf8(text), F.concat(F.lit(f"{what} is not UTF-8 at character "), place))


def unusable(given: Compiled, reason: str, name: str) -> Column:
    """Why an expression's value, called `name`, cannot be used: a cast failed, or it is null."""
    what = "null or blank" if reason == Reason.NULL_IDENTITY else "null"
    return F.coalesce(cast_failed(given, name), F.when(given.value.isNull(), rejected(reason, f"{name} is {what}")))


def failed_in(given: Compiled, place: str, text: str | None) -> Column:
    """Why a condition, the `text` at a `place` of the dataset file, has no answer: a cast failed."""
    return F.when(given.failed, rejected(Reason.WRONG_TYPE, f"{place}: a cast fails in {text}"))


def cast_failed(given: Compiled, name: str) -> Column:
    """Why an expression's value, called `name`, has none: a cast failed."""
    return F.when(given.failed, rejected(Reason.WRONG_TYPE, f"{name} cannot be cast"))
