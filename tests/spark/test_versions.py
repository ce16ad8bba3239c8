"""Versions of several parts: compared from the left, in a batch and against the table."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.ledger import rows_of
from tests.spark.pipeline import Sent, export, run


def test_the_first_part_that_differs_decides(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"owner": "string"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": ["long(header.v)", "timestamp"]}},
    )
    first = [
        Sent(0, 0, 30, "a", 1, "1", {"owner": "v1 at 30"}),
        Sent(0, 1, 20, "a", 2, "2", {"owner": "v2 at 20"}),
        Sent(0, 2, 40, "b", 1, "3", {"owner": "v1 at 40"}),
        Sent(0, 3, 40, "b", 1, "4", {"owner": "v1 at 40"}),
        Sent(0, 8, 40, "c", 1, "9", {"owner": "v1 at 40"}),
    ]
    second = [
        Sent(0, 4, 99, "a", 1, "5", {"owner": "v1 at 99"}),
        Sent(0, 5, 21, "a", 2, "6", {"owner": "v2 at 21"}),
        Sent(0, 6, 39, "b", 1, "7", {"owner": "v1 at 39"}),
        Sent(0, 9, 40, "c", 1, "8", {"owner": "another at 40"}),
    ]
    told = []
    for name, records in (("first", first), ("second", second)):
        done = run(session, lake, made, export(tmp_path / name, records)).published
        assert done
        told.append({f"{verdict}/{reason}": n for verdict, one in done.counts.items() for reason, n in one.items()})
    assert told == [
        {"applied/insert": 3, "duplicate/key_version": 1, "superseded/in_batch": 1},
        {"applied/update": 1, "conflict/same_version": 1, "superseded/in_batch": 1, "superseded/stored": 1},
    ]
    assert {row["id"]: row["owner"] for row in rows_of(lake, made)} == {
        "a": "v2 at 21",
        "c": "another at 40",
        "b": "v1 at 40",
    }
