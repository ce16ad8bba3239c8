"""Sets of offsets, brought from Spark as bitmaps: one bit an offset travels, no list of offsets."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.landing.offsets import Range, merged

_BITS = 32768
"""Offsets in one of Spark's bitmaps (`bitmap_construct_agg`)."""


def ranges_by(rows: DataFrame, by: list[str], offset: str) -> dict[tuple[Any, ...], list[Range]]:
    """The distinct values of a column of offsets as merged ranges, for each group of the columns `by`."""
    counted = rows.withColumn(offset, F.col(offset) + 1)  # Spark's bitmaps begin at 1
    bitmaps = counted.groupBy(*by, F.bitmap_bucket_number(offset).alias("bucket")).agg(
        F.bitmap_construct_agg(F.bitmap_bit_position(offset)).alias("bits")
    )
    found: dict[tuple[Any, ...], list[Range]] = {}
    for row in bitmaps.collect():
        ranges = _ranges(row.bits, (row.bucket - 1) * _BITS)
        found.setdefault(tuple(row[name] for name in by), []).extend(ranges)
    return {group: merged(ranges) for group, ranges in found.items()}


def _ranges(bits: bytes, first: int) -> list[Range]:
    flags = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags, [0])).astype(np.int8)))
    return [(first + int(start), first + int(end)) for start, end in edges.reshape(-1, 2)]
