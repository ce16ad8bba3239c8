"""Take records out of a batch, as recorded decisions say: they keep their place and meet no other record."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dedup.documents import TakenOut
from onefold.landing.offsets import TopicPartition
from onefold.records import envelope as E

_PARTITION = E.POSITION[:-1]


def take_out(records: DataFrame, taken: TakenOut) -> DataFrame:
    """Give what is taken out the fate `skipped`: it is neither judged nor chosen, and gets that verdict."""
    if taken.everything:
        return records.withColumn(E.FATE, F.lit(E.SKIPPED))
    if taken.objects:
        return _fated(records, F.col(E.OBJECT).isin(taken.objects))
    if not taken.partitions:
        return records
    rows = [
        (where.cluster, where.topic, where.incarnation, where.partition, *one)
        for where, ranges in ((TopicPartition.of(key), ranges) for key, ranges in taken.partitions.items())
        for one in ranges
    ]
    names = ("t_cluster string", "t_topic string", "t_incarnation int", "t_partition int", "t_start long", "t_end long")
    known = records.sparkSession.createDataFrame(rows, ", ".join(names))
    inside = (F.col(E.OFFSET) >= F.col("t_start")) & (F.col(E.OFFSET) < F.col("t_end"))
    for name in _PARTITION:
        inside = inside & (F.col(name) == F.col(f"t{name}"))
    joined = records.join(F.broadcast(known), inside, "left")
    return _fated(joined, F.col("t_start").isNotNull()).drop(*known.columns)


def _fated(records: DataFrame, taken: Column) -> DataFrame:
    return records.withColumn(E.FATE, F.when(taken, F.lit(E.SKIPPED)).otherwise(F.col(E.FATE)))
