"""One narrow identity under two messages: found, shown and gated, while both records keep their verdicts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup.reused_identities import reused_identities
from onefold.lake import Lake
from onefold.operations import decide
from onefold.report.document import describe
from onefold.report.ledger import verdicts_of
from onefold.report.page import render
from onefold.tables import staging as C
from spark_jobs import maintain as maintain_job
from tests.support.fold import identified
from tests.support.literal import PRODUCER, append, rec, upsert
from tests.support.oracle import Decoded, same_at
from tests.support.pipeline import Sent, accounts, entries, export, run

MakeDataset = Callable[..., Dataset]
LEVELS = ("producer", "message_id")
APPEND: list[Decoded] = [
    rec(1, key="a", message_id="m1"),
    rec(2, key="b", message_id="m1"),  # another key
    rec(3, key="a", message_id="m2"),
    rec(4, "y", key="a", message_id="m2"),  # a conflict of the key itself, no reuse
    rec(5, key="c", message_id=None),
    rec(6, key="d", message_id=None),  # nulls never match
    rec(7, key=None, rejected="undecodable", message_id="m2"),  # of no key
    rec(8, key="e", producer="p1"),
    rec(9, key="f", producer="p1"),  # another key under its sequence
    rec(10, key="g", producer="p2"),
    replace(rec(11, key="h", producer="p2"), position=("c", "t", 1, 1, 11)),  # which it counts for each partition
]
UPSERT: list[Decoded] = [
    rec(1, "x", "a", version=1, message_id="m1"),
    rec(2, "x", "a", version=2, message_id="m1"),  # a retry under another version
    rec(3, "x", "a", version=1, message_id="m2"),
    rec(4, "y", "a", version=1, message_id="m2"),  # a conflict of the version
    rec(5, "x", "a", version=3, message_id="m3"),
    rec(6, "y", "a", version=4, message_id="m3"),  # another version with other content
    rec(7, "x", "a", version=5, message_id="m4"),
    rec(8, "x", "b", version=5, message_id="m4"),  # another key
    rec(9, "x", "a", version=6, producer="p1"),
    rec(10, "y", "a", version=7, producer="p1"),  # another version with other content
    rec(11, "x", "a", version=8, producer="p2"),
    rec(12, "x", "a", version=9, producer="p2"),  # a retry under another version
]


def oracle(records: list[Decoded], made: Dataset) -> set[tuple[str, str]]:
    """By level, what two records share which are not one message: pair by pair."""
    found = set()
    for first, other in combinations((record for record in records if record.usable), 2):
        other_version = (
            made.apply.mode == "upsert" and first.version != other.version and first.content != other.content
        )
        if first.key != other.key or other_version:
            found |= {(level, getattr(first, level)) for level in LEVELS if same_at(level, first, other)}
    return found


@pytest.mark.parametrize("kind", ["append", "upsert"])
def test_an_identity_is_reused_where_two_records_of_it_are_not_one_message(
    spark: SparkSession, dataset: MakeDataset, kind: str
) -> None:
    of, records = (append, APPEND) if kind == "append" else (upsert, UPSERT)
    made = of(dataset, producer=PRODUCER)
    staged = identified(spark, [("", record, False) for record in records], made)
    found = {
        identity.identity: (identity.level, identity.records, identity.first, identity.last)
        for identity in reused_identities(staged, made)
    }
    of_p1 = "c/t/1/0/p1/-1/7"
    expected = {
        "append": {"m1": ("message_id", 2, "t-0@1", "t-0@2"), of_p1: ("producer", 2, "t-0@8", "t-0@9")},
        "upsert": {
            of_p1: ("producer", 2, "t-0@9", "t-0@10"),
            "m3": ("message_id", 2, "t-0@5", "t-0@6"),
            "m4": ("message_id", 2, "t-0@7", "t-0@8"),
        },
    }[kind]
    assert {name: finding for name, finding in found.items() if finding[0] in LEVELS} == expected
    assert oracle(records, made) == {(level, {of_p1: "p1"}.get(name, name)) for name, (level, *_) in expected.items()}


def test_a_record_without_a_key_is_in_no_second_pass(spark: SparkSession, dataset: MakeDataset) -> None:
    made = append(dataset)
    staged = identified(spark, [("", record, False) for record in APPEND], made)
    assert reused_identities(staged.where(staged[C.KEY].isNull()), made) == []


def test_a_reused_identity_is_gated_shown_side_by_side_and_changes_no_verdict(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = entries(dataset, quality={"max_conflicts": 0})
    log = [Sent(0, 0, 10, "a", 1, "m", {"id": "a"}), Sent(0, 1, 11, "b", 1, "m", {"id": "<b>"})]
    done = run(session, lake, made, export(tmp_path / "export", log))
    assert done.red is not None
    assert "conflicts, reused identities included: found 1, wanted at most 0" in str(done.red)
    rows, published = verdicts_of(lake, made, done.batch)
    assert not published
    assert [(row["verdict"], row["finding"]) for row in rows] == [("applied", "identity_reused: message_id")] * 2
    report = describe(lake, made, done.batch)
    (shown,) = report.examples["reused"]
    assert (shown["level"], shown["identity"], shown["other"]["fields"]["id"]) == ("message_id", "m", "a")
    assert (shown["record"]["offset"], shown["record"]["fields"]["id"]) == (1, "<b>")
    page = render(report)
    assert "Identities reused" in page
    assert "&lt;b&gt;" in page


@pytest.mark.nightly(reason="a combination with a release and an overlap; a reused identity is red by day")
@pytest.mark.parametrize("guard", ["append", "newer", "contiguous"])
def test_a_reuse_that_was_released_is_no_finding_of_a_batch_that_overlaps(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, guard: str
) -> None:
    """Its records are covered; a record that brings the identity once more is a finding again."""
    quality = {"max_conflicts": 0, "max_duplicate_rate": 1.0}
    made = entries(dataset, quality=quality) if guard == "append" else accounts(dataset, guard=guard, quality=quality)

    def sent(offset: int, key: str, message: str) -> Sent:
        return Sent(0, offset, 10 + offset, key, 1, message, {"id": key, "owner": key})

    log = [sent(0, "a", "m"), sent(1, "b", "m"), sent(2, "c", "n")]
    first = run(session, lake, made, export(tmp_path / "one", log[:2]))
    assert first.red is not None
    words = ["conflicts=1"]
    decide.release(lake, made, first.batch, words, "mia", "known")
    assert run(session, lake, made, tmp_path / "one").published

    done = run(session, lake, made, export(tmp_path / "two", log))
    assert done.red is None, done.red
    assert done.published
    assert done.published.counts == {"applied": {"insert": 1}, "duplicate": {"position": 2}}
    report = describe(lake, made, done.batch)
    assert (report.findings, report.examples["reused"]) == (0, [])
    assert [row["finding"] for row in verdicts_of(lake, made, done.batch)[0]] == [None] * 3

    again = run(session, lake, made, export(tmp_path / "three", [*log, sent(3, "d", "m")]))
    assert again.red is not None
    assert "conflicts, reused identities included: found 1, wanted at most 0" in str(again.red)
    (shown,) = describe(lake, made, again.batch).examples["reused"]
    assert (shown["identity"], shown["record"]["offset"]) == ("m", 3)


@pytest.mark.nightly(reason="a reused identity is gated by day")
def test_another_version_of_a_stored_key_tells_it_and_maintenance_finds_another_key(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    identity = {"producer": {"name": "header.m", "sequence": "long(header.v)"}, "message_id": "header.m"}
    made: Any = accounts(dataset, identity=identity)
    first = [Sent(0, 0, 10, "a", 1, "m", {"owner": "A"}), Sent(0, 1, 11, "b", 1, "n", {"owner": "B"})]
    first += [Sent(0, 2, 12, "d", 1, "o", {"owner": "D"})]
    second = [Sent(0, 3, 13, "a", 2, "m", {"owner": "Z"}), Sent(0, 4, 14, "b", 2, "n", {"owner": "B"})]
    second += [Sent(0, 5, 15, "c", 1, "o", {"owner": "C"})]
    assert run(session, lake, made, export(tmp_path / "one", first)).red is None
    done = run(session, lake, made, export(tmp_path / "two", second))
    assert done.red is None  # this dataset bears conflicts
    rows, _ = verdicts_of(lake, made, done.batch)
    assert [(row["verdict"], row["reason"], row["finding"]) for row in rows] == [
        ("applied", "update", "identity_reused: message_id"),
        ("duplicate", "message_id", None),  # the same content: a retry
        ("applied", "insert", None),  # o came with key d before: that row lies where this batch does not look
    ]
    assert describe(lake, made, done.batch).findings == 1
    reused = maintain_job.run(session, lake, made, dry_run=True).reused
    assert [
        (identity.level, identity.identity, identity.records, identity.first, identity.last) for identity in reused
    ] == [
        ("producer", "c/t/1/0/o/-1/1", 2, "t-0@2", "t-0@5"),
        ("message_id", "o", 2, "t-0@2", "t-0@5"),
    ]
