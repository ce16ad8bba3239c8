"""Positions of a batch: which offsets it holds, and records that claim one position with other bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from onefold.dedup import columns as C
from onefold.landing.offsets import Range, TopicPartition, merged, minus
from onefold.records import envelope as E
from onefold.records.decode import REJECTED
from onefold.records.fields import rejected

INCONSISTENT = "inconsistent_position"
_BITS = 32768
"""Offsets in one of Spark's bitmaps (`bitmap_construct_agg`)."""


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """One partition's offsets in a batch."""

    present: list[Range]
    quarantined: list[Range]
    undecided: list[Range]


def offsets_of(staged: DataFrame) -> dict[TopicPartition, PartitionOffsets]:
    """The distinct offsets of a staged batch as ranges: one bit an offset travels, no sort, no offset list."""
    at = [F.col(f"{C.ORDER}.{name}").alias(name) for name in ("cluster", "topic", "incarnation", "partition")]
    kind = F.when(F.col(C.VERDICT) == "rejected", 1).when(F.col(C.VERDICT) == "held", 2).otherwise(0)
    placed = staged.where(F.col(f"{C.ORDER}.offset").isNotNull()).select(
        *at, (F.col(f"{C.ORDER}.offset") + 1).alias("n"), kind.alias("kind")
    )
    bitmaps = placed.groupBy(
        "cluster",
        "topic",
        "incarnation",
        "partition",
        "kind",
        F.bitmap_bucket_number("n").alias("bucket"),
    ).agg(F.bitmap_construct_agg(F.bitmap_bit_position("n")).alias("bits"))
    found: dict[TopicPartition, tuple[list[Range], list[Range], list[Range]]] = {}
    for row in bitmaps.collect():
        where = TopicPartition(
            cluster=row.cluster, topic=row.topic, incarnation=row.incarnation, partition=row.partition
        )
        found.setdefault(where, ([], [], []))[row.kind].extend(_ranges(row.bits, (row.bucket - 1) * _BITS))
    return {
        where: PartitionOffsets(merged(kept), minus(refused, kept), minus(undecided, [*kept, *refused]))
        for where, (kept, refused, undecided) in sorted(found.items(), key=lambda item: item[0].key)
    }


def _ranges(bits: bytes, first: int) -> list[Range]:
    flags = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
    edges = np.flatnonzero(np.diff(np.concatenate(([0], flags, [0])).astype(np.int8)))
    return [(first + int(start), first + int(end)) for start, end in edges.reshape(-1, 2)]


def has_inconsistent_positions(staged: DataFrame) -> bool:
    """Whether one position stands with two contents; asked only where positions repeat."""
    content = F.struct(C.KEY, C.HASH, C.RAW_VALUE)
    placed = staged.where(F.col(f"{C.ORDER}.offset").isNotNull())
    position = [F.col(f"{C.ORDER}.{name.removeprefix('_')}").alias(name) for name in E.POSITION]
    contents = placed.groupBy(*position).agg(F.count_distinct(content).alias("n"))
    return not contents.where("n > 1").isEmpty()


def fold_positions(identified: DataFrame) -> DataFrame:
    """Of several contents at one position keep the smallest hash; the others are conflicts that meet no key.

    Needed only where a batch holds a position with two contents, and an exchange of its own.
    """
    same = Window.partitionBy(*E.POSITION)
    usable = F.when(F.col(C.KEY).isNotNull(), F.struct(C.HASH, C.KEY))
    stands = F.min(usable).over(same)
    beaten = F.col(E.OFFSET).isNotNull() & usable.isNotNull() & (usable != stands)
    return (
        identified.withColumn("_beaten", F.coalesce(beaten, F.lit(False)))
        .withColumns(
            {
                REJECTED: F.when(
                    F.col("_beaten"), rejected(INCONSISTENT, "another content stands at this position")
                ).otherwise(F.col(REJECTED)),
                C.KEY: F.when(~F.col("_beaten"), F.col(C.KEY)),
            }
        )
        .drop("_beaten")
    )
