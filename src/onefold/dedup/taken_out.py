"""Take records out of a batch, as recorded decisions say: they keep their place and meet no other record."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dedup.documents import TakenOut
from onefold.landing.offsets import TopicPartition
from onefold.records import envelope as E
from onefold.records.within import mark_positions

_TAKEN = "_taken"


def take_out(records: DataFrame, taken: TakenOut) -> DataFrame:
    """Give what is taken out the fate `skipped`: it is neither judged nor chosen, and gets that verdict."""
    if taken.everything:
        return records.withColumn(E.FATE, F.lit(E.SKIPPED))
    if taken.objects:
        return _fated(records, F.col(E.OBJECT).isin(taken.objects))
    if not taken.partitions:
        return records
    ranges = [(TopicPartition.of(key), one) for key, some in taken.partitions.items() for one in some]
    return _fated(mark_positions(records, _TAKEN, ranges), F.col(_TAKEN)).drop(_TAKEN)


def _fated(records: DataFrame, taken: Column) -> DataFrame:
    return records.withColumn(E.FATE, F.when(taken, F.lit(E.SKIPPED)).otherwise(F.col(E.FATE)))
