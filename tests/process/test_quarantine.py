"""The quarantine shows each rejected record of each published batch, with its bytes, and nothing else (L5, L6)."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from onefold.maintenance.keep import Keep
from onefold.maintenance.maintain import maintain
from onefold.operations.decide import take_up
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.report.ledger import records_of, rows_of
from onefold.report.quarantine import quarantine_of
from tests.support.project import ACCOUNTS, Project, account

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
STRICTER = ACCOUNTS.replace("{n: long}", "{n: long, note: string}")
"""A field is required that no record has."""
NOTHING = timedelta(0)
FIRST = [account(0, "a", {"n": 1}), account(1, "b", {"n": 1}), account(2, "c", "no json", headers=["h", "1"])]
SECOND = [
    account(3, "a", {"n": 2}), account(4, "b", None), account(5, "d", {"n": 3}), account(6, "d", {"n": "4"}), b"\xff\n",
]  # fmt: skip
"""Updates, deletes and inserts rows besides what it rejects."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all tests here, in their order: each goes on with what the one before left."""
    made = Project(tmp_path_factory.mktemp("quarantine"))
    made.write_dataset("accounts", ACCOUNTS)
    return made


def view(session: SparkSession) -> list[dict[str, Any]]:
    """What SQL readers see, by position."""
    rows = [row.asDict(recursive=True) for row in session.table("onefold.shop.accounts__quarantine").collect()]
    return sorted(rows, key=lambda row: (row["offset"] is not None, row["offset"], row["batch"]))


def places(session: SparkSession) -> list[int | None]:
    return [row["offset"] for row in view(session)]


def rows(project: Project) -> dict[str, int]:
    return {row["id"]: row["n"] for row in rows_of(project.lake, project.dataset("accounts"))}


def check_counts(project: Project, session: SparkSession) -> None:
    """Both ways of reading show as many records as the published batches have verdicts."""
    dataset = project.dataset("accounts")
    wanted = {
        record.batch: dict(record.counts["rejected"])
        for record in records_of(project.lake, dataset)
        if record.counts.get("rejected")
    }
    for listed in (view(session), quarantine_of(project.lake, dataset)):
        counted = Counter((row["batch"], row["reason"]) for row in listed)
        assert counted == Counter({(batch, why): n for batch, whys in wanted.items() for why, n in whys.items()})


def test_a_rejected_record_is_a_row_with_position_bytes_and_reason(project: Project, session: SparkSession) -> None:
    project.put("accounts/0.jsonl", FIRST)
    [run] = project.run(session, "accounts")
    [row] = view(session)
    assert row.pop("timestamp").timestamp() == 1_772_323_200.002
    assert row == {
        "batch": run.batch, "cluster": "c", "topic": "accounts", "incarnation": 1, "partition": 0, "offset": 2,
        "reason": "undecodable", "detail": "the value is not one JSON value",
        "key": bytearray(b'{"id": "c"}'), "value": bytearray(b"no json"),
        "key_text": '{"id": "c"}', "value_text": "no json", "headers": [{"key": "h", "value": "1"}],
        "object": "0.jsonl", "line": None,
    }  # fmt: skip
    assert rows(project) == {"a": 1, "b": 1}


def test_bytes_that_are_no_text_stay_bytes(project: Project, session: SparkSession) -> None:
    project.put("accounts/1.jsonl", SECOND)
    [run] = project.run(session, "accounts")
    assert run.red is None
    assert rows(project) == {"a": 2, "d": 3}, "they were merged together with updates and a delete"
    assert places(session) == [None, 2, 6]
    unreadable = view(session)[0]
    assert (unreadable["value"], unreadable["value_text"], unreadable["topic"]) == (bytearray(b"\xff"), None, None)
    check_counts(project, session)


def test_without_a_jvm_it_is_the_same(project: Project, session: SparkSession) -> None:
    listed = quarantine_of(project.lake, project.dataset("accounts"))
    seen = view(session)
    names = ("batch", "topic", "incarnation", "partition", "offset", "reason", "detail", "value_text", "object")
    assert [[row[name] for name in names] for row in listed] == [[row[name] for name in names] for row in seen]
    assert [bytes.fromhex(row["value"]) for row in listed] == [bytes(row["value"]) for row in seen]
    batch = listed[-1]["batch"]
    assert quarantine_of(project.lake, project.dataset("accounts"), batch, "wrong_type") == [listed[-1]]
    done = project.onefold("quarantine", "accounts", "--json")
    assert (done.code, done.json) == (0, listed)
    shown = project.onefold("quarantine", "accounts", "--reason", "wrong_type")
    assert (shown.code, "accounts-0@6" in shown.out, "accounts-0@2" in shown.out) == (0, True, False)


def test_a_red_batch_shows_none(project: Project, session: SparkSession) -> None:
    two_contents = [account(8, "y", {"n": 1}), account(8, "y", {"n": 2})]
    project.put("accounts/red.jsonl", [account(7, "x", "no json"), *two_contents])
    [red] = project.run(session, "accounts")
    assert red.red
    assert places(session) == [None, 2, 6]
    check_counts(project, session)


def test_a_record_that_two_exports_hold_is_there_once(project: Project, session: SparkSession) -> None:
    [again] = project.run(session, "accounts", export=project.put("again/1.jsonl", FIRST[1:]))
    assert again.published
    assert "rejected" not in again.published.counts, "the same bytes again are a duplicate of what is in quarantine"
    assert places(session) == [None, 2, 6]
    check_counts(project, session)


def test_maintenance_keeps_it(project: Project, session: SparkSession) -> None:
    """L6: staging and actions are gone, the bytes are not."""
    before = view(session)
    keep = Keep(attempts=NOTHING, snapshots=NOTHING, generations=NOTHING, orphans=timedelta(days=3))
    done = maintain(session, project.lake, project.dataset("accounts"), keep)
    assert done.tables
    assert view(session) == before
    check_counts(project, session)


@pytest.mark.nightly(reason="histories compare the quarantine behind rollbacks by day")
def test_it_follows_a_rollback_and_what_runs_again(project: Project, session: SparkSession) -> None:
    dataset, before = project.dataset("accounts"), view(session)
    newest, previous, *_ = (record.batch for record in records_of(project.lake, dataset))
    roll_back(project.lake, dataset, previous, "me", "")
    assert places(session) == [None, 2, 6]
    check_counts(project, session)
    take_up(project.lake, dataset, newest, "me")
    assert [run.batch for run in project.run(session, "accounts")] == [newest]
    assert view(session) == before


@pytest.mark.nightly(reason="histories rebuild what is rejected by day")
def test_a_rebuild_has_its_own(project: Project, session: SparkSession) -> None:
    project.write_dataset("accounts", STRICTER)
    launcher = InSession(project.lake, session)
    done = rebuild(project.lake, project.dataset("accounts"), launcher)
    assert done.swapped
    # What was applied before lacks the field; the batch that was red is green now. What two exports hold is there once.
    assert places(session) == [None, 0, 1, 2, 3, 5, 6, 7, 8, 8]
    assert rows(project) == {}
    check_counts(project, session)
