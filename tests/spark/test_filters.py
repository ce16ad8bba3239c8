"""Which records belong to a dataset (`source.filter`), and which of its rows readers see (`target.where`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of
from tests.support.pipeline import Sent, export, run

Fold = Callable[..., BatchRun]
MakeDataset = Callable[..., Dataset]


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of records of one partition: (offset, key, version, value)."""

    def one(made: Dataset, *records: tuple[int, str, int, dict[str, Any] | None]) -> BatchRun:
        sent = [Sent(0, offset, offset, key, version, str(offset), value) for offset, key, version, value in records]
        return run(session, lake, made, export(tmp_path / f"in-{len(list(tmp_path.glob('in-*')))}", sent))

    return one


@pytest.fixture
def shops(dataset: MakeDataset) -> MakeDataset:
    """An upsert of shops by the key's id and the header's version; `op = 'd'` deletes."""

    def make(wanted: str | None = None, where: str | None = None, guard: str = "newer", **more: Any) -> Dataset:
        apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)", "guard": guard}}
        given: dict[str, Any] = {
            "source": dataset().source.model_dump() | ({"filter": wanted} if wanted else {}),
            "key": {"format": "json"},
            "value": {"fields": {"region": "string", "op": "string?"}},
            "apply": apply | {"delete_when": "op = 'd'"},
            "target": {"table": "tests.shops", "buckets": 2} | ({"where": where} if where else {}),
        }
        return dataset("shops", **given | more)

    return make


def counts(done: BatchRun) -> dict[str, dict[str, int]]:
    assert done.published, done.red
    return done.published.counts


def ids(lake: Lake, made: Dataset) -> list[str]:
    """The keys that readers see."""
    return sorted(row["id"] for row in rows_of(lake, made))


def test_a_delete_without_the_field_that_the_filter_reads_deletes(
    fold: Fold, shops: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    """A connector's delete holds the key and little else; one of another region leaves the row alone."""
    made = shops(wanted="region = 'eu'")
    fold(made, (0, "a", 1, {"region": "eu"}), (1, "b", 1, {"region": "eu"}), (2, "c", 1, {"region": "us"}))
    assert ids(lake, made) == ["a", "b"]
    done = fold(made, (3, "a", 2, {"op": "d"}), (4, "c", 2, {"region": "us", "op": "d"}), (5, "d", 1, {"op": "u"}))
    assert counts(done) == {
        "applied": {"delete": 1},
        "filtered": {"filter": 1},
        "rejected": {"missing_field": 1},
    }
    assert ids(lake, made) == ["b"]
    assert prove(session, lake, made).holds
