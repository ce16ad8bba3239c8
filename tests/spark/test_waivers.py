"""A waiver holds the digest of what it accepts: other records with the same value are red again, positions are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.operations import decide
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.run import BatchRun, run_batch
from onefold.quality.documents import CheckResult, gate_of
from onefold.quality.evidence import digest_of_rows
from onefold.quality.waivers import OTHER_RECORDS
from onefold.report.ledger import rows_of
from onefold.upsert.documents import upserted_of
from tests.support.pipeline import Sent, accounts, chained, export, run

MakeDataset = Callable[..., Dataset]
FIELDS = {"id": "string", "a": "string?", "b": "string?"}
OPEN = {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0}


def sent(offset: int, message: str, value: dict[str, Any] | str, at: int | None = None) -> Sent:
    return Sent(0, offset, offset if at is None else at, "k", 1, message, value)


def appended(dataset: MakeDataset, *fields: str, **more: Any) -> Dataset:
    names = {name: FIELDS[name] for name in fields or FIELDS}
    given = {"quality": OPEN, "value": {"fields": names}, "identity": {"message_id": "header.m"}}
    return dataset("waived", **given | more)


def check_of(lake: Lake, made: Dataset, batch: str, name: str) -> CheckResult:
    gate = gate_of(lake, made, batch, upserted_of(lake, made, batch).attempt)
    return next(check for check in gate.checks if check.id.startswith(name))


def release(session: SparkSession, lake: Lake, made: Dataset, batch: str) -> BatchRun:
    """Accept every red check of a batch as it was found, and run it."""
    gate = gate_of(lake, made, batch, upserted_of(lake, made, batch).attempt)
    words = [f"{check.id}={check.value}" for check in gate.checks if check.red]
    decide.release(lake, made, batch, words, "mia", "known")
    plan = find_plan(lake, made, batch)
    return run_batch(lake, made, plan, InSession(lake, session), rebuilding=True)


def test_a_conflict_that_was_not_seen_is_red_although_another_was_released(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    """Of x the field a differs, of y the field b: the file reads a first, and then b instead."""
    made = appended(dataset, "id", "a")
    records = [
        sent(0, "m1", {"id": "x", "a": "1", "b": "1"}),
        sent(1, "m1", {"id": "x", "a": "2", "b": "1"}),
        sent(2, "m2", {"id": "y", "a": "1", "b": "1"}),
        sent(3, "m2", {"id": "y", "a": "1", "b": "BIG"}),
    ]
    red = run(session, lake, made, export(tmp_path / "e1", records))
    assert red.red
    assert release(session, lake, made, red.batch).published

    changed = appended(dataset, "id", "b")
    done = rebuild(lake, changed, InSession(lake, session))
    assert (done.swapped, len(done.batches)) == (False, 1)
    assert done.batches[0].red
    assert done.batches[0].red.failed == (f"conflicts: found 1, wanted at most 0; {OTHER_RECORDS}",)
    # The same words are a new decision, of what is there now.
    rebuilding = changed.with_field_history(None)
    assert release(session, lake, rebuilding, red.batch).published
    assert rebuild(lake, changed, InSession(lake, session)).swapped
    assert [row["b"] for row in rows_of(lake, changed)] == ["1", "1"]


@pytest.mark.by_day("conflicts", why="the others are made by the same function")
@pytest.mark.parametrize(
    ("of", "first", "second"),
    [
        (
            lambda dataset: appended(dataset, quality=OPEN | {"max_duplicate_rate": 0.0, "min_records": 0}),
            [sent(0, "m1", {"id": "x"}), sent(1, "m1", {"id": "x"})],
            [sent(0, "m2", {"id": "y"}), sent(1, "m2", {"id": "y"})],
        ),
        (
            lambda dataset: appended(dataset, quality=OPEN | {"max_rejected_rate": 0.0, "min_records": 0}),
            [sent(0, "m1", {"id": "x"}), sent(1, "m2", "{")],
            [sent(0, "m1", {"id": "x"}), sent(1, "m2", "{not")],
        ),
        (
            lambda dataset: appended(dataset, quality={"max_rejected_rate": 0.5, "min_records": 10}),
            [sent(0, "m1", "{"), sent(1, "m2", "{"), sent(2, "m3", {"id": "x"})],
            [sent(0, "m1", "{"), sent(1, "m2", "{not"), sent(2, "m3", {"id": "x"})],
        ),
        (
            lambda dataset: accounts(dataset, quality=OPEN),
            [Sent(0, 0, 0, "k", 1, "m1", {"owner": "a"}), Sent(0, 1, 1, "k", 1, "m2", {"owner": "b"})],
            [Sent(0, 0, 0, "k", 1, "m1", {"owner": "a"}), Sent(0, 1, 1, "k", 1, "m2", {"owner": "c"})],
        ),
        (
            lambda dataset: accounts(dataset, quality=OPEN | {"max_backwards_rate": 0.1, "min_records": 0}),
            [Sent(0, 0, 0, "k", 5, "m1", {"owner": "a"}), Sent(0, 1, 1, "k", 1, "m2", {"owner": "b"})],
            [Sent(0, 0, 0, "l", 5, "m1", {"owner": "a"}), Sent(0, 1, 1, "l", 1, "m2", {"owner": "b"})],
        ),
        (
            lambda dataset: chained(dataset, quality=OPEN | {"max_held": 0}),
            [Sent(0, 0, 0, "k", 2, "m1", {"owner": "a"})],
            [Sent(0, 0, 0, "k", 3, "m1", {"owner": "a"})],
        ),
    ],
    ids=["duplicates", "rejected", "mostly rejected", "conflicts", "backwards", "held"],
)  # fmt: skip
def test_the_digest_is_of_identities_and_contents_and_not_of_positions(
    session: SparkSession,
    lake: Lake,
    dataset: MakeDataset,
    tmp_path: Path,
    of: Callable[[MakeDataset], Dataset],
    first: list[Sent],
    second: list[Sent],
) -> None:
    made = of(dataset)
    moved = [
        Sent(1, record.offset + 9, record.at, record.id, record.version, record.message_id, record.value)
        for record in first
    ]
    found = []
    for number, records in enumerate((first, moved, second)):
        red = run(session, lake, made, export(tmp_path / str(number), records))
        assert red.red, f"export {number}"
        [check] = [
            check
            for check in gate_of(lake, made, red.batch, upserted_of(lake, made, red.batch).attempt).checks
            if check.red
        ]
        found.append((check.id, check.value, check.digest))
    assert found[0] == found[1]
    assert found[0][:2] == found[2][:2], "only what is behind the value differs"
    assert len(found[0][2]) == 16
    assert found[0][2] != found[2][2]


@pytest.mark.nightly(reason="waivers of conflicts go by day")
def test_rows_of_a_suite_that_failed_are_waived_with_what_they_say(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    suite = "expectations:\n  - {type: expect_column_values_to_be_in_set, kwargs: {column: a, value_set: [x]}}\n"
    folder = lake.settings.expectations_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "waived.yaml").write_text(suite)
    made = appended(dataset, quality=OPEN | {"suite": "waived.yaml"})
    digests = []
    for number, value in enumerate(("1", "1", "2")):
        red = run(session, lake, made, export(tmp_path / str(number), [sent(number, "m1", {"id": "x", "a": value})]))
        digests.append(check_of(lake, made, red.batch, "expect_").digest)
    assert digests[0] == digests[1] != digests[2]
    assert "" not in digests


def test_the_digest_of_rows_depends_on_no_order_and_no_repetition(session: SparkSession) -> None:
    rows = [(b"a", 1), (b"b", None), (b"c", 3)]

    def digest(some: list[Any]) -> str:
        return digest_of_rows(session.createDataFrame(some, "k binary, v int"))

    assert digest(rows) == digest([*reversed(rows), rows[0]])
    assert len({digest(rows), digest(rows[:2]), digest([*rows[:2], (b"c", 4)]), digest([])}) == 4
