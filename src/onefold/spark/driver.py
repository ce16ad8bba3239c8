"""How much a driver has to do: for small batches alone a JVM's second compiler takes more than it gives."""

from __future__ import annotations

from collections.abc import Iterable

from onefold.dataset import Dataset
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.plan import ObjectsPlan, Plan, RangesPlan, ReplayPlan

SMALL_BYTES = 4 << 20
"""Landed bytes up to which a batch is small."""
_RECORD = 1 << 10
"""Bytes that a record of a log is taken for, before anybody has read it."""
_TABLE_BYTES = 256 << 20
"""Bytes of a table up to which reading its keys is small, too."""


def all_small(lake: Lake, dataset: Dataset, plans: Iterable[Plan]) -> bool:
    """Whether a driver is started for nothing but small batches, and for a table that is small, too."""
    if any(_size(plan) > SMALL_BYTES for plan in plans):
        return False
    state = find_state(lake, dataset)
    return state is None or state.size <= _TABLE_BYTES


def _size(plan: Plan) -> int:
    if isinstance(plan, ObjectsPlan):
        return sum(one.size for one in plan.objects)
    if isinstance(plan, RangesPlan):
        return sum(one.end - one.start for one in plan.ranges) * _RECORD
    return plan.records * _RECORD if isinstance(plan, ReplayPlan) else 0
