"""A changed dataset file: everything landed is folded again next to the old table; then readers are switched to it."""

from __future__ import annotations

import signal
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onefold import lake_keys
from onefold.decisions import log_of
from onefold.errors import ChangedDatasetError, GateRedError, UsageError
from onefold.faults import ROLLBACK_POINTS
from onefold.generation import Generation, settle
from onefold.iceberg.state_table import find_state
from onefold.maintenance.keep import Keep
from onefold.maintenance.maintain import maintain
from onefold.operations.decide import skip, take_up
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import Rebuilt, rebuild
from onefold.operations.rollback import roll_back
from onefold.operations.run import unfinished
from onefold.report.document import describe
from onefold.report.ledger import batches_of, offsets_of, records_of, rows_of
from tests.support.kept import Kept
from tests.support.project import THINGS, Project, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
WIDER = THINGS.replace("{message_id: id}", "{message_id: id, business_key: [n]}")
"""Append by another identity: other records are the same message."""
STRICTER = THINGS.replace("decimal(10,2)?", "decimal(10,2)").replace("rejected_rate: 1.0", "rejected_rate: 0.0")
"""A field is required that no record has."""
OVER = Keep(generations=timedelta(0))


def view(session: SparkSession) -> list[tuple[str, int]]:
    """What readers of the published name see."""
    return sorted((row.id, row.n) for row in session.table("onefold.shop.things").collect())


def rows(project: Project) -> list[tuple[str, int]]:
    return sorted((row["id"], row["n"]) for row in rows_of(project.lake, project.dataset()))


def rebuilt(project: Project, session: SparkSession) -> Rebuilt:
    launcher = InSession(project.lake, session)
    return rebuild(project.lake, project.dataset(), launcher)


@pytest.fixture
def project(kept: Kept) -> Project:
    """An empty project, at the same place for each test."""
    return kept.empty()


@pytest.fixture
def two_batches(project: Project, kept: Kept, session: SparkSession) -> Project:
    """Published: a, b and, from a second export, c; b and c have the same n."""

    def publish() -> None:
        project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2), thing(2, "a", 1)])
        project.run(session)
        project.put("things/1.jsonl", [thing(3, "c", 2), thing(4, "d", 4)])
        project.run(session)

    kept.begin("two batches", publish)
    assert view(session) == [("a", 1), ("b", 2), ("c", 2), ("d", 4)]
    return project


@pytest.mark.nightly(reason="a file that goes back is folded again by day")
def test_it_gives_what_folding_with_the_new_file_from_the_start_gives(
    two_batches: Project, session: SparkSession, tmp_path: Path, session_on: Any
) -> None:
    """L1 across generations."""
    project, old = two_batches, two_batches.dataset()
    project.write_dataset("things", WIDER)
    with pytest.raises(ChangedDatasetError, match=r"changed in identity.*onefold rebuild things"):
        project.run(session)
    assert project.onefold("show", "things", "--json").code == 2, "readers see rows, though not of this file"
    done = rebuilt(project, session)
    assert (done.changed, done.swapped, [end.red for end in done.batches]) == (("identity",), True, [None, None])
    other = Project(tmp_path / "other")
    other.write_dataset("things", WIDER)
    for name in ("0", "1"):
        other.put(f"things/{name}.jsonl", [(project.home / f"exports/things/{name}.jsonl").read_bytes()])
    other.run(session_on(other.lake))
    assert rows(project) == rows(other) == view(session) == [("a", 1), ("b", 2), ("d", 4)]
    assert [row["published"] for row in batches_of(project.lake, project.dataset())] == [True, True]
    # The old generation stays for a time; its file is now the changed one.
    assert find_state(project.lake, old)
    project.write_dataset("things", THINGS)
    with pytest.raises(ChangedDatasetError):
        project.run(session)
    assert rebuilt(project, session).swapped
    assert view(session) == [("a", 1), ("b", 2), ("c", 2), ("d", 4)]


def test_an_unchanged_file_leaves_nothing_to_rebuild(two_batches: Project, session: SparkSession) -> None:
    assert rebuilt(two_batches, session) == Rebuilt([], (), False)
    two_batches.write_dataset("things", WIDER.replace("shop.things", "shop.others"))
    with pytest.raises(UsageError, match=r"published as shop\.things.*keeps the table's name"):
        rebuilt(two_batches, session)


def test_nothing_published_is_nothing_to_rebuild(project: Project, session: SparkSession) -> None:
    with pytest.raises(UsageError, match="nothing is published yet"):
        rebuilt(project, session)


def test_a_batch_that_turns_red_keeps_readers_where_they_are(two_batches: Project, session: SparkSession) -> None:
    old = two_batches.dataset()
    two_batches.write_dataset("things", STRICTER)
    done = rebuilt(two_batches, session)
    assert not done.swapped
    assert isinstance(done.batches[-1].red, GateRedError)
    assert len(done.batches) == 1, "it stops at the first"
    [red], published = done.batches, two_batches.lake.get(lake_keys.generation(old), Generation)
    report = describe(two_batches.lake, two_batches.dataset(), red.batch)
    assert published
    assert (report.status, f"readers see generation {published.generation} as it was" in report.notes[0]) == (
        "red",
        True,
    )
    assert view(session) == [("a", 1), ("b", 2), ("c", 2), ("d", 4)]
    two_batches.write_dataset("things", THINGS)
    assert two_batches.run(session) == [], "the old file goes on as before"


@pytest.mark.nightly(reason="tests/unit/test_generation.py says which generation is published")
def test_readers_see_what_is_published_whatever_was_tried_before(project: Project, session: SparkSession) -> None:
    """The first file's batch was red, so its table is not published; then the file was mended."""
    project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2)])
    project.write_dataset("things", STRICTER)
    [first] = project.run(session)
    assert isinstance(first.red, GateRedError)
    strict = project.dataset()
    assert (view(session), tidied(project, session, OVER)) == ([], []), "nothing is published"
    project.write_dataset("things", THINGS)
    assert [run.red for run in project.run(session)] == [None]
    assert view(session) == rows(project) == [("a", 1), ("b", 2)]
    assert session.table("onefold.shop.things__quarantine").count() == 0
    made = {info.key for info in project.lake.storage.list("warehouse/shop/things/")}
    project.put("things/1.jsonl", [thing(2, "c", 3)])
    assert [run.red for run in project.run(session)] == [None]
    assert made
    assert made == {info.key for info in project.lake.storage.list("warehouse/shop/things/")}, "a right view stays"
    assert view(session) == [("a", 1), ("b", 2), ("c", 3)]
    assert find_state(project.lake, strict), "it is young"
    assert tidied(project, session, OVER) == [strict.generation]
    assert (find_state(project.lake, strict), view(session)) == (None, [("a", 1), ("b", 2), ("c", 3)])


@pytest.mark.nightly(reason="a rebuild that is killed before or after its swap goes on by day: a file that goes back")
@pytest.mark.parametrize("point", ["after_merge", "after_swap"])
def test_killed_it_goes_on_where_it_was(two_batches: Project, session: SparkSession, point: str) -> None:
    project = two_batches
    project.write_dataset("things", WIDER)
    assert project.process("rebuild", "things", fault=point).code == -signal.SIGKILL
    new = [("a", 1), ("b", 2), ("d", 4)]
    assert view(session) == (new if point == "after_swap" else [("a", 1), ("b", 2), ("c", 2), ("d", 4)])
    project.write_dataset("things", THINGS)
    project.put("things/2.jsonl", [thing(5, "e", 5)])  # the schedule went on with the old file
    project.run(session)
    project.write_dataset("things", WIDER)
    done = rebuilt(project, session)
    assert done.swapped
    assert rows(project) == view(session) == sorted([*new, ("e", 5)])
    assert project.run(session) == []


@pytest.mark.nightly(reason="a file that goes back is folded again by day")
def test_a_change_that_is_taken_back_behind_the_swap_leads_readers_back(
    two_batches: Project, session: SparkSession
) -> None:
    project = two_batches
    before = view(session)
    project.write_dataset("things", WIDER)
    assert project.process("rebuild", "things", fault="after_swap").code == -signal.SIGKILL
    wide = project.dataset()
    assert view(session) != before
    project.write_dataset("things", THINGS)
    assert tidied(project, session, OVER) == [], "readers see its rows"
    assert rebuilt(project, session) == Rebuilt([], (), False)
    assert view(session) == before
    assert tidied(project, session, OVER) == [wide.generation]
    assert view(session) == before == rows(project)


@pytest.mark.nightly(reason="tests/unit/test_generation.py says which generation is published")
def test_readers_are_not_switched_to_a_table_that_was_folded_and_is_gone(
    two_batches: Project, session: SparkSession
) -> None:
    project = two_batches
    before = view(session)
    project.write_dataset("things", WIDER)
    launcher = InSession(project.lake, session)
    steps: list[str] = []

    def say(step: str) -> None:
        steps.append(step)
        if step == "land" and steps.count("land") == 2:  # as an erasure did that had looked before the rebuild began
            session.sql(f"DROP TABLE onefold.shop.things__state_{project.dataset().generation}")

    with pytest.raises(UsageError, match=r"another process has taken away what was folded .*run it again"):
        rebuild(project.lake, project.dataset(), launcher, say)
    assert view(session) == before
    assert rebuilt(project, session).swapped
    assert view(session) == [("a", 1), ("b", 2), ("d", 4)]


def test_L1_a_file_that_goes_back_is_folded_again_and_what_was_decided_meanwhile_holds(
    two_batches: Project, session: SparkSession
) -> None:
    project, narrow = two_batches, two_batches.dataset()
    second, first = (record.batch for record in records_of(project.lake, narrow))
    project.write_dataset("things", WIDER)
    assert project.process("rebuild", "things", fault="after_swap").code == -signal.SIGKILL
    assert view(session) == [("a", 1), ("b", 2), ("d", 4)]
    assert rebuilt(project, session).swapped
    wide = project.dataset()
    assert tidied(project, session, Keep()) == [], "its time is not over"
    roll_back(project.lake, wide, first, "me", "the second was wrong")
    skip(project.lake, wide, second, "me", "the second was wrong")
    assert [(run.batch, run.red) for run in project.run(session)] == [(second, None)]
    left = [("a", 1), ("b", 2)]
    assert view(session) == left
    project.write_dataset("things", THINGS)
    assert project.process("rebuild", "things", fault="before_swap").code == -signal.SIGKILL
    assert view(session) == left
    assert project.onefold("show", "things").code == 2, "the table that is being made is not what readers see"
    project.write_dataset("things", WIDER)
    project.put("things/2.jsonl", [thing(5, "e", 5)])  # the schedule went on with the file that readers see
    assert [run.red for run in project.run(session)] == [None]
    project.write_dataset("things", THINGS)
    assert rebuilt(project, session).swapped
    left.append(("e", 5))
    back = settle(project.lake, project.dataset())
    assert view(session) == sorted((row["id"], row["n"]) for row in rows_of(project.lake, back)) == left
    assert back.generation not in (narrow.generation, wide.generation), "the one of then knows of no skip"
    assert rebuilt(project, session) == Rebuilt([], (), False)
    assert tidied(project, session, OVER) == sorted([narrow.generation, wide.generation])
    assert (find_state(project.lake, narrow), find_state(project.lake, wide), view(session)) == (None, None, left)


def tidied(project: Project, session: SparkSession, keep: Keep) -> list[str]:
    """The generations that a maintenance has dropped."""
    return maintain(session, project.lake, settle(project.lake, project.dataset()), keep).generations


# Rollback


def test_a_rollback_restores_its_coverage_and_what_it_undid_waits(two_batches: Project, session: SparkSession) -> None:
    project, dataset = two_batches, two_batches.dataset()
    newest, first = (record.batch for record in records_of(project.lake, dataset))
    seen = roll_back(project.lake, dataset, first, "me", "to look", dry_run=True)
    assert (seen.undone, len(view(session))) == ([newest], 4)
    done = roll_back(project.lake, dataset, first, "me", "to look")
    assert (done.undone, view(session)) == ([newest], [("a", 1), ("b", 2)])
    assert [row["covered"] for row in offsets_of(project.lake, dataset)] == [[[0, 3]]]
    kept = list(project.lake.storage.list("datasets/things/decisions"))
    assert len(kept) == 2, "the rollback, and what became of the batch"
    for document in kept:
        assert b'"reason": "to look"' in (project.lake.storage.read(document.key) or b"")
    assert unfinished(project.lake, dataset) == []
    assert project.run(session) == []
    assert view(session) == [("a", 1), ("b", 2)]
    take_up(project.lake, dataset, newest, "me")
    assert [plan.batch for plan in unfinished(project.lake, dataset)] == [newest]
    [again] = project.run(session)
    assert (again.batch, again.red) == (newest, None)
    assert view(session) == [("a", 1), ("b", 2), ("c", 2), ("d", 4)]


def test_a_rollback_that_is_killed_is_on_record_and_the_same_command_ends_it(
    two_batches: Project, session: SparkSession
) -> None:
    project, dataset = two_batches, two_batches.dataset()
    newest, first = (record.batch for record in records_of(project.lake, dataset))
    for number, (point, rows_seen) in enumerate(zip(ROLLBACK_POINTS, (4, 2), strict=True), start=1):
        assert project.process("rollback", "things", "--to", first, fault=point).code == -signal.SIGKILL
        assert len(view(session)) == rows_seen
        made = [info.key for info in project.lake.storage.list("datasets/things/decisions")]
        assert len([key for key in made if "-rollback-" in key]) == number
        assert [decision.kind for decision in log_of(project.lake, "things", newest)] == ["rolled_back"], "once"
    assert project.onefold("rollback", "things", "--to", first, "--json").json["undone"] == []
    assert project.run(session) == []
    take_up(project.lake, dataset, newest, "me")
    assert [run.batch for run in project.run(session)] == [newest]


def test_a_rollback_to_where_readers_are_changes_nothing(two_batches: Project, session: SparkSession) -> None:
    dataset = two_batches.dataset()
    newest = records_of(two_batches.lake, dataset)[0].batch
    assert roll_back(two_batches.lake, dataset, newest, "me", "").undone == []
    assert len(view(session)) == 4
    with pytest.raises(UsageError, match="is not published"):
        roll_back(two_batches.lake, dataset, "export_000000000000", "me", "")
