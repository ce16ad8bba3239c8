"""Null values that `delete_when` does not cover: a delete never disappears in a rate, and none is made up."""

from __future__ import annotations

import json
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
from tests.support.pipeline import run

FLAG = "value.op = 'd'"


@pytest.fixture
def things(dataset: Callable[..., Dataset]) -> Callable[..., Dataset]:
    def make(delete_when: str | None = FLAG, guard: str = "newer", **more: Any) -> Dataset:
        version = {"from": "v", "guard": guard}
        apply = {"mode": "upsert", "key": ["key.id"], "version": version}
        given: dict[str, Any] = {
            "key": {"format": "json"},
            "value": {"fields": {"v": "long", "op": "string", "n": "long"}},
            "apply": apply | ({"delete_when": delete_when} if delete_when else {}),
            "quality": {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0},
        }
        return dataset(**given | more)

    return make


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Callable[..., BatchRun]:
    """Runs a batch of records: (partition, offset, key, value); the offset alone tells records of a partition apart."""

    def run_records(made: Dataset, *records: tuple[int, int, str, Any]) -> BatchRun:
        folder = tmp_path / str(len(list(tmp_path.glob("in-*"))))
        folder = tmp_path / f"in-{folder.name}"
        folder.mkdir()
        lines = [
            {"topic": "t", "partition": partition, "offset": offset, "ts": 1_000, "headers": []}
            | {"key": json.dumps({"id": key}), "payload": value if isinstance(value, str | None) else json.dumps(value)}
            for partition, offset, key, value in records
        ]
        (folder / "x.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
        return run(session, lake, made, folder)

    return run_records


def put(v: int, op: str = "u") -> dict[str, Any]:
    return {"v": v, "op": op, "n": v}


def red(done: BatchRun) -> tuple[str, ...]:
    assert done.red
    return done.red.failed


def deletes(*found: str) -> tuple[str, ...]:
    """The one check that is red, with the records that it names."""
    return (f"rejected deletes: found {len(found)} (first: {', '.join(found)}), wanted at most 0 [rejected_deletes]",)


def counts(done: BatchRun) -> dict[str, dict[str, int]]:
    assert done.published, done.red
    return done.published.counts


@pytest.mark.nightly(reason="the other nulls go by day, and tests/unit/test_completeness.py has compaction")
def test_a_null_behind_its_delete_is_the_tombstone_that_compaction_asks_for(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    """In one batch, in the next one, and read again; no rate counts them."""
    made = things(quality={"max_rejected_rate": 0.0})
    done = fold(made, (0, 0, "a", put(1)), (0, 1, "a", put(2, "d")), (0, 2, "a", None), (0, 3, "b", put(1)))
    assert counts(done) == {
        "applied": {"delete": 1, "insert": 1},
        "superseded": {"in_batch": 1},
        "control": {"tombstone": 1},
    }
    done = fold(made, (0, 4, "b", put(2, "d")), (1, 0, "a", None))
    assert counts(done) == {"applied": {"delete": 1}, "control": {"tombstone": 1}}
    done = fold(made, (0, 4, "b", put(2, "d")), (0, 5, "b", None), (1, 0, "a", None))
    assert counts(done) == {"duplicate": {"position": 2}, "control": {"tombstone": 1}}
    assert rows_of(lake, made) == []
    assert prove(session, lake, made).holds


@pytest.mark.nightly(
    reason="where a null lies is asked of the same comparison by day: test_a_null_of_a_live_row_is_red"
)
def test_a_null_before_the_record_that_made_the_row_says_nothing_new(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset], lake: Lake
) -> None:
    made = things()
    done = fold(made, (0, 0, "a", None), (0, 1, "a", put(1)))
    assert counts(done) == {"applied": {"insert": 1}, "control": {"tombstone": 1}}
    assert [row["id"] for row in rows_of(lake, made)] == ["a"]


def test_a_null_of_a_live_row_is_red_whatever_the_rate_and_names_its_key(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset], lake: Lake
) -> None:
    made = things(None)
    fold(made, *((0, n, f"k{n}", put(1)) for n in range(6)))
    done = fold(
        made, (0, 6, "k1", None), (0, 7, "k9", None), (1, 0, "k2", None), (0, 8, "k3", "null"), (0, 9, "k8", put(1))
    )
    assert red(done) == deletes(
        'key {"id": "k1"} at t-0@6',
        'key {"id": "k9"} at t-0@7',
        'key {"id": "k3"} at t-0@8',
        'key {"id": "k2"} at t-1@0',
    )
    assert done.red
    assert "delete_when: tombstone" in str(done.red)
    assert len(rows_of(lake, made)) == 6


def test_a_record_that_cannot_be_used_and_would_delete_is_no_share_of_a_rate(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset]
) -> None:
    made = things()
    done = fold(made, (0, 0, "a", put(1)), (0, 1, "a", {"v": "two", "op": "d"}), (0, 2, "b", {"v": "two", "op": "u"}))
    assert red(done) == deletes('key {"id": "a"} at t-0@1')


def test_a_tombstone_without_its_version_is_a_rejected_delete(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset]
) -> None:
    version = {"from": "long(header.v)"}
    apply = {"mode": "upsert", "key": ["key.id"], "version": version, "delete_when": "tombstone"}
    assert red(fold(things(apply=apply), (0, 0, "a", None))) == deletes('key {"id": "a"} at t-0@0')


@pytest.mark.nightly(reason="limits and the quarantine go by day")
def test_a_limit_may_be_declared_and_what_is_rejected_waits_in_the_quarantine(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset], lake: Lake
) -> None:
    quality = {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0, "max_rejected_deletes": 1}
    made = things(quality=quality)
    fold(made, (0, 0, "a", put(1)))
    assert counts(fold(made, (0, 1, "a", None), (0, 2, "b", put(1)))) == {
        "applied": {"insert": 1},
        "rejected": {"null_value": 1},
    }
    done = fold(made, (0, 1, "a", None), (0, 3, "a", put(2, "d")))
    assert counts(done) == {"applied": {"delete": 1}, "control": {"tombstone": 1}}, (
        "its delete came; it waits no longer"
    )


def test_where_nulls_mean_nothing_they_are_filtered(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset], session: SparkSession, lake: Lake
) -> None:
    made = things("never")
    done = fold(made, (0, 0, "a", put(1)), (0, 1, "a", None), (0, 2, "b", " null\n"), (0, 3, "b", put(1)))
    assert counts(done) == {"applied": {"insert": 2}, "filtered": {"filter": 2}}
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["a", "b"]
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="nulls of live rows go by day with guard newer")
def test_in_a_chain_the_head_says_what_a_null_is(
    fold: Callable[..., BatchRun], things: Callable[..., Dataset], lake: Lake
) -> None:
    made = things(guard="contiguous")
    done = fold(made, (0, 0, "a", put(1)), (0, 1, "a", put(2, "d")), (0, 2, "a", None), (0, 3, "b", put(1)))
    assert counts(done)["control"] == {"tombstone": 1}
    # The delete is held behind a gap: the row is live.
    done = fold(made, (0, 4, "b", put(3, "d")), (0, 5, "b", None))
    assert red(done) == deletes('key {"id": "b"} at t-0@5')
    assert [row["id"] for row in rows_of(lake, made)] == ["b"]


def test_inferred_positions_say_nothing_about_later(
    session: SparkSession, lake: Lake, things: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Connect's lines: a deleted row is enough, a row that seems to be made later is not."""
    exports = {"path": "exports", "layout": "connect", "origin": {"cluster": "c", "incarnation": 1}}
    fields = {"id": "string", "v": "long", "op": "string"}
    made = things(source={"exports": exports}, value={"fields": fields}, identity={"message_id": "header.m"})
    folder = tmp_path / "c"
    folder.mkdir()
    lines = [
        ("a", put(1) | {"id": "a"}),
        ("a", put(2, "d") | {"id": "a"}),
        ("a", None),
        ("b", None),
        ("b", put(1) | {"id": "b"}),
    ]
    stem = folder / "t+0+0000000000"
    stem.with_name(f"{stem.name}.json").write_text("".join(f"{json.dumps(value)}\n" for _, value in lines))
    stem.with_name(f"{stem.name}.keys.json").write_text("".join(f"{json.dumps({'id': key})}\n" for key, _ in lines))
    done = run(session, lake, made, folder)
    assert red(done) == deletes('key {"id": "b"} at t-0@3')
