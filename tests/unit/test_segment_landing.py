"""Landing segments: what each landing decides, what it wakes, and what is said of damage. No Spark."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dedup.documents import Staged, StagedPartition
from onefold.errors import NothingToReadError
from onefold.generation import Target
from onefold.lake import Lake
from onefold.landing import log_segments
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.manifest import Cleared, Manifest
from onefold.landing.plan import ObjectsPlan
from onefold.maintenance.landings import clear_landing
from onefold.offsets import Coverage
from onefold.upsert.coverage import account_for
from tests.support.batches import Export, marker, values

Make = Callable[..., Dataset]
KEY = "c/t/1/0"


def sent(base: int, *ids: str, producer: int = -1) -> bytes:
    own: dict[str, Any] = {"producer": producer, "epoch": 0, "sequence": 0, "transactional": True}
    return values(base, *ids, **(own if producer >= 0 else {}))


A = (0, [sent(0, "a", "b", producer=1), sent(2, "c")])
B = (3, [sent(3, "d"), sent(4, "e", producer=2)])
C = (5, [marker(5, 1, commit=True), marker(6, 2, commit=False)])


@pytest.fixture
def things(dataset: Make) -> Make:
    def make(holes: str = "none", name: str = "things", **more: Any) -> Dataset:
        origin = {"cluster": "c", "incarnation": 1}
        exports = {"path": "segments", "layout": "segments", "origin": origin, "holes": holes}
        if holes == "compacted":  # which only this mode can do without
            more = {"apply": {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}}} | more
        return dataset(name, source={"exports": exports}, identity={"message_id": "id"}, **more)

    return make


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path / "segments")


def land(lake: Lake, dataset: Dataset) -> Manifest:
    """Everything that is new for the dataset."""
    return land_batch(lake, dataset, plan_batch(lake, dataset).batch)


def fates(manifest: Manifest) -> tuple[list[tuple[int, int, int]], list[tuple[int, int, int]]]:
    [transactions] = manifest.transactions
    return transactions.aborted, transactions.open


def names(manifest: Manifest) -> list[tuple[str, bool]]:
    return [(object_.name[-8:], bool(object_.woken)) for object_ in manifest.objects]


def test_only_segments_are_planned_and_what_is_strange_is_named(lake: Lake, things: Make, export: Export) -> None:
    export.write(A[0], *A[1])
    (export.folder / "notes.txt").write_text("x")
    plan = plan_batch(lake, things())
    assert isinstance(plan, ObjectsPlan)
    assert [object_.name for object_ in plan.objects] == ["t-0/00000000000000000000.log"]
    assert plan.ignored == ["notes.txt"]
    with pytest.raises(NothingToReadError, match="no objects of layout segments"):
        plan_batch(lake, things(), export=str(export.folder / "t-0"))  # the folder's name is what tells the topic


def test_all_at_once_leaves_nothing_open(lake: Lake, things: Make, export: Export) -> None:
    for segment in (A, B, C):
        export.write(segment[0], *segment[1])
    assert fates(land(lake, things())) == ([(2, 4, 5)], [])


@pytest.mark.parametrize(
    "order", list(itertools.permutations([A, B, C])), ids=lambda segments: "-".join(str(s[0]) for s in segments)
)
def test_each_record_is_decided_once_and_correctly_in_every_order_of_segments(
    lake: Lake, things: Make, export: Export, order: Any
) -> None:
    """L1: over all landings, every transactional record is given decided in at least one, and never wrongly."""
    landed = []
    for segment in order:
        export.write(segment[0], *segment[1])
        landed.append(land(lake, things()))
    decided = {0: set(), 4: set()}  # type: ignore[var-annotated]
    for manifest in landed:
        held = {object_.start for object_ in manifest.objects}
        aborted, open_ = fates(manifest)
        for offset, start, producer in ((0, 0, 1), (4, 3, 2)):
            if start in held and not any(p == producer and s <= offset < e for p, s, e in open_):
                decided[offset].add(any(p == producer and s <= offset < e for p, s, e in aborted))
    assert decided == {0: {False}, 4: {True}}


def test_a_marker_wakes_the_segment_that_waits_for_it_once(lake: Lake, things: Make, export: Export) -> None:
    export.write(A[0], *A[1])
    first = land(lake, things())
    assert fates(first) == ([], [(1, 0, 2)])
    [note] = first.notes
    assert note == (
        "t, partition 0: 1 producer has a transaction that no marker here ends, from offset 0 on: held until a "
        "marker is landed"
    )
    export.write(3, sent(3, "d"), marker(4, 1, commit=True))
    assert log_segments.waiting([first]) == {first.batch}, "its bytes are kept"
    second = land(lake, things())
    assert log_segments.waiting([first, second]) == set()
    assert names(second) == [("0003.log", False), ("0000.log", True)]
    assert second.objects[1].woken == first.batch
    assert lake.storage.read(second.objects[1].key) == lake.storage.read(first.objects[0].key)
    assert fates(second) == ([], [])
    assert "t-0/00000000000000000000.log of batch" in second.notes[0]
    # The active segment grows: its marker is there again, and nothing waits any more.
    export.write(3, sent(3, "d"), marker(4, 1, commit=True), sent(5, "f"))
    assert names(land(lake, things())) == [("0003.log", False)]


def test_a_reader_that_was_given_a_record_open_is_given_it_decided(lake: Lake, things: Make, export: Export) -> None:
    """Two datasets share the source's landings, and plan on their own."""
    dataset, other = things(), things(name="others")
    lake.put_first(lake_keys.target(other.target.table), Target(dataset=other.name))  # it has run before
    export.write(A[0], *A[1])
    land(lake, dataset)
    land(lake, other)
    export.write(3, sent(3, "d"), marker(4, 1, commit=True))
    assert names(land(lake, dataset)) == [("0003.log", False), ("0000.log", True)]
    export.write(3, sent(3, "d"), marker(4, 1, commit=True), sent(5, "f"))
    both = land(lake, dataset)
    assert names(both) == [("0003.log", False), ("0000.log", True)]
    assert land(lake, other) == both, "they share the plan, too"
    export.write(3, sent(3, "d"), marker(4, 1, commit=True), sent(5, "f", "g"))
    assert names(land(lake, dataset)) == [("0003.log", False)]


def test_one_of_two_landings_at_once_sees_the_other(
    lake: Lake, things: Make, export: Export, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second lands whole after the first has read the indexes that stand, and before its manifest."""
    export.write(A[0], *A[1])
    plan = plan_batch(lake, things())
    export.write(3, sent(3, "d"), marker(4, 1, commit=True))
    later = plan_batch(lake, things(), export=str(export.folder / ".."))
    only = later.model_copy(
        update={"objects": [object_ for object_ in later.objects if object_.name.endswith("0003.log")]}
    )
    lake.storage.put_if_absent(f"sources/{only.source}/plans/{only.batch}.json", only.model_dump_json().encode())
    inner: list[Manifest] = []
    real = log_segments._land_partition

    def between(*given: Any) -> None:
        monkeypatch.setattr(log_segments, "_land_partition", real)
        real(*given)
        inner.append(land_batch(lake, things(), only.batch))

    monkeypatch.setattr(log_segments, "_land_partition", between)
    first = land_batch(lake, things(), plan.batch)
    assert fates(first)[1] == [(1, 0, 2)]
    assert names(inner[0]) == [("0003.log", False), ("0000.log", True)]
    assert fates(inner[0]) == ([], [])


def test_what_was_cleared_cannot_be_woken(lake: Lake, things: Make, export: Export) -> None:
    export.write(A[0], *A[1])
    first = land(lake, things())
    clear_landing(lake, first, "decision")
    assert lake.get(lake_keys.cleared(first.source, first.batch), Cleared)
    export.write(3, sent(3, "d"), marker(4, 1, commit=True))
    assert names(land(lake, things())) == [("0003.log", False)]


def test_replicas_that_overlap_are_landed_both_and_tell_one_story(lake: Lake, things: Make, export: Export) -> None:
    export.write(0, *A[1], replica="broker-1")
    export.write(0, *A[1], *B[1], replica="broker-2")
    export.write(5, *C[1], replica="broker-1")
    manifest = land(lake, things())
    assert len(manifest.objects) == 3
    assert fates(manifest) == ([(2, 4, 5)], [])


def test_a_replica_that_is_whole_takes_the_damage_back(lake: Lake, things: Make, export: Export) -> None:
    torn = b"".join(A[1])
    export.write(0, torn[:70] + b"!" + torn[71:], replica="broker-1")
    export.write(3, *B[1], replica="broker-1")
    first = land(lake, things())
    assert [(range_.start, range_.end) for range_ in first.damaged] == [(0, 2)]
    [damage] = first.damage
    assert (damage.topic_partition.key, damage.lost, damage.places) == (KEY, [(0, 2)], first.notes[:1])
    assert first.notes[0].startswith("broker-1/t-0/00000000000000000000.log: bytes 0 to 77: a damaged record batch")
    export.write(0, *A[1], replica="broker-2")
    assert land(lake, things()).damaged == []


@pytest.mark.parametrize("holes", ["none", "compacted"])
def test_offsets_of_a_damaged_batch_are_unexplained_whatever_explains_holes(
    lake: Lake, things: Make, export: Export, holes: str
) -> None:
    """L2: also where compaction is declared, at the log's end, and where nothing else of the partition is left."""
    whole = b"".join([*A[1], *B[1]])
    export.write(0, whole[:-3] + b"???")
    manifest = land(lake, things(holes))
    staged = Staged(batch="b", generation="g", code="c", attempt="a", table="t", records=5, objects={}, partitions={
        KEY: StagedPartition(present=[(0, 4)], quarantined=[]),
    })  # fmt: skip
    coverage, [account] = account_for(things(holes), staged, manifest, Coverage())
    assert account.unexplained == [(4, 5)]
    assert coverage.partitions[KEY].covered == [(0, 4)]
    # Compaction explains what else is missing.
    sparse = staged.model_copy(update={"partitions": {KEY: StagedPartition(present=[(0, 1), (3, 4)], quarantined=[])}})
    _, [account] = account_for(things(holes), sparse, manifest, Coverage())
    assert account.unexplained == ([(4, 5)] if holes == "compacted" else [(1, 3), (4, 5)])
    nothing = staged.model_copy(update={"partitions": {}})
    _, [account] = account_for(things(holes), nothing, manifest, Coverage())
    assert account.unexplained == [(4, 5)]


def test_a_segment_that_was_copied_torn_leaves_its_rest_unexplained(lake: Lake, things: Make, export: Export) -> None:
    whole = b"".join(A[1])
    export.write(0, whole[:-5])
    manifest = land(lake, things("compacted"))
    assert manifest.damaged == []
    assert "ends in a batch that was not written to its end" in manifest.notes[0]
    export.write(3, *B[1])
    plan = plan_batch(lake, things("compacted"), export=str(export.folder))
    both = land_batch(lake, things("compacted"), plan.batch)
    assert [(range_.start, range_.end) for range_ in both.damaged] == [(2, 3)]


def test_what_holes_explain_belongs_to_the_landing(things: Make) -> None:
    """A shared landing decides transactions for all its readers, and `holes` has a say in it."""
    assert things().source_id == things(name="others").source_id
    assert things().source_id != things("compacted").source_id
