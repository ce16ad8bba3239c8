"""A published batch that was wrong is taken out by a rebuild; then the corrected export is published (L1, L5)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import pytest

from onefold.decisions import Decider, log_of
from onefold.errors import UsageError
from onefold.faults import DECISION_POINTS, REBUILD_POINTS
from onefold.generation import Generation, settle
from onefold.landing.plan import find_plan
from onefold.operations.decide import discard, skip, take_up
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.run import run_batch, unfinished
from onefold.proof.prove import prove
from onefold.report.ledger import batches_of, offsets_of, records_of, rows_of
from tests.support.kept import Kept
from tests.support.project import THINGS, Project, at_night, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
POINTS = at_night((*DECISION_POINTS, *REBUILD_POINTS), ("after_swap",))
WRONG = [thing(0, "a", 0), thing(1, "b", 0), thing(2, "c", 0)]
RIGHT = [thing(0, "a", 10), thing(1, "b", 11), thing(2, "c", 12)]


def rows(project: Project) -> list[tuple[str, int]]:
    dataset = settle(project.lake, project.dataset())
    return sorted((row["id"], row["n"]) for row in rows_of(project.lake, dataset))


def view(session: SparkSession) -> list[tuple[str, int]]:
    return sorted((row.id, row.n) for row in session.table("onefold.shop.things").collect())


def covered(project: Project) -> list[list[list[int]]]:
    return [row["covered"] for row in offsets_of(project.lake, settle(project.lake, project.dataset()))]


def state_of(project: Project, batch: str) -> dict[str, Any]:
    found = batches_of(project.lake, settle(project.lake, project.dataset()))
    return next(row for row in found if row["batch"] == batch)


@pytest.fixture
def project(kept: Kept) -> Project:
    """An empty project, at the same place for each test."""
    return kept.empty()


@pytest.fixture
def wrong(project: Project, kept: Kept, session: SparkSession) -> str:
    """Published: a, b and c with the amount 0, and d, which another batch brought. The batch that is wrong."""

    def publish() -> str:
        project.put("things/0.jsonl", WRONG)
        [first] = project.run(session)
        project.put("things/1.jsonl", [thing(2, "c", 0), thing(3, "d", 4)])
        [second] = project.run(session)
        assert not first.red
        assert not second.red
        return first.batch

    return kept.begin("published", publish)


@pytest.mark.nightly(reason="a batch that is taken out waits, by day")
def test_a_wrong_export_is_taken_out_and_the_corrected_one_published(project: Project, session: SparkSession) -> None:
    project.put("things/0.jsonl", WRONG)
    [published] = project.run(session)
    corrected = str(project.put("corrected/0.jsonl", RIGHT))

    refused = project.onefold("run", "things", "--export", corrected)
    assert refused.code == 3
    said = " ".join(refused.err.split())
    assert f"take it out: onefold rebuild things --without {published.batch} --reason WHY" in said, said
    assert "onefold release" not in said, "no release passes two contents at one position"

    would = project.onefold(
        "rebuild", "things", "--without", published.batch, "--reason", "zeros", "--dry-run", "--json"
    )
    assert (would.code, rows(project)) == (0, [("a", 0), ("b", 0), ("c", 0)])
    assert [row["batch"] for row in would.json["take_out"]] == [published.batch]
    assert would.json["take_out"][0]["verdicts"] == {"applied": 3}

    done = project.onefold(
        "rebuild", "things", "--without", published.batch, "--reason", "zeros", "--who", "mia", "--json"
    )
    assert done.code == 0, done
    assert (rows(project), view(session)) == ([("a", 10), ("b", 11), ("c", 12)],) * 2, "the red one is folded, too"
    listed = state_of(project, published.batch)
    assert (listed["published"], listed["state"]) == (False, "discarded")
    assert listed["decision"] == {
        "kind": "discard",
        "by": "mia",
        "who": Decider.asserted("mia").model_dump(),
        "reason": "zeros",
    }
    dataset = settle(project.lake, project.dataset())
    assert unfinished(project.lake, dataset) == [], "no run takes it up"
    assert prove(session, project.lake, dataset).holds
    again = project.onefold("rebuild", "things", "--without", published.batch, "--reason", "zeros")
    assert (again.code, "without" in again.err) == (0, True), again


@pytest.mark.nightly(reason="a wrong export is taken out by day")
def test_what_no_other_batch_brings_is_uncovered_and_what_another_brings_stays(
    project: Project, session: SparkSession, wrong: str
) -> None:
    done = rebuild(
        project.lake, project.dataset(), InSession(project.lake, session), without=[wrong], who="mia", reason="zeros"
    )
    assert done.swapped
    assert done.changed == (f"without {wrong}",)
    assert (rows(project), covered(project)) == ([("c", 0), ("d", 4)], [[[2, 4]]])
    assert project.run(session) == []
    project.put("things/2.jsonl", [thing(0, "a", 10), thing(1, "b", 11)])
    [corrected] = project.run(session)
    assert corrected.published
    assert (rows(project), covered(project)) == ([("a", 10), ("b", 11), ("c", 0), ("d", 4)], [[[0, 4]]])
    assert prove(session, project.lake, settle(project.lake, project.dataset())).holds


def test_it_waits_for_an_operator_and_can_be_taken_up_again(
    project: Project, session: SparkSession, wrong: str
) -> None:
    lake, launcher = project.lake, InSession(project.lake, session)
    assert rebuild(lake, project.dataset(), launcher, without=[wrong], who="mia", reason="zeros").swapped
    dataset = settle(lake, project.dataset())
    assert "waits for an operator: taken out by a rebuild" in project.onefold("run", "things").err
    assert view(session) == [("c", 0), ("d", 4)]
    take_up(lake, dataset, wrong, "mia", "it was right")
    assert run_batch(lake, dataset, find_plan(lake, dataset, wrong), launcher).published
    assert view(session) == [("a", 0), ("b", 0), ("c", 0), ("d", 4)]
    # Taken out once more, in another generation: what was folded before is not used.
    before = dataset.generation
    assert rebuild(lake, dataset, launcher, without=[wrong], who="mia", reason="zeros").swapped
    dataset = settle(lake, project.dataset())
    assert dataset.generation != before
    assert view(session) == rows(project) == [("c", 0), ("d", 4)]
    assert discard(lake, dataset, wrong, "mia", "for the next run")
    assert [plan.batch for plan in unfinished(lake, dataset)] == [wrong]


@pytest.mark.nightly(reason="test_rebuild kills a rebuild after its swap by day")
@pytest.mark.parametrize("point", POINTS)
def test_killed_there_readers_see_one_or_the_other_and_the_same_command_ends_it(
    project: Project, session: SparkSession, wrong: str, point: str
) -> None:
    words = ["rebuild", "things", "--without", wrong, "--reason", "zeros", "--who", "mia"]
    assert project.process(*words, fault=point).code == -signal.SIGKILL
    before, after = [("a", 0), ("b", 0), ("c", 0), ("d", 4)], [("c", 0), ("d", 4)]
    assert view(session) == (after if point == "after_swap" else before)
    assert len(log_of(project.lake, "things", wrong)) == (point != "before_decision")
    project.put("things/2.jsonl", [thing(5, "e", 5)])  # the schedule goes on
    [meanwhile] = project.run(session)
    assert meanwhile.published
    assert meanwhile.batch != wrong
    done = project.onefold(*words, "--json")
    assert done.code == 0, done
    assert rows(project) == view(session) == [*after, ("e", 5)]
    assert [decision.kind for decision in log_of(project.lake, "things", wrong)] == ["discard"], "decided once"
    assert project.run(session) == []


@pytest.mark.nightly(reason="test_rebuild kills a rebuild by day")
def test_a_rebuild_that_was_killed_before_the_swap_can_be_given_up(
    project: Project, session: SparkSession, wrong: str
) -> None:
    """Its decision is on record and was not carried out: the batch is published, and its next rebuild folds it."""
    lake, launcher = project.lake, InSession(project.lake, session)
    words = ["rebuild", "things", "--without", wrong, "--reason", "zeros", "--who", "mia"]
    assert project.process(*words, fault="before_swap").code == -signal.SIGKILL
    assert rebuild(lake, project.dataset(), launcher).changed == ()
    assert state_of(project, wrong)["published"]
    project.write_dataset("things", THINGS.replace("holes: none", "holes: transactional"))
    assert rebuild(lake, project.dataset(), launcher).swapped
    assert view(session) == [("a", 0), ("b", 0), ("c", 0), ("d", 4)]
    assert [decision.kind for decision in log_of(lake, "things", wrong)] == ["discard", "again"]
    # Without another batch: not into the table that was begun without this one.
    other = next(record.batch for record in records_of(lake, settle(lake, project.dataset())) if record.batch != wrong)
    assert rebuild(lake, project.dataset(), launcher, without=[other], who="mia", reason="no").swapped
    assert view(session) == [("a", 0), ("b", 0), ("c", 0)]


def test_what_is_not_published_or_has_no_record_in_the_table_is_refused(
    project: Project, session: SparkSession, wrong: str
) -> None:
    lake, launcher = project.lake, InSession(project.lake, session)
    published = lake.get("datasets/things/generation.json", Generation)
    with pytest.raises(UsageError, match="batch export_none is not published: there is nothing to take out"):
        rebuild(lake, project.dataset(), launcher, without=["export_none"], who="mia", reason="zeros")
    with pytest.raises(UsageError, match="needs a reason"):
        rebuild(lake, project.dataset(), launcher, without=[wrong], who="mia", reason=" ")
    every = [record.batch for record in records_of(lake, project.dataset())]
    with pytest.raises(UsageError, match=r"no other batch is landed, so without .* there is nothing to fold"):
        rebuild(lake, project.dataset(), launcher, without=every, who="mia", reason="zeros")
    project.put("things/3.jsonl", [thing(9, "z", 9)])
    from onefold.landing.land import land_batch, plan_batch

    plan = plan_batch(lake, project.dataset())
    land_batch(lake, project.dataset(), plan.batch)
    skip(lake, project.dataset(), plan.batch, "mia", "test data")
    assert run_batch(lake, project.dataset(), plan, launcher).published
    with pytest.raises(UsageError, match=r"carries a decision out \(skipped by mia: test data\)"):
        rebuild(lake, project.dataset(), launcher, without=[plan.batch], who="mia", reason="zeros")
    assert lake.get("datasets/things/generation.json", Generation) == published
    refused = project.onefold("rebuild", "things", "--reason", "no batch")
    assert (refused.code, "belong to --without" in refused.err) == (2, True)
