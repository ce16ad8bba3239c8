"""Versions that go backwards: of two records of a key the later one in the partition has the smaller version.

A counter began again, a source was restored from a backup, or a retry came late. What is superseded by such a record is
`superseded/backwards`, in a batch and against the table alike. Rows do not depend on it.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.positions import partition_of
from onefold.folding.witness import with_witness
from onefold.tables import staging as C

AHEAD = "_ahead"
"""While a batch is judged: {order, witness} of the record of the key, earlier in the partition, whose version is the
greatest and greater than the record's own; or null."""
BEHIND = "_behind"
"""Whether there is such a record: a column of its own, so that windows that sort by it share their sort."""
_VERSION = C.VERSION.removeprefix("_")


def with_ahead(
    records: DataFrame, dataset: Dataset, within: tuple[str, ...], counts: Column, *, asked: bool
) -> DataFrame:
    """Add `_ahead` and `_behind` to records of a batch, by one sort of narrow rows and no exchange; null and false
    where it is not `asked`, and for records that do not count."""
    top = F.max(F.when(counts, with_witness(records, C.VERSION, C.ORDER)))
    if not asked or not dataset.source.exact or dataset.before_offset == 0:  # an offset never goes backwards
        nothing = with_witness(records, C.ORDER)
        return records.withColumns({AHEAD: F.when(F.lit(False), nothing), BEHIND: F.lit(False)})
    place = [F.col(C.ORDER)[name] for name in ("cluster", "topic", "partition")]
    in_log_order = Window.partitionBy(C.KEY, *within, *place).orderBy(*_place_in_partition(F.col(C.ORDER)))
    with_top = records.withColumn(AHEAD, top.over(in_log_order))
    found, order = F.col(AHEAD), F.col(AHEAD)["order"]
    is_ahead = counts & (found[_VERSION] > F.col(C.VERSION)) & lies_behind(order, dataset)
    ahead = F.when(is_ahead, F.struct(order.alias("order"), found["witness"].alias("witness")))
    return with_top.withColumn(AHEAD, ahead).withColumn(BEHIND, F.col(AHEAD).isNotNull())


def lies_behind(other: Column, dataset: Dataset) -> Column:
    """Whether a record lies later in its partition than another, of which `other` is the order. An inferred position
    never says so."""
    if not dataset.source.exact:
        return F.lit(False)
    order = F.col(C.ORDER)
    mine, theirs = (F.struct(*_place_in_partition(of)) for of in (order, other))
    return F.coalesce((partition_of(order) == partition_of(other)) & (mine > theirs), F.lit(False))


def _place_in_partition(order: Column) -> list[Column]:
    """Where a record lies in its partition; a topic that was created again goes on."""
    return [order[name] for name in ("incarnation", "offset")]
