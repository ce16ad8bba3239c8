"""Shuffle rows into parts of the target's buckets, so that what a task writes falls into few of them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.tables import staging as C

SLOT = "_slot"
BUCKET_FUNCTION = "onefold.system.bucket"


def in_slots(rows: DataFrame, dataset: Dataset, slots: int, spread: Column | None = None) -> DataFrame:
    """Add `_slot` and shuffle by it: rows of one key share a slot; `spread` is that of rows without a key."""
    bucket = F.expr(f"{BUCKET_FUNCTION}({dataset.target.buckets}, {C.KEY})")
    part = F.pmod(F.xxhash64(C.KEY), F.lit(slots)).cast("int")
    slot = bucket * F.lit(slots) + part
    slot = slot if spread is None else F.coalesce(slot, spread)
    # A task a slot: by a hash of it some tasks would have several, and as many none.
    return rows.withColumn(SLOT, slot).repartitionById(dataset.target.buckets * slots, SLOT)
