"""`onefold` as real processes: concurrent runs, exit codes, single steps, and the JSON that scripts rely on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onefold.errors import LandedBytesMissingError
from onefold.iceberg.state_table import StateTable
from onefold.landing.land import land_batch, plan_batch
from onefold.operations.in_process import InSession
from onefold.report.ledger import records_of, rows_of, verdicts_of
from tests.support.project import THINGS, Project, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.timeout(1200)]


def rows(project: Project) -> dict[str, int]:
    """What readers see, by id; a duplicate id would show."""
    found = rows_of(project.lake, project.dataset())
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["n"] for row in found}


def published(project: Project) -> list[str]:
    """The batches in the chain from `main`."""
    return [record.batch for record in records_of(project.lake, project.dataset())]


# At once


@pytest.mark.nightly(reason="four processes run batches at once by day: test_contention.py")
def test_one_batch_run_twice_at_once_is_published_once(project: Project) -> None:
    project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2), thing(2, "a", 1)])
    both = [project.start("run", "things"), project.start("run", "things")]
    ends = [project.finish(process) for process in both]
    assert [end.code for end in ends] == [0, 0], ends
    assert rows(project) == {"a": 1, "b": 2}
    [batch] = published(project)
    assert [row["offset"] for row in verdicts_of(project.lake, project.dataset(), batch)[0]] == [0, 1, 2]


@pytest.mark.nightly
def test_two_batches_with_the_same_new_keys_at_once_give_what_one_after_the_other_gives(project: Project) -> None:
    project.put("one/0.jsonl", [thing(0, "x", 1), thing(1, "y", 2), thing(2, "z", 3, ts=5)])
    project.put("two/0.jsonl", [thing(10, "y", 20, ts=7), thing(11, "z", 30), thing(12, "w", 40)])
    both = [project.start("run", "things", "--export", f"exports/{name}") for name in ("one", "two")]
    ends = [project.finish(process) for process in both]
    assert [end.code for end in ends] == [0, 0], ends
    assert rows(project) == {"x": 1, "y": 20, "z": 3, "w": 40}
    first, second = published(project)
    assert first != second
    verdicts = [row for batch in (first, second) for row in verdicts_of(project.lake, project.dataset(), batch)[0]]
    assert sorted(row["offset"] for row in verdicts) == [0, 1, 2, 10, 11, 12]
    # The second process met the keys of the first: its two are conflicts, and the table still has one row a key.
    assert sorted(row["verdict"] for row in verdicts) == ["applied"] * 4 + ["conflict"] * 2


@pytest.mark.nightly
def test_three_processes_on_equal_and_overlapping_batches_at_once_end_as_one_after_another(project: Project) -> None:
    """Two run one export, the third another that shares four offsets and more ids with it."""
    log = [(offset, "stuvwxyz"[offset * 5 % 8], offset, 100 - offset % 3) for offset in range(12)]
    lines = [thing(offset, id_, n, ts=at) for offset, id_, n, at in log]
    project.put("one/0.jsonl", lines[:8])
    project.put("two/0.jsonl", lines[4:])
    all_three = [project.start("run", "things", "--export", f"exports/{name}") for name in ("one", "two", "one")]
    ends = [project.finish(process) for process in all_three]
    assert [end.code for end in ends] == [0, 0, 0], ends
    smallest: dict[str, tuple[int, int]] = {}
    for offset, id_, _, at in log:
        smallest[id_] = min(smallest.get(id_, (at, offset)), (at, offset))
    assert rows(project) == {id_: offset for id_, (_, offset) in smallest.items()}
    batches = published(project)
    assert len(batches) == len(set(batches)) == 2, "each is in the chain once"
    offsets = [[row["offset"] for row in verdicts_of(project.lake, project.dataset(), batch)[0]] for batch in batches]
    assert sorted(offsets) == [list(range(8)), list(range(4, 12))], "no verdict twice"
    [newest, _] = records_of(project.lake, project.dataset())
    assert newest.coverage.partitions["c/things/1/0"].present == [(0, 12)]
    table = StateTable(project.lake, project.dataset())
    assert (table.branches(), table.main.record) == ({}, newest.name), "no branch is left"


# Exit codes


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for what needs no Spark: a batch is published, then nothing may change."""
    project = Project(tmp_path_factory.mktemp("shared"))
    project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2), line(2, "{}")])
    project.put("red/0.jsonl", [thing(10, "c", 3), thing(13, "d", 4)])
    done = project.onefold("run", "things", "--json")
    assert done.code == 0, done
    [ended] = done.json
    assert (ended["state"], ended["verdicts"]) == ("published", {"applied": 2, "rejected": 1})
    assert Path(ended["report"]).is_file()
    return project


def head(project: Project) -> int:
    return StateTable(project.lake, project.dataset()).main.snapshot


def test_nothing_new_ends_with_0_and_no_change(shared: Project) -> None:
    before = head(shared)
    done = shared.onefold("run", "things", "--json")
    assert (done.code, done.json, "nothing new" in done.err) == (0, [], True)
    assert head(shared) == before


def test_nothing_new_and_an_old_table_end_with_3(shared: Project) -> None:
    """Where the file says how old it may be."""
    file = shared.home / "datasets/things.yaml"
    text = file.read_text()
    file.write_text(text.replace("quality: {", "quality: {freshness: 1h, "))
    try:
        done, dry = shared.onefold("run", "things"), shared.onefold("run", "things", "--dry-run")
    finally:
        file.write_text(text)
    assert (done.code, dry.code) == (3, 0), done
    assert "things: stale: nothing new up to " in " ".join(done.err.split())
    assert "the newest record that is applied, superseded or held is of 2026-03-01 00:00:00 UTC" in done.err


def test_a_repeated_batch_ends_with_0_and_no_change(shared: Project) -> None:
    before = head(shared)
    done = shared.onefold("run", "things", "--export", "exports/things", "--json")
    assert done.code == 0, done
    [ended] = done.json
    assert (ended["state"], [ended["batch"]]) == ("already published", published(shared))
    assert head(shared) == before


def test_a_changed_dataset_file_ends_with_2_and_names_what_changed(shared: Project) -> None:
    before = head(shared)
    shared.put("more/0.jsonl", [thing(20, "e")])
    shared.write_dataset("things", THINGS.replace("buckets: 2", "buckets: 4"))
    try:
        done = shared.onefold("run", "things", "--export", "exports/more")
    finally:
        shared.write_dataset("things", THINGS)
    assert (done.code, "has changed in buckets:" in " ".join(done.err.split())) == (2, True), done
    assert head(shared) == before


def test_a_bad_dataset_ends_with_2_and_the_line(shared: Project) -> None:
    shared.write_dataset("bad", THINGS.replace("name: things", "name: bad").replace("apply:", "aply:"))
    done = shared.onefold("run", "bad")
    assert done.code == 2, done
    assert "aply: unknown key; did you mean 'apply'?" in " ".join(done.err.split())
    assert ":13:" in done.err


@pytest.mark.parametrize("place", ["exports/nowhere", "exports"])
def test_nothing_to_read_ends_with_2(shared: Project, place: str) -> None:
    (shared.home / "none").mkdir(exist_ok=True)
    done = shared.onefold("run", "things", "--export", "none" if place == "exports" else place)
    assert (done.code, "Nothing was planned." in done.err) == (2, True), done


def test_landed_bytes_that_are_gone_end_with_4(shared: Project) -> None:
    [landed] = (shared.home / ".lake" / "sources").glob("*/landed/*/*/*.jsonl")
    kept = landed.read_bytes()
    landed.unlink()
    try:
        done = shared.onefold("run", "things", "--export", "exports/things")
    finally:
        landed.write_bytes(kept)
    assert (done.code, "is gone" in done.err) == (4, True), done


def test_landed_bytes_that_are_others_are_folded_into_nothing(project: Project, session: SparkSession) -> None:
    """Of the same size, and a valid record."""
    project.put("things/0.jsonl", [thing(0, "a", 1)])
    dataset, lake, here = project.dataset(), project.lake, InSession(project.lake, session)
    batch = plan_batch(lake, dataset).batch
    [object_] = land_batch(lake, dataset, batch).objects
    landed = Path(lake.where(object_.key))
    kept = landed.read_bytes()
    landed.write_bytes(kept.replace(b'\\"n\\": 1', b'\\"n\\": 2'))
    assert landed.read_bytes() != kept
    with pytest.raises(LandedBytesMissingError, match="holds other bytes than were landed"):
        here.run("dedup", dataset, batch)
    landed.write_bytes(kept)
    assert here.run("dedup", dataset, batch).records == 1


def test_a_hole_ends_with_4_and_a_red_gate_with_3_and_readers_see_nothing_of_it(
    project: Project, session: SparkSession
) -> None:
    project.put("good/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2)])
    project.put("hole/0.jsonl", [thing(10, "c", 3), thing(13, "d", 4)])
    project.put("red/0.jsonl", [thing(20, "a", 9), thing(21, "e", 5)])
    project.write_dataset("things", THINGS.replace("max_conflicts: 1000", "max_conflicts: 0"))
    [good] = project.run(session, export=project.home / "exports" / "good")
    assert good.published
    before = project.onefold("show", "things", "--json").json
    hole = project.onefold("run", "things", "--export", "exports/hole", "--json")
    assert hole.code == 4, hole
    assert [row["state"] for row in hole.json] == ["red"]
    assert "no unexplained offset: found 2 (first: things, partition 0: [11, 13))" in " ".join(hole.err.split())
    red = project.onefold("run", "things", "--export", "exports/red")
    assert red.code == 3, red
    assert "conflicts: found 1, wanted at most 0" in " ".join(red.err.split())
    assert project.onefold("show", "things", "--json").json == before
    gates = [(row["gate"], row["published"]) for row in project.onefold("batches", "things", "--json").json]
    assert gates == [("green", True), ("red", False), ("red", False)]


# Shapes


def test_show_is_a_list_of_objects_with_decimals_as_strings_and_iso_times(
    project: Project, session: SparkSession
) -> None:
    payload = {"id": "a", "n": 9_007_199_254_740_993, "price": 1.5, "at": "2026-03-01T02:00:00.25+02:00"}
    project.put("things/0.jsonl", [line(0, payload), thing(1, "b", 2)])
    project.run(session)
    done = project.onefold("show", "things", "--json")
    assert sorted(done.json, key=lambda row: str(row["id"])) == [
        {"id": "a", "n": 9_007_199_254_740_993, "price": "1.50", "at": "2026-03-01T00:00:00.250000+00:00"},
        {"id": "b", "n": 2, "price": None, "at": None},
    ]
    assert project.onefold("show", "things").out.count("\n") > 4


def test_batches_have_exactly_the_promised_shape(shared: Project) -> None:
    [batch] = published(shared)
    [row] = [row for row in shared.onefold("batches", "things", "--json").json if row["published"]]
    assert row == {
        "batch": batch, "interval": None, "landed": 3, "verdicts": {"applied": 2, "rejected": 1},
        "rows": {"inserted": 2, "updated": 0, "deleted": 0}, "gate": "green", "published": True,
    }  # fmt: skip


def test_verdicts_have_exactly_the_promised_shape(shared: Project) -> None:
    [batch] = published(shared)

    def row(offset: int, verdict: str, reason: str) -> dict[str, Any]:
        place = {"topic": "things", "partition": 0, "offset": offset}
        return place | {"verdict": verdict, "reason": reason, "scope": "in_batch", "survivor": None}

    listed = shared.onefold("verdicts", "things", "--batch", batch, "--json").json
    assert listed == [row(0, "applied", "insert"), row(1, "applied", "insert"), row(2, "rejected", "missing_field")]
    only = shared.onefold("verdicts", "things", "--batch", batch, "--reason", "missing_field", "--json").json
    assert only == listed[2:]


def test_explain_tells_every_record_of_a_key_in_order(project: Project, session: SparkSession) -> None:
    project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "a", 1), thing(2, "b", 2)])
    project.run(session)
    project.put("things/1.jsonl", [thing(10, "a", 1), thing(11, "a", 5, ts=1)])
    project.run(session)
    done = project.onefold("explain", "things", "--key", '{"id": "a"}', "--json")
    explained = [(row["offset"], row["verdict"], row["reason"], row["scope"], row["won"]) for row in done.json]
    assert explained == [
        (11, "conflict", "same_identity", "stored", True),
        (0, "applied", "insert", "in_batch", False),
        (1, "duplicate", "message_id", "in_batch", False),
        (10, "conflict", "same_identity", "in_batch", False),
    ]
    assert [row["survivor"] and row["survivor"]["offset"] for row in done.json] == [0, None, 0, 11]
    assert [row["row"] and row["row"]["id"] for row in done.json] == ["a", None, None, None]
    by_position = project.onefold("explain", "things", "--position", "things-0@1", "--json")
    assert by_position.json == done.json
    assert project.onefold("explain", "things", "--position", "things@1").code == 2


def test_offsets_are_covered_ranges_holes_and_the_quarantine(shared: Project) -> None:
    assert shared.onefold("offsets", "things", "--json").json == [
        {
            "cluster": "c", "topic": "things", "incarnation": 1, "partition": 0,
            "covered": [[0, 2]], "holes": [], "quarantined": [[2, 3]],
        }
    ]  # fmt: skip


def test_a_dry_run_of_a_published_project_writes_nothing(shared: Project) -> None:
    before = {file: file.stat().st_mtime_ns for file in (shared.home / ".lake").rglob("*") if file.is_file()}
    done = shared.onefold("run", "things", "--export", "exports/red", "--dry-run", "--json")
    assert (done.code, [row["objects"] for row in done.json]) == (0, [1])
    assert {file: file.stat().st_mtime_ns for file in (shared.home / ".lake").rglob("*") if file.is_file()} == before


# Steps


def test_steps_one_by_one_equal_a_run(project: Project, tmp_path: Path, session: SparkSession) -> None:
    lines = [thing(0, "a", 1), thing(1, "b", 2), thing(2, "a", 1), line(3, "{}")]
    project.put("things/0.jsonl", lines)
    batch = published_by_steps(project)
    [ended] = project.run(session, export=project.home / "exports" / "things")
    assert ended.batch == batch, "a run finds the batch that the steps published"
    assert ended.published is not None
    assert ended.published.already
    other = Project(tmp_path / "other")
    other.put("things/0.jsonl", lines)
    done = other.onefold("run", "things", "--json")
    assert done.code == 0, done
    assert rows(other) == rows(project)
    # Batches are named by what an object is, time of change included: only the verdicts can be compared.
    [theirs] = published(other)
    ours = verdicts_of(project.lake, project.dataset(), batch)[0]
    assert verdicts_of(other.lake, other.dataset(), theirs)[0] == ours
    assert {row["verdict"] for row in ours} == {"applied", "duplicate", "rejected"}


def published_by_steps(project: Project) -> str:
    """Each step as a process; every one but the first is done twice where that is cheap."""
    project.onefold("step", "plan", "things")
    [row] = project.onefold("batches", "things", "--json").json
    batch = str(row["batch"])
    for step in ("land", "dedup", "upsert", "gate", "publish", "report"):
        done = project.onefold("step", step, "things", "--batch", batch)
        assert done.code == 0, (step, done)
        assert json.loads(done.out)["batch"] == batch
    again = project.onefold("step", "publish", "things", "--batch", batch)
    assert (again.code, again.json["already"]) == (0, True), again
    return batch
