"""Which rows lie in ranges of offsets or lines: no list of records travels, and nothing is shuffled."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.offsets import Range, TopicPartition
from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C

_PLACE = {"cluster": "string", "topic": "string", "incarnation": "int", "partition": "int"}
_AT = "_range_mark"
_BLOCK = 14
"""Ranges are cut at multiples of 2 to this power, so that a row is compared with those near it, not with all."""


def mark_positions(
    rows: DataFrame, mark: str, ranges: Iterable[tuple[TopicPartition, Range]], order: str | None = None
) -> DataFrame:
    """Add the boolean column `mark`: whether a row's position lies in one of some ranges.

    The position is in the envelope's columns, or in the struct `order`. Ranges of one partition must not overlap.
    """
    by = {name: F.col(f"{order}.{name}" if order else f"_{name}") for name in (*_PLACE, "offset")}
    known = [(where.cluster, where.topic, where.incarnation, where.partition, *range_) for where, range_ in ranges]
    return _mark(rows, mark, known, _PLACE, by, by["offset"])


def at_positions_of(rows: DataFrame, attempts: Mapping[str, Iterable[tuple[TopicPartition, Range]]]) -> DataFrame:
    """Of rows with a position and the column `attempt` those that lie in some ranges of their attempt."""
    return mark_positions_of(rows, _AT, "attempt", attempts).where(_AT).drop(_AT)


def mark_positions_of(
    rows: DataFrame,
    mark: str,
    of: str,
    ranges: Mapping[str, Iterable[tuple[TopicPartition, Range]]],
    order: str | None = None,
) -> DataFrame:
    """Add the boolean column `mark`: whether a row's position lies in one of the ranges of its text in the column `of`.

    The position is in columns named by its parts, or in the struct `order`. Ranges of one partition must not overlap.
    """
    by = {name: F.col(f"{order}.{name}" if order else name) for name in (*_PLACE, "offset")}
    known = [
        (text, where.cluster, where.topic, where.incarnation, where.partition, *range_)
        for text, some in ranges.items()
        for where, range_ in some
    ]
    return _mark(rows, mark, known, {"of": "string", **_PLACE}, {"of": F.col(of), **by}, by["offset"])


def mark_lines(rows: DataFrame, mark: str, lines: Mapping[str, list[Range]]) -> DataFrame:
    """Add the boolean column `mark`: whether a row is among some lines of landed objects, by object's name."""
    known = [(name, *range_) for name, ranges in lines.items() for range_ in ranges]
    return _mark(rows, mark, known, {"object": "string"}, {"object": F.col(E.OBJECT)}, F.col(E.LINE))


def mark_covered(
    rows: DataFrame,
    ranges: list[tuple[TopicPartition, Range]],
    objects: dict[str, list[Range]],
    order: str | None = C.ORDER,
) -> DataFrame:
    """Add `_covered`: a published batch processed the record's position (`mark_positions`), or its object but for some
    lines of it."""
    if objects:
        marked = mark_lines(rows, U.COVERED, {name: lines for name, lines in objects.items() if lines})
        return marked.withColumn(U.COVERED, F.col(E.OBJECT).isin(list(objects)) & ~F.col(U.COVERED))
    return mark_positions(rows, U.COVERED, ranges, order)


def _mark(
    rows: DataFrame,
    mark: str,
    known: Sequence[tuple[Any, ...]],
    types: Mapping[str, str],
    by: Mapping[str, Column],
    at: Column,
) -> DataFrame:
    if not known:
        return rows.withColumn(mark, F.lit(False))
    columns = {**types, "block": "long", "start": "long", "end": "long"}
    schema = ", ".join(f"_range_{name} {kind}" for name, kind in columns.items())
    ranges = rows.sparkSession.createDataFrame(list(_in_blocks(known)), schema)
    inside = (at >= F.col("_range_start")) & (at < F.col("_range_end"))
    inside = inside & (F.shiftright(at.cast("long"), _BLOCK) == F.col("_range_block"))
    for name in types:
        inside = inside & (by[name] == F.col(f"_range_{name}"))
    joined = rows.join(F.broadcast(ranges), inside, "left")
    return joined.withColumn(mark, F.col("_range_start").isNotNull()).drop(*ranges.columns)


def _in_blocks(known: Sequence[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    for *where, start, end in known:
        for block in range(start >> _BLOCK, ((end - 1) >> _BLOCK) + 1):
            yield *where, block, max(start, block << _BLOCK), min(end, (block + 1) << _BLOCK)
