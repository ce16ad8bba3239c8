"""Take records out of a batch, as recorded decisions or their positions say: they meet no other record."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dedup.documents import TakenOut
from onefold.offsets import Range, TopicPartition
from onefold.records import envelope as E
from onefold.records.covered import mark_lines, mark_positions

_TAKEN = "_taken"


def take_out(records: DataFrame, taken: TakenOut) -> DataFrame:
    """Give what is taken out its fate, `skipped`, `forgotten` or `covered`: it is neither judged nor chosen."""
    if taken.everything:
        return records.withColumn(E.FATE, F.lit(E.SKIPPED))
    if taken.covered:
        marked = mark_positions(records, _TAKEN, _ranges(taken.covered))
        records = _fated(marked, F.col(_TAKEN), E.COVERED).drop(_TAKEN)
    if taken.forgotten:
        marked = mark_positions(records, _TAKEN, _ranges(taken.forgotten))
        records = _fated(marked, F.col(_TAKEN), E.FORGOTTEN).drop(_TAKEN)
    if taken.forgotten_lines:
        marked = mark_lines(records, _TAKEN, taken.forgotten_lines)
        records = _fated(marked, F.col(_TAKEN), E.FORGOTTEN).drop(_TAKEN)
    if taken.objects:
        return _fated(records, F.col(E.OBJECT).isin(taken.objects))
    if not taken.partitions:
        return records
    return _fated(mark_positions(records, _TAKEN, _ranges(taken.partitions)), F.col(_TAKEN)).drop(_TAKEN)


def _ranges(partitions: dict[str, list[Range]]) -> list[tuple[TopicPartition, Range]]:
    return [(TopicPartition.of(key), range_) for key, some in partitions.items() for range_ in some]


def _fated(records: DataFrame, taken: Column, fate: str = E.SKIPPED) -> DataFrame:
    return records.withColumn(E.FATE, F.when(taken, F.lit(fate)).otherwise(F.col(E.FATE)))
