"""Sequences that begin again: a named producer counts from the start, and its sequence names other messages.

A retry goes back by what is under way, a restart to where the counter began. So a record restarts its producer where
its sequence is smaller than the one before it, and at most a tenth of what had been counted is left. It is asked for
each name and partition in the order of offsets. The log's own producers have epochs, and are not asked.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from onefold.dedup.documents import LEFT, Restart
from onefold.offsets import TopicPartition
from onefold.tables import staging as C

SHOWN = 1_000
"""Producers of a batch that are listed, at most."""
_PARTITION = tuple(TopicPartition.model_fields)


def restarts_of(staged: DataFrame) -> list[Restart]:
    """Of each named producer on a partition of a staged batch the last restart. One exchange, of narrow rows."""
    producer, offset = F.col(C.PRODUCER), F.col(f"{C.ORDER}.offset")
    named = staged.where(offset.isNotNull() & (producer["epoch"] < 0)).select(
        *(F.col(f"{C.ORDER}.{name}").alias(name) for name in _PARTITION),
        offset.alias("offset"),
        producer["name"].alias("producer"),
        producer["sequence"].alias("sequence"),
    )
    named = named.withColumn("who", F.xxhash64("producer", *_PARTITION))
    in_log_order = Window.partitionBy("who").orderBy("offset")
    earlier = in_log_order.rowsBetween(Window.unboundedPreceding, -1)
    counted = named.withColumns(
        {
            "before": F.lag("sequence").over(in_log_order),
            "first": F.first("sequence").over(earlier),
            "highest": F.max("sequence").over(earlier),
        }
    )
    fell, left = F.col("sequence") < F.col("before"), F.col("sequence") - F.col("first")
    restarts = counted.where(fell & (left * LEFT <= F.col("highest") - F.col("first")))
    last = restarts.groupBy("who", "producer", *_PARTITION).agg(
        *(F.max_by(name, "offset").alias(name) for name in ("sequence", "highest")), F.max("offset").alias("offset")
    )
    return [
        Restart(
            partition=TopicPartition.model_validate({name: row[name] for name in _PARTITION}).key,
            producer=row.producer,
            offset=row.offset,
            sequence=row.sequence,
            highest=row.highest,
        )
        for row in last.orderBy("producer", *_PARTITION).limit(SHOWN).collect()
    ]
