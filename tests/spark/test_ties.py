"""Ties go by offsets, not by clocks, end to end: the row, the red batch and what it says, the proof."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import GateRedError
from onefold.iceberg.state_table import StateTable, find_state
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.quality.documents import gate_of
from onefold.report.ledger import rows_of
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from tests.support.pipeline import Sent, accounts, export, run, tampered

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of some records."""

    def fold_batch(made: Dataset, *records: Sent) -> BatchRun:
        return run(session, lake, made, export(tmp_path / str(len([*tmp_path.iterdir()])), records))

    return fold_batch


def sent(partition: int, offset: int, at: int, owner: str, version: int = 1) -> Sent:
    """A record of key a whose clock may say anything."""
    return Sent(partition, offset, at, "a", version, f"m{partition}-{offset}", {"owner": owner})


def tied(dataset: MakeDataset, tie: str, guard: str = "newer", **more: Any) -> Dataset:
    return accounts(dataset, tie, guard, quality={"max_conflicts": 1000, "max_duplicate_rate": 1.0}, **more)


def counts(done: BatchRun) -> dict[str, dict[str, int]]:
    assert done.published, done.red
    return done.published.counts


def owners(lake: Lake, made: Dataset) -> list[str]:
    return [row["owner"] for row in rows_of(lake, made)]


@pytest.mark.by_day(
    "last-second-in order", why="tests/property/test_ties.py tries every order and split, and test_laws tie first"
)
@pytest.mark.parametrize("split", [[[0, 1]], [[0], [1]], [[1], [0]]], ids=["at once", "in order", "backwards"])
@pytest.mark.parametrize(("tie", "owner"), [("last", "second"), ("first", "first")])
def test_the_larger_or_smaller_offset_is_the_row_whatever_the_clocks_say(
    fold: Fold,
    dataset: MakeDataset,
    session: SparkSession,
    lake: Lake,
    split: Iterable[Iterable[int]],
    tie: str,
    owner: str,
) -> None:
    """The producer's clock was put back between the two."""
    made = tied(dataset, tie)
    log = [sent(0, 0, 9_000, "first"), sent(0, 1, 1_000, "second")]
    for numbers in split:
        counts(fold(made, *(log[number] for number in numbers)))
    assert owners(lake, made) == [owner]
    assert prove(session, lake, made).holds


@pytest.mark.by_day(
    "contiguous-count on-at once",
    why="the guards take the same comparison",
)
@pytest.mark.parametrize("split", [[[0, 1]], [[0], [1]], [[1], [0]]], ids=["at once", "in order", "backwards"])
@pytest.mark.parametrize(("guard", "says"), [("newer", "[long(header.v), timestamp]"), ("contiguous", "count on")])
def test_two_contents_of_a_version_in_two_partitions_are_red_in_any_order_and_cannot_be_waived(
    fold: Fold, dataset: MakeDataset, lake: Lake, split: Iterable[Iterable[int]], guard: str, says: str
) -> None:
    made = tied(dataset, "last", guard)
    log = [sent(0, 7, 1_000, "p0"), sent(1, 3, 2_000, "p1")]
    ends = [fold(made, *(log[number] for number in numbers)) for numbers in split]
    (red,) = [end for end in ends if end.red]
    assert isinstance(red.red, GateRedError)
    assert "no versions that cannot be compared: found 1, wanted at most 0" in str(red.red)
    assert "apply.version.tie: last takes the larger offset, and an offset orders the records of one" in str(red.red)
    assert says in str(red.red)
    latest = lake.get(lake_keys.latest(made, red.batch), Upserted)
    assert latest
    (check,) = [check for check in gate_of(lake, made, red.batch, latest.attempt).checks if check.red]
    assert (check.id, check.waivable) == ("comparable_versions", False)
    assert len(owners(lake, made)) == len(ends) - 1


@pytest.mark.by_day("the row stays as it is-contiguous", why="tests/property/test_ties.py has guard newer by day")
@pytest.mark.parametrize("guard", ["newer", "contiguous"])
@pytest.mark.parametrize("partitions", [(0, 1), (1, 0)], ids=["the copy is the row", "the row stays as it is"])
def test_a_row_with_a_copy_in_another_partition_is_placeless_until_its_next_version(
    fold: Fold,
    dataset: MakeDataset,
    session: SparkSession,
    lake: Lake,
    guard: str,
    partitions: tuple[int, int],
) -> None:
    """Another content of its version is red then, also one that is later than the row in the row's own partition."""
    made = tied(dataset, "last", guard)
    first, second = partitions
    assert counts(fold(made, sent(first, 5, 1_000, "same"))) == {"applied": {"insert": 1}}
    assert counts(fold(made, sent(second, 5, 2_000, "same"))) == {"duplicate": {"key_version": 1}}
    assert placeless(session, lake, made) == [True]
    assert prove(session, lake, made).holds
    for partition in partitions:
        red = fold(made, sent(partition, 9, 9_000, "other")).red
        assert "no versions that cannot be compared: found 1" in str(red)
    tampered(session, lake, made, "UPDATE {t} SET _placeless = false")
    assert prove(session, lake, made).differences == {"other_record": 1}
    tampered(session, lake, made, "UPDATE {t} SET _placeless = true")
    assert counts(fold(made, sent(first, 12, 3_000, "next", 2))) == {"applied": {"update": 1}}
    assert (owners(lake, made), placeless(session, lake, made)) == (["next"], [False])
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="tests/property/test_ties.py draws fields that do not count by day")
def test_a_copy_in_another_partition_leaves_the_fields_that_do_not_count_as_they_are(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    version = {"from": "long(header.v)", "tie": "last"}
    made = dataset(
        key={"format": "json"},
        value={"fields": {"owner": "string", "sent_at": "long"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": version, "compare": {"except": ["sent_at"]}},
    )

    def stamped(partition: int, sent_at: int) -> Sent:
        return Sent(partition, 0, sent_at, "a", 1, f"m{partition}", {"owner": "same", "sent_at": sent_at})

    counts(fold(made, stamped(1, 10)))
    assert counts(fold(made, stamped(0, 20))) == {"duplicate": {"key_version": 1}}
    assert [row["sent_at"] for row in rows_of(lake, made)] == [10]
    assert counts(fold(made, stamped(2, 5))) == {"duplicate": {"key_version": 1}}
    assert [row["sent_at"] for row in rows_of(lake, made)] == [5]
    assert placeless(session, lake, made) == [True]
    assert prove(session, lake, made).holds


def placeless(session: SparkSession, lake: Lake, made: Dataset) -> list[bool]:
    rows = read_state(session, made, StateTable(lake, made).main.snapshot)
    return [row["_placeless"] for row in rows.collect()]


@pytest.mark.by_day("last-contiguous", "first-newer", why="each tie and each guard goes once")
@pytest.mark.parametrize("guard", ["newer", "contiguous"])
@pytest.mark.parametrize("tie", ["last", "first", "conflict"])
def test_L6_a_record_that_cannot_be_read_stays_rejected_whatever_decides_ties(
    fold: Fold, dataset: MakeDataset, lake: Lake, tie: str, guard: str
) -> None:
    """It has no place in any order, and a missing place decides nothing."""
    made = accounts(dataset, tie, guard, quality={"max_rejected_rate": 1.0})
    broken = Sent(0, 1, 2_000, "a", 2, "m1", "{not JSON")
    assert counts(fold(made, sent(0, 0, 1_000, "first"), broken, sent(0, 2, 3_000, "third", 2))) == {
        "applied": {"insert": 1, "folded": 1} if guard == "contiguous" else {"insert": 1},
        "rejected": {"undecodable": 1},
        **({} if guard == "contiguous" else {"superseded": {"in_batch": 1}}),
    }
    table = find_state(lake, made)
    assert table
    assert [row["_order"]["offset"] for row in table.quarantined("_order")] == [1]
    assert owners(lake, made) == ["third"]
