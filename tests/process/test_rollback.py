"""What a rollback undid stays out until an operator decides: no run brings it back, and no earlier release does."""

from __future__ import annotations

import signal
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import pytest

from onefold.decisions import log_of
from onefold.errors import RolledBackError, UsageError
from onefold.landing.plan import find_plan
from onefold.operations import decide
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.operations.run import run_batch, unfinished
from onefold.proof.prove import prove
from onefold.publish import publish_batch
from onefold.publish.rolled_back import rolled_back
from onefold.report.document import describe
from onefold.report.ledger import batches_of, offsets_of, records_of, rows_of
from onefold.upsert.documents import upserted_of
from tests.support.project import ACCOUNTS, THINGS, Project, account, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
STRICT = THINGS.replace("max_conflicts: 1000", "max_conflicts: 0")
SOME_DUPLICATES = THINGS.replace("max_duplicate_rate: 1.0", "max_duplicate_rate: 0.4")
STOCK = """\
name: stock
source: {exports: {path: exports/stock/, layout: kcat, origin: {cluster: c, incarnation: 1}, holes: none}}
value: {format: json, fields: {sku: string, delta: long}}
identity: {message_id: header.mid}
apply: {mode: increment, key: [sku], add: {stock: delta}}
target: {table: shop.stock, buckets: 2}
quality: {max_duplicate_rate: 1.0}
"""


def rows(project: Project, name: str = "things") -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values())[:2] for row in rows_of(project.lake, project.dataset(name)))


def run_all(project: Project, dataset: str = "things") -> list[dict[str, Any]]:
    """What a plain run says: of each batch that it did, and of each that waits."""
    return cast("list[dict[str, Any]]", project.onefold("run", dataset, "--json").json)


def put_and_run(project: Project, name: str, *lines: bytes, dataset: str = "things") -> str:
    """The batch of one more export object, whatever its gate said."""
    project.put(f"{dataset}/{name}.jsonl", lines)
    [row] = [row for row in run_all(project, dataset) if row["state"] != "rolled_back"]
    return str(row["batch"])


def states(project: Project, name: str = "things") -> dict[str, str]:
    found = batches_of(project.lake, project.dataset(name))
    return {row["batch"]: row.get("state") or ("published" if row["published"] else row["gate"]) for row in found}


@pytest.mark.nightly(reason="tests/unit/test_rolled_back.py: a rollback overrules what was decided")
def test_a_release_that_was_rolled_back_counts_no_more(project: Project) -> None:
    """By the command line, from the mistaken release to the deliberate one."""
    project.write_dataset("things", STRICT)
    first = put_and_run(project, "1", thing(0, "x", 1, ts=1_772_323_200_000))
    second = put_and_run(project, "2", thing(1, "x", 2, ts=1_772_323_199_000), thing(2, "b", -9, ts=1_772_323_201_000))
    assert rows(project) == [("x", 1)], "x is in conflict: red"
    release = ("release", "things", second, "--waive", "conflicts=1", "--reason")
    assert project.onefold(*release, "by mistake").code == 0
    assert rows(project) == [("b", -9), ("x", 2)]

    back = ("rollback", "things", "--to", first, "--reason", "a mistake")
    waiting = [{"batch": second, "state": "rolled_back", "take_up": f"onefold run things --again {second}"}]
    dry = project.onefold(*back, "--dry-run", "--json")
    assert (dry.code, dry.json["waiting"], states(project)[second]) == (0, waiting, "published")
    done = project.onefold(*back)
    assert done.code == 0
    for words in ("wait for an operator", "--again BATCH", "onefold skip things", "onefold discard things"):
        assert words in done.err
    assert (rows(project), states(project)) == ([("x", 1)], {first: "published", second: "rolled_back"})
    page = project.lake.storage.read(f"reports/things/{second}.html") or b""
    assert b"Rolled back: it waits for an operator" in page

    for _ in range(2):
        run = project.onefold("run", "things")
        assert run.code == 0, "it is no news that it waits"
        assert f"batch {second} waits for an operator" in run.err
        assert rows(project) == [("x", 1)]
    for command in (["show", "things"], ["explain", "things", "--position", "things-0@2"]):
        said = project.onefold(*command)
        assert f"batch {second} waits for an operator" in said.err, command
        assert "-9" not in said.out, command
    assert "rolled_back" in project.onefold("batches", "things").out
    assert project.onefold(*release, "again").code == 2, "the gate of the release is not the one of now"

    again = ("run", "things", "--again", second)
    assert project.onefold(*again, "--dry-run", "--json").json[0]["batch"] == second
    assert states(project)[second] == "rolled_back"
    assert project.onefold(*again, "--reason", "look again").code == 3, "red again"
    assert (rows(project), states(project)[second]) == ([("x", 1)], "red")
    assert project.onefold(*again).code == 3, "the same command judges it again"
    assert project.onefold("run", "things").code == 0
    assert rows(project) == [("x", 1)]
    assert project.onefold(*release, "now for good").code == 0
    assert rows(project) == [("b", -9), ("x", 2)]
    refused = project.onefold(*again)
    assert (refused.code, f"batch {second} is published" in refused.err) == (2, True)


def test_what_was_rolled_back_is_taken_up_by_name_only(project: Project, session: SparkSession) -> None:
    first = put_and_run(project, "1", thing(0, "a", 1), thing(1, "b", 1))
    bad = put_and_run(project, "2", thing(2, "c", -999), thing(3, "d", -999))
    good = put_and_run(project, "3", thing(4, "e", 1), thing(5, "f", 1))
    lake, dataset = project.lake, project.dataset()
    gated = upserted_of(lake, dataset, bad).attempt
    assert roll_back(lake, dataset, first, "mia", "bad rates").undone == [good, bad]
    kept = [("a", 1), ("b", 1)]
    newer = put_and_run(project, "4", thing(6, "g", 1))
    assert rows(project) == [*kept, ("g", 1)]
    assert states(project) == {first: "published", bad: "rolled_back", good: "rolled_back", newer: "published"}

    # Cleared tasks, and the same listing once more, end with what to do.
    for step in ("upsert", "publish"):
        ended = project.onefold("step", step, "things", "--batch", bad)
        assert (ended.code, f"onefold run things --again {bad}" in ended.err) == (2, True), ended.err
    with pytest.raises(RolledBackError, match="mia: bad rates"):
        publish_batch(lake, dataset, bad, gated, InSession(lake, session))
    with pytest.raises(RolledBackError):
        run_batch(lake, dataset, find_plan(lake, dataset, bad), InSession(lake, session))
    assert rows(project) == [*kept, ("g", 1)]

    taken = project.onefold("run", "things", "--again", good, "--json")
    assert (taken.code, [(row["batch"], row["state"]) for row in taken.json]) == (0, [(good, "published")])
    for _ in range(2):
        taken = project.onefold("run", "things", "--again", good, "--json")
        assert (taken.code, taken.json[0]["state"]) == (0, "already published")
    assert rows(project) == [*kept, ("e", 1), ("f", 1), ("g", 1)]
    assert states(project)[bad] == "rolled_back"
    assert [row["covered"] for row in offsets_of(lake, dataset)] == [[[0, 2], [4, 7]]]
    assert prove(session, lake, dataset, 1, lambda _: None).holds
    for words, said in (
        (("--again", newer), "is published"),
        (("--again", "export_000000000000"), "export_000000000000"),
        (("--again", bad, "--again", newer), "is published"),
        (("--again", bad, "--export", str(project.home / "exports")), "exclude each other"),
        (("--who", "mia"), "belong to --again"),
    ):
        refused = project.onefold("run", "things", *words)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    assert [*rolled_back(lake, dataset)] == [bad], "nothing was recorded of it"


@pytest.mark.nightly(
    reason="a combination with a skip: tests/unit/test_rolled_back.py says that a rollback overrules what was decided"
)
def test_a_skip_that_was_rolled_back_takes_nothing_out(project: Project, session: SparkSession) -> None:
    """Of the two batches that are undone one was skipped, and the other one holds a record of it."""
    project.write_dataset("things", SOME_DUPLICATES)
    first = put_and_run(project, "1", thing(0, "a", 1))
    skipped = put_and_run(project, "2", thing(1, "c", 3), thing(2, "c", 3))
    lake, dataset, launcher = project.lake, project.dataset(), InSession(project.lake, session)
    decide.skip(lake, dataset, skipped, "mia", "test data")
    assert run_batch(lake, dataset, find_plan(lake, dataset, skipped), launcher).published
    overlapping = put_and_run(project, "3", thing(2, "c", 3), thing(3, "d", 4), thing(4, "e", 5))
    assert rows(project) == [("a", 1), ("d", 4), ("e", 5)], "c is taken out"
    roll_back(lake, dataset, first, "mia", "to look")
    waiting = project.onefold("run", "things", "--json").json
    assert {row["state"] for row in waiting} == {"rolled_back"}
    assert rows(project) == [("a", 1)]

    decide.take_up(lake, dataset, overlapping, "mia")
    assert [plan.batch for plan in unfinished(lake, dataset)] == [overlapping], "a run that was killed goes on by any"
    assert run_batch(lake, dataset, find_plan(lake, dataset, overlapping), launcher).published
    wanted = [("a", 1), ("c", 3), ("d", 4), ("e", 5)]
    assert rows(project) == wanted, "the skip counts no more"
    red = project.onefold("run", "things", "--again", skipped)
    assert (red.code, "duplicate_rate" in red.err) == (3, True)
    decide.skip(lake, dataset, skipped, "mia", "again")
    assert run_batch(lake, dataset, find_plan(lake, dataset, skipped), launcher).published
    assert rows(project) == wanted
    assert prove(session, lake, dataset, 1, lambda _: None).holds


@pytest.mark.nightly(reason="histories roll back by day, and others add up sums")
def test_a_sum_is_without_what_was_rolled_back_until_it_is_taken_up(project: Project, session: SparkSession) -> None:
    def sold(offset: int, mid: str, delta: int) -> bytes:
        return line(offset, {"sku": "s", "delta": delta}, topic="stock", headers=["mid", mid])

    project.write_dataset("stock", STOCK)
    first = put_and_run(project, "1", sold(0, "m0", 100), dataset="stock")
    second = put_and_run(project, "2", sold(1, "m1", -30), dataset="stock")
    third = put_and_run(project, "3", sold(2, "m2", -5), dataset="stock")
    assert rows(project, "stock") == [("s", 65)]
    roll_back(project.lake, project.dataset("stock"), first, "mia", "wrong price list")
    put_and_run(project, "4", sold(3, "m2", -5), sold(4, "m3", 1), dataset="stock")
    assert rows(project, "stock") == [("s", 96)], "m2 was sent again, and counts from there"
    for batch in (third, second):
        assert project.onefold("run", "stock", "--again", batch).code == 0
    assert rows(project, "stock") == [("s", 66)], "each message once"
    assert prove(session, project.lake, project.dataset("stock"), 1, lambda _: None).holds


@pytest.mark.nightly(reason="histories take up what was rolled back by day")
def test_an_older_version_that_is_taken_up_late_changes_no_newer_row(project: Project, session: SparkSession) -> None:
    project.write_dataset("accounts", ACCOUNTS)
    first = put_and_run(project, "1", account(0, "a", {"n": 1}), dataset="accounts")
    second = put_and_run(project, "2", account(1, "a", {"n": 2}), account(2, "b", {"n": 2}), dataset="accounts")
    roll_back(project.lake, project.dataset("accounts"), first, "mia", "wrong")
    put_and_run(project, "3", account(3, "a", {"n": 3}), dataset="accounts")
    assert rows(project, "accounts") == [("a", 3)]
    assert project.onefold("run", "accounts", "--again", second).code == 0
    assert rows(project, "accounts") == [("a", 3), ("b", 2)]
    assert prove(session, project.lake, project.dataset("accounts"), 1, lambda _: None).holds


@pytest.mark.nightly(reason="tests/unit/test_rolled_back.py: no rebuild takes it up, and a discard decides it")
def test_a_rebuild_leaves_it_out_and_a_discard_gives_it_to_the_next_run(
    project: Project, session: SparkSession
) -> None:
    first = put_and_run(project, "1", thing(0, "a", 1))
    second, third = (put_and_run(project, str(number), thing(number, f"b{number}", number)) for number in (2, 3))
    roll_back(project.lake, project.dataset(), first, "mia", "wrong")
    project.write_dataset("things", THINGS.replace("buckets: 2", "buckets: 3"))
    listed = project.onefold("rebuild", "things", "--dry-run", "--json").json
    assert [row["batch"] for row in listed] == [first]
    done = rebuild(project.lake, project.dataset(), InSession(project.lake, session))
    assert (done.swapped, [end.batch for end in done.batches], rows(project)) == (True, [first], [("a", 1)])
    assert states(project) == {first: "published", second: "rolled_back", third: "rolled_back"}
    assert {row["batch"]: row["state"] for row in run_all(project)} == {second: "rolled_back", third: "rolled_back"}

    assert project.onefold("discard", "things", second, "--reason", "it was right").code == 0
    assert {row["batch"]: row["state"] for row in run_all(project)} == {second: "published", third: "rolled_back"}
    assert rows(project) == [("a", 1), ("b2", 2)]
    assert project.onefold("skip", "things", third, "--reason", "test data").code == 0
    assert (rows(project), states(project)[third]) == ([("a", 1), ("b2", 2)], "published")


def test_an_interval_that_was_rolled_back_is_refused_and_the_others_run(project: Project) -> None:
    project.write_dataset(
        "things", THINGS + 'schedule: {cron: "0 0 * * *", start: 2026-01-01, settle: 0s, timezone: UTC}\n'
    )
    days = [f"2026-01-0{number}" for number in (1, 2, 3, 4)]
    batches = []
    for number, (start, end) in enumerate(pairwise(days), start=1):
        project.put(f"things/{number}.jsonl", [thing(number, f"k{number}", number)])
        [row] = project.onefold("run", "things", "--from", start, "--to", end, "--json").json
        batches.append(row["batch"])
        if number == 2:
            assert project.onefold("rollback", "things", "--to", batches[0], "--reason", "wrong").code == 0
    run = project.onefold("run", "things", "--from", days[0], "--to", days[3], "--json")
    assert [(row["batch"], row["state"]) for row in run.json] == [
        (batches[0], "already published"),
        (batches[1], "rolled_back"),
        (batches[2], "already published"),
    ]
    assert (run.code, f"onefold run things --again {batches[1]}" in run.err) == (2, True)
    assert rows(project) == [("k1", 1), ("k3", 3)]


@pytest.mark.nightly(reason="test_rebuild kills a rollback by day")
def test_a_rollback_that_is_killed_before_it_moves_main_overrules_nothing_for_a_rebuild(
    project: Project, session: SparkSession
) -> None:
    """What is published stays so, with the skip that it was published under."""
    project.write_dataset("things", SOME_DUPLICATES)
    first = put_and_run(project, "1", thing(0, "a", 1))
    skipped = put_and_run(project, "2", thing(1, "c", 3), thing(2, "c", 3))
    assert project.onefold("skip", "things", skipped, "--reason", "test data").code == 0
    plain = put_and_run(project, "3", thing(3, "d", 4))
    killed = project.process("rollback", "things", "--to", first, fault="before_rollback")
    assert killed.code == -signal.SIGKILL
    assert [*states(project).values()] == ["published"] * 3
    assert rolled_back(project.lake, project.dataset()) == {}
    refused = project.onefold("run", "things", "--again", plain)
    assert (refused.code, f"batch {plain} is published" in refused.err) == (2, True)

    project.write_dataset("things", SOME_DUPLICATES.replace("buckets: 2", "buckets: 3"))
    done = rebuild(project.lake, project.dataset(), InSession(project.lake, session))
    assert (done.swapped, [end.batch for end in done.batches]) == (True, [first, skipped, plain])
    assert rows(project) == [("a", 1), ("d", 4)]
    assert [record.decision and record.decision.kind for record in records_of(project.lake, project.dataset())] == [
        None, "skip", None,
    ]  # fmt: skip


@pytest.mark.nightly(reason="test_rebuild kills a rollback at each of its points by day")
def test_a_rollback_that_is_killed_after_it_moved_main_has_left_nothing_to_a_run(project: Project) -> None:
    first = put_and_run(project, "1", thing(0, "a", 1))
    second = put_and_run(project, "2", thing(1, "b", 2))
    assert project.process("rollback", "things", "--to", first, fault="after_rollback").code == -signal.SIGKILL
    assert [(row["batch"], row["state"]) for row in run_all(project)] == [(second, "rolled_back")]
    assert (rows(project), states(project)[second]) == ([("a", 1)], "rolled_back")
    assert [decision.kind for decision in log_of(project.lake, "things", second)] == ["rolled_back"]
    assert describe(project.lake, project.dataset(), second).status == "rolled_back"
    with pytest.raises(UsageError, match="is published"):
        decide.take_up(project.lake, project.dataset(), first, "mia")
