"""Of a large table, only rows whose key a small batch may have: what a join would sort, it does not get.

A join of two tables that are bucketed alike shuffles nothing, but it sorts every key of the buckets that it reads. So
a hash of the batch's keys is broadcast first: 8 bytes a key, whatever the payload and however often one key comes. Who
passes by accident is left to the join. Where nothing but the key is asked of the other side, the keys go along, and no
join is needed behind it.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.tables import staging as C

MOST = 1_000_000
"""Records whose hashes or keys are broadcast at most: it bounds the driver's memory and that of each executor."""
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
    """The `rows` whose key may be one of `keys` (both with `tables.staging.row_key`), where they lie: no exchange. All,
    where it is not worth it (not `large`)."""
    if not large:
        return rows
    hashes = F.broadcast(keys.select(F.expr(_hash(dataset)).alias(_OF)))
    return rows.join(hashes, F.col(_OF) == F.expr(_hash(dataset)), "left_semi")


def is_among(view: str, dataset: Dataset, table: str) -> str:
    """The condition, in SQL, that a row of `table` has a key of `view`, whose keys are broadcast: about 100 bytes each.

    They meet by the hash, and then the key is compared. Said with `=`, Spark would look up by the key as well, in a
    table of another kind that takes eight seconds longer to build of 800,000 keys (4.1).
    """
    table_hash, view_hash = (_hash(dataset, of) for of in (f"{table}.", "s."))
    same = [f"{table}.{name} BETWEEN s.{name} AND s.{name}" for name in C.row_key(dataset)]
    met = " AND ".join([f"{table_hash} = {view_hash}", *same])
    return f"EXISTS (SELECT /*+ BROADCAST(s) */ 1 FROM {view} s WHERE {met})"


def _hash(dataset: Dataset, of: str = "") -> str:
    """Of all that the tables are partitioned by: Spark tells the scan of the broadcast side, too, by which partitions
    the join behind it goes, and it must have them (4.1: else an index is out of bounds)."""
    return HASH.format(", ".join(f"{of}{name}" for name in C.row_key(dataset)))
