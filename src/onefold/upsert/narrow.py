"""Of a large table, only rows whose key a small batch may have: what a join would sort, it does not get.

A join of two tables that are bucketed alike shuffles nothing, but it sorts every key of the buckets that it reads. So
a hash of the batch's keys is broadcast first: 8 bytes a key, whatever the payload and however often one key comes. Who
passes by accident is left to the join.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup import columns as C

MOST = 1_000_000
"""Records whose hashes are broadcast at most: it bounds the driver's memory and that of each executor."""
LARGE = 64 << 20
"""Bytes of a table that is narrowed. With ten million rows it saves a third of the look-up's CPU, with two million it
made no clear difference; what lies below is taken not to be worth a job of its own (not measured)."""
HASH = "xxhash64({})"
"""What is broadcast of a key."""
_OF = "_of_batch"


def worthwhile(table_bytes: int, records: int) -> bool:
    """Whether a table is large enough, and a batch small enough, to be narrowed by it. What is empty never is."""
    return table_bytes >= max(LARGE, 1) and records <= MOST


def narrowed(rows: DataFrame, keys: DataFrame, dataset: Dataset, *, large: bool) -> DataFrame:
    """The `rows` whose key may be one of `keys` (both with `dedup.columns.row_key`), where they lie: no exchange. All,
    where it is not worth it (not `large`)."""
    if not large:
        return rows
    hashes = F.broadcast(keys.select(F.expr(_hash(dataset)).alias(_OF)))
    return rows.join(hashes, F.col(_OF) == F.expr(_hash(dataset)), "left_semi")


def may_be_among(view: str, dataset: Dataset) -> str:
    """The same as a condition in SQL; `view` has the keys."""
    of = _hash(dataset)
    return f"{of} IN (SELECT /*+ BROADCAST({view}) */ {of} FROM {view})"


def _hash(dataset: Dataset) -> str:
    """Of all that the tables are partitioned by: Spark tells the scan of the broadcast side, too, by which partitions
    the join behind it goes, and it must have them (4.1: else an index is out of bounds)."""
    return HASH.format(", ".join(C.row_key(dataset)))
