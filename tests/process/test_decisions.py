"""A person decides a red gate: release, discard, skip. The steps obey, once, and rows follow the set (L1)."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onefold import lake_keys
from onefold.decisions import Decider, Decision, log_of
from onefold.errors import DataLossError, GateRedError, NotWaivableError, StaleGateError, UsageError
from onefold.iceberg.commits import MAIN
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.plan import find_plan
from onefold.operations import decide
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun, run_batch, unfinished
from onefold.proof.prove import prove
from onefold.publish import publish_batch
from onefold.quality.documents import GateResult
from onefold.report.decisions import decisions_of
from onefold.report.document import describe
from onefold.report.ledger import batches_of, offsets_of, records_of, rows_of, verdicts_of
from onefold.tables.names import STAGING
from tests.support.kept import Kept
from tests.support.project import THINGS, Project, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
STRICT = THINGS.replace("max_conflicts: 1000", "max_conflicts: 0").replace(
    "max_duplicate_rate: 1.0", "max_duplicate_rate: 0.4"
)
RATE = "duplicate_rate=0.5"
Never: Any = None


@pytest.fixture
def project(kept: Kept) -> Project:
    """An empty project, at the same place for each test."""
    return kept.empty()


@pytest.fixture
def strict(project: Project, kept: Kept, session: SparkSession) -> Project:
    """Published: a and b. At most 0.4 of a batch may be duplicates, and no conflict is allowed."""

    def publish() -> None:
        project.write_dataset("things", STRICT)
        project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2)])
        assert [run.red for run in project.run(session)] == [None]

    kept.begin("strict", publish)
    return project


@pytest.fixture
def batch(strict: Project, kept: Kept, session: SparkSession) -> str:
    """A second batch of `strict`, which is red: c twice."""
    return kept.begin("red", lambda: red(strict, session, "1", thing(2, "c", 3), thing(3, "c", 3)))


def red(project: Project, session: SparkSession, name: str, *lines: bytes) -> str:
    """A second batch that is red."""
    project.put(f"things/{name}.jsonl", lines)
    [ended] = project.run(session)
    assert ended.red
    return ended.batch


def carry_out(project: Project, session: SparkSession, batch: str) -> BatchRun:
    """What the commands do behind the record."""
    launcher = InSession(project.lake, session)
    dataset = project.dataset()
    return run_batch(project.lake, dataset, find_plan(project.lake, dataset, batch), launcher, rebuilding=True)


def rows(project: Project) -> list[tuple[str, int]]:
    return sorted((row["id"], row["n"]) for row in rows_of(project.lake, project.dataset()))


def covered(project: Project) -> list[list[int]]:
    [row] = offsets_of(project.lake, project.dataset())
    return row["covered"]  # type: ignore[no-any-return]


def main_of(project: Project) -> int:
    return StateTable(project.lake, project.dataset()).table.refs()[MAIN].snapshot_id


def row_of(project: Project, batch: str) -> dict[str, Any]:
    [found] = [row for row in batches_of(project.lake, project.dataset()) if row["batch"] == batch]
    return found


# Release


def test_released_it_is_published_and_says_by_whom(strict: Project, batch: str, session: SparkSession) -> None:
    lake, dataset = strict.lake, strict.dataset()
    assert "decision" not in row_of(strict, batch)
    with pytest.raises(UsageError, match=f'is red by more than is waived.*--waive "{RATE}"'):
        decide.release(lake, dataset, batch, [], "mia", "a known retry")
    with pytest.raises(UsageError, match=r"found 0\.5\. A waiver names the value"):
        decide.release(lake, dataset, batch, ["duplicate rate=0.4"], "mia", "a known retry")
    with pytest.raises(UsageError, match="needs a reason"):
        decide.release(lake, dataset, batch, [RATE], "mia", " ")
    assert decide.release(lake, dataset, batch, [RATE], "mia", "a known retry", dry_run=True).number == 1
    assert log_of(lake, "things", batch) == []

    made = decide.release(lake, dataset, batch, [RATE], "mia", "a known retry")
    assert decide.release(lake, dataset, batch, [RATE], "noa", "again") == made, "the same decision is made once"
    assert [plan.batch for plan in unfinished(lake, dataset)] == [batch], "any run would carry it out"
    end = carry_out(strict, session, batch)
    assert end.published
    assert (end.published.already, end.published.decision) == (False, made)
    assert rows(strict) == [("a", 1), ("b", 2), ("c", 3)]
    newest = records_of(lake, dataset)[0]
    assert newest.decision == made
    assert row_of(strict, batch)["decision"] == {
        "kind": "release",
        "by": "mia",
        "who": Decider.earlier("mia").model_dump(),
        "reason": "a known retry",
    }
    report = describe(lake, dataset, batch)
    assert (report.status, report.decision) == ("published", made)
    assert [check.waived != "" for check in report.checks if check.id == "duplicate_rate"] == [True]
    page = Path(end.report).read_text()
    assert "Released\n      by mia" in page
    assert "<code>duplicate_rate</code> = <code>0.5</code>" in page

    main = main_of(strict)
    assert decide.release(lake, dataset, batch, [RATE], "mia", "a known retry") == made
    assert decide.release(lake, dataset, batch, ["duplicate rate=0.5"], "mia", "by its title") == made
    assert carry_out(strict, session, batch).published.already  # type: ignore[union-attr]
    assert (main_of(strict), len(log_of(lake, "things", batch))) == (main, 1)
    for refused in (
        lambda: decide.skip(lake, dataset, batch, "mia", "no"),
        lambda: decide.discard(lake, dataset, batch, "mia", "no"),
        lambda: decide.release(lake, dataset, batch, ["conflicts=1"], "mia", "no"),
    ):
        with pytest.raises(UsageError, match=r"is published \(released by mia"):
            refused()
    assert [(row["decision"], row["state"]) for row in decisions_of(lake, dataset)] == [("release", "published")]


@pytest.mark.nightly(reason="test_waivers has other values by day, and batches meet in histories")
def test_another_value_behind_a_rebase_stays_red(strict: Project, batch: str, session: SparkSession) -> None:
    """c twice is 0.5; once another batch has brought c, every record of this one is a duplicate."""
    lake, dataset, here = strict.lake, strict.dataset(), InSession(strict.lake, session)
    decide.release(lake, dataset, batch, [RATE], "mia", "a known retry")
    upserted = here.run("upsert", dataset, batch, "cafe01")
    assert here.run("gate", dataset, batch, "cafe01").green, "waived"
    [other] = strict.run(session, export=strict.put("other/1.jsonl", [thing(4, "c", 3, ts=1), thing(5, "d", 4)]))
    assert other.published
    main = main_of(strict)

    with pytest.raises(GateRedError, match=r"duplicate rate: found 1, wanted at most 0\.4"):
        publish_batch(lake, dataset, batch, upserted.attempt, here)
    assert main_of(strict) == main
    assert unfinished(lake, dataset) == [], "it was judged under the decision: only another one helps"
    with pytest.raises(UsageError, match=r"duplicate_rate found 1\."):
        decide.release(lake, dataset, batch, ["duplicate_rate=0.7"], "mia", "look again")
    decide.release(lake, dataset, batch, ["duplicate_rate=1"], "mia", "look again")
    assert carry_out(strict, session, batch).published
    assert [row["state"] for row in decisions_of(lake, dataset)] == ["overruled", "published"]


@pytest.mark.nightly(reason="tests/spark/test_waivers.py says which waivers hold")
def test_a_release_keeps_the_waivers_of_the_one_before_that_still_hold(strict: Project, session: SparkSession) -> None:
    """Released for two checks; another batch brings c meanwhile, and only the rate moves."""
    lake, dataset, conflicts = strict.lake, strict.dataset(), "conflicts=1"
    lines = [thing(2, "c", 3), thing(3, "c", 3), thing(4, "c", 3), thing(5, "a", 9)]
    batch = red(strict, session, "1", *lines)
    decide.release(lake, dataset, batch, [RATE, conflicts], "mia", "known retries")
    [other] = strict.run(session, export=strict.put("other/1.jsonl", [thing(6, "c", 3, ts=1)]))
    assert other.published
    moved = carry_out(strict, session, batch).red
    assert moved
    assert moved.failed == ("duplicate rate: found 0.75, wanted at most 0.4 [duplicate_rate]",)

    words = ["release", batch, "--waive", "duplicate_rate=0.75", "--reason", "look again", "--who", "noa", "--json"]
    said = strict.onefold(*words[:-1], "--dry-run")
    assert "waived by the release before, and still: conflicts = 1" in " ".join(said.err.split()), said
    made = decide.release(lake, dataset, batch, ["duplicate_rate=0.75"], "noa", "look again")
    assert [waiver.words for waiver in made.carried] == [conflicts]
    assert [waiver.words for waiver in made.waivers] == ["duplicate_rate=0.75"]
    both = ["duplicate_rate=0.75", conflicts]
    assert decide.release(lake, dataset, batch, both, "noa", "look again") == made, "all of it named: the same"
    assert decide.release(lake, dataset, batch, both[:1], "noa", "look again") == made
    end = carry_out(strict, session, batch)
    assert end.published
    assert end.published.decision == made
    page = Path(end.report).read_text()
    assert "<code>conflicts</code> = <code>1</code> (of the release before)" in page
    listed = decisions_of(lake, dataset)[-1]["waived"]
    assert listed == [
        {"check": "duplicate_rate", "value": "0.75", "carried": False},
        {"check": "conflicts", "value": "1", "carried": True},
    ]


@pytest.mark.nightly(reason="tests/spark/test_waivers.py has what a waiver holds for")
def test_another_check_that_turns_red_is_not_waived_with_it(strict: Project, batch: str, session: SparkSession) -> None:
    decide.release(strict.lake, strict.dataset(), batch, [RATE], "mia", "a known retry")
    suite = "expectations:\n  - {type: expect_column_values_to_be_between, kwargs: {column: n, max_value: 2}}\n"
    (strict.home / "expectations/things.yaml").write_text(suite)
    strict.write_dataset("things", STRICT.replace("quality: {", "quality: {suite: things.yaml, "))
    end = carry_out(strict, session, batch)
    assert end.red
    assert [failure.partition("(")[0] for failure in end.red.failed] == ["expect_column_values_to_be_between"]


@pytest.mark.parametrize(
    ("lines", "law"),
    [
        ([thing(2, "c"), thing(5, "d")], "no unexplained offset: it guards law L2"),
        ([thing(2, "c", 1), thing(2, "c", 2)], "no position with two contents: it guards law L1"),
    ],
    ids=["loss", "two contents"],
)
def test_a_law_cannot_be_waived(strict: Project, session: SparkSession, lines: list[bytes], law: str) -> None:
    batch = red(strict, session, "1", *lines)
    with pytest.raises(NotWaivableError, match=law):
        decide.release(strict.lake, strict.dataset(), batch, ["duplicate_rate=0.5"], "mia", "please")
    assert log_of(strict.lake, "things", batch) == []


# Discard


def test_a_discarded_batch_stays_landed_and_the_next_run_folds_it_again(
    strict: Project, batch: str, session: SparkSession
) -> None:
    lake, dataset = strict.lake, strict.dataset()
    before = {name for (_, name) in open_catalog(lake).list_tables(STAGING)}
    made = decide.discard(lake, dataset, batch, "mia", "limits were wrong")
    assert made
    assert made.failures == ["duplicate_rate"]
    row = row_of(strict, batch)
    assert (row["gate"], row["landed"], row["verdicts"], row["published"]) == (None, None, {}, False)
    assert row["decision"] == {
        "kind": "discard",
        "by": "mia",
        "who": Decider.earlier("mia").model_dump(),
        "reason": "limits were wrong",
    }
    gone = before - {name for (_, name) in open_catalog(lake).list_tables(STAGING)}
    assert sorted(name.split("__")[1].split("_")[0] for name in gone) == ["actions", "staged"]
    left = [info.key for info in lake.storage.list("warehouse") if any(name in info.key for name in gone)]
    assert left == []
    assert set(StateTable(lake, dataset).branches()) == set()
    assert (
        decide.discard(lake, dataset, batch, "mia", "limits were wrong") is None
        or len(log_of(lake, "things", batch)) == 1
    )
    assert describe(lake, dataset, batch).decision == made

    strict.write_dataset("things", THINGS)
    [again] = strict.run(session)
    assert (again.batch, again.red) == (batch, None)
    assert rows(strict) == [("a", 1), ("b", 2), ("c", 3)]
    assert "decision" not in row_of(strict, batch)


@pytest.mark.nightly(reason="a discarded batch is run again by day")
def test_what_was_decided_before_counts_for_nothing_behind_a_discard(
    strict: Project, batch: str, session: SparkSession
) -> None:
    lake, dataset = strict.lake, strict.dataset()
    decide.release(lake, dataset, batch, [RATE], "mia", "a known retry")
    decide.discard(lake, dataset, batch, "noa", "no")
    [again] = strict.run(session)
    assert again.red, "it is red as before: the release has ended"
    assert decide.discard(lake, dataset, batch, "noa", "no").number == 3  # type: ignore[union-attr]


def test_an_attempt_from_before_a_decision_is_not_published(strict: Project, batch: str, session: SparkSession) -> None:
    lake, dataset, here = strict.lake, strict.dataset(), InSession(strict.lake, session)
    strict.write_dataset("things", THINGS)
    upserted = here.run("upsert", dataset, batch, "cafe02")
    assert here.run("gate", strict.dataset(), batch, "cafe02").green
    decide.skip(lake, dataset, batch, "mia", "test data")
    with pytest.raises(StaleGateError, match="a decision on the batch was recorded"):
        publish_batch(lake, dataset, batch, upserted.attempt, Never)
    assert rows(strict) == [("a", 1), ("b", 2)]


@pytest.mark.nightly(reason="a race of two operators")
def test_what_is_published_while_it_is_discarded_stays_as_it_is(
    strict: Project, batch: str, session: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, dataset, here = strict.lake, strict.dataset(), InSession(strict.lake, session)
    strict.write_dataset("things", THINGS)
    upserted = here.run("upsert", dataset, batch, "cafe03")
    assert here.run("gate", strict.dataset(), batch, "cafe03").green
    note = decide.record

    def slowly(to: Lake, decision: Decision) -> None:
        publish_batch(lake, dataset, batch, upserted.attempt, Never)  # it was past the gate already
        note(to, decision)

    monkeypatch.setattr(decide, "record", slowly)
    with pytest.raises(UsageError, match="was published meanwhile: nothing was dropped"):
        decide.discard(lake, dataset, batch, "mia", "limits were wrong")
    assert rows(strict) == [("a", 1), ("b", 2), ("c", 3)]
    assert lake.get(lake_keys.attempt(dataset, batch, upserted.attempt, "gate"), GateResult)
    assert describe(lake, dataset, batch).status == "published"


# Skip


def test_skipped_it_is_covered_and_no_row_changes(strict: Project, session: SparkSession) -> None:
    """Rejected records, conflicts, duplicates and two contents at one position: all are skipped."""
    lake, dataset = strict.lake, strict.dataset()
    lines = [
        thing(2, "c", 3),
        thing(3, "c", 4),
        line(4, "no json"),
        thing(5, "a", 9),
        thing(6, "d", 1),
        thing(6, "d", 2),
    ]
    batch = red(strict, session, "1", *lines)
    made = decide.skip(lake, dataset, batch, "mia", "test data in production")
    end = carry_out(strict, session, batch)
    assert end.published
    assert end.published.counts == {"skipped": {"decision": 6}}
    assert (rows(strict), covered(strict)) == ([("a", 1), ("b", 2)], [[0, 7]])
    assert {row["verdict"] for row in verdicts_of(lake, dataset, batch)[0]} == {"skipped"}
    assert records_of(lake, dataset)[0].decision == made
    assert "Skipped\n      by mia" in Path(end.report).read_text()
    main = main_of(strict)
    assert decide.skip(lake, dataset, batch, "mia", "test data in production") == made
    assert carry_out(strict, session, batch).published.already  # type: ignore[union-attr]
    assert main_of(strict) == main

    # What overlaps is covered; what it had hidden is not: c is new at offset 7, though 2 would have been first.
    overlap = strict.put("again/1.jsonl", [*lines[:2], line(4, "no json"), thing(7, "c", 7), thing(8, "e", 8)])
    [later] = strict.run(session, export=overlap)
    assert later.published
    assert later.published.counts == {"applied": {"insert": 2}, "duplicate": {"position": 3}}
    assert (rows(strict), covered(strict)) == ([("a", 1), ("b", 2), ("c", 7), ("e", 8)], [[0, 9]])


def test_a_skip_does_not_pass_what_is_lost(strict: Project, session: SparkSession) -> None:
    batch = red(strict, session, "1", thing(2, "c"), thing(5, "d"))
    decide.skip(strict.lake, strict.dataset(), batch, "mia", "never mind")
    end = carry_out(strict, session, batch)
    assert isinstance(end.red, DataLossError)
    assert covered(strict) == [[0, 2]]


A = [thing(2, "c", 3), thing(3, "d", 4), thing(4, "e", 5)]
B = [thing(4, "e", 5), thing(5, "d", 9, ts=1), thing(6, "f", 6), thing(7, "f", 6), thing(8, "f", 6), thing(9, "f", 6)]
"""They share offset 4; 5 would stand in the place of 3; B is red by its duplicates."""
C = [thing(6, "f", 6), thing(10, "f", 7)]
WIDER = STRICT.replace("{message_id: id}", "{message_id: id, business_key: [id]}")


def rebuilt(project: Project, session: SparkSession, text: str) -> None:
    project.write_dataset("things", text)
    launcher = InSession(project.lake, session)
    done = rebuild(project.lake, project.dataset(), launcher)
    assert done.swapped, [end.red for end in done.batches]


@pytest.mark.nightly
@pytest.mark.parametrize("order", ["skip B, publish A, rebuild A before B", "publish A, skip B, rebuild B before A"])
def test_a_rebuild_skips_again_and_gives_the_same_rows(strict: Project, session: SparkSession, order: str) -> None:
    """L1: what was skipped is recorded, so the order in which a rebuild goes (as planned) does not matter."""
    lake, dataset, folder_a = strict.lake, strict.dataset(), strict.put("a/1.jsonl", A)
    skip_first = order.startswith("skip B")
    if skip_first:  # planned and landed, and for now no more than that
        land_batch(lake, dataset, plan_batch(lake, dataset, export=str(folder_a)).batch)
    [ended] = strict.run(session, export=strict.put("b/1.jsonl", B))
    assert ended.red

    def publish_a() -> dict[str, dict[str, int]]:
        [end] = strict.run(session, export=folder_a)
        assert end.published
        return end.published.counts

    counts = None if skip_first else publish_a()
    decide.skip(lake, dataset, ended.batch, "mia", "test data")
    assert carry_out(strict, session, ended.batch).published
    counts = counts or publish_a()
    if skip_first:
        assert counts == {"applied": {"insert": 2}, "duplicate": {"position": 1}}
    else:
        assert counts == {"applied": {"insert": 3}}
    [end] = strict.run(session, export=strict.put("c/1.jsonl", C))
    assert end.published
    # Only what B alone brought is taken out: offset 4 counts where A was first.
    e = [] if skip_first else [("e", 5)]
    wanted = [("a", 1), ("b", 2), ("c", 3), ("d", 4), *e, ("f", 7)]
    assert rows(strict) == wanted
    before = covered(strict)
    rebuilt(strict, session, WIDER)
    assert (rows(strict), covered(strict)) == (wanted, before)
    first = records_of(lake, strict.dataset())[-2]
    assert records_of(lake, strict.dataset())[0].skipped.keys() == {ended.batch}
    assert row_of(strict, ended.batch)["decision"]["kind"] == "skip"
    if skip_first:
        assert first.counts == {"applied": {"insert": 2}, "skipped": {"decision": 1}}, "A came first now"


@pytest.mark.nightly(reason="histories roll back and skip by day")
def test_taken_up_and_skipped_again_after_a_rollback_the_rows_are_the_same(
    strict: Project, session: SparkSession
) -> None:
    lake, dataset = strict.lake, strict.dataset()
    first = records_of(lake, dataset)[0].batch
    batch_b = red(strict, session, "b", *B)
    strict.run(session, export=strict.put("a/1.jsonl", A))
    decide.skip(lake, dataset, batch_b, "mia", "test data")
    carry_out(strict, session, batch_b)
    wanted, before = [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5)], covered(strict)
    assert rows(strict) == wanted
    undone = roll_back(lake, dataset, first, "mia", "to look").undone
    assert undone[0] == batch_b
    assert strict.run(session) == []
    for batch in undone[1:]:
        decide.take_up(lake, dataset, batch, "mia")
        assert carry_out(strict, session, batch).published, "the skip of before takes nothing out of it"
    decide.skip(lake, dataset, batch_b, "mia", "test data")
    assert carry_out(strict, session, batch_b).published
    assert (rows(strict), covered(strict)) == (wanted, before)


@pytest.mark.nightly(reason="tests/spark/test_waivers.py rebuilds behind a release by day")
def test_a_rebuild_obeys_a_release_only_with_its_values(strict: Project, session: SparkSession) -> None:
    lake, dataset, batch = strict.lake, strict.dataset(), red(strict, session, "1", thing(2, "c", 2), thing(3, "c", 2))
    decide.release(lake, dataset, batch, [RATE], "mia", "a known retry")
    assert carry_out(strict, session, batch).published
    rebuilt(strict, session, WIDER)
    assert rows(strict) == [("a", 1), ("b", 2), ("c", 2)]
    assert records_of(lake, strict.dataset())[0].decision
    # By n instead of id, both records of c are in conflict with b: another check.
    strict.write_dataset("things", STRICT.replace("{message_id: id}", "{business_key: [n]}"))
    launcher = InSession(lake, session)
    done = rebuild(lake, strict.dataset(), launcher)
    assert not done.swapped
    assert done.batches[-1].red
    assert done.batches[-1].batch == batch


# What cannot be read


@pytest.mark.nightly(reason="a batch is skipped by day")
def test_a_batch_that_cannot_be_read_stops_no_other_and_is_dropped_unread_by_a_skip(
    strict: Project, session: SparkSession
) -> None:
    lake, dataset = strict.lake, strict.dataset()
    whole = gzip.compress(thing(2, "c", 3) + thing(3, "d", 4))
    strict.put("things/1.jsonl.gz", [whole[:-9]])
    strict.put("things/2.jsonl", [thing(4, "e", 5)])
    batch = plan_batch(lake, dataset).batch
    land_batch(lake, dataset, batch)
    strict.put("things/3.jsonl", [thing(5, "f", 6)])

    run = strict.onefold("run", "things", "--json")
    assert (run.code, [row["state"] for row in run.json]) == (4, ["failed", "published"]), run
    for said in (batch, "1.jsonl.gz", "It is landed and kept", f"onefold skip {batch}"):
        assert said in run.err
    assert rows(strict) == [("a", 1), ("b", 2), ("f", 6)]
    strict.write_dataset("things", STRICT + "# another meaning\n")
    strict.write_dataset("things", STRICT.replace("holes: none", "holes: transactional"))
    launcher = InSession(lake, session)
    done = rebuild(lake, strict.dataset(), launcher)
    assert (done.swapped, [bool(batch.failed) for batch in done.batches].count(True)) == (True, 1)

    dataset = strict.dataset()
    decide.skip(lake, dataset, batch, "mia", "cut off at its source")
    assert carry_out(strict, session, batch).published
    assert unfinished(lake, dataset) == []
    assert describe(lake, dataset, batch).notes[-1].startswith("Nothing of it is read nor covered: 1.jsonl.gz: ")
    strict.put("things/1.jsonl.gz", [whole])
    assert [run.error for run in strict.run(session, export=strict.home / "exports/things")] == [None]
    assert rows(strict) == [("a", 1), ("b", 2), ("c", 3), ("d", 4), ("e", 5), ("f", 6)], "nothing was taken out"
    assert prove(session, lake, dataset, 1, lambda _: None).holds


# The commands


def test_the_commands_say_what_they_did(strict: Project, batch: str, session: SparkSession) -> None:
    refused = strict.onefold("release", batch, "--reason", "known")
    assert (refused.code, f'--waive "{RATE}"' in refused.err) == (2, True), refused
    would = strict.onefold("release", batch, "--waive", RATE, "--reason", "known", "--dry-run", "--json")
    assert (would.code, would.json[0]["state"]) == (0, "not recorded"), would
    done = strict.onefold("release", batch, "--waive", RATE, "--reason", "known", "--json")
    assert (done.code, done.json["state"], done.json["decision"]["kind"]) == (0, "published", "release"), done
    [row] = strict.onefold("decisions", "--json").json
    assert (row["batch"], row["waived"]) == (batch, [{"check": "duplicate_rate", "value": "0.5", "carried": False}])
    assert "known" in strict.onefold("decisions", "things").out
    red_again = strict.onefold(
        "run", "things", "--export", str(strict.put("more/1.jsonl", [thing(4, "z"), thing(5, "z")]))
    )
    assert red_again.code == 3
    assert all(f"onefold {word}" in red_again.err for word in ("release", "discard", "skip"))
