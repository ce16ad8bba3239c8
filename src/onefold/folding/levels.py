"""Narrow identity levels: which of them makes two records the same, and what that says."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.witness import with_witness
from onefold.records import envelope as E
from onefold.tables import staging as C
from onefold.vocabulary import Finding, Level, Reason, Scope

RETRIES = (Level.PRODUCER, Level.MESSAGE_ID)
"""Levels at which a client itself sends again: what they repeat is no new version."""
LEVEL, RESENT = "_level", "_resent"
_FIRST, _IS_AGAIN = "_fact_first", "_fact_is_again"
_PARTITION = tuple(name.removeprefix("_") for name in E.POSITION[:-1])


def searched_levels(dataset: Dataset) -> tuple[str, ...]:
    """What two messages must not share: an identity of a narrow level; and, where a period is part of the deciding
    identity, that identity without it (`Finding.PERIOD_MOVED`). An id that names a message within its key is not
    asked."""
    narrow = [level for level in dataset.narrow if level != Level.MESSAGE_ID or not dataset.ids_within_key]
    return (*narrow, *([Finding.PERIOD_MOVED] if dataset.within else []))


def identity_text(level: str) -> Column:
    """An identity of one of `searched_levels` as text; null where a record has none. A producer's names its
    partition."""
    column, parts = _parts(level)
    if len(parts) == 1:
        return column
    return F.when(column.isNotNull(), F.concat_ws("/", *(part.cast("string") for part in parts)))


def identity_digest(level: str) -> Column:
    """A digest (bigint) of what `identity_text` names; null where a record has none."""
    column, parts = _parts(level)
    return F.when(column.isNotNull(), F.xxhash64(F.lit(level), *parts))


def _parts(level: str) -> tuple[Column, list[Column]]:
    """The column of an identity, and what it consists of."""
    column = F.col(C.IDENTITY if level == Finding.PERIOD_MOVED else C.LEVELS[level])
    if level != Level.PRODUCER:
        return column, [column]
    at = [F.col(f"{C.ORDER}.{name}") for name in _PARTITION]
    return column, [*at, *(column[name] for name in ("name", "epoch", "sequence"))]


def with_levels(
    records: DataFrame,
    dataset: Dataset,
    within: tuple[str, ...],
    preference: list[Column],
    *,
    of_version: bool = False,
    retries: bool = False,
) -> DataFrame:
    """Add `_level`, the narrowest level at which a record is not the first of its identity (`of_version`: of its
    version); and, with `retries`, `_resent`: {level, order, witness} of the message that it repeats under its key,
    whatever the versions.

    One sort a level, by key and level; and these sorts come first, while the rows are narrow. In them, too, the
    records of a version follow each other.
    """
    found = F.lit(None).cast("string")
    resent = F.when(F.lit(False), F.struct(F.lit("").alias("level"), *_pointer(with_witness(records, C.ORDER))))
    records = records.withColumns({LEVEL: found, RESENT: resent})
    for level in dataset.narrow:
        group = Window.partitionBy(C.KEY, *within, *_columns(level)).orderBy(*preference)
        sent = F.col(C.LEVELS[level]).isNotNull()
        before = F.lag(C.VERSION).over(group) == F.col(C.VERSION) if of_version else F.row_number().over(group) > 1
        content, first = C.compared(dataset), F.col(_FIRST)
        rows = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        asked, is_sent_again = {_IS_AGAIN: before}, level in RETRIES and retries
        if is_sent_again:
            asked[_FIRST] = F.first(with_witness(records, C.ORDER, content)).over(rows)
        records = records.withColumns(asked)  # together, or they would be sorted twice
        found = F.coalesce(found, F.when(sent & F.col(_IS_AGAIN), F.lit(level)))
        if is_sent_again:
            # The same id under one key with equal content is a retry, whatever its version.
            same = first[content.removeprefix("_")] == F.col(content)
            again = sent & (first["order"] != F.col(C.ORDER)) & same
            resent = F.coalesce(resent, F.when(again, F.struct(F.lit(level).alias("level"), *_pointer(first))))
        records = records.withColumns({LEVEL: found, RESENT: resent})
        found, resent = F.col(LEVEL), F.col(RESENT)
    return records.drop(_FIRST, _IS_AGAIN)


def _pointer(of: Column) -> list[Column]:
    return [of[name].alias(name) for name in ("order", "witness")]


def _columns(level: str) -> tuple[str, ...]:
    """What is equal in records that a level takes for the same: a producer counts for each partition from the start."""
    of_partition = (f"{C.ORDER}.{name}" for name in _PARTITION)
    return (C.LEVELS[level], *of_partition) if level == Level.PRODUCER else (C.LEVELS[level],)


def same_levels(rows: DataFrame, other: Callable[[str], Column], known: Callable[[str], bool]) -> dict[str, Column]:
    """Of each level that rows have, whether another record has the same identity.

    Args:
        rows: the records that are judged.
        other: the other record's column that has the name of one of theirs.
        known: whether the other record has such a column.
    """
    found = {
        level: F.coalesce(F.col(name) == other(name), F.lit(False))
        for level, name in C.LEVELS.items()
        if name in rows.columns and known(name)
    }
    if Level.PRODUCER in found:  # it counts for each partition from the start
        for part in _PARTITION:
            found[Level.PRODUCER] &= F.col(C.ORDER)[part] == other(C.ORDER)[part]
    return found


def narrowest(dataset: Dataset, same: dict[str, Column], same_order: Column, deciding: str) -> Column:
    """The narrowest level at which a record is the row that it repeats."""
    reason = F.when(same_order, Reason.POSITION)
    for level in dataset.narrow:
        if level in same:
            reason = reason.when(same[level], level)
    return reason.otherwise(F.lit(deciding))


def no_level() -> Column:
    """Null, as a level."""
    return F.lit(None).cast("string")


def finding(dataset: Dataset, same: dict[str, Column], differs: Column) -> Column:
    """struct<level, scope> of the narrow level whose identity the table's row has, too, where it `differs`; else null:
    one message would have been two."""
    named = [F.when(same[level], level) for level in dataset.narrow if level in same]
    level = F.coalesce(*named, no_level())
    return F.when(differs & level.isNotNull(), F.struct(level.alias("level"), F.lit(Scope.STORED).alias("scope")))
