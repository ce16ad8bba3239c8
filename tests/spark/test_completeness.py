"""What never came, and what should not have come, on real parts: offsets, topics, partitions and keys of an export.

What a single account or check says is in `tests/unit/test_account.py` and `tests/unit/test_checks.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.diagnosis.diagnose import diagnose
from onefold.diagnosis.gather import gather
from onefold.errors import DataLossError
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.operations.decide import release
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.quality.documents import CheckResult, gate_of
from onefold.report.ledger import rows_of
from onefold.upsert.documents import upserted_of
from tests.support.pipeline import run

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
FOLD = {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0}
START = 1_767_225_600_000
"""Milliseconds since 1970, of offset 0."""


def line(offset: int, id_: str, value: Any = "", topic: str = "t", partition: int = 0) -> bytes:
    """A line of `kcat -J`, a second after the line of the offset before it; a value of None is a tombstone."""
    payload = None if value is None else json.dumps({"id": id_, "name": value or id_})
    record = {
        "topic": topic, "partition": partition, "offset": offset, "ts": START + 1_000 * offset,
        "headers": ["mid", f"{topic}-{partition}-{offset}"], "key": json.dumps({"id": id_}), "payload": payload,
    }  # fmt: skip
    return json.dumps(record).encode() + b"\n"


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of the lines of a folder."""

    def run_lines(made: Dataset, lines: Iterable[bytes], name: str = "e1") -> BatchRun:
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.jsonl").write_bytes(b"".join(lines))
        return run(session, lake, made, tmp_path / name)

    return run_lines


def export(holes: Any, **more: Any) -> dict[str, Any]:
    return {"exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "kafka"}, "holes": holes}, **more}


def markers(dataset: MakeDataset, holes: Any = "transactional") -> Dataset:
    return dataset(
        "markers", source=export(holes), value={"fields": {"id": "string"}}, identity={"message_id": "header.mid"}
    )


@pytest.mark.nightly(reason="tests/unit/test_account.py: more missing offsets than declared are unexplained")
def test_a_file_that_never_came_is_no_run_of_markers(dataset: MakeDataset, lake: Lake, fold: Fold) -> None:
    """Offsets 0 to 9 and 1000 to 1009 are there: 990 in a row are missing. Declared, they are explained."""
    lines = [line(offset, f"a{offset}") for offset in (*range(10), *range(1000, 1010))]
    red = fold(markers(dataset), lines)
    assert isinstance(red.red, DataLossError)
    assert red.red.exit_code == 4
    assert "t, partition 0: [10, 1000)" in str(red.red)
    assert "source.exports.holes: {kind: transactional, longest: 990}" in str(red.red)
    declared = markers(dataset, {"kind": "transactional", "longest": 990})
    assert fold(declared, [*lines, line(1012, "a1012")], name="e2").published
    assert len(list(rows_of(lake, declared))) == 21


# Deletes that compaction took


def ghosts(dataset: MakeDataset, **more: Any) -> Dataset:
    return dataset(
        "ghost",
        source=export("compacted"),
        key={"format": "json"},
        value={"fields": {"name": "string"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "tombstone"},
        **more,
    )


def checks_of(lake: Lake, made: Dataset, done: BatchRun) -> dict[str, CheckResult]:
    attempt = upserted_of(lake, made, done.batch).attempt
    return {check.id: check for check in gate_of(lake, made, done.batch, attempt).checks}


@pytest.mark.nightly(reason="tests/unit/test_completeness.py has compacted offsets that may have been deletes")
@pytest.mark.parametrize("order", [("e1", "e2"), ("e2", "e1")])
def test_a_delete_that_was_compacted_before_it_was_exported_warns(
    dataset: MakeDataset, lake: Lake, fold: Fold, order: tuple[str, str]
) -> None:
    """The topic is exported, then compacted and exported again: offset 3 may have deleted `a`, whose row stays."""
    made = ghosts(dataset)
    exports = {
        "e1": [line(0, "a"), line(1, "b"), line(2, "c")],
        "e2": [line(1, "b"), line(4, "c", "c2")],
    }
    first, second = (fold(made, exports[name], name=name) for name in order)
    assert first.published
    assert second.published
    assert "compacted_deletes" not in checks_of(lake, made, first)
    check = checks_of(lake, made, second)["compacted_deletes"]
    assert (check.status, check.severity, check.observed) == ("failed", "warning", "1")
    assert check.first == ["t, partition 0: [3, 4)"]
    assert [text for text in second.warnings if "compacted_deletes" in text]
    assert {row["id"] for row in rows_of(lake, made)} == {"a", "b", "c"}


# What lies between batches


@pytest.mark.parametrize(("limit", "code"), [(None, None), ("1d", 3)])
@pytest.mark.nightly(reason="tests/unit/test_completeness.py has the gap and its age")
def test_a_file_that_never_came_between_two_batches_warns_and_is_red_once_what_follows_is_old(
    dataset: MakeDataset, lake: Lake, fold: Fold, limit: str | None, code: int | None
) -> None:
    made = markers(dataset)
    made = made.model_copy(update={"quality": made.quality.model_copy(update={"max_gap_age": parsed(limit)})})
    assert fold(made, [line(offset, f"a{offset}") for offset in range(5)]).warnings == ()
    later = fold(made, [line(offset, f"a{offset}") for offset in range(9, 12)], name="e3")
    assert (later.red.exit_code if later.red else None) == code
    check = checks_of(lake, made, later)["coverage_gaps"]
    assert (check.status, check.red, check.observed) == ("failed", code is not None, "4")
    assert check.first == ["t, partition 0: [5, 9)"]
    if not limit:
        assert any("t, partition 0: [5, 9)" in text for text in later.warnings)
        filled = fold(made, [line(offset, f"a{offset}") for offset in range(5, 9)], name="e2")
        assert (filled.warnings, len(list(rows_of(lake, made)))) == ((), 12)


def parsed(text: str | None) -> timedelta | None:
    return timedelta(days=int(text.removesuffix("d"))) if text else None


# Partitions, topics and keys


@pytest.mark.nightly(reason="tests/unit/test_checks.py names partitions that fell silent")
def test_a_partition_that_fell_silent_is_named(dataset: MakeDataset, lake: Lake, fold: Fold) -> None:
    made = markers(dataset)
    fold(made, [line(0, "a", partition=0), line(0, "b", partition=1)])
    done = fold(made, [line(1, "c", partition=0)], name="e2")
    assert done.published
    check = checks_of(lake, made, done)["silent_partitions"]
    assert (check.severity, check.first) == ("warning", ["t, partition 1"])
    assert any("t, partition 1" in text for text in done.warnings)
    assert any("t, partition 1" in finding.finding.found for finding in diagnose(gather(lake, made)).findings)


@pytest.mark.nightly(reason="tests/unit/test_checks.py: a new topic is red and both topics are named")
def test_an_export_of_another_topic_is_red_until_an_operator_accepts_it(
    dataset: MakeDataset, session: SparkSession, lake: Lake, fold: Fold
) -> None:
    """Both topics are named, nothing is published; accepted once, the topic is known."""
    made = markers(dataset)
    assert fold(made, [line(0, "a", topic="orders")]).published
    red = fold(made, [line(0, "u", topic="users")], name="users")
    assert red.red
    assert "users (the table has records of orders)" in str(red.red)
    assert {row["id"] for row in rows_of(lake, made)} == {"a"}
    assert fold(made, [line(1, "b", topic="orders")], name="e2").published, "others go on"
    release(lake, made, red.batch, ["new_topics=1"], "mia", "it belongs to the table")
    accepted = run_batch(lake, made, find_plan(lake, made, red.batch), InSession(lake, session))
    assert accepted.published
    again = fold(made, [line(1, "v", topic="users")], name="more users")
    assert again.published
    assert {row["id"] for row in rows_of(lake, made)} == {"a", "b", "u", "v"}


@pytest.mark.nightly(reason="tests/unit/test_checks.py: a new topic is red and both topics are named")
def test_connects_file_names_show_an_export_of_another_topic(
    dataset: MakeDataset, session: SparkSession, lake: Lake, tmp_path: Path
) -> None:
    connect = {"path": "e", "layout": "connect", "origin": {"cluster": "kafka"}}
    made = dataset("entries", source={"exports": connect}, identity={"message_id": "id"})

    def fold(topic: str, id_: str) -> BatchRun:
        (tmp_path / id_).mkdir()
        (tmp_path / id_ / f"{topic}+0+0000000000.json").write_text(json.dumps({"id": id_}) + "\n")
        return run(session, lake, made, tmp_path / id_)

    assert fold("orders", "a").published
    red = fold("users", "b")
    assert red.red
    assert "users (the table has records of orders)" in str(red.red)
    assert {row["id"] for row in rows_of(lake, made)} == {"a"}


@pytest.mark.nightly(reason="tests/unit/test_checks.py has what a new topic is")
def test_a_topic_that_the_filter_leaves_out_is_not_new(dataset: MakeDataset, lake: Lake, fold: Fold) -> None:
    made = dataset("markers", source=export("none", filter="topic = 'orders'"), identity={"message_id": "header.mid"})
    assert fold(made, [line(0, "a", topic="orders")]).published
    assert fold(made, [line(0, "u", topic="users"), line(1, "b", topic="orders")], name="e2").published
    assert {row["id"] for row in rows_of(lake, made)} == {"a", "b"}


@pytest.mark.nightly(reason="tests/unit/test_checks.py names keys that two topics share")
@pytest.mark.parametrize("batches", [1, 2])
def test_keys_that_two_topics_share_are_named(dataset: MakeDataset, lake: Lake, fold: Fold, batches: int) -> None:
    """One row of two things: the table has one key for `7` of both topics."""
    versions = {"version": {"from": "long(header.v)"}, "mode": "upsert", "key": ["key.id"]}
    made = dataset(
        "shared", source=export("none"), key={"format": "json"}, value={"fields": {"name": "string"}}, apply=versions
    )
    sent = [
        versioned(0, "7", "orders", 1), versioned(1, "8", "orders", 1),
        versioned(0, "7", "users", 2), versioned(1, "9", "users", 1),
    ]  # fmt: skip
    parts = [sent] if batches == 1 else [[*sent[:2], versioned(9, "z", "users", 1)], sent[2:]]
    done = [fold(made, part, name=str(number)) for number, part in enumerate(parts)]
    assert all(ended.published for ended in done)
    check = checks_of(lake, made, done[-1])["shared_keys"]
    assert (check.severity, check.status, check.observed) == ("warning", "failed", "1")
    [named] = check.first
    assert '"7"' in named
    assert "orders" in named
    assert "users" in named


def versioned(offset: int, id_: str, topic: str, version: int) -> bytes:
    record = json.loads(line(offset, id_, topic=topic))
    return json.dumps(record | {"headers": ["v", str(version)]}).encode() + b"\n"
