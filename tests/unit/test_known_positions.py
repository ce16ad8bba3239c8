"""Which positions of a batch a table knows, and which attempts it asks about them. No Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dedup.documents import Staged, StagedPartition
from onefold.iceberg.commits import ROOT
from onefold.lake import Lake
from onefold.offsets import Coverage, Present, Range
from onefold.proof.claims import first_covered
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.coverage import freed_by
from onefold.upsert.known_positions import Known, count_offsets, damaged_copies, overlaps, without_copies
from onefold.upsert.position_contents import covering_attempts

KEY = "c/t/1/0"
MakeDataset = Callable[..., Dataset]


def staged(**offsets: list[Range]) -> Staged:
    given: dict[str, list[Range]] = {"present": [], "quarantined": []} | offsets
    partitions = {KEY: StagedPartition.model_validate(given)}
    return Staged(
        batch="b", generation="g", code="c", attempt="a", table="t", records=1, partitions=partitions, objects={}
    )


def covers(*present: Range, uncovered: list[Range] | None = None) -> Coverage:
    return Coverage(partitions={KEY: Present(present=list(present), uncovered=uncovered or [])})


def test_a_hole_that_turns_up_is_new_and_what_was_rejected_twice_is_known() -> None:
    holes = Coverage(
        partitions={KEY: Present(present=[(0, 5)], holes=[(5, 7, "compacted")], uncovered=[(7, 8), (9, 10)])}
    )
    assert overlaps(staged(present=[(3, 7)], quarantined=[(1, 2), (7, 9)]), holes) == (
        {KEY: [(1, 2), (3, 5)]},
        {KEY: [(7, 8)]},
    )
    assert overlaps(staged(present=[(5, 8)]), holes) == ({}, {})


def test_a_rejected_copy_of_what_is_covered_is_not_in_quarantine() -> None:
    found = without_copies(staged(present=[(4, 6)], quarantined=[(1, 4)]), Known(covered={KEY: [(0, 3), (5, 6)]}))
    assert found.partitions[KEY].present == [(1, 3), (4, 6)]
    assert found.partitions[KEY].quarantined == [(3, 4)]
    assert damaged_copies(staged(present=[(4, 6)], damaged=[(4, 5)])) == {KEY: [(4, 5)]}
    assert count_offsets({KEY: [(0, 3), (5, 6)], "other": [(1, 2)]}) == 5


def test_what_a_batch_covers_and_no_batch_before_it_did_leaves_the_quarantine() -> None:
    assert freed_by(covers((0, 6)), covers((0, 2), uncovered=[(2, 4), (8, 9)])) == {KEY: [(2, 4)]}
    assert freed_by(covers((0, 6)), covers((0, 6))) == {}


def record(name: str, parent: str, coverage: Coverage, replays: str | None = None) -> CommitRecord:
    return CommitRecord(
        batch=f"b{name}", attempt=name, name=name, parent=parent, dataset="d", generation="g", interval=None,
        coverage=coverage, written=datetime(2026, 1, 1, tzinfo=UTC), verdicts="v", replays=replays,
    )  # fmt: skip


CHAIN = [
    record("4", "3", covers((0, 9)), replays="b2"),
    record("3", "2", covers((0, 5), (6, 9))),
    record("2", "1", covers((0, 3), (6, 9), uncovered=[(5, 6)])),
    record("1", ROOT, covers((0, 3))),
]
"""Newest first: offset 5 is rejected by the second batch, and replayed by the last."""


def test_each_offset_is_asked_of_the_attempt_that_covered_it_first(lake: Lake, dataset: MakeDataset) -> None:
    """And no record of the chain is read behind it."""
    made = dataset()
    for commit in CHAIN[:3]:  # the first is gone, and is not asked for
        lake.put(lake_keys.record(made, commit.name), commit)
    found = covering_attempts(lake, made, CHAIN[0], {KEY: [(4, 6)]})
    assert [(commit.attempt, ranges) for commit, ranges in found] == [("4", {KEY: [(5, 6)]}), ("3", {KEY: [(4, 5)]})]
    lake.put(lake_keys.record(made, "1"), CHAIN[3])
    found = covering_attempts(lake, made, CHAIN[0], {KEY: [(0, 9)]})
    assert [(commit.attempt, ranges[KEY]) for commit, ranges in found] == [
        ("4", [(5, 6)]),
        ("3", [(3, 5)]),
        ("2", [(6, 9)]),
        ("1", [(0, 3)]),
    ]


def test_a_proof_reads_of_each_landing_what_it_covered_first() -> None:
    own = first_covered(CHAIN)
    assert {batch: coverage.partitions[KEY].present for batch, coverage in own.items()} == {
        "b1": [(0, 3)],
        "b2": [(5, 9)],  # with what its replay covered
        "b3": [(3, 5)],
    }
