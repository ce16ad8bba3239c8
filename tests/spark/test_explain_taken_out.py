"""`explain` of a key lists what was taken out before it touched the row: by the filter, a skip, its own rejection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.offsets import Position
from onefold.operations.decide import skip
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.report.explain import explain, explain_position, explain_sum
from onefold.tables.key_digest import digest_of_key, period_of_key
from tests.support.pipeline import Sent, entries, export, increments, run

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
LAX = {"max_rejected_rate": 1.0, "max_conflicts": 0, "min_records": 1}
EU, US = {"region": "eu"}, {"region": "us"}


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of records: (offset, key, version, value)."""

    def run_records(made: Dataset, *records: tuple[int, str, int, Any]) -> BatchRun:
        sent = [Sent(0, offset, offset, key, version, f"m{offset}", value) for offset, key, version, value in records]
        return run(session, lake, made, export(tmp_path / f"in-{len(list(tmp_path.glob('in-*')))}", sent))

    return run_records


def shops(dataset: MakeDataset, **more: Any) -> Dataset:
    """An upsert of shops of one region by the Kafka key's id; no null value means anything."""
    given: dict[str, Any] = {
        "source": dataset().source.model_dump() | {"filter": "region = 'eu'"},
        "key": {"format": "json"},
        "value": {"fields": {"region": "string", "size": "int?"}},
        "apply": {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)"}},
        "target": {"table": "tests.shops", "buckets": 2},
        "quality": LAX | {"max_filtered_newer": 1},
    }
    return dataset("shops", **given | more)


def summarize_rows(rows: list[dict[str, Any]]) -> list[tuple[int, str, str, bool]]:
    """Offset, verdict, reason, and whether the record has the row."""
    return [(row["offset"], row["verdict"], row["reason"], row["row"] is not None) for row in rows]


def test_a_key_has_its_filtered_skipped_and_rejected_records_with_verdict_position_and_batch(
    fold: Fold, session: SparkSession, lake: Lake, dataset: MakeDataset
) -> None:
    """And nothing of another key, nor a record whose key cannot be read."""
    made = shops(dataset)
    first = fold(made, (0, "a", 1, EU), (1, "b", 1, EU), (2, "a", 1, US), (3, "b", 3, US))
    assert first.published, first.red
    second = fold(made, (4, "a", 2, "no json"), (5, "a", 3, EU | {"size": "wide"}), (6, "", 9, "no json"))
    assert second.published, second.red
    bad = fold(made, (7, "a", 4, EU | {"size": 7}), (8, "a", 4, EU | {"size": 8}))
    assert bad.red, "one version with two contents"
    skip(lake, made, bad.batch, "mia", "a test")
    plan = find_plan(lake, made, bad.batch)
    assert run_batch(lake, made, plan, InSession(lake, session)).published

    rows = explain(lake, made, digest_of_key(made, {"id": "a"}))

    assert summarize_rows(rows) == [
        (0, "applied", "insert", True),
        (2, "filtered", "filter", False),
        (4, "rejected", "undecodable", False),
        (5, "rejected", "wrong_type", False),
        (7, "skipped", "decision", False),
        (8, "skipped", "decision", False),
    ]
    assert [row["batch"] for row in rows] == [first.batch] * 2 + [second.batch] * 2 + [bad.batch] * 2
    assert all(row["published"] and row["key"] == rows[0]["key"] for row in rows)
    assert explain_position(lake, made, Position("t", 0, 5)) == rows, "a position has what its key has"
    assert summarize_rows(explain(lake, made, digest_of_key(made, {"id": "b"}))) == [
        (1, "applied", "insert", True),
        (3, "filtered", "filter", False),
    ]


def test_a_filter_that_reads_headers_only_is_listed_too(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    source = dataset().source.model_dump() | {"filter": "header.v = '1'"}
    made = shops(dataset, source=source, quality=LAX)
    fold(made, (0, "a", 1, EU), (1, "a", 2, EU))
    assert summarize_rows(explain(lake, made, digest_of_key(made, {"id": "a"}))) == [
        (0, "applied", "insert", True),
        (1, "filtered", "filter", False),
    ]


@pytest.mark.nightly(reason="a key without periods lists its records by day")
def test_a_record_of_a_period_is_listed_though_nothing_of_its_batch_has_a_row_there(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    within = {"message_id": "header.m", "business_key": ["id"], "within": "day(at)"}
    made = dataset(
        "parcels",
        source=dataset().source.model_dump() | {"filter": "region = 'eu'"},
        value={"fields": {"id": "string", "region": "string", "at": "timestamp"}},
        identity=within,
        quality=LAX,
    )
    march, april = "2026-03-01T10:00:00Z", "2026-04-01T10:00:00Z"
    fold(made, (0, "-", 1, EU | {"id": "p", "at": march}))
    fold(made, (1, "-", 1, EU | {"id": "q", "at": april}), (2, "-", 1, US | {"id": "p", "at": march}))
    key = {"id": "p", "at": "2026-03-01"}
    assert summarize_rows(explain(lake, made, digest_of_key(made, key), period_of_key(made, key))) == [
        (0, "applied", "insert", True),
        (2, "filtered", "filter", False),
    ]


@pytest.mark.nightly(reason="a key lists what was taken out by day")
def test_an_append_lists_them_by_its_identity(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    made = entries(dataset, quality=LAX)
    fold(made, (0, "-", 1, {"id": "x", "credit": 1}), (1, "-", 1, {"id": "x", "credit": "much"}))
    assert summarize_rows(explain(lake, made, digest_of_key(made, {"id": "x"}))) == [
        (0, "applied", "insert", True),
        (1, "rejected", "wrong_type", False),
    ]


@pytest.mark.nightly(reason="a key lists what was taken out by day")
def test_a_sum_lists_the_messages_that_were_rejected(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    made = increments(dataset, {"delta": "long"}, {"stock": "delta"}, quality=LAX)
    fold(made, (0, "s", 0, {"delta": 2}), (1, "s", 0, {"delta": "two"}), (2, "z", 0, {"delta": "two"}))
    assert [row[:3] for row in summarize_rows(explain_sum(lake, made, {"id": "s"}))] == [
        (0, "applied", "add"),
        (1, "rejected", "wrong_type"),
    ]
    assert [row[:3] for row in summarize_rows(explain_sum(lake, made, {"id": "z"}))] == [(2, "rejected", "wrong_type")]
