"""Plans of export files: exact, written once, nothing planned twice and nothing forgotten; landing by manifest."""

from __future__ import annotations

import os
import re
import shutil
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from onefold.dataset import Dataset
from onefold.errors import (
    ExportChangedError,
    LandedBytesMissingError,
    NothingToReadError,
    StepMissingError,
    UsageError,
)
from onefold.lake import Lake
from onefold.landing.cuts import Cut, OffsetRange, ranges_between
from onefold.landing.land import check_bytes, land_batch, manifest_of, plan_batch
from onefold.landing.plan import Interval, ObjectsPlan, RangesPlan, check_limits, plan_of, put_plan
from onefold.landing.source import AT_ONCE
from onefold.offsets import TopicPartition
from onefold.storage import LocalStorage, ObjectInfo, Storage

MakeDataset = Callable[..., Dataset]
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
FIRST = Interval(start=MIDNIGHT, end=MIDNIGHT + timedelta(hours=1))
SECOND = Interval(start=FIRST.end, end=FIRST.end + timedelta(hours=1))
OLD = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def exports(lake: Lake) -> Path:
    folder = lake.settings.path("exports")
    folder.mkdir(parents=True)
    return folder


def put(folder: Path, name: str, text: str = "{}\n", at: datetime = OLD) -> Path:
    """An export object, last changed at an instant."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    os.utime(file, (at.timestamp(), at.timestamp()))
    return file


def names(plan: ObjectsPlan | RangesPlan) -> list[str]:
    assert isinstance(plan, ObjectsPlan)
    return [object_.name for object_ in plan.objects]


def run(lake: Lake, dataset: Dataset, **more: Interval | str) -> list[str]:
    """Plan and land; the names."""
    plan = plan_batch(lake, dataset, **more)  # type: ignore[arg-type]
    if not plan.empty:
        land_batch(lake, dataset, plan.batch)
    return names(plan)


def test_one_listing_gives_one_batch_id_in_any_lake(
    lake: Lake, exports: Path, dataset: MakeDataset, tmp_path: Path
) -> None:
    put(exports, "b.jsonl"), put(exports, "a.jsonl")
    first = plan_batch(lake, dataset(), export=str(exports))
    assert names(first) == ["a.jsonl", "b.jsonl"]
    assert plan_batch(lake, dataset(), export=str(exports)) == first
    other = Lake(lake.settings.model_copy(update={"lake": str(tmp_path / "other")}))
    assert plan_batch(other, dataset(), export=str(exports)).batch == first.batch
    assert first.batch.startswith("export_")
    assert plan_of(lake, dataset().source_id, first.batch) == first


@pytest.mark.parametrize("change", ["name", "size", "time", "more"])
def test_another_listing_gives_another_batch_id(lake: Lake, exports: Path, dataset: MakeDataset, change: str) -> None:
    put(exports, "a.jsonl")
    before = plan_batch(lake, dataset(), export=str(exports)).batch
    if change == "name":
        (exports / "a.jsonl").rename(exports / "b.jsonl")
    elif change == "size":
        put(exports, "a.jsonl", "{}\n{}\n")
    elif change == "time":
        put(exports, "a.jsonl", at=OLD + timedelta(seconds=1))
    else:
        put(exports, "b.jsonl")
    assert plan_batch(lake, dataset(), export=str(exports)).batch != before


def test_what_was_landed_is_not_planned_again(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "a.jsonl")
    assert run(lake, dataset()) == ["a.jsonl"]
    assert run(lake, dataset()) == []
    put(exports, "b.jsonl")
    assert run(lake, dataset()) == ["b.jsonl"]
    put(exports, "a.jsonl", "{}\n{}\n")
    assert run(lake, dataset()) == ["a.jsonl"], "another object under the same name"


def test_a_plan_whose_process_died_before_landing_is_made_again(
    lake: Lake, exports: Path, dataset: MakeDataset
) -> None:
    put(exports, "a.jsonl")
    died = plan_batch(lake, dataset())
    assert plan_batch(lake, dataset()) == died
    put(exports, "b.jsonl")
    assert run(lake, dataset()) == ["a.jsonl", "b.jsonl"], "nothing of it was forgotten"


def test_datasets_share_a_source_but_each_reads_all_of_it(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "a.jsonl")
    things, other = dataset("one"), dataset("other")
    assert things.source_id == other.source_id
    assert run(lake, things) == ["a.jsonl"]
    batch = plan_batch(lake, other).batch
    assert batch == plan_batch(lake, things, export=str(exports)).batch, "and so share the landing"
    assert run(lake, other) == ["a.jsonl"]
    assert [run(lake, things), run(lake, other)] == [[], []]


def test_datasets_of_different_schedules_each_read_all(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    both = Interval(start=FIRST.start, end=SECOND.end)
    hourly, daily = dataset("hourly"), dataset("daily")
    put(exports, "a.jsonl")
    assert run(lake, hourly, interval=FIRST) == ["a.jsonl"]
    put(exports, "b.jsonl")
    assert run(lake, hourly, interval=SECOND) == ["b.jsonl"]
    assert run(lake, daily, interval=both) == ["a.jsonl", "b.jsonl"]


def test_a_run_without_an_interval_keeps_its_plan(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "1.jsonl")
    first = plan_batch(lake, dataset(), run="manual 1")
    land_batch(lake, dataset(), first.batch)
    put(exports, "2.jsonl")

    assert plan_batch(lake, dataset(), run="manual 1") == first, "also where something new has come, or nothing has"
    assert names(plan_batch(lake, dataset(), run="manual 2")) == ["2.jsonl"]  # type: ignore[arg-type]


def test_a_run_that_found_nothing_or_only_looked_keeps_nothing(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "1.jsonl")
    run(lake, dataset())
    assert plan_batch(lake, dataset(), run="manual 1").empty
    put(exports, "2.jsonl")
    plan_batch(lake, dataset(), run="manual 1", dry_run=True)
    put(exports, "3.jsonl")
    assert names(plan_batch(lake, dataset(), run="manual 1")) == ["2.jsonl", "3.jsonl"]  # type: ignore[arg-type]


def test_an_interval_keeps_its_plan(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "a.jsonl")
    first = plan_batch(lake, dataset(), FIRST)
    put(exports, "b.jsonl")
    assert plan_batch(lake, dataset(), FIRST) == first
    assert plan_batch(lake, dataset("other"), FIRST) == first
    assert names(plan_batch(lake, dataset(), SECOND)) == ["b.jsonl"], "pinned by the first, landed or not"
    assert first.batch == f"{FIRST.name}_{first.digest}"


def test_an_interval_without_objects_keeps_an_empty_plan(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "a.jsonl")
    run(lake, dataset())
    assert plan_batch(lake, dataset(), FIRST).empty
    put(exports, "b.jsonl")
    assert plan_batch(lake, dataset(), FIRST).empty
    assert names(plan_batch(lake, dataset(), SECOND)) == ["b.jsonl"]


def test_only_objects_that_were_stable_for_settle_are_planned(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    settling = dataset(schedule={"cron": "0 * * * *", "start": MIDNIGHT, "settle": "10m"})
    now = datetime.now(UTC)
    put(exports, "old.jsonl", at=now - timedelta(minutes=11))
    put(exports, "young.jsonl", at=now - timedelta(minutes=9))
    assert names(plan_batch(lake, settling)) == ["old.jsonl"]
    everything = plan_batch(lake, settling, export=str(exports))
    assert names(everything) == ["old.jsonl", "young.jsonl"], "--export takes all"
    assert names(plan_batch(lake, dataset("hasty"))) == ["old.jsonl", "young.jsonl"], "no schedule: no settling"


def test_objects_that_are_left_out_are_named_with_the_reason(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    """Another ending, and what is younger than `settle`; not what other programs keep for themselves."""
    settling = dataset(schedule={"cron": "0 * * * *", "start": MIDNIGHT, "settle": "10m"})
    old, young = (datetime.now(UTC) - timedelta(minutes=minutes) for minutes in (11, 9))
    for name in ("a.jsonl", "b.csv", "sub/c.txt", "sub/_SUCCESS", ".a.jsonl.crc"):
        put(exports, name, at=old)
    put(exports, "young.jsonl", at=young)
    other = "2 objects are not named as layout kcat has them and left out: b.csv, sub/c.txt"
    waits = "1 object is left for a later run, changed less than 10m ago (schedule.settle): young.jsonl"
    assert plan_batch(lake, settling).notes == [other, waits]
    assert plan_batch(lake, dataset("hasty")).notes == [other]
    run(lake, settling)
    assert plan_batch(lake, settling).notes == [other, waits], "also where nothing is new"
    assert plan_batch(lake, settling, export=str(exports)).notes == [other], "--export takes all"


def test_values_and_their_companions_are_planned_together_or_not_yet(
    lake: Lake, exports: Path, dataset: MakeDataset
) -> None:
    """Values that were landed without their keys would never get them."""
    connect = {"path": str(exports), "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}
    settling = dataset(
        source={"exports": connect},
        identity={"business_key": ["id"]},
        schedule={"cron": "0 * * * *", "start": MIDNIGHT, "settle": "10m"},
    )
    old, young = (datetime.now(UTC) - timedelta(minutes=minutes) for minutes in (11, 9))
    whole = [put(exports, name, at=old).name for name in ("t+0+0.headers.json", "t+0+0.json", "t+0+0.keys.avro")]
    for name, at in (("t+0+5.json", old), ("t+0+5.keys.avro", young), ("t+0+9.json", young), ("t+0+9.keys.json", old)):
        put(exports, name, at=at)
    assert names(plan_batch(lake, settling)) == whole
    land_batch(lake, settling, plan_batch(lake, settling).batch)
    assert plan_batch(lake, settling).empty
    for name in ("t+0+5.keys.avro", "t+0+9.json"):
        put(exports, name, at=old)
    assert names(plan_batch(lake, settling)) == ["t+0+5.json", "t+0+5.keys.avro", "t+0+9.json", "t+0+9.keys.json"]


def land(lake: Lake, dataset: Dataset) -> str:
    """Plan and land; the batch."""
    batch = plan_batch(lake, dataset).batch
    land_batch(lake, dataset, batch)
    return batch


def connect(dataset: MakeDataset, exports: Path) -> Dataset:
    source = {"path": str(exports), "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}
    return dataset(source={"exports": source}, identity={"business_key": ["id"]})


def test_values_whose_companions_come_later_are_landed_with_them_again(
    lake: Lake, exports: Path, dataset: MakeDataset
) -> None:
    """A record is its value, its key and its headers: so it is not covered by what had no key (L1)."""
    made = connect(dataset, exports)
    put(exports, "t+0+0.json")
    first = manifest_of(lake, made, land(lake, made))
    put(exports, "t+0+0.keys.json", '"a"\n')
    second = manifest_of(lake, made, land(lake, made))
    assert [object_.name for object_ in second.objects] == ["t+0+0.json", "t+0+0.keys.json"]
    assert first.digests.keys() == second.digests.keys() == {"t+0+0.json"}
    assert first.digests != second.digests
    put(exports, "t+0+0.headers.json", '{"headers": []}\n')
    assert len(manifest_of(lake, made, land(lake, made)).digests.items() - first.digests.items()) == 1
    assert plan_batch(lake, made).empty


def test_companions_without_their_values_are_named_and_wait(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    made = connect(dataset, exports)
    for name in ("t+0+0.json", "t+0+5.keys.json", "t+0+9.headers.avro", "t/tombstone/t+0+7.headers.json"):
        put(exports, name)
    plan = plan_batch(lake, made)
    assert isinstance(plan, ObjectsPlan)
    assert names(plan) == ["t+0+0.json"]
    [left_out] = plan.notes
    left = "t+0+5.keys.json, t+0+9.headers.avro, t/tombstone/t+0+7.headers.json"
    assert left_out.startswith(f"keys or headers whose values are not there are left out: {left}. ")
    land_batch(lake, made, plan.batch)
    put(exports, "t+0+5.json")
    assert names(plan_batch(lake, made)) == ["t+0+5.json", "t+0+5.keys.json"]


def test_objects_that_cannot_be_read_under_their_names_are_named_and_the_rest_is_planned(
    lake: Lake, exports: Path, dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(exports, "a.jsonl")
    put(exports, "b\\c.jsonl")
    for name in (b"odd\xff.jsonl", b"odd\xff.txt"):
        Path(os.fsdecode(os.fsencode(exports) + b"/" + name)).touch()
    for name, to in (("dangling.jsonl", "gone.jsonl"), ("loop.jsonl", "loop.jsonl"), ("good.jsonl", "a.jsonl")):
        (exports / name).symlink_to(to)
    on_disk = LocalStorage.list

    def as_in_a_bucket(store: LocalStorage, prefix: str = "") -> Any:
        yield from on_disk(store, prefix)
        if store.root == exports:
            yield ObjectInfo("/slash.jsonl", 1, "e", OLD)

    monkeypatch.setattr(LocalStorage, "list", as_in_a_bucket)
    plan = plan_batch(lake, dataset())
    assert isinstance(plan, ObjectsPlan)
    assert names(plan) == ["a.jsonl", "good.jsonl"]
    assert plan.ignored == [r"odd\udcff.txt"]
    left_out, other_names = plan.notes
    assert other_names == r"1 object is not named as layout kcat has them and left out: odd\udcff.txt"
    for name, why in (
        (r"b\\c.jsonl", "holds? a backslash"),
        (r"odd\\udcff.jsonl", "not UTF-8"),
        ("dangling.jsonl", "a link to nothing"),
        ("loop.jsonl", "a link to nothing"),
        ("/slash.jsonl", "begins with a slash"),
    ):
        assert re.search(re.escape(f"'{name}' (") + f"[^)]*{why}", left_out), left_out
    assert [object_.name for object_ in land_batch(lake, dataset(), plan.batch).objects] == names(plan)
    for name in names(plan):
        (exports / name).unlink()
    with pytest.raises(NothingToReadError, match="objects that cannot be read are left out"):
        plan_batch(lake, dataset())


def test_what_is_not_of_the_layout_is_named(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    for name in ("a.jsonl", "README.md", "sub/b.json.gz", "sub/_SUCCESS", ".hidden.jsonl", ".git/c.jsonl"):
        put(exports, name)
    plan = plan_batch(lake, dataset())
    assert isinstance(plan, ObjectsPlan)
    assert names(plan) == ["a.jsonl", "sub/b.json.gz"]
    assert plan.ignored == ["README.md", "sub/_SUCCESS"]


@pytest.mark.parametrize("kind", ["absent", "empty", "nothing of the layout"])
def test_a_place_without_anything_to_read_is_an_error(
    lake: Lake, dataset: MakeDataset, tmp_path: Path, kind: str
) -> None:
    place = tmp_path / "place"
    if kind != "absent":
        place.mkdir()
    if kind == "nothing of the layout":
        put(place, "README.md")
    with pytest.raises(NothingToReadError, match=str(place)) as raised:
        plan_batch(lake, dataset(), export=str(place))
    assert raised.value.exit_code == 2
    assert list(lake.storage.list()) == []


def test_a_dry_run_writes_nothing(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "a.jsonl")
    for interval in (None, FIRST):
        assert names(plan_batch(lake, dataset(), interval, dry_run=True)) == ["a.jsonl"]
    assert not lake.settings.path("lake").exists()


# Landing


def test_the_same_objects_brought_to_another_place_are_landed_from_there(
    lake: Lake, exports: Path, dataset: MakeDataset, tmp_path: Path
) -> None:
    """As the error says whose export is gone; once they are landed, whatever place is named finds them."""
    kept = put(exports, "a.jsonl")
    first = plan_batch(lake, dataset(), export=str(exports))
    other = tmp_path / "other"
    shutil.copytree(exports, other)
    kept.unlink()
    with pytest.raises(ExportChangedError, match="is gone"):
        land_batch(lake, dataset(), first.batch)
    again = plan_batch(lake, dataset(), export=str(other))
    assert again.batch == first.batch
    manifest = land_batch(lake, dataset(), again.batch)
    put(exports, "a.jsonl")
    assert land_batch(lake, dataset(), plan_batch(lake, dataset(), export=str(exports)).batch) == manifest


def test_landing_copies_bytes_unchanged_below_a_manifest(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    data = b'{"a": 1}\r\n\xff\x00no newline'
    (exports / "we ird+na[m]e.jsonl").write_bytes(data)
    plan = plan_batch(lake, dataset(), export=str(exports))
    manifest = land_batch(lake, dataset(), plan.batch, "attempt")
    [object_] = manifest.objects
    assert (object_.name, object_.size, object_.sha256) == ("we ird+na[m]e.jsonl", len(data), sha256(data).hexdigest())
    assert lake.storage.read(object_.key) == data
    assert "/attempt/" in object_.key
    assert manifest_of(lake, dataset(), plan.batch) == manifest


def test_landing_again_finds_the_manifest(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    file = put(exports, "a.jsonl")
    plan = plan_batch(lake, dataset(), export=str(exports))
    first = land_batch(lake, dataset(), plan.batch)
    file.unlink()
    assert land_batch(lake, dataset(), plan.batch) == first, "the export is not needed any more"


def test_a_failed_landing_is_done_again_under_another_attempt(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    put(exports, "a.jsonl"), put(exports, "b.jsonl")
    plan = plan_batch(lake, dataset(), export=str(exports))
    (exports / "b.jsonl").unlink()
    with pytest.raises(ExportChangedError, match=r"export object b\.jsonl: is gone"):
        land_batch(lake, dataset(), plan.batch)
    with pytest.raises(StepMissingError, match="a landing"):
        manifest_of(lake, dataset(), plan.batch)
    put(exports, "b.jsonl")
    manifest = land_batch(lake, dataset(), plan.batch)
    assert {object_.key.split("/")[4] for object_ in manifest.objects} == {manifest.attempt}


@pytest.mark.parametrize("change", ["content", "size", "time"])
def test_an_object_that_changed_since_it_was_planned_is_refused(
    lake: Lake, exports: Path, dataset: MakeDataset, change: str
) -> None:
    put(exports, "a.jsonl", '{"a": 1}\n')
    plan = plan_batch(lake, dataset(), export=str(exports))
    text = '{"a": 1}\n{}\n' if change == "size" else ('{"a": 2}\n' if change == "content" else '{"a": 1}\n')
    put(exports, "a.jsonl", text, at=OLD if change == "size" else OLD + timedelta(microseconds=1000))
    with pytest.raises(ExportChangedError, match="changed since it was planned") as raised:
        land_batch(lake, dataset(), plan.batch)
    assert raised.value.batch == plan.batch


@pytest.mark.parametrize(("damage", "said"), [("gone", "is gone"), ("short", "has 1 bytes, not 3")])
def test_landed_bytes_that_are_missing_are_data_loss(
    lake: Lake, exports: Path, dataset: MakeDataset, damage: str, said: str
) -> None:
    put(exports, "a.jsonl")
    plan = plan_batch(lake, dataset(), export=str(exports))
    landed = Path(lake.where(land_batch(lake, dataset(), plan.batch).objects[0].key))
    landed.unlink() if damage == "gone" else landed.write_text("x")
    with pytest.raises(LandedBytesMissingError, match=said) as raised:
        land_batch(lake, dataset(), plan.batch)
    assert raised.value.exit_code == 4


@pytest.mark.parametrize("damage", ["a byte", "gone"])
def test_landed_bytes_are_held_against_their_digests(
    lake: Lake, exports: Path, dataset: MakeDataset, damage: str
) -> None:
    for number in range(20):
        put(exports, f"{number}.jsonl")
    manifest = land_batch(lake, dataset(), plan_batch(lake, dataset(), export=str(exports)).batch)
    check_bytes(lake, manifest)
    hurt = manifest.objects[13]
    landed = Path(lake.where(hurt.key))
    landed.unlink() if damage == "gone" else landed.write_bytes(flipped(landed.read_bytes()))
    assert damage == "gone" or land_batch(lake, dataset(), manifest.batch) == manifest, "its size is as it was"
    said = "is gone" if damage == "gone" else f"holds other bytes than were landed: .*, not {hurt.sha256}"
    with pytest.raises(LandedBytesMissingError, match=f"landed object {hurt.key}: {said}"):
        check_bytes(lake, manifest)


def flipped(data: bytes) -> bytes:
    return bytes([data[0] ^ 1]) + data[1:]


def test_many_objects_are_landed_in_the_plans_order(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    """The larger ones come first, and so take longer."""
    for number in range(40):
        put(exports, f"{number:02d}.jsonl", "{}\n" * (40 - number) * 1000)
    plan = plan_batch(lake, dataset(), export=str(exports))
    assert isinstance(plan, ObjectsPlan)
    manifest = land_batch(lake, dataset(), plan.batch)
    assert [(object_.name, object_.size) for object_ in manifest.objects] == [
        (object_.name, object_.size) for object_ in plan.objects
    ]
    assert [object_.key.rpartition("/")[2] for object_ in manifest.objects] == [
        f"{n:06d}-{n:02d}.jsonl" for n in range(40)
    ]


def test_the_first_of_several_changed_objects_of_a_plan_is_named(
    lake: Lake, exports: Path, dataset: MakeDataset
) -> None:
    for number in range(40):
        put(exports, f"{number:02d}.jsonl")
    plan = plan_batch(lake, dataset(), export=str(exports))
    for number in range(3, 40):
        (exports / f"{number:02d}.jsonl").unlink()
    with pytest.raises(ExportChangedError, match=r"export object 03\.jsonl: is gone"):
        land_batch(lake, dataset(), plan.batch)


def test_objects_are_landed_side_by_side(
    lake: Lake, exports: Path, dataset: MakeDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each copy waits for another one: alone none would come to its end."""
    for number in range(AT_ONCE):
        put(exports, f"{number}.jsonl")
    plan = plan_batch(lake, dataset(), export=str(exports))
    together, copy = threading.Barrier(AT_ONCE), LocalStorage.copy_from

    def copy_together(store: LocalStorage, source: Storage, info: ObjectInfo, key: str) -> str:
        together.wait(60)
        return copy(store, source, info, key)

    monkeypatch.setattr(LocalStorage, "copy_from", copy_together)
    assert len(land_batch(lake, dataset(), plan.batch).objects) == AT_ONCE


def test_landing_needs_a_plan(lake: Lake, dataset: MakeDataset) -> None:
    with pytest.raises(StepMissingError, match="a plan"):
        land_batch(lake, dataset(), "export_0123456789ab")


def many(exports: Path, count: int) -> None:
    for number in range(count):
        (exports / f"t-{number}.jsonl").touch()


def test_s6_a_plan_of_as_many_objects_as_a_setting_allows_is_made_and_of_one_more_refused(
    lake: Lake, exports: Path, dataset: MakeDataset
) -> None:
    assert lake.settings.max_plan_objects == 100_000
    few = Lake(lake.settings.model_copy(update={"max_plan_objects": 1_000}))
    many(exports, 1_000)
    plan = plan_batch(few, dataset())
    assert len(names(plan)) == 1_000
    (exports / "one-more.jsonl").touch()
    said = (
        "things: the plan would hold 1,001 objects, and the setting max_plan_objects allows 1,000. Nothing was planned"
    )
    with pytest.raises(UsageError, match=said):
        plan_batch(few, dataset())
    assert plan_of(few, plan.source, plan.batch) == plan


def test_s6_a_plan_is_linear_in_its_objects(lake: Lake, exports: Path, dataset: MakeDataset) -> None:
    """Calls of functions are counted, of Python's own and of C's."""

    def calls(count: int) -> int:
        many(exports, count)
        counted = 0

        def count_call(frame: object, event: str, arg: object) -> None:
            nonlocal counted
            counted += event in ("call", "c_call")

        sys.setprofile(count_call)
        try:
            assert len(names(plan_batch(lake, dataset(), dry_run=True))) == count
        finally:
            sys.setprofile(None)
        return counted

    calls(1)  # what is imported and read once
    few, more = calls(500), calls(2_000)
    assert more < 4.2 * few
    assert more < 350 * 2_000


def test_s6_a_plan_of_too_many_partitions_or_bytes_is_refused_by_the_settings_name(lake: Lake) -> None:
    source = "live_0123456789ab"

    def plan_with(partitions: int, notes: int = 0) -> RangesPlan:
        wheres = [
            TopicPartition(cluster="c", topic="t", incarnation=1, partition=number) for number in range(partitions)
        ]
        ranges = [OffsetRange(topic_partition=where, start=0, end=9) for where in wheres]
        return RangesPlan(source=source, ranges=ranges, notes=["x" * notes])

    allowed = plan_with(lake.settings.max_plan_partitions)
    check_limits(lake, "things", allowed)
    assert put_plan(lake, allowed) == plan_of(lake, source, allowed.batch)
    with pytest.raises(UsageError, match="10,001 partitions, and the setting max_plan_partitions allows 10,000"):
        check_limits(lake, "things", plan_with(10_001))
    with pytest.raises(UsageError, match="bytes, and the setting max_plan_bytes allows 67,108,864"):
        check_limits(lake, "things", plan_with(1, notes=64 << 20))


def test_s6_the_ranges_of_five_thousand_partitions_are_planned() -> None:
    keys = [TopicPartition(cluster="c", topic="t", incarnation=1, partition=number).key for number in range(5_000)]
    start, end = (
        Cut(instant=at, offsets=dict.fromkeys(keys, offset), starts=dict.fromkeys(keys, 0))
        for at, offset in ((FIRST.start, 10), (FIRST.end, 30))
    )
    ranges = ranges_between(start, end)
    assert [(range_.start, range_.end) for range_ in ranges] == [(10, 30)] * 5_000
    assert RangesPlan(source="s", ranges=ranges).offsets == 100_000
