"""How much a driver has to do: for small batches alone a JVM's second compiler takes more than it gives."""

from __future__ import annotations

from collections.abc import Iterable

from onefold.dataset import Dataset
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.plan import Plan
from onefold.spark.settings import SMALL_BYTES

_TABLE_BYTES = 256 << 20
"""Bytes of a table up to which reading its keys is small, too."""


def all_small(lake: Lake, dataset: Dataset, plans: Iterable[Plan]) -> bool:
    """Whether a driver is started for nothing but small batches, and for a table that is small, too."""
    if any(plan.estimated_bytes > SMALL_BYTES for plan in plans):
        return False
    state = find_state(lake, dataset)
    return state is None or state.size <= _TABLE_BYTES
