"""`identity.within` is a promise: an identity in two periods is found, shown and gated; verdicts stay as they are."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup.identity import identify
from onefold.dedup.reused_identities import reused_identities
from onefold.lake import Lake
from onefold.operations import decide
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.quality.documents import CheckResult, gate_of
from onefold.report.document import describe
from onefold.report.ledger import rows_of, verdicts_of
from onefold.report.page import render
from onefold.report.samples import remove_samples
from onefold.values.decode import decode
from spark_jobs import maintain as maintain_job
from tests.support.envelopes import envelope, record
from tests.support.pipeline import Sent, export, run

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
STRICT = {"max_conflicts": 0, "max_rejected_rate": 1.0}
DAYS = ("2026-01-01T23:59:59Z", "2026-01-02T00:00:01Z", "2026-01-03T10:00:00Z")
MOVED = "conflicts, identities in two periods included"


def sent(offset: int, id_: str, day: int, version: int = 1, message: str = "", **value: Any) -> Sent:
    """A record of a day; its value is `at` and `n`."""
    given = {"id": id_, "at": DAYS[day], "n": 1} | value
    return Sent(0, offset, 1_000 + offset, id_, version, message or f"m{offset}", given)


def messages(dataset: MakeDataset, **more: Any) -> Dataset:
    """Append by the message id, of one day."""
    return dataset(
        "messages",
        **{
            "value": {"fields": {"id": "string", "at": "timestamp", "n": "long"}},
            "identity": {"message_id": "header.m", "within": "day(at)"},
            "quality": STRICT,
        }
        | more,
    )


def versions(dataset: MakeDataset, guard: str = "newer", **more: Any) -> Dataset:
    """Upsert by id, of one day; `op` says what deletes."""
    apply = {"mode": "upsert", "key": ["id"], "version": {"from": "long(header.v)", "guard": guard}}
    return dataset(
        "versions",
        **{
            "value": {"fields": {"id": "string", "at": "timestamp", "n": "long?", "op": "string?"}},
            "identity": {"within": "day(at)"},
            "apply": apply | {"delete_when": "op = 'd'"},
            "quality": STRICT,
        }
        | more,
    )


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Runs a batch of records; or that of a folder again."""
    names = iter(range(100))

    def run_one(made: Dataset, *records: Sent, again: str = "") -> BatchRun:
        folder = tmp_path / again if again else export(tmp_path / f"e{next(names)}", records)
        return run(session, lake, made, folder)

    return run_one


def check(lake: Lake, made: Dataset, done: BatchRun, id_: str) -> CheckResult:
    gate = gate_of(lake, made, done.batch, str(describe(lake, made, done.batch).attempt))
    return next(check for check in gate.checks if check.id == id_)


def list_findings(lake: Lake, made: Dataset, done: BatchRun) -> list[tuple[str, str, str | None]]:
    """Of each record verdict, reason and finding."""
    return [(row["verdict"], row["reason"], row["finding"]) for row in verdicts_of(lake, made, done.batch)[0]]


# What is found


def test_a_retry_behind_midnight_is_red_and_named_and_keeps_its_verdict(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    made = messages(dataset)
    done = fold(made, sent(0, "a", 0, message="m1"), sent(1, "a", 1, message="m1"), sent(2, "b", 0, message="m2"))
    assert done.red
    of_conflicts = check(lake, made, done, "conflicts")
    assert (of_conflicts.title, of_conflicts.observed) == (MOVED, "1")
    assert of_conflicts.first == ['{"m": "m1"} is in 2026-01-01 and 2026-01-02 (t-0@0, t-0@1)']
    assert "identity.within: day(at) promises that this never changes" in str(done.red)
    assert "Bound it by a field that is set once" in str(done.red)
    assert list_findings(lake, made, done) == [
        ("applied", "insert", "period_moved"),
        ("applied", "insert", "period_moved"),
        ("applied", "insert", None),
    ]
    report = describe(lake, made, done.batch)
    (shown,) = report.examples["reused"]
    assert (report.findings, report.moved) == (1, 1)
    assert (shown["reason"], shown["identity"], shown["periods"]) == (
        "period_moved",
        '{"m": "m1"}',
        ["2026-01-01", "2026-01-02"],
    )
    assert (shown["other"]["offset"], shown["record"]["offset"]) == (0, 1)
    page = render(report)
    assert "Identities in two periods" in page
    assert "Identities reused" not in page
    assert remove_samples(lake, made)
    assert describe(lake, made, done.batch).examples == {}


@pytest.mark.nightly(reason="by day test_a_batch_finds_what_pairs_of_records_say, in many small batches")
def test_an_update_that_corrects_the_date_and_a_delete_with_its_own_time_are_two(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    """The delete finds no row in its period, and is named for that, too."""
    made = versions(dataset)
    done = fold(
        made,
        sent(0, "a", 0, 1, op="c"),
        sent(1, "a", 1, 2, op="u"),
        sent(2, "b", 0, 1, op="c"),
        sent(3, "b", 2, 2, op="d"),
        sent(4, "c", 0, 1, op="c"),
        sent(5, "c", 0, 2, op="d"),
    )
    assert done.red
    assert check(lake, made, done, "conflicts").observed == "2"
    assert [verdict for *verdict, finding in list_findings(lake, made, done) if finding] == [
        ["applied", "insert"],
        ["applied", "insert"],
        ["applied", "insert"],
        ["applied", "delete"],
    ]
    missed = check(lake, made, done, "missed_deletes")
    assert (missed.observed, missed.severity, missed.status) == ("1", "warning", "failed")
    assert missed.first == ['key {"id":"b","_within":"2026-01-03"} at t-0@3']
    assert "looks for its row in its own period alone (day(at))" in missed.way_out


@pytest.mark.nightly(reason="by day test_a_batch_finds_what_pairs_of_records_say, in many small batches")
def test_each_deciding_identity_counts_once_and_a_narrow_one_that_moves_with_it_does_not(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    """x was sent twice with one message id, y with two, z three times; w shares its id with v, which is another."""
    identity = {"message_id": "header.m", "business_key": ["id"], "within": "day(at)"}
    made = messages(dataset, identity=identity)
    moved = [sent(0, "x", 0, message="m1"), sent(1, "x", 1, message="m1"), sent(2, "y", 0), sent(3, "y", 1)]
    moved += [sent(4, "z", 0), sent(5, "z", 1), sent(6, "z", 2)]
    done = fold(made, *moved, sent(7, "v", 0, message="m7"), sent(8, "w", 0, message="m7"))
    title = "conflicts, reused identities and identities in two periods included"
    assert (check(lake, made, done, "conflicts").title, check(lake, made, done, "conflicts").observed) == (title, "4")
    report = describe(lake, made, done.batch)
    assert [(example["reason"], example["identity"]) for example in report.examples["reused"]] == [
        ("identity_reused", "m7"),
        ("period_moved", '{"id": "x"}'),
        ("period_moved", '{"id": "y"}'),
        ("period_moved", '{"id": "z"}'),
    ]
    assert [row[2] for row in list_findings(lake, made, done)] == [
        *["period_moved"] * 7,
        *["identity_reused: message_id"] * 2,
    ]


@pytest.mark.nightly(reason="versions that wait go by day without periods")
def test_in_a_chain_the_next_version_of_another_day_waits_and_the_gate_says_why(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    made = versions(dataset, guard="contiguous")
    done = fold(made, sent(0, "a", 0, 1), sent(1, "a", 1, 2), sent(2, "b", 0, 1), sent(3, "b", 1, 2, op="d"))
    assert done.red
    assert check(lake, made, done, "conflicts").observed == "2"
    assert [(verdict, reason) for verdict, reason, _ in list_findings(lake, made, done)] == [
        ("applied", "insert"),
        ("held", "version_gap"),
        ("applied", "insert"),
        ("held", "version_gap"),
    ]
    assert check(lake, made, done, "missed_deletes").first == ['key {"id":"b","_within":"2026-01-02"} at t-0@3']


@pytest.mark.nightly(reason="by day test_a_batch_finds_what_pairs_of_records_say, in many small batches")
def test_what_stays_in_its_period_is_no_finding(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    """Another instant of the day, versions, retries, deletes, records that are rejected or filtered, a null."""
    made = versions(dataset, source=dict(dataset().source.model_dump(exclude_none=True), filter="op != 'x'"))
    done = fold(
        made,
        sent(0, "a", 0, 1, op="c"),
        sent(1, "a", 0, 2, at="2026-01-01T00:00:00Z", op="u"),
        sent(2, "a", 0, 2, at="2026-01-01T00:00:00Z", op="u"),
        sent(3, "a", 0, 3, op="d"),
        sent(4, "a", 1, 4, op="x"),
        Sent(0, 5, 1005, "a", 5, "m5", {"id": "a", "at": "never", "n": 1, "op": "u"}),
    )
    assert done.published, done.red
    assert check(lake, made, done, "conflicts").title == "conflicts"
    assert check(lake, made, done, "missed_deletes").observed == "0"


def test_a_delete_finds_its_row_in_the_table_and_one_before_its_row_only_warns(
    fold: Fold, lake: Lake, dataset: MakeDataset
) -> None:
    made = versions(dataset)
    assert fold(made, sent(0, "a", 0, 1, op="c")).published
    done = fold(made, sent(1, "a", 0, 2, op="d"), sent(2, "b", 0, 2, op="d"))
    assert done.published, done.red
    assert check(lake, made, done, "missed_deletes").first == ['key {"id":"b","_within":"2026-01-01"} at t-0@2']
    again = fold(made, sent(1, "a", 0, 2, op="d"), sent(2, "b", 0, 2, op="d"), sent(3, "b", 0, 3, op="d"))
    assert check(lake, made, again, "missed_deletes").observed == "0", "what is covered, and what meets a deleted row"


def test_without_a_period_or_deletes_no_delete_is_looked_for(fold: Fold, lake: Lake, dataset: MakeDataset) -> None:
    made = versions(dataset, identity={})
    done = fold(made, sent(0, "a", 0, 2, op="d"))
    gate = gate_of(lake, made, done.batch, str(describe(lake, made, done.batch).attempt))
    assert "missed_deletes" not in {check.id for check in gate.checks}


# Over the table


@pytest.mark.nightly(reason="tests/process/test_maintain.py finds identities that have rows in two periods by day")
def test_in_another_batch_it_is_found_by_maintain_and_a_release_is_not_asked_for_twice(
    fold: Fold, session: SparkSession, lake: Lake, dataset: MakeDataset
) -> None:
    made = messages(dataset)
    first = [sent(0, "a", 0, message="m1"), sent(1, "a", 1, message="m1"), sent(2, "b", 0, message="m2")]
    red = fold(made, *first)
    decide.release(lake, made, red.batch, ["conflicts=1"], "mia", "known")
    assert fold(made, again="e0").published
    done = fold(made, *first, sent(3, "b", 1, message="m2"))
    assert done.red, "m2 is there in two periods, once covered and once new"
    assert check(lake, made, done, "conflicts").observed == "1"
    done = fold(made, sent(3, "b", 1, message="m2"))
    assert done.published, done.red
    kept = maintain_job.run(session, lake, made, dry_run=True)
    assert [
        (identity.identity, identity.periods, identity.records, identity.first, identity.last)
        for identity in kept.moved
    ] == [
        ('{"m": "m1"}', ["2026-01-01", "2026-01-02"], 2, "t-0@0", "t-0@1"),
        ('{"m": "m2"}', ["2026-01-01", "2026-01-02"], 2, "t-0@2", "t-0@3"),
    ]
    assert kept.reused == []
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="a delete that finds its row goes by day")
def test_a_row_that_was_deleted_is_in_no_period_of_the_table(
    fold: Fold, session: SparkSession, lake: Lake, dataset: MakeDataset
) -> None:
    made = versions(dataset, mask={"id": "hash"})
    for offset, (id_, day, version, op) in enumerate(
        [("a", 0, 1, "c"), ("a", 0, 2, "d"), ("a", 1, 3, "c"), ("b", 0, 1, "c"), ("b", 1, 2, "u"), ("b", 2, 3, "u")]
    ):
        assert fold(made, sent(offset, id_, day, version, op=op)).published
    (moved,) = maintain_job.run(session, lake, made, dry_run=True).moved
    assert moved.identity.startswith('{"id": "sha256:'), "it is masked"
    assert (moved.periods, moved.records) == (["2026-01-01", "2026-01-03"], 3)
    assert len(rows_of(lake, made)) == 4


# Against an oracle


def drawn(chance: random.Random) -> list[Sent]:
    """A few records of few ids and days: each id may be in one day or in several."""
    return [
        sent(n, chance.choice("abc"), chance.randrange(3), chance.randrange(1, 4), chance.choice("mno"))
        for n in range(chance.randrange(2, 6))
    ]


def oracle(records: list[Sent], by: str) -> set[tuple[str, str, str]]:
    """Pair by pair: an identity of two records in different periods; with the first and the last."""
    pairs = [
        (getattr(first, by), first.value["at"][:10], other.value["at"][:10])  # type: ignore[index]
        for first, other in combinations(records, 2)
        if getattr(first, by) == getattr(other, by)
    ]
    moved = {name for name, first, last in pairs if first != last}
    days = {name: [day for identity, *both in pairs if identity == name for day in both] for name in moved}
    return {(name, min(of), max(of)) for name, of in days.items()}


@pytest.mark.parametrize("kind", ["append", "upsert", "contiguous"])
def test_a_batch_finds_what_pairs_of_records_say(
    spark: SparkSession, dataset: MakeDataset, draw: random.Random, kind: str
) -> None:
    """Many small batches next to each other in one pass; the number of each is a part of its ids."""
    made = messages(dataset) if kind == "append" else versions(dataset, {"upsert": "newer"}.get(kind, kind))
    batches = [drawn(draw) for _ in range(60)]
    rows, expected = [], set()
    for number, batch in enumerate(batches):
        for message in batch:
            value = json.dumps(dict(message.value, id=f"{number}/{message.id}")).encode()  # type: ignore[arg-type]
            headers = [("m", f"{number}/{message.message_id}"), ("v", str(message.version))]
            rows.append(record("", value, offset=message.offset, partition=number, headers=headers))
        by, name = ("message_id", "m") if kind == "append" else ("id", "id")
        expected |= {(json.dumps({name: f"{number}/{of}"}), *days) for of, *days in oracle(batch, by)}
    draw.shuffle(rows)
    staged = identify(decode(envelope(spark, rows), made), made)
    moved = [identity.shown(made) for identity in reused_identities(staged, made) if identity.level == "period_moved"]
    assert expected
    assert {(identity.identity, *identity.periods) for identity in moved} == expected
    assert len(moved) == len(expected), "each once"


@pytest.mark.nightly(reason="tests/process/test_maintain.py finds identities that have rows in two periods by day")
def test_L1_what_maintain_finds_follows_from_the_records_and_not_from_their_batches(
    session: SparkSession, lake_in: Callable[[Path], Lake], session_on: Callable[[Lake], SparkSession],
    dataset: MakeDataset, draw: random.Random, tmp_path: Path,
) -> None:  # fmt: skip
    made = messages(dataset, quality={"max_conflicts": 1000})
    records = [sent(n, "a", draw.randrange(3), message=draw.choice("mno")) for n in range(7)]
    shuffled = draw.sample(records, 7)
    seen = set()
    for name, batches in (("one", [records]), ("two", [shuffled[:3], shuffled[3:]])):
        here = lake_in(tmp_path / name)
        on = session_on(here)
        for number, batch in enumerate(batches):
            assert run(on, here, made, export(tmp_path / name / f"e{number}", batch)).published
        moved = maintain_job.run(on, here, made, dry_run=True).moved
        seen.add(tuple((identity.identity, *identity.periods) for identity in moved))
    assert seen == {tuple(sorted((json.dumps({"m": of}), *days) for of, *days in oracle(records, "message_id")))}
