"""Sets of offsets, brought from Spark as words of 64 bits: no list of offsets travels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.offsets import Range, merged

_WORDS = 512
"""Words in a row of the result."""


def ranges_by(rows: DataFrame, by: list[str], offset: str) -> dict[tuple[Any, ...], list[Range]]:
    """The distinct values of a column of offsets as merged ranges, for each group of the columns `by`.

    Words of one long are aggregated by hashing; an aggregate that gathers bytes would sort every record first.
    """
    at = F.col(offset).cast("long")
    bit = F.call_function("shiftleft", F.lit(1).cast("long"), at.bitwiseAND(F.lit(63)).cast("int"))
    words = rows.groupBy(*by, F.shiftright(at, 6).alias("word")).agg(F.bit_or(bit).alias("bits"))
    columns = F.collect_list("word").alias("words"), F.collect_list("bits").alias("bits")
    found: dict[tuple[Any, ...], list[Range]] = {}
    for row in words.groupBy(*by, F.expr(f"word div {_WORDS}").alias("chunk")).agg(*columns).collect():
        ranges = _ranges(np.array(row.words), np.array(row.bits))
        found.setdefault(tuple(row[name] for name in by), []).extend(ranges)
    return {group: merged(ranges) for group, ranges in found.items()}


def _ranges(words: NDArray[np.int64], bits: NDArray[np.int64]) -> list[Range]:
    order = np.argsort(words)
    flags = np.unpackbits(bits[order].astype("<i8").view(np.uint8), bitorder="little").astype(bool)
    offsets = (words[order, None] * 64 + np.arange(64)).ravel()[flags]
    edges = np.flatnonzero(np.diff(offsets) != 1) + 1
    starts, lasts = offsets[np.append(0, edges)], offsets[np.append(edges - 1, -1)]
    return [(int(start), int(last) + 1) for start, last in zip(starts, lasts, strict=True)]
