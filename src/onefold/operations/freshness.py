"""Whether a table is fresh where nothing new was read: then no gate asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import StaleError
from onefold.iceberg.state_table import find_state
from onefold.instants import span_text
from onefold.lake import Lake
from onefold.landing.edge import edge_of, oldest_behind
from onefold.landing.plan import Plan
from onefold.quality.checks.freshness import seconds_old
from onefold.upsert.commit_record import CommitRecord

_NEWEST = "the newest record that is applied, superseded or held"
_WITH_BEHIND = f"{_NEWEST}, or the oldest record that is held back behind that instant,"


def check_fresh(lake: Lake, dataset: Dataset, plan: Plan) -> None:
    """Ask of a plan that reads nothing how old the table is, as the check `freshness` does of a batch.

    Raises:
        StaleError: it is older than `quality.freshness` allows, at the live edge.
    """
    limit, edge = dataset.quality.freshness, edge_of(lake, dataset, plan)
    table = find_state(lake, dataset) if limit and edge and plan.empty else None
    record = lake.get(lake_keys.record(dataset, table.main.record), CommitRecord) if table else None
    if limit is None or edge is None or record is None:
        return
    behind = oldest_behind(lake, plan, record.coverage)
    seconds = seconds_old(edge, datetime.now(UTC), limit, record.newest_used, behind)
    if seconds is not None and seconds > limit.total_seconds():
        age = timedelta(seconds=int(seconds))
        until, since = (f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in (edge, edge - age))
        what = _NEWEST if behind is None else _WITH_BEHIND
        raise StaleError(dataset.name, until, f"{what} is of {since}", span_text(age), span_text(limit))
