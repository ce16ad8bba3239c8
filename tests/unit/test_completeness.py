"""What never came, or came for the first time: rules on literal coverages, accounts, batches and landings. No Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dedup.documents import Staged, StagedPartition
from onefold.errors import ClusterRefusedError
from onefold.lake import Lake
from onefold.landing.compaction import CompactedHole, TopicSettings, maybe_deletes, taken_over
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Hole, Manifest
from onefold.offsets import Coverage, Present, Range, TopicPartition
from onefold.upsert.completeness import Gap, fallen_silent, gaps_of, stamp_runs, taken_partitions, topics_of
from onefold.upsert.coverage import PartitionAccount, account_for
from onefold.vocabulary import HoleKind

MakeDataset = Callable[..., Dataset]
KEY, OTHER = "c/t/1/0", "c/t/1/1"
WHERE = TopicPartition.of(KEY)
NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
DAY = timedelta(days=1)
MODES: dict[str, dict[str, Any]] = {
    "append": {"apply": {"mode": "append"}},
    "increment": {
        "apply": {"mode": "increment", "key": ["id"], "add": {"total": "n"}},
        "identity": {"message_id": "header.m"},
    },
    "contiguous": {"apply": {"mode": "upsert", "key": ["id"], "version": {"from": "n", "guard": "contiguous"}}},
    "newest, tombstones": {
        "apply": {"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}, "delete_when": "tombstone"},
        "key": {"format": "json"},
    },
    "newest, an expression": {
        "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}, "delete_when": "n = 0"}
    },
    "newest, no deletes": {"apply": {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}}},
}
FIELDS = {"value": {"fields": {"id": "string", "n": "long"}}}


# Gaps of the coverage


def batch(*ranges: Range, key: str = KEY) -> Coverage:
    return Coverage(partitions={key: Present(present=list(ranges))})


def test_offsets_between_two_batches_are_a_gap_with_the_age_of_what_follows() -> None:
    first, second = batch((0, 10)), batch((20, 30))
    stamps = stamp_runs(first, {}, {KEY: 1_000})
    whole = first.with_(second)
    stamps = stamp_runs(whole, stamps, {KEY: 2_000})
    assert stamps == {KEY: {0: 1_000, 20: 2_000}}
    assert gaps_of(whole, stamps) == [Gap(partition=KEY, start=10, end=20, later=2_000)]
    assert gaps_of(whole, stamps)[0].shown == "t, partition 0: [10, 20)"
    # Some of it comes: what is left has the age of what follows it now. All of it comes: there is no gap.
    part = whole.with_(batch((14, 16)))
    stamps = stamp_runs(part, stamps, {KEY: 3_000})
    assert [(gap.start, gap.end, gap.later) for gap in gaps_of(part, stamps)] == [(10, 14, 3_000), (16, 20, 2_000)]
    full = part.with_(batch((10, 20)))
    assert (gaps_of(full, stamp_runs(full, stamps, {KEY: 4_000})), stamps[KEY][0]) == ([], 1_000)


def test_gaps_are_those_of_the_set_in_any_order_of_batches() -> None:
    batches = [((0, 10), 1_000), ((20, 30), 2_000), ((40, 50), 3_000), ((30, 35), 4_000)]
    found = set()
    for order in permutations(batches):
        whole, stamps = Coverage(), {}
        for range_, stamp in order:
            whole = whole.with_(batch(range_))
            stamps = stamp_runs(whole, stamps, {KEY: stamp})
        found.add(tuple((gap.start, gap.end, gap.later) for gap in gaps_of(whole, stamps)))
    assert found == {((10, 20, 2_000), (35, 40, 3_000))}


def test_what_is_explained_rejected_or_open_is_no_gap() -> None:
    offsets = Present(present=[(0, 3), (6, 7)], holes=[(3, 4, "control")], uncovered=[(4, 6)])
    assert gaps_of(Coverage(partitions={KEY: offsets}), {}) == []


def test_the_age_of_what_follows_is_unknown_where_no_batch_noted_it() -> None:
    whole = batch((0, 10), (20, 30))
    assert gaps_of(whole, stamp_runs(whole, {}, {})) == [Gap(partition=KEY, start=10, end=20, later=None)]


# Partitions and topics


@pytest.mark.parametrize(
    ("seen", "now", "silent"),
    [
        ([KEY, OTHER], [KEY], [OTHER]),
        ([KEY, OTHER], [KEY, OTHER, "c/t/1/2"], []),
        ([KEY, OTHER], [], []),
        ([], [KEY], []),
        (["c/t/1/0", "c/t/1/1"], ["c/t/2/0"], []),
        (["c/t/1/0", "c/u/1/0"], ["c/t/1/0"], ["c/u/1/0"]),
    ],
)
def test_a_partition_is_silent_while_others_have_records(seen: list[str], now: list[str], silent: list[str]) -> None:
    """Also of another topic; not one of a topic that was created again since."""
    assert fallen_silent(seen, now) == silent


def test_a_topic_whose_records_are_all_filtered_or_skipped_is_not_taken() -> None:
    counts = {
        KEY: {"applied": {"insert": 1}, "filtered": {"filter": 5}},
        "c/u/1/0": {"filtered": {"filter": 5}},
        "c/v/1/0": {"skipped": {"decision": 5}},
        "c/w/1/0": {"rejected": {"undecodable": 1}},
        "unreadable": {"rejected": {"undecodable": 1}},
    }
    assert taken_partitions(counts) == [KEY, "c/w/1/0"]
    assert topics_of(taken_partitions(counts)) == {"t", "w"}


# Compacted offsets


def account(
    made: Dataset, present: list[Range], before: Coverage, **manifest: Any
) -> tuple[Coverage, PartitionAccount]:
    staged = Staged(
        batch="b", generation="g", code="c", attempt="a", table="t", records=1, objects={},
        partitions={KEY: StagedPartition(present=present, quarantined=[])},
    )  # fmt: skip
    landed = Manifest(**{"batch": "b", "source": "s", "attempt": "a", "objects": [], "layout": "kcat"} | manifest)
    own, (found,) = account_for(made, staged, landed, before)
    return before.with_(own), found


def exported(dataset: MakeDataset, mode: str) -> Dataset:
    export = {"path": "e", "layout": "kcat", "origin": {"cluster": "c"}, "holes": "compacted"}
    return dataset(source={"exports": export}, **FIELDS, **MODES[mode])


@pytest.mark.parametrize(
    ("mode", "suspects"),
    [
        ("newest, tombstones", [(3, 4)]),
        ("newest, an expression", [(3, 4)]),
        ("newest, no deletes", []),
    ],
)
def test_a_compacted_offset_after_what_the_table_has_may_have_been_a_delete(
    dataset: MakeDataset, mode: str, suspects: list[Range]
) -> None:
    """Offsets 0, 1 and 2 are there; then the topic is read again, compacted: 1 and 4. In either order of the two."""
    made = exported(dataset, mode)
    first, alone = account(made, [(0, 3)], Coverage())
    _, again = account(made, [(1, 2), (4, 5)], first)
    assert (alone.maybe_deletes, again.maybe_deletes) == ([], suspects)
    assert again.explained == {"covered by another batch": 1, "compacted": 1}
    compacted, alone = account(made, [(1, 2), (4, 5)], Coverage())
    assert (alone.maybe_deletes, alone.explained) == ([], {"compacted": 2})
    _, late = account(made, [(0, 3)], compacted)
    assert late.maybe_deletes == suspects


def test_a_compacted_offset_before_all_that_the_table_has_deletes_nothing_there(dataset: MakeDataset) -> None:
    made = exported(dataset, "newest, tombstones")
    before, _ = account(made, [(10, 12)], Coverage())
    assert account(made, [(1, 2), (4, 5)], before)[1].maybe_deletes == []


@pytest.mark.parametrize(
    ("mode", "needed", "suspects"),
    [
        ("append", [(3, 4), (6, 8)], []),
        ("increment", [(3, 4), (6, 8)], []),
        ("contiguous", [(3, 4), (6, 8)], []),
        ("newest, tombstones", [(6, 8)], []),
        ("newest, an expression", [], [(6, 8)]),
        ("newest, no deletes", [], []),
    ],
)
def test_a_compacted_hole_of_a_live_topic_is_a_loss_where_the_rows_need_it(
    dataset: MakeDataset, mode: str, needed: list[Range], suspects: list[Range]
) -> None:
    """Offsets 3, 6 and 7 were compacted; of 6 and 7 a tombstone may be gone."""
    made = dataset(source={"kafka": {"topics": ["t"]}}, **FIELDS, **MODES[mode])
    holes = [
        Hole(topic_partition=WHERE, start=start, end=end, kind=HoleKind.COMPACTED) for start, end in ((3, 4), (6, 8))
    ]
    live = {
        "ranges": [OffsetRange(topic_partition=WHERE, start=0, end=10)],
        "holes": holes,
        "examined": True,
        "aged": [OffsetRange(topic_partition=WHERE, start=6, end=8)],
    }
    present = [(0, 3), (4, 6), (8, 10)]
    whole, found = account(made, present, Coverage(), **live)
    assert (found.needed, found.maybe_deletes) == (needed, suspects)
    assert found.lost == sum(end - start for start, end in needed)
    assert (found.explained, found.unexplained) == ({"compacted": 3}, []), "it is explained, and may be lost"
    assert whole.partitions[KEY].covered == [(0, 10)]
    # What an earlier batch had landed before it was compacted is not lost.
    assert account(made, present, batch((0, 10)), **live)[1].lost == 0


# Which compacted holes of a live topic may have been tombstones


def landed(lake: Lake, name: str, at: datetime, *ranges: Range, key: str = KEY, **more: Any) -> None:
    """A landing of the source `s` that ended at an instant."""
    where = TopicPartition.of(key)
    planned = [OffsetRange(topic_partition=where, start=start, end=end) for start, end in ranges]
    manifest = Manifest(batch=name, source="s", attempt="a", objects=[], ranges=planned, examined=True, **more)
    place = lake_keys.manifest("s", name)
    lake.put(place, manifest)
    info = lake.storage.stat(place)
    assert info
    path = lake.storage.uri_of(place).removeprefix("file://")
    os.utime(path, (at.timestamp(), at.timestamp()))


def hole(start: int, end: int, hours: float, key: str = KEY) -> CompactedHole:
    """A compacted hole; what follows it is so many hours old at noon."""
    followed_by = int((NOON - timedelta(hours=hours)).timestamp() * 1000)
    return CompactedHole(TopicPartition.of(key), start, end, followed_by)


def found_by(lake: Lake, *holes: CompactedHole, keep: timedelta = DAY) -> list[Range]:
    return [(range_.start, range_.end) for range_ in maybe_deletes(lake, "s", holes, lambda _: keep, NOON)]


def test_a_tombstone_may_be_gone_where_its_neighbours_and_an_earlier_landing_are_old(lake: Lake) -> None:
    landed(lake, "old", NOON - 3 * DAY, (0, 5))
    assert found_by(lake, hole(6, 8, 30), hole(9, 10, 23)) == [(6, 8)]
    assert found_by(lake, hole(6, 8, 30), keep=2 * DAY) == [], "the topic keeps tombstones for longer"
    assert found_by(lake, hole(6, 8, 30, OTHER)) == [], "of that partition the table has no older record"


def test_a_backfill_of_a_topic_that_was_compacted_long_ago_misses_no_tombstone(lake: Lake) -> None:
    """What was landed an hour ago was still in the log, so its tombstone was, too."""
    landed(lake, "an hour ago", NOON - timedelta(hours=1), (0, 5))
    assert found_by(lake, hole(6, 8, 9_000)) == []
    assert found_by(lake) == []


def test_a_hole_before_all_that_was_landed_deletes_nothing_there(lake: Lake) -> None:
    landed(lake, "later offsets", NOON - 3 * DAY, (20, 25))
    landed(lake, "empty", NOON - 3 * DAY, (0, 0))
    assert found_by(lake, hole(6, 8, 30)) == []


def test_what_another_landing_saw_of_tombstones_is_taken_over_with_its_holes(lake: Lake) -> None:
    aged = [OffsetRange(topic_partition=WHERE, start=6, end=9)]
    landed(lake, "first", NOON - 3 * DAY, (0, 20), aged=aged)
    holes = [
        Hole(topic_partition=WHERE, start=7, end=8, kind=HoleKind.COMPACTED),
        Hole(topic_partition=WHERE, start=12, end=13, kind=HoleKind.COMPACTED),
        Hole(topic_partition=WHERE, start=6, end=7, kind=HoleKind.CONTROL),
    ]
    assert [(range_.start, range_.end) for range_ in taken_over(lake, "s", holes)] == [(7, 8)]


@pytest.mark.parametrize(
    ("settings", "kept", "read"),
    [
        (
            {"cleanup.policy": "compact", "delete.retention.ms": "7200000", "retention.ms": "1"},
            timedelta(hours=2),
            {"cleanup.policy": "compact", "delete.retention.ms": "7200000"},
        ),
        ({}, DAY, {}),
        ({"delete.retention.ms": str(2**63 - 1)}, timedelta(days=36_500), {"delete.retention.ms": str(2**63 - 1)}),
        (None, DAY, {}),
    ],
)
def test_how_long_tombstones_stay_is_asked_once_and_kept(
    settings: dict[str, str] | None, kept: timedelta, read: dict[str, str]
) -> None:
    asked: list[str] = []

    def ask(topic: str) -> dict[str, str]:
        asked.append(topic)
        if settings is None:
            raise ClusterRefusedError("c", "broker:9092", "no DESCRIBE_CONFIGS")
        return settings

    topics = TopicSettings(ask)
    assert topics.read == {}
    assert (topics.tombstone_retention("t"), topics.tombstone_retention("t")) == (kept, kept)
    assert (topics.read, asked) == ({"t": read}, ["t"])
