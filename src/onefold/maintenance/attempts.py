"""Attempts that are over: published, or overtaken by a newer attempt. Their branches and scratch tables may go."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dedup.documents import Staged, staged_key
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.plan import taken_plans
from onefold.tables.names import SCRATCH, STAGING
from onefold.upsert.commit_record import chain
from onefold.upsert.documents import Upserted

_BRANCH = re.compile(r"(attempt|erase)_[0-9a-f]+|carry_[0-9]+_[0-9]+")


def waiting(lake: Lake, dataset: Dataset, table: StateTable) -> Iterator[tuple[Staged | None, Upserted | None]]:
    """The newest staging and attempt of every batch that is not published: a person may still decide."""
    published = {record.batch for record in chain(lake, dataset, table.main.record)}
    for plan in taken_plans(lake, dataset.name):
        if plan.batch not in published:
            latest = lake.get(lake_keys.latest(dataset, plan.batch), Upserted)
            yield lake.get(staged_key(lake, dataset, plan.batch), Staged), latest


def old_branches(table: StateTable, waited_for: set[str], age: timedelta) -> list[str]:
    """Branches that no waiting attempt needs, and that were written long enough ago."""
    written = table.branches()
    before = datetime.now(UTC) - age
    return sorted(
        name for name, at in written.items() if _BRANCH.fullmatch(name) and name not in waited_for and at <= before
    )


def old_verdicts(
    lake: Lake, dataset: Dataset, table: StateTable, name: str, waited_for: set[str], age: timedelta
) -> list[str]:
    """Attempts whose rows of the verdict table `name` count for nothing, written long enough ago."""
    catalog = open_catalog(lake)
    if not catalog.table_exists((STAGING, name)):
        return []
    published = {record.attempt for record in chain(lake, dataset, table.main.record)}
    verdicts = catalog.load_table((STAGING, name))
    # Where the snapshot that wrote a partition has expired, it was written before all that are left.
    oldest = min((_instant(snapshot.timestamp_ms) for snapshot in verdicts.snapshots()), default=datetime.now(UTC))
    before = datetime.now(UTC) - age
    written = {
        row["partition"]["attempt"]: at.replace(tzinfo=UTC) if (at := row["last_updated_at"]) else oldest
        for row in verdicts.inspect.partitions().to_pylist()
    }
    return sorted(attempt for attempt, at in written.items() if attempt not in published | waited_for and at <= before)


def old_tables(lake: Lake, dataset: Dataset, waited_for: set[str], age: timedelta) -> list[str]:
    """Tables of attempts that no waiting attempt needs, and that were written long enough ago."""
    catalog, before = open_catalog(lake), datetime.now(UTC) - age
    own = re.compile(rf"{re.escape(dataset.name)}__({'|'.join(SCRATCH)})_[0-9a-f]+")
    found = []
    for identifier in catalog.list_tables(STAGING) if catalog.namespace_exists(STAGING) else []:
        name = identifier[-1]
        if own.fullmatch(name) and name not in waited_for:
            written = _instant(catalog.load_table(identifier).metadata.last_updated_ms)
            if written <= before:
                found.append(name)
    return sorted(found)


def old_results(lake: Lake, dataset: Dataset, age: timedelta) -> list[str]:
    """What Spark's steps left for drivers in other processes, written long enough ago: they have read it."""
    before = datetime.now(UTC) - age
    return sorted(info.key for info in lake.storage.list(lake_keys.results(dataset.name)) if info.modified <= before)


def _instant(millis: int) -> datetime:
    return datetime.fromtimestamp(millis / 1000, tz=UTC)
