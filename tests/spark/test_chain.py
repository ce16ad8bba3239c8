"""Guard contiguous through the real steps: held in the table, woken by the predecessor, in any order of batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import log_of
from onefold.errors import GateRedError
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.manifest import Accepted
from onefold.landing.plan import find_plan
from onefold.operations.decide import release, take_up
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.report.attempts import red_batches
from onefold.report.decisions import decisions_of
from onefold.report.document import describe
from onefold.report.explain import explain
from onefold.report.held import held_of, seen_in_words
from onefold.report.ledger import records_of, rows_of
from onefold.tables.key_digest import digest_of_key
from onefold.tables.names import state_table
from tests.support import layouts as L
from tests.support import oracle
from tests.support.generate import rules_of
from tests.support.pipeline import Sent, accept, chained, export, run
from tests.support.plans import last_statement, statements

LOG = [
    Sent(0, 0, 10, "a", 1, "1", {"owner": "A1"}),
    Sent(0, 1, 11, "a", 2, "2", {"owner": "A2"}),
    Sent(0, 2, 12, "a", 4, "3", {"owner": "A4"}),
    Sent(0, 3, 13, "a", 3, "4", {"owner": "A3"}),
    Sent(0, 4, 14, "b", 2, "5", None),  # a link that deletes
    Sent(0, 5, 15, "b", 3, "6", {"owner": "B3"}),
    Sent(0, 6, 16, "b", 1, "7", {"owner": "B1"}),
    Sent(1, 0, 17, "c", 2, "8", {"owner": "C2"}),
    Sent(1, 1, 18, "c", 1, "9", {"owner": "C1"}),
    Sent(1, 2, 19, "c", 3, "a", None),
    Sent(1, 3, 20, "d", 2, "b", {"owner": "D2"}),  # its first version never comes
    Sent(1, 4, 21, "a", 4, "3", {"owner": "A4"}),  # sent again
    Sent(1, 5, 22, "d", 5, "c", {"owner": "D5"}),
]
SPLITS: dict[str, Sequence[Sequence[int]]] = {
    "at once": [range(13)],
    "in order": [[0, 1, 4, 7], [2, 5, 8], [3, 6, 9, 10, 11, 12]],
    "backwards": [[10, 11, 12, 9, 2], [5, 7, 3, 1], [0, 4, 6, 8]],
}


def counts(done: BatchRun) -> dict[str, int]:
    assert done.published, done.red
    verdicts = done.published.counts.items()
    return {f"{name}/{reason}": count for name, reasons in verdicts for reason, count in reasons.items()}


def held(session: SparkSession, made: Dataset) -> list[tuple[str, int]]:
    rows = session.table(state_table(made)).where("_state = 'held'").select("id", "_version").collect()
    return sorted((row[0], row[1]) for row in rows)


@pytest.mark.nightly(reason="tests/property/test_chain.py tries every order of the look-up by day")
@pytest.mark.parametrize("split", SPLITS)
def test_L1_readers_see_the_end_of_the_unbroken_run_in_any_order(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, split: str
) -> None:
    made = chained(dataset)
    total = woken = 0
    for number, numbers in enumerate(SPLITS[split]):
        done = run(session, lake, made, export(tmp_path / str(number), [LOG[n] for n in numbers]))
        counted = counts(done)
        total += sum(counted.values())
        woken += sum(counted.values()) - len(numbers)
    heads, waiting = oracle.chain([record.decoded(made) for record in LOG], rules_of(made))
    sent = {record.decoded(made).position: record for record in LOG}
    expected = [
        {"id": key, **(sent[head.position].value or {})}  # type: ignore[dict-item]
        for key, head in sorted(heads.items())
        if not head.deleted
    ]
    assert sorted(rows_of(lake, made), key=lambda row: str(row["id"])) == expected
    assert expected == [{"id": "a", "owner": "A4"}, {"id": "b", "owner": "B3"}]
    assert held(session, made) == sorted(waiting) == [("d", 2), ("d", 5)]
    assert total == len(LOG) + woken
    assert (woken > 0) is (split != "at once")


@pytest.mark.nightly(reason="tests/property/test_chain.py draws it by day")
def test_L1_a_record_may_tell_the_version_that_it_was_made_for(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Compare-and-set as its sender says it: what expects 0 makes 1; of two that expect the same version, one wins."""
    version = {"expected": "long(header.v)", "guard": "contiguous", "tie": "first"}
    made = chained(dataset, apply={"mode": "upsert", "key": ["key.id"], "version": version})
    sent = [
        Sent(0, 0, 10, "a", 2, "m0", {"owner": "A3"}),
        Sent(0, 1, 11, "a", 0, "m1", {"owner": "A1"}),
        Sent(0, 2, 12, "a", 1, "m2", {"owner": "A2"}),
        Sent(0, 3, 13, "a", 1, "m3", {"owner": "late"}),  # the one before it was quicker
        Sent(0, 4, 14, "b", 4, "m4", {"owner": "B5"}),
    ]
    outcomes = [counts(run(session, lake, made, export(tmp_path / str(n), [record]))) for n, record in enumerate(sent)]
    assert outcomes == [
        {"held/version_gap": 1},
        {"applied/insert": 1},
        {"applied/update": 1, "applied/folded": 1},
        {"superseded/backwards": 1},
        {"held/version_gap": 1},
    ]
    assert rows_of(lake, made) == [{"id": "a", "owner": "A3"}]
    assert held(session, made) == [("b", 5)]
    [waiting] = held_of(lake, made)
    assert waiting["missing"] == [[1, 5]]
    assert prove(session, lake, made).holds


def test_a_held_record_waits_in_the_table_and_is_explained_when_it_wakes(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """L8 as well: a batch that is not small is shuffled once in the look-up and not at all in the merge, the table
    never."""
    monkeypatch.setattr("onefold.upsert.apply.SMALL_BYTES", 0)
    made = chained(dataset, quality={"max_held_age": "1h"})
    session.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
    first = [Sent(0, n, 10 + n, key, 1, f"m{n}", {"owner": key}) for n, key in enumerate("abcdefgh")]
    late = [Sent(0, 8, 30, "a", 3, "x", {"owner": "A3"}), Sent(0, 9, 31, "a", 4, "y", {"owner": "A4"})]
    begun = run(session, lake, made, export(tmp_path / "0", [*first, *late]))
    assert counts(begun) == {"applied/insert": 8, "held/version_gap": 2}
    assert held(session, made) == [("a", 3), ("a", 4)]
    assert {row["owner"] for row in rows_of(lake, made)} == set("abcdefgh")

    before = last_statement(session)
    closing = run(session, lake, made, export(tmp_path / "2", [Sent(0, 10, 40, "a", 2, "z", {"owner": "A2"})]))
    assert counts(closing) == {"applied/folded": 2, "applied/update": 1}
    writes = [statement for statement in statements(session, before) if statement.writes]
    actions = writes[1]
    [merge] = [write for write in writes if write.writes == "WriteDelta"]  # the verdicts are appended next to it
    assert (actions.exchanges, merge.exchanges) == (1, 0)
    rows = explain(lake, made, digest_of_key(made, {"id": "a"}))
    assert [(row["offset"], row["verdict"], row["reason"]) for row in rows] == [
        (0, "applied", "insert"),
        (8, "held", "version_gap"),
        (8, "applied", "folded"),
        (9, "held", "version_gap"),
        (9, "applied", "update"),
        (10, "applied", "folded"),
    ]
    assert [row["owner"] for row in rows_of(lake, made) if row["id"] == "a"] == ["A4"]

    far = [Sent(0, 11, 50, "b", 7, "w", {"owner": "B7"}), Sent(0, 12, 50 + 3_601_000, "c", 2, "v", {"owner": "C2"})]
    red = run(session, lake, made, export(tmp_path / "3", far))
    assert isinstance(red.red, GateRedError)
    assert "age of the oldest held record" in str(red.red)
    assert '(first: version 7 of {"id":"b"})' in str(red.red)


@pytest.mark.nightly(reason="unit tests find columns of the same name by day")
def test_fields_may_be_called_like_columns_that_judging_adds(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """What the look-up, a woken record and an accepted gap join has names of its own."""
    names = ("found", "within_start", "start", "head", "lowest", "repeated", "version", "becomes", "state", "rows")
    optional = ("links_to", "reused_message_id")
    kinds = dict.fromkeys(("owner", "link", *names), "string") | dict.fromkeys(optional, "string?")
    made = chained(dataset, value={"fields": kinds})
    value = {"owner": "A", "link": "L", **dict.fromkeys((*names, *optional), "x")}
    sent = [Sent(0, n, 10 + n, "a", version, f"m{n}", value) for n, version in enumerate((1, 3, 2, 5, 6))]
    assert run(session, lake, made, export(tmp_path / "0", sent[:2])).red is None
    assert run(session, lake, made, export(tmp_path / "1", sent[1:4])).red is None
    accept(session, lake, made, "a", 5)
    assert run(session, lake, made, export(tmp_path / "2", [sent[4]])).red is None
    assert rows_of(lake, made) == [{"id": "a", **value}]
    assert prove(session, lake, made).holds


@pytest.mark.nightly(reason="test_ties has two contents of a version by day")
@pytest.mark.parametrize("contents", [("1.00", "2.00"), ("2.00", "1.00")])
def test_two_records_of_a_version_may_have_one_inferred_place(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, contents: tuple[str, str]
) -> None:
    """A sink that began elsewhere behind a hole: positions that are inferred decide nothing."""
    source = {"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}}
    version = {"from": "long(header.m)", "guard": "contiguous", "tie": "last"}
    apply = {"mode": "upsert", "key": ["id"], "version": version}
    made = chained(dataset, source=source, key={"format": "string"}, value={"fields": L.FIELDS}, apply=apply)
    first, second = contents
    sent = [L.Sent(0, n, "k", "0.00", message=str(n + 1)) for n in range(2)]
    L.put_connect(tmp_path / "one", [*sent, L.Sent(0, 2, "k", first, message="3")], "json")
    L.put_connect(tmp_path / "two", [L.Sent(0, 2, "k", second, message="3")], "json")
    for name in ("one", "two"):
        done = run(session, lake, made, tmp_path / name)
        assert done.red is None, done.red
    assert prove(session, lake, made).holds


def read_owners(lake: Lake, made: Dataset) -> dict[str, str]:
    return {row["id"]: row["owner"] for row in rows_of(lake, made)}


@pytest.mark.nightly(reason="histories accept gaps by day, and tests/unit/test_gaps.py has the decision")
def test_an_accepted_gap_is_a_batch_that_wakes_what_waited(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """And once: later batches obey it, what comes late is superseded, and other keys wait on."""
    made = chained(dataset)
    log = [
        Sent(0, 0, 10, "a", 1, "1", {"owner": "A1"}),
        Sent(0, 1, 11, "a", 3, "2", {"owner": "A3"}),
        Sent(0, 2, 12, "a", 6, "3", {"owner": "A6"}),
        Sent(0, 3, 13, "a", 7, "4", {"owner": "A7"}),
        Sent(0, 4, 14, "a", 9, "5", {"owner": "A9"}),
        Sent(0, 5, 15, "b", 6, "6", {"owner": "B6"}),
    ]
    run(session, lake, made, export(tmp_path / "0", log))
    assert (read_owners(lake, made), held(session, made)) == (
        {"a": "A1"}, [("a", 3), ("a", 6), ("a", 7), ("a", 9), ("b", 6)],
    )  # fmt: skip
    done = accept(session, lake, made, "a", 6)
    assert counts(done) == {"applied/folded": 2, "applied/update": 1}
    assert (read_owners(lake, made), held(session, made)) == ({"a": "A7"}, [("a", 9), ("b", 6)])
    newest = records_of(lake, made)[0]
    assert newest.decision == log_of(lake, "accounts", done.batch)[0]
    assert newest.accepted == [Accepted(key={"id": "a"}, version=6)]
    again = accept(session, lake, made, "a", 6)
    assert again.published
    assert (again.published.already, len(records_of(lake, made))) == (True, 2)
    page = Path(done.report).read_text()
    assert "Gap accepted\n      by mia" in page
    assert "goes on at version 6" in page
    [row] = [row for row in decisions_of(lake, made) if row["decision"] == "accept-gap"]
    assert (row["state"], row["accepts"]) == ("published", {"key": {"id": "a"}, "version": 6})

    late = [Sent(0, 6, 16, "a", 4, "7", {"owner": "A4"}), Sent(0, 7, 17, "a", 8, "8", {"owner": "A8"})]
    assert counts(run(session, lake, made, export(tmp_path / "1", late))) == {
        "superseded/backwards": 1, "applied/folded": 1, "applied/update": 1,
    }  # fmt: skip
    assert (read_owners(lake, made), held(session, made)) == ({"a": "A9"}, [("b", 6)])
    assert prove(session, lake, made).differences == {}


@pytest.mark.nightly(reason="histories rebuild and roll back by day; an accepted gap alone is tried here")
def test_L1_a_rebuild_and_a_run_behind_a_rollback_obey_an_accepted_gap(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Behind the rollback the gap is accepted before the record that it leads to has come."""
    made, spark = chained(dataset), InSession(lake, session)
    first = run(session, lake, made, export(tmp_path / "0", [Sent(0, 0, 10, "a", 1, "1", {"owner": "A1"})]))
    above = run(session, lake, made, export(tmp_path / "1", [Sent(0, 1, 11, "a", 3, "2", {"owner": "A3"})]))
    gap = accept(session, lake, made, "a", 3)
    assert read_owners(lake, made) == {"a": "A3"}

    roll_back(lake, made, first.batch, "mia", "to look")
    assert read_owners(lake, made) == {"a": "A1"}
    for batch, wanted in ((gap.batch, "A1"), (above.batch, "A3")):
        take_up(lake, made, batch, "mia")
        assert run_batch(lake, made, find_plan(lake, made, batch), spark).published
        assert read_owners(lake, made) == {"a": wanted}
    assert held(session, made) == []

    changed = chained(dataset, target={"table": "tests.accounts", "buckets": 3})
    assert rebuild(lake, changed, spark).swapped
    assert (read_owners(lake, changed), held(session, changed)) == ({"a": "A3"}, [])
    assert [record.batch for record in records_of(lake, changed)] == [gap.batch, above.batch, first.batch]


def test_the_gate_asks_that_an_accepted_gap_was_gone_over(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """A row that is held although its gap was accepted is red, as the very branch was not without that."""
    made, here = chained(dataset), InSession(lake, session)
    log = [Sent(0, 0, 10, "a", 1, "1", {"owner": "A1"}), Sent(0, 1, 11, "a", 3, "2", {"owner": "A3"})]
    plan = plan_batch(lake, made, export=str(export(tmp_path / "1", log)))
    land_batch(lake, made, plan.batch)
    here.run("dedup", made, plan.batch)
    upserted = here.run("upsert", made, plan.batch, "cafe01")
    assert here.run("gate", made, plan.batch, "cafe01").green
    for gap, green in ((Accepted(key={"id": "b"}, version=3), True), (Accepted(key={"id": "a"}, version=3), False)):
        lake.put(
            lake_keys.attempt(made, plan.batch, "cafe01", "upsert"), upserted.model_copy(update={"accepted": [gap]})
        )
        if green:
            assert here.run("gate", made, plan.batch, "cafe01").green
            continue
        with pytest.raises(GateRedError, match="every action is on the branch"):
            here.run("gate", made, plan.batch, "cafe01")


@pytest.mark.nightly(reason="histories accept gaps by day, and test_within looks up by period")
def test_a_gap_of_a_key_that_lies_in_a_period_is_looked_up_there(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    value = {"fields": {"owner": "string", "day": "date"}}
    identity = {"message_id": "header.m", "within": "month(day)"}
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)", "guard": "contiguous"}}
    made = chained(dataset, value=value, identity=identity, apply=apply)
    days = {1: "2026-02-28", 2: "2026-03-01", 4: "2026-03-09"}
    log = [
        Sent(0, n, n, "a", version, str(n), {"owner": f"A{version}", "day": day})
        for n, (version, day) in enumerate(days.items())
    ]
    run(
        session, lake, made, export(tmp_path / "0", [*log, Sent(0, 3, 3, "a", 1, "3", {"owner": "M1", "day": days[2]})])
    )
    done = accept(session, lake, made, {"id": "a", "day": "2026-03-31"}, 4)
    assert counts(done) == {"applied/update": 1}
    assert sorted(row["owner"] for row in rows_of(lake, made)) == ["A1", "A4"], "February's a is a key of its own"


@pytest.mark.nightly(reason="test_waivers waives what is held by day, and tests/unit/test_held.py lists it")
def test_held_lists_what_waits_and_too_many_are_red_until_they_are_waived(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """An accepted gap is not red by what it leaves waiting: otherwise none could be accepted."""
    made = chained(dataset, quality={"max_held": 1})
    first = [Sent(0, 0, 10, "a", 2, "1", {"owner": "A2"}), Sent(0, 1, 11, "b", 1, "2", {"owner": "B1"})]
    batch = run(session, lake, made, export(tmp_path / "0", first)).batch
    more = [Sent(0, 2, 20, "b", 3, "3", {"owner": "B3"}), Sent(0, 3, 20, "b", 6, "4", {"owner": "B6"})]
    red = run(session, lake, made, export(tmp_path / "1", [*more, first[0]]))
    assert red.red
    versions = ", ".join(f'version {n} of {{"id":"{key}"}}' for key, n in (("a", 2), ("b", 3), ("b", 6)))
    assert red.red.failed == (f"records held: found 3 (first: {versions}), wanted at most 1 [held_records]",)
    assert [row["version"] for row in held_of(lake, made)] == [2], "what is published"

    release(lake, made, red.batch, ["held_records=3"], "mia", "known")
    assert run_batch(lake, made, find_plan(lake, made, red.batch), InSession(lake, session)).published
    since = {
        record.batch: {"batch": record.batch, "at": record.written.isoformat()} for record in records_of(lake, made)
    }
    place = {"topic": "t", "partition": 0}
    rows = [
        {"key": {"id": "a"}, "version": 2, "missing": [[1, 2]], "since": since[batch], "offset": 0},
        {"key": {"id": "b"}, "version": 3, "missing": [[2, 3]], "since": since[red.batch], "offset": 2},
        {"key": {"id": "b"}, "version": 6, "missing": [[2, 3], [4, 6]], "since": since[red.batch], "offset": 3},
    ]
    nothing: dict[str, object] = {"seen": []}
    at = "1970-01-01T00:00:00.0{}0000+00:00"
    assert held_of(lake, made) == [
        row | place | nothing | {"timestamp": at.format(n)} for row, n in zip(rows, (1, 2, 2), strict=True)
    ]
    assert [row["version"] for row in held_of(lake, made, limit=2)] == [2, 3]
    assert accept(session, lake, made, "a", 2).published, "two wait on"


@pytest.mark.nightly(reason="tests/unit/test_held.py finds the missing version by day")
def test_a_held_record_says_where_the_version_that_it_waits_for_was_seen(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Rejected, with a version that cannot be read, and in a red batch: in `held`, `explain` and the batches' reports.
    Of a version that no record has nothing is said."""
    made = chained(dataset, quality={"max_rejected_rate": 1.0})
    no_number: Any = "x"
    first = [
        Sent(0, 0, 10, "a", 1, "1", {"owner": "A1"}),
        Sent(0, 1, 11, "a", 2, "2", {"owner": 7}),
        Sent(0, 2, 12, "a", 3, "3", {"owner": "A3"}),
        Sent(0, 3, 13, "b", 2, "4", {"owner": "B2"}),
        Sent(0, 4, 14, "c", 2, "5", {"owner": "C2"}),
        Sent(0, 5, 15, "c", no_number, "6", {"owner": "C1"}),
        Sent(0, 6, 16, "d", 2, "7", {"owner": "D2"}),
    ]
    done = run(session, lake, made, export(tmp_path / "0", first))
    assert counts(done)["held/version_gap"] == 4
    again = [Sent(0, 7, 20, "b", 1, "8", {"owner": "B1"}), Sent(0, 8, 21, "a", 1, "9", {"owner": "other"})]
    red = run(session, lake, made, export(tmp_path / "1", again))
    assert red.red, "one version with two contents"

    waiting = held_of(lake, made, red=red_batches(lake, made))

    assert [(row["key"]["id"], [seen_in_words(seen) for seen in row["seen"]]) for row in waiting] == [
        ("a", ["version 2 is at t-0@1: rejected/wrong_type"]),
        ("b", [f"version 1 is at t-0@7: applied/folded in batch {red.batch}, which is not published"]),
        ("c", ["a version that cannot be read is at t-0@5: rejected/wrong_type"]),
        ("d", []),
    ]
    rejected = waiting[0]["seen"][0]
    assert (rejected["batch"], rejected["published"]) == (done.batch, True)
    assert "owner" in rejected["detail"]
    assert [row["seen"] for row in held_of(lake, made)][1] == [], "what is published"
    of_key = explain(lake, made, digest_of_key(made, {"id": "a"}))
    waits = {row["offset"]: row["waits"] for row in of_key if "waits" in row}
    assert waits == {2: {"missing": [[2, 3]], "seen": [rejected]}}
    assert describe(lake, made, done.batch).notes == [
        "Version 3 of id a is held, and version 2 is at t-0@1: rejected/wrong_type",
        "Version 2 of id c is held, and a version that cannot be read is at t-0@5: rejected/wrong_type",
    ]
    later = run(session, lake, made, export(tmp_path / "2", [Sent(0, 9, 30, "d", 1, "a", {"owner": 7})]))
    assert later.published
    assert describe(lake, made, later.batch).notes == [
        "Version 2 of id d is held, and version 1 is at t-0@9: rejected/wrong_type"
    ], "the batch that takes the missing version out names what waits for it"
