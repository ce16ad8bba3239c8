"""Positions of a batch: which offsets it holds, and records that claim one position with other bytes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.offsets import Range, TopicPartition, meet, merged, minus
from onefold.records import envelope as E
from onefold.spark.offset_ranges import ranges_by
from onefold.tables import staging as C
from onefold.values.decode import REJECTED
from onefold.values.rejection import rejected
from onefold.vocabulary import Reason, Verdict


@dataclass(frozen=True, slots=True)
class PartitionOffsets:
    """One partition's offsets in a batch."""

    present: list[Range]
    quarantined: list[Range]
    undecided: list[Range]
    damaged: list[Range]
    """Of `present`, those that have a rejected copy, too."""


def offsets_of(staged: DataFrame) -> dict[TopicPartition, PartitionOffsets]:
    """The distinct offsets of a staged batch as ranges: one bit an offset travels, no list of them."""
    at = [F.col(f"{C.ORDER}.{name}").alias(name) for name in ("cluster", "topic", "incarnation", "partition")]
    kind = F.when(F.expr(C.REFUSED), 1).when(F.col(C.VERDICT) == Verdict.HELD, 2).otherwise(0)
    placed = staged.where(F.col(f"{C.ORDER}.offset").isNotNull()).select(
        *at, F.col(f"{C.ORDER}.offset").alias("offset"), kind.alias("kind")
    )
    found: dict[TopicPartition, tuple[list[Range], list[Range], list[Range]]] = {}
    by = ["cluster", "topic", "incarnation", "partition", "kind"]
    for (cluster, topic, incarnation, partition, number), ranges in ranges_by(placed, by, "offset").items():
        where = TopicPartition(cluster=cluster, topic=topic, incarnation=incarnation, partition=partition)
        found.setdefault(where, ([], [], []))[number].extend(ranges)
    return {
        where: PartitionOffsets(
            merged(kept), minus(refused, kept), minus(undecided, [*kept, *refused]), meet(kept, refused)
        )
        for where, (kept, refused, undecided) in sorted(found.items(), key=lambda item: item[0].key)
    }


def lines_of(rows: DataFrame) -> dict[str, list[Range]]:
    """The lines of rows of a staged batch, by landed object's name: where positions are inferred."""
    lines = rows.where(F.col(E.LINE).isNotNull()).select(E.OBJECT, F.col(E.LINE).cast("long").alias(E.LINE))
    return {name: ranges for (name,), ranges in sorted(ranges_by(lines, [E.OBJECT], E.LINE).items())}


def has_inconsistent_positions(staged: DataFrame) -> bool:
    """Whether one position has two contents, or one content with two identities, versions or times; asked only where
    positions repeat."""
    content = F.struct(*_identity(staged, C.sent_at(staged.columns)), C.HASH, C.RAW_VALUE)
    placed = staged.where(F.col(f"{C.ORDER}.offset").isNotNull())
    position = [F.col(f"{C.ORDER}.{name.removeprefix('_')}").alias(name) for name in E.POSITION]
    contents = placed.groupBy(*position).agg(F.count_distinct(content).alias("n"))
    return not contents.where("n > 1").isEmpty()


def fold_positions(identified: DataFrame) -> DataFrame:
    """Of several contents at one position keep the smallest hash; the others are conflicts that meet no key. Of one
    content with several identities, versions or times (its headers were altered) one is kept, one that can be used if
    there is any; the others are duplicates of it.

    Needed only where a batch holds such a position, and an exchange of its own. Adds `_contested`.
    """
    same = Window.partitionBy(*E.POSITION)
    compared = F.col(E.OFFSET).isNotNull() & F.col(E.FATE).isNull() & F.expr(C.readable(identified.columns))
    content = F.expr(C.position_content(identified.columns))
    identity = F.struct(*_identity(identified, E.TIMESTAMP))
    record = F.struct(
        F.col(C.KEY).isNull().alias("unkeyed"),
        F.col(C.HASH).alias("hash"),
        identity.alias("identity"),
        content.alias("content"),
        F.col(C.ORDER).alias("order"),
    )
    first = F.col("_first")
    placed = identified.withColumn("_first", F.min(F.when(compared, record)).over(same))
    beaten = compared & (content != first["content"])
    copy = compared & ~beaten & ~identity.eqNullSafe(first["identity"])
    placed = placed.withColumns({"_beaten": beaten, "_repeats": copy})
    odd = F.max(F.col("_beaten") | F.col("_repeats")).over(same)
    another = F.when(
        F.col("_beaten"), rejected(Reason.INCONSISTENT_POSITION, "another content is kept at this position")
    )
    return (
        placed.withColumn(C.CONTESTED, F.when(compared & odd, first["order"]))
        .withColumns(
            {
                REJECTED: F.coalesce(another, F.when(~F.col("_repeats"), F.col(REJECTED))),
                E.FATE: F.when(F.col("_repeats"), E.COVERED).otherwise(F.col(E.FATE)),
                C.KEY: F.when(~(F.col("_beaten") | F.col("_repeats")), F.col(C.KEY)),
            }
        )
        .drop("_beaten", "_repeats", "_first")
    )


def _identity(rows: DataFrame, timestamp: str) -> list[Column]:
    """What a record is folded by, next to its content and its position."""
    names = [name for name in (C.KEY, C.VERSION) if name in rows.columns]
    return [*(F.col(name) for name in names), F.expr(timestamp).alias("time")]
