"""Up to which instant a table of live topics has everything."""

from __future__ import annotations

from datetime import datetime

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.cuts import Cut, cut_of, ranges_between
from onefold.landing.plan import own_plans
from onefold.offsets import Coverage, minus


def complete_through(lake: Lake, dataset: Dataset, coverage: Coverage) -> datetime | None:
    """The newest instant of a cut before which the table has judged every offset since its first interval began.

    Which batch brought an offset is all the same, and an interval without records is complete. Where older records lie
    behind that cut (`Cut.held_back`), it is the instant of the oldest of them. None for export files, which cannot know
    whether they are complete, and where no interval was planned.
    """
    if dataset.source.kafka is None:
        return None
    source = dataset.source_id
    begins = [plan.interval.start for plan in own_plans(lake, dataset) if plan.interval and plan.source == source]
    first = cut_of(lake, source, min(begins)) if begins else None
    if first is None:
        return None
    after = lake_keys.cut(source, first.instant)
    names = sorted(info.key for info in lake.storage.list(lake_keys.cuts(source)) if info.key > after)
    newest = _last_complete(lake, first, names, coverage)
    if newest is None:
        return None
    behind = newest.oldest_behind(coverage)
    return newest.instant if behind is None else min(newest.instant, behind)


def _last_complete(lake: Lake, first: Cut, names: list[str], coverage: Coverage) -> Cut | None:
    """The last of the cuts before which everything is covered: each has all that the cuts before it have."""
    found, low, high = None, 0, len(names)
    while low < high:
        middle = (low + high) // 2
        cut = lake.get(names[middle], Cut)
        if cut and _is_covered(first, cut, coverage):
            found, low = cut, middle + 1
        else:
            high = middle
    return found


def _is_covered(first: Cut, cut: Cut, coverage: Coverage) -> bool:
    return not any(
        minus([(range_.start, range_.end)], coverage.known(range_.topic_partition.key))
        for range_ in ranges_between(first, cut)
        if range_.start < range_.end
    )
