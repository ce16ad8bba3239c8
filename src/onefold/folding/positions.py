"""What positions say about two records."""

from __future__ import annotations

from pyspark.sql import Column, WindowSpec
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.records import envelope as E
from onefold.tables import staging as C

_ORDER, _HASH = "_fact_before_order", "_fact_before_hash"
NEIGHBOUR = (_ORDER, _HASH)
"""Order and hash of the record before in the order, while `repeats` and `clashes` ask for them."""


def neighbour(group: WindowSpec) -> dict[str, Column]:
    """The columns `NEIGHBOUR`. Spark evaluates each use of a window function apart, so they are columns."""
    return {_ORDER: F.lag(C.ORDER).over(group), _HASH: F.lag(C.HASH).over(group)}


def repeats() -> Column:
    """The position of the record before in the order with the same content: read or written twice."""
    return _same_position() & F.coalesce(F.col(_HASH) == F.col(C.HASH), F.lit(False))


def clashes(dataset: Dataset) -> Column:
    """The position of the record before in the order with other content; an inferred position never says so."""
    differs = F.coalesce(F.col(_HASH) != F.col(C.HASH), F.lit(False))
    return _same_position() & differs if dataset.source.exact else F.lit(False)


def _same_position() -> Column:
    """Whether the row before in the order has the same position; equal positions are neighbours."""
    return F.coalesce(position_of(F.col(_ORDER)) == position_of(F.col(C.ORDER)), F.lit(False))


def position_of(order: Column) -> Column:
    """Where a record is."""
    return F.struct(*(order[name.removeprefix("_")] for name in E.POSITION))


def partition_of(order: Column) -> Column:
    """Where a record was written, of whichever incarnation of its topic."""
    return F.struct(*(order[name] for name in ("cluster", "topic", "partition")))


def place_of(order: Column) -> Column:
    """A record's partition, of any incarnation of its topic, as text."""
    where = partition_of(order)
    return F.concat_ws(" ", *(where[name].cast("string") for name in ("cluster", "topic", "partition")))
