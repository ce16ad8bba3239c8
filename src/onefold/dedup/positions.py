"""Positions of a batch: which offsets it holds, and records that claim one position with other bytes."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from onefold.offsets import Range, TopicPartition, merged, minus
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
        where: PartitionOffsets(merged(kept), minus(refused, kept), minus(undecided, [*kept, *refused]))
        for where, (kept, refused, undecided) in sorted(found.items(), key=lambda item: item[0].key)
    }


def lines_of(rows: DataFrame) -> dict[str, list[Range]]:
    """The lines of rows of a staged batch, by landed object's name: where positions are inferred."""
    lines = rows.where(F.col(E.LINE).isNotNull()).select(E.OBJECT, F.col(E.LINE).cast("long").alias(E.LINE))
    return {name: ranges for (name,), ranges in sorted(ranges_by(lines, [E.OBJECT], E.LINE).items())}


def has_inconsistent_positions(staged: DataFrame) -> bool:
    """Whether one position has two contents; asked only where positions repeat."""
    content = F.struct(C.KEY, C.HASH, C.RAW_VALUE)
    placed = staged.where(F.col(f"{C.ORDER}.offset").isNotNull())
    position = [F.col(f"{C.ORDER}.{name.removeprefix('_')}").alias(name) for name in E.POSITION]
    contents = placed.groupBy(*position).agg(F.count_distinct(content).alias("n"))
    return not contents.where("n > 1").isEmpty()


def fold_positions(identified: DataFrame) -> DataFrame:
    """Of several contents at one position keep the smallest hash; the others are conflicts that meet no key.

    Needed only where a batch holds a position with two contents, and an exchange of its own. Adds `_contested`.
    """
    same = Window.partitionBy(*E.POSITION)
    contents = F.when(F.col(C.KEY).isNotNull(), F.struct(C.HASH, C.KEY, C.ORDER))
    placed = identified.withColumns({"_first": F.min(contents).over(same), "_last": F.max(contents).over(same)})
    first, last, own = (F.struct(f"{prefix}{C.HASH}", f"{prefix}{C.KEY}") for prefix in ("_first.", "_last.", ""))
    known = F.col(E.OFFSET).isNotNull() & F.col(C.KEY).isNotNull()
    beaten = known & (own != first)
    return (
        placed.withColumn(C.CONTESTED, F.when(known & (first != last), F.col(f"_first.{C.ORDER}")))
        .withColumn("_beaten", beaten)
        .withColumns(
            {
                REJECTED: F.when(
                    F.col("_beaten"), rejected(Reason.INCONSISTENT_POSITION, "another content is kept at this position")
                ).otherwise(F.col(REJECTED)),
                C.KEY: F.when(~F.col("_beaten"), F.col(C.KEY)),
            }
        )
        .drop("_beaten", "_first", "_last")
    )
