"""What a proof did not look at is named: gaps, records that are left out, and batches that are not published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.masks import digest
from onefold.lake import Lake
from onefold.operations.decide import discard
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun
from onefold.proof.documents import Omitted, OmittedBatch
from onefold.proof.prove import prove
from tests.support.pipeline import Sent, export, run

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
EU, US = {"region": "eu"}, {"region": "us"}


@pytest.fixture
def shops(dataset: MakeDataset) -> MakeDataset:
    """An upsert of shops by the key's id and the header's version, of one region."""

    def make(version: str = "long(header.v)", **more: Any) -> Dataset:
        given: dict[str, Any] = {
            "source": dataset().source.model_dump() | {"filter": "region = 'eu'"},
            "key": {"format": "json"},
            "value": {"fields": {"region": "string", "note": "string?"}},
            "apply": {"mode": "upsert", "key": ["key.id"], "version": {"from": version}},
            "target": {"table": "tests.shops", "buckets": 2},
            "quality": {"max_conflicts": 0, "max_rejected_rate": 1.0},
        }
        return dataset("shops", **given | more)

    return make


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of records: (offset, key, version, value)."""

    def run_records(made: Dataset, *records: tuple[int, str, int, dict[str, Any]], partition: int = 0) -> BatchRun:
        sent = [
            Sent(partition, offset, offset, key, version, str(offset), value) for offset, key, version, value in records
        ]
        return run(session, lake, made, export(tmp_path / f"in-{len(list(tmp_path.glob('in-*')))}", sent))

    return run_records


def test_what_was_not_looked_at_is_counted_and_named(
    shops: MakeDataset, fold: Fold, session: SparkSession, lake: Lake
) -> None:
    """A filtered version whose older one comes later; a gap; a rejected record; a red batch, which is discarded."""
    made = shops()
    fold(made, (0, "a", 2, US), (1, "b", 1, EU))
    assert prove(session, lake, made).omitted == Omitted(filtered=1), "no row is older yet"
    assert fold(made, (2, "a", 1, EU)).published, "the gate has not seen the filtered version in this batch"
    assert fold(made, (5, "c", 1, {"region": 7})).published
    red = fold(made, (6, "b", 1, EU | {"note": "x"})).batch

    found = prove(session, lake, made)

    assert found.holds
    [where] = found.omitted.gaps
    assert found.omitted == Omitted(
        gaps={where: [(3, 5)]},
        quarantined=1,
        filtered=1,
        batches=[OmittedBatch(batch=red, state="red", records=1)],
        filtered_newer=1,
        first_filtered=['key {"id":"a"} at t-0@0'],
    )
    assert found.not_looked_at == (
        "not looked at: 1 quarantined record; 1 filtered record; a gap of 2 offsets in t-0: [3, 5); of the filtered "
        f'records 1 newer than the row of their key (key {{"id":"a"}} at t-0@0); batch {red} (red, 1 record)'
    )
    discard(lake, made, red, "mia", "wrong")
    half = prove(session, lake, made, share=0.5)
    assert half.not_looked_at.startswith("not looked at: 50.0000% of the keys; ")
    assert [batch.state for batch in half.omitted.batches] == ["discarded"]


@pytest.mark.nightly(reason="what was not looked at is counted and named by day")
def test_a_batch_that_was_rolled_back_is_named(
    shops: MakeDataset, fold: Fold, session: SparkSession, lake: Lake
) -> None:
    made = shops()
    first = fold(made, (0, "a", 1, EU))
    assert prove(session, lake, made).not_looked_at == "not looked at: nothing that was landed"
    second = fold(made, (1, "b", 1, EU), (2, "c", 1, EU))
    roll_back(lake, made, first.batch, "mia", "to look")
    assert prove(session, lake, made).omitted == Omitted(
        batches=[OmittedBatch(batch=second.batch, state="rolled_back", records=2)]
    )


@pytest.mark.nightly(reason="test_masks has masked keys in proofs by day")
def test_a_masked_key_is_named_by_its_digest(shops: MakeDataset, fold: Fold, session: SparkSession, lake: Lake) -> None:
    made = shops(mask={"id": "hash"})
    fold(made, (0, "a", 2, US))
    fold(made, (1, "a", 1, EU))
    [named] = prove(session, lake, made).omitted.first_filtered
    assert digest("a") in named
    assert '"a"' not in named


@pytest.mark.nightly(reason="test_situations has offsets of two partitions by day")
def test_versions_that_are_offsets_compare_within_one_partition_only(
    shops: MakeDataset, fold: Fold, session: SparkSession, lake: Lake
) -> None:
    """Offset 9 of another partition is not newer than offset 1 of this one."""
    made = shops(version="offset")
    fold(made, (9, "a", 1, US), (10, "b", 1, US), partition=1)
    fold(made, (0, "b", 1, EU), (1, "a", 1, EU))
    assert prove(session, lake, made).omitted.filtered_newer == 0
    fold(made, (8, "b", 1, EU), partition=1)
