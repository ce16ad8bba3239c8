"""The account of a batch's offsets (L2): what explains a missing one depends on how it was landed."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from onefold.dataset import Dataset
from onefold.dedup.documents import Staged, StagedPartition
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Hole, Manifest
from onefold.offsets import Coverage, Present, Range, TopicPartition, minus
from onefold.upsert.coverage import PartitionAccount, account_for, name_unexplained
from onefold.vocabulary import HoleKind

KEY = "c/t/1/0"
WHERE = TopicPartition.of(KEY)
HOLES: list[tuple[int, int, HoleKind]] = [(4, 5, "control"), (6, 7, "aborted")]
LIVE = {"source": {"kafka": {"topics": ["t"]}}}


def account(dataset: Dataset, manifest: Manifest) -> tuple[PartitionAccount, Coverage]:
    """Offsets 2, 3 and 5 were landed."""
    partitions = {KEY: StagedPartition(present=[(2, 4), (5, 6)], quarantined=[])}
    staged = Staged(
        batch="b", generation="g", code="c", attempt="a", table="t", records=3, partitions=partitions, objects={}
    )
    own, (found,) = account_for(dataset, staged, manifest, Coverage())
    return found, own


def test_a_live_range_is_accounted_from_end_to_end(dataset: Callable[..., Dataset]) -> None:
    ranges = [OffsetRange(topic_partition=WHERE, start=0, end=8)]
    gone = [Hole(topic_partition=WHERE, start=0, end=2, kind="retention")]
    landed = Manifest(batch="b", source="s", attempt="a", objects=[], ranges=ranges, holes=gone)
    found, own = account(dataset(**LIVE), landed)
    assert (found.start, found.end, found.distinct, found.unexplained) == (0, 8, 3, [])
    assert (found.explained, found.lost) == ({"retention": 2, "log_gap": 3}, 2)
    assert own.partitions[KEY].covered == [(0, 8)]


def test_what_a_landing_does_not_name_is_unexplained_if_it_has_looked(dataset: Callable[..., Dataset]) -> None:
    """A record that was landed and is not staged (offset 7) is lost behind the landing: red, not a gap."""
    ranges = [OffsetRange(topic_partition=WHERE, start=2, end=8)]
    seen = [Hole(topic_partition=WHERE, start=start, end=end, kind=kind) for start, end, kind in HOLES]
    landed = Manifest(batch="b", source="s", attempt="a", objects=[], ranges=ranges, holes=seen, examined=True)
    found, own = account(dataset(**LIVE), landed)
    assert (found.explained, found.unexplained) == ({"control": 1, "aborted": 1}, [(7, 8)])
    assert own.partitions[KEY].covered == [(2, 7)]
    assert own.partitions[KEY].holes == [(4, 5, "control"), (6, 7, "aborted")]


def test_an_exports_gap_stays_unexplained_though_the_dataset_reads_a_live_topic_today(
    dataset: Callable[..., Dataset],
) -> None:
    found, own = account(dataset(**LIVE), Manifest(batch="b", source="s", attempt="a", objects=[], layout="kcat"))
    assert (found.start, found.end, found.unexplained) == (2, 6, [(4, 5)])
    assert own.partitions[KEY].covered == [(2, 4), (5, 6)]


@pytest.mark.parametrize("holes", ["none", "transactional", "compacted"])
def test_what_an_earlier_batch_has_landed_is_no_loss_and_no_hole_though_it_is_not_covered(
    dataset: Callable[..., Dataset], holes: str
) -> None:
    """An earlier batch holds 50 to 99: it rejected 70, and the transaction of 80 and 81 was open."""
    export = {"path": "exports", "layout": "kcat", "origin": {"cluster": "c"}, "holes": holes}
    if holes == "transactional":
        export |= {"holes": {"kind": holes, "longest": 50}}
    newest = {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}}
    made = dataset(source={"exports": export}, apply=newest)
    landed = Manifest(batch="b", source="s", attempt="a", objects=[], layout="kcat")

    def of(before: Coverage, **offsets: list[Range]) -> tuple[Coverage, PartitionAccount]:
        partitions = {KEY: StagedPartition(**{"present": [], "quarantined": [], **offsets})}  # type: ignore[arg-type]
        staged = Staged(
            batch="b", generation="g", code="c", attempt="a", table="t", records=1, partitions=partitions, objects={}
        )
        own, (account,) = account_for(made, staged, landed, before)
        return before.with_(own), account

    inner = {"present": [(50, 70), (71, 80), (82, 100)], "quarantined": [(70, 71)], "undecided": [(80, 82)]}
    before, _ = of(Coverage(), **inner)
    assert before.partitions[KEY].covered == [(50, 70), (71, 80), (82, 100)]
    assert before.partitions[KEY].uncovered == [(70, 71), (80, 82)]
    after, around = of(before, present=[(0, 50), (100, 150)])
    assert around.unexplained == []
    assert around.explained == {"covered by another batch": 47, "landed by another batch": 3}
    assert (after.partitions[KEY].holes, after.partitions[KEY].uncovered) == ([], [(70, 71), (80, 82)])
    # Decided, or mended, they are covered.
    done, _ = of(after, present=[(70, 71), (80, 82)])
    assert (done.partitions[KEY].present, done.partitions[KEY].uncovered) == ([(0, 150)], [])
    if holes != "none":  # the other way around: what was declared a hole has turned up
        declared, outer = of(Coverage(), present=[(0, 50), (100, 150)])
        assert outer.explained == {holes: 50}
        assert of(declared, **inner)[0] == after


def test_unexplained_ranges_are_named_by_topic_and_partition_and_the_rest_counted() -> None:
    accounts = [
        PartitionAccount(
            partition=f"c/t.orders/2/{number}",
            start=0,
            end=99,
            distinct=90,
            quarantined=0,
            explained={},
            unexplained=gone,
        )
        for number, gone in ((0, [(3, 7)]), (1, []), (12, [(0, 1), (5, 9)]))
    ]
    expected = ["t.orders, partition 0: [3, 7)", "t.orders, partition 12: [0, 1)", "t.orders, partition 12: [5, 9)"]
    assert name_unexplained(accounts, 3) == expected
    assert name_unexplained(accounts, 1) == [expected[0], "and 2 more"]
    assert name_unexplained(accounts[1:2], 3) == []


def test_a_manifest_names_many_holes_in_few_bytes_and_reads_the_older_list() -> None:
    holes = [Hole(topic_partition=WHERE, start=2 * at, end=2 * at + 1, kind="control") for at in range(1_000)]
    holes.append(Hole(topic_partition=WHERE, start=5_000, end=6_000, kind="aborted"))
    manifest = Manifest(batch="b", source="s", attempt="a", objects=[], holes=holes)
    text = manifest.model_dump_json()
    assert Manifest.model_validate_json(text) == manifest
    assert len(text) < 20 * len(holes)
    older = json.loads(text) | {"holes": [hole.model_dump() for hole in holes]}
    assert Manifest.model_validate(older) == manifest


@pytest.mark.parametrize(
    ("holes", "unexplained", "explained"),
    [
        ("transactional", [(10, 1000)], {"transactional": 2}),
        ({"kind": "transactional", "longest": 989}, [(10, 1000)], {"transactional": 2}),
        ({"kind": "transactional", "longest": 990}, [], {"transactional": 992}),
        ("none", [(4, 6), (10, 1000)], {}),
    ],
)
def test_more_missing_offsets_in_a_row_than_declared_are_unexplained(
    dataset: Callable[..., Dataset], holes: Any, unexplained: list[Range], explained: dict[str, int]
) -> None:
    """L2: two markers are two offsets; a file that never came is 990 of them."""
    made = dataset(source={"exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "c"}, "holes": holes}})
    partitions = {KEY: StagedPartition(present=[(0, 4), (6, 10), (1000, 1010)], quarantined=[])}
    staged = Staged(
        batch="b", generation="g", code="c", attempt="a", table="t", records=18, partitions=partitions, objects={}
    )
    landed = Manifest(batch="b", source="s", attempt="a", objects=[], layout="kcat")
    own, (account,) = account_for(made, staged, landed, Coverage())
    assert (account.unexplained, account.explained) == (unexplained, explained)
    covered = own.partitions[KEY].covered
    assert covered == minus([(0, 1010)], unexplained)
    # What another batch has landed in between cuts the run.
    between = Coverage(partitions={KEY: Present(present=[(12, 998)])})
    if holes == "transactional":
        assert account_for(made, staged, landed, between)[1][0].unexplained == []
