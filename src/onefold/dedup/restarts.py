"""Sequences that begin again: a named producer counts from the start, and its sequence names other messages.

A retry goes back by what is under way, a restart to where the counter began. So a record restarts its producer where
its sequence is smaller than the one before it, and at most a tenth of what had been counted is left. It is asked for
each name and partition in the order of offsets. The log's own producers have epochs, and are not asked.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from onefold.dedup.documents import LEFT, Restart
from onefold.offsets import TopicPartition

SHOWN = 1_000
"""Producers of a batch that are listed, at most."""
_PARTITION = tuple(TopicPartition.model_fields)


def with_restart(records: DataFrame, in_log_order: WindowSpec) -> DataFrame:
    """Add `restart` to records with `epoch` and `sequence`: the highest sequence before, of a record that restarts its
    producer; else null. `in_log_order` has the records of one name and partition."""
    earlier = in_log_order.rowsBetween(Window.unboundedPreceding, -1)
    found = {
        "last_before": F.lag("sequence").over(in_log_order),
        "first_before": F.first("sequence").over(earlier),
        "highest_before": F.max("sequence").over(earlier),
    }
    left = F.col("sequence") - F.col("first_before")
    fell = F.col("sequence") < F.col("last_before")
    restarts = fell & (left * LEFT <= F.col("highest_before") - F.col("first_before"))
    restart = F.when((F.col("epoch") < 0) & restarts, F.col("highest_before"))
    return records.withColumns(found).withColumn("restart", restart).drop(*found)


def last_restart() -> list[Column]:
    """The last restart of a group of such records: `restart_offset`, `restart_sequence`, `restart_highest`, or null.
    Numbers alone, as aggregating a text or a struct would sort the records."""
    at = F.when(F.col("restart").isNotNull(), F.col("offset"))
    by = {"offset": "offset", "sequence": "sequence", "highest": "restart"}
    return [F.max_by(column, at).alias(f"restart_{name}") for name, column in by.items()]


def restarts_in(sessions: DataFrame) -> list[Restart]:
    """The restarts of groups by `name` and partition, at most `SHOWN`."""
    restarted = sessions.where(F.col("restart_offset").isNotNull()).orderBy("name", *_PARTITION).limit(SHOWN)
    return [
        Restart(
            partition=TopicPartition.model_validate({name: row[name] for name in _PARTITION}).key,
            producer=row.name,
            offset=row.restart_offset,
            sequence=row.restart_sequence,
            highest=row.restart_highest,
        )
        for row in restarted.collect()
    ]
