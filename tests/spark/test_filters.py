"""Which records belong to a dataset (`source.filter`), and which of its rows readers see (`target.where`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.masks import digest
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.report.changes import changes_of
from onefold.report.explain import explain
from onefold.report.ledger import rows_of
from onefold.tables.key_digest import digest_of_key
from onefold.tables.names import state_table
from tests.support.pipeline import Sent, export, run, tampered

Fold = Callable[..., BatchRun]
MakeDataset = Callable[..., Dataset]


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of records of one partition: (offset, key, version, value)."""

    def run_records(made: Dataset, *records: tuple[int, str, int, dict[str, Any] | None]) -> BatchRun:
        sent = [Sent(0, offset, offset, key, version, str(offset), value) for offset, key, version, value in records]
        return run(session, lake, made, export(tmp_path / f"in-{len(list(tmp_path.glob('in-*')))}", sent))

    return run_records


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


ACTIVE = "region = 'eu'"


def test_a_row_that_no_longer_satisfies_the_condition_is_hidden_until_a_newer_version_does(
    fold: Fold, shops: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    """And a proof names a row that should be hidden."""
    made = shops(where=ACTIVE)
    assert counts(fold(made, (0, "a", 1, {"region": "eu"}), (1, "b", 1, {"region": "eu"}))) == {
        "applied": {"insert": 2}
    }
    done = fold(made, (2, "a", 3, {"region": "us"}), (3, "c", 1, {"region": "us"}), (4, "d", 1, {"region": None}))
    assert counts(done) == {"applied": {"hide": 3}}
    assert ids(lake, made) == ["b"]
    assert counts(fold(made, (5, "a", 2, {"region": "eu"}))) == {"superseded": {"backwards": 1}}
    assert ids(lake, made) == ["b"], "an older version does not bring the row back"
    done = fold(made, (6, "a", 4, {"region": "eu"}), (7, "c", 2, {"op": "d"}), (8, "b", 2, {"region": "eu"}))
    assert counts(done) == {"applied": {"insert": 1, "delete": 1, "update": 1}}
    assert ids(lake, made) == ["a", "b"]
    assert prove(session, lake, made).holds
    tampered(session, lake, made, "UPDATE {t} SET _state = 'live' WHERE id = 'd'")
    assert prove(session, lake, made).differences == {"other_record": 1}


@pytest.mark.nightly(reason="tests/property draws hidden rows in both guards by day")
@pytest.mark.parametrize("guard", ["newer", "contiguous"])
def test_L1_hidden_rows_follow_from_the_set(
    fold: Fold, shops: MakeDataset, session: SparkSession, lake: Lake, guard: str
) -> None:
    """a leaves, b leaves and comes back, c leaves and is deleted, d never belongs; the batches arrive backwards."""
    made = shops(where=ACTIVE, guard=guard)
    eu, us = {"region": "eu"}, {"region": "us"}
    fold(made, (5, "b", 3, eu), (6, "c", 1, us), (7, "c", 2, {"op": "d"}))
    fold(made, (2, "a", 2, us), (3, "b", 2, us), (4, "d", 1, us))
    fold(made, (0, "a", 1, eu), (1, "b", 1, eu))
    assert ids(lake, made) == ["b"]
    states = {row["id"]: row["_state"] for row in session.table(state_table(made)).where("_key is not null").collect()}
    assert states == {"a": "hidden", "b": "live", "c": "deleted", "d": "hidden"}
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="tests/property/test_chain.py hides rows of chains by day")
def test_a_version_that_waits_is_hidden_once_it_wakes(fold: Fold, shops: MakeDataset, lake: Lake) -> None:
    made = shops(where=ACTIVE, guard="contiguous")
    done = fold(made, (0, "a", 1, {"region": "eu"}), (1, "a", 3, {"region": "us"}))
    assert counts(done) == {"applied": {"insert": 1}, "held": {"version_gap": 1}}
    assert ids(lake, made) == ["a"]
    assert counts(fold(made, (2, "a", 2, {"region": "eu"}))) == {"applied": {"folded": 1, "hide": 1}}
    assert ids(lake, made) == []


@pytest.mark.nightly(reason="readers do not see a hidden row by day, and tests/process/test_changes.py tells deletes")
def test_for_readers_a_hidden_row_is_a_deleted_one(fold: Fold, shops: MakeDataset, lake: Lake) -> None:
    """`changes` shows it as deleted and inserted again; `explain` tells of the row that is hidden."""
    made = shops(where=ACTIVE)
    first = fold(made, (0, "a", 1, {"region": "eu"}))
    second = fold(made, (1, "a", 2, {"region": "us"}))
    assert first.published
    assert second.published
    [change] = changes_of(lake, made, first.published.batch).rows
    assert (change["change"], change["row"]["region"]) == ("deleted", "eu")
    rows = explain(lake, made, digest_of_key(made, {"id": "a"}))
    assert [(row["reason"], row["row"] and row["row"]["_state"]) for row in rows] == [
        ("insert", None),
        ("hide", "hidden"),
    ]
    fold(made, (2, "a", 3, {"region": "eu"}))
    [change] = changes_of(lake, made, second.published.batch).rows
    assert (change["change"], change["row"]["region"]) == ("inserted", "eu")


def test_a_condition_may_read_what_the_row_is_keyed_by_and_a_cast_that_fails_in_it_hides_nothing(
    fold: Fold, shops: MakeDataset, lake: Lake
) -> None:
    made = shops(where="key.id != 'c' and long(region) > 3")
    four, three, none = {"region": "4"}, {"region": "3"}, {"region": "x"}
    done = fold(made, (0, "a", 1, four), (1, "b", 1, three), (2, "a", 2, none), (3, "c", 1, four))
    assert counts(done) == {"applied": {"insert": 1, "hide": 2}, "rejected": {"wrong_type": 1}}
    assert ids(lake, made) == ["a"]
    assert counts(fold(made, (4, "a", 3, none | {"op": "d"}))) == {"applied": {"delete": 1}}


@pytest.mark.nightly(reason="test_nulls has nulls of live rows by day")
def test_a_null_value_of_a_hidden_row_may_be_its_delete(fold: Fold, shops: MakeDataset) -> None:
    made = shops(where=ACTIVE)
    fold(made, (0, "a", 1, {"region": "us"}))
    done = fold(made, (1, "a", 2, None))
    assert done.red
    assert "rejected_deletes" in str(done.red)


def leaves(count: int, *named: str) -> tuple[str, ...]:
    """The one check that is red, with the records that it names."""
    check = "filtered records that are newer than their row"
    return (f"{check}: found {count} (first: {', '.join(named)}), wanted at most 0 [filtered_newer]",)


NEVER = {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)"}, "delete_when": "never"}
A1 = (0, "a", 1, {"region": "eu"})
A2 = (1, "a", 2, {"region": "us"})


def test_a_newer_version_that_the_filter_leaves_out_is_red_and_named(
    fold: Fold, shops: MakeDataset, lake: Lake
) -> None:
    """Its row would stay for ever. In one batch with the older version, or after it: the answer is the same."""
    made = shops(wanted=ACTIVE)
    done = fold(made, A1, A2, (2, "b", 1, {"region": "us"}), (3, "a", 3, {"region": "us", "op": "d"}), A2)
    assert done.red
    assert done.red.failed == leaves(2, 'key {"id":"a"} at t-0@1', 'key {"id":"a"} at t-0@3')
    assert "target.where" in str(done.red)


@pytest.mark.nightly(reason="the test before has one batch and two by day")
def test_a_newer_version_that_is_filtered_in_a_later_batch_is_red_too(
    fold: Fold, shops: MakeDataset, lake: Lake
) -> None:
    made = shops(wanted=ACTIVE, mask={"id": "hash"})
    fold(made, A1, (5, "c", 4, {"region": "eu"}))
    assert counts(fold(made, (6, "c", 3, {"region": "us"}), (7, "d", 9, {"region": "us"}))) == {
        "filtered": {"filter": 2}
    }
    done = fold(made, A2)
    assert done.red
    assert done.red.failed == leaves(1, f'key {{"id": "{digest("a")}"}} at t-0@1')


def test_what_is_filtered_and_has_no_newer_version_is_green(fold: Fold, shops: MakeDataset, lake: Lake) -> None:
    """Equal versions, keys whose row was deleted later, records without a version, and nulls that mean nothing."""
    made = shops(wanted=ACTIVE, apply=NEVER)
    fold(made, A1, (1, "a", 1, {"region": "us"}), (2, "a", 3, None))
    assert ids(lake, made) == ["a"]


def test_a_filter_of_the_log_alone_asks_for_no_version(fold: Fold, shops: MakeDataset, lake: Lake) -> None:
    made = shops(wanted="offset < 1")
    assert counts(fold(made, A1, A2)) == {"applied": {"insert": 1}, "filtered": {"filter": 1}}
    assert ids(lake, made) == ["a"]


@pytest.mark.nightly(reason="limits of a check are tests/unit/test_checks.py's")
def test_a_limit_of_newer_records_lets_them_pass(fold: Fold, shops: MakeDataset, lake: Lake) -> None:
    made = shops(wanted=ACTIVE, quality={"max_filtered_newer": 1})
    assert counts(fold(made, A1, A2)) == {"applied": {"insert": 1}, "filtered": {"filter": 1}}
    assert counts(fold(made, A2, (2, "b", 1, {"region": "eu"}))) == {
        "applied": {"insert": 1},
        "duplicate": {"position": 1},
    }, "what is covered is not counted again"


@pytest.mark.nightly(reason="newer records of a filter go by day without periods")
def test_a_record_is_newer_within_its_period_and_its_partition_only(fold: Fold, shops: MakeDataset, lake: Lake) -> None:
    """The period is part of the key, and its files are read though no other record of the batch lies in it."""
    made = shops(
        wanted="region = 'eu'",
        value={"fields": {"region": "string", "op": "string?", "day": "date"}},
        identity={"within": "day(day)"},
    )
    first, second = {"day": "2026-03-01"}, {"day": "2026-03-02"}
    fold(made, (0, "a", 1, first | {"region": "eu"}))
    fold(made, (1, "b", 1, second | {"region": "eu"}), (2, "a", 2, second | {"region": "us"}))
    done = fold(made, (3, "b", 2, second | {"region": "eu"}), (4, "a", 2, first | {"region": "us"}))
    assert done.red
    assert "at t-0@4" in str(done.red)
