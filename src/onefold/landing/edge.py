"""Up to when a plan reads its dataset's source, and what of that time lies behind its cut."""

from __future__ import annotations

from datetime import UTC, datetime

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.cuts import cut_of
from onefold.landing.plan import Plan
from onefold.offsets import Coverage


def edge_of(lake: Lake, dataset: Dataset, plan: Plan) -> datetime | None:
    """The end of a plan's interval; of a plan without one when it was landed, or now. None: it reads something else
    than what is new in the source: a folder that was named, a source of before, what is quarantined, or nothing."""
    if plan.decided or plan.source != dataset.source_id:
        return None
    if plan.interval:
        return plan.interval.end
    if plan.folder is not None and plan.folder != lake.export(dataset).uri:
        return None
    landed = lake.storage.stat(lake_keys.manifest(plan.source, plan.batch))
    return landed.modified if landed else datetime.now(UTC)


def oldest_behind(lake: Lake, plan: Plan, coverage: Coverage) -> datetime | None:
    """When the oldest record was written that the cut at the end of a plan's interval holds back, and that a table of
    this coverage lacks. None: there is no such record, or no cut."""
    cut = cut_of(lake, plan.source, plan.interval.end) if plan.interval and plan.held_back else None
    return cut.oldest_behind(coverage) if cut else None
