"""Freshness by what it should be: of what the table can have, of plain runs too, and where nothing new came."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import StaleError
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.landing.plan import Interval, ObjectsPlan, Plan
from onefold.operations.freshness import check_fresh
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.upsert.documents import upserted_of
from tests.support.pipeline import Sent

MakeDataset = Callable[..., Dataset]
HOUR = 3600
EU, US = {"region": "eu"}, {"region": "us"}


@pytest.fixture
def made(dataset: MakeDataset, lake: Lake) -> Dataset:
    """An upsert of shops of one region, whose newest record may be an hour old."""
    return dataset(
        "shops",
        source=dataset().source.model_dump() | {"filter": "region = 'eu'"},
        key={"format": "json"},
        value={"fields": {"region": "string"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)"}},
        target={"table": "tests.shops", "buckets": 2},
        quality={"freshness": "1h", "max_rejected_rate": 1.0},
    )


class Source:
    """The dataset's own export, to which files come; plain runs take up what is new."""

    def __init__(self, session: SparkSession, lake: Lake, made: Dataset) -> None:
        self.session, self.lake, self.made, self.offset = session, lake, made, 0
        self.folder = lake.settings.path(made.source.place)
        self.folder.mkdir(parents=True)

    def add(self, *records: tuple[float, str, int, Any]) -> None:
        """A file of records: (hours ago, key, version, value)."""
        lines = []
        for ago, key, version, value in records:
            at = int((time.time() - ago * HOUR) * 1000)
            lines.append(Sent(0, self.offset, at, key, version, str(self.offset), value).line())
            self.offset += 1
        (self.folder / f"{self.offset}.jsonl").write_bytes(b"".join(lines))

    def run(self, plan: Plan | None = None) -> BatchRun:
        """A plain run of what is new."""
        plan = plan or plan_batch(self.lake, self.made)
        return run_batch(self.lake, self.made, plan, InSession(self.lake, self.session))

    def newest(self, ended: BatchRun) -> float | None:
        """Hours since the newest record of a batch that counts, to the nearest one."""
        stamp = upserted_of(self.lake, self.made, ended.batch).newest_used
        return None if stamp is None else round((time.time() - stamp / 1000) / HOUR)


@pytest.fixture
def source(session: SparkSession, lake: Lake, made: Dataset) -> Source:
    return Source(session, lake, made)


def test_a_plain_run_is_red_where_only_what_does_not_count_is_new(source: Source) -> None:
    """What is filtered, rejected or a copy came a moment ago; what is applied is three hours old."""
    source.add((3, "a", 1, EU))
    source.add((0, "b", 1, US), (0, "c", 1, "no json"))
    ended = source.run()
    assert source.newest(ended) == 3
    assert ended.red
    [failed] = ended.red.failed
    assert failed.startswith("age of the newest record that is applied, superseded or held, seconds: found 10,8")
    source.add((0, "d", 1, EU))
    assert source.run().published


@pytest.mark.nightly(reason="a plain run is red by day where only what does not count is new")
def test_a_superseded_record_counts_and_so_does_what_the_table_has(source: Source) -> None:
    source.add((4, "a", 2, EU), (0, "a", 1, EU))
    first = source.run()
    assert (source.newest(first), first.red) == (0, None)
    source.add((0, "b", 1, US))
    second = source.run()
    assert (source.newest(second), second.red) == (None, None), "the table's newest record is a moment old"


def test_the_age_without_new_records_is_that_of_the_coverage(
    source: Source, lake: Lake, made: Dataset, tmp_path: Path
) -> None:
    """A plain run, and an interval at the live edge; not one of long ago, and not another folder."""
    source.add((0.5, "a", 1, EU))
    assert source.run().published
    nothing = plan_batch(lake, made)
    assert nothing.empty
    check_fresh(lake, made, nothing)
    strict = made.model_copy(update={"quality": made.quality.model_copy(update={"freshness": timedelta(minutes=10)})})
    with pytest.raises(StaleError, match=r"nothing new up to .* wanted at most 10m") as raised:
        check_fresh(lake, strict, nothing)
    assert raised.value.exit_code == 3

    def empty(hours: float, place: str = nothing.place) -> ObjectsPlan:
        end = datetime.now(UTC) - timedelta(hours=hours)
        interval = Interval(start=end - timedelta(hours=1), end=end)
        return ObjectsPlan(source=made.source_id, interval=interval, place=place, objects=[])

    check_fresh(lake, strict, empty(1))
    with pytest.raises(StaleError):
        check_fresh(lake, strict, empty(0.1))
    other = ObjectsPlan(source=made.source_id, place=str(tmp_path / "elsewhere"), objects=[])
    check_fresh(lake, strict, other)
