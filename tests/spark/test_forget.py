"""Forgotten keys: what the table has covered of them counts for nothing, in every mode, whatever comes before or behind
(L1); and nothing else changes (L2, L3)."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.plan import find_plan
from onefold.operations import decide
from onefold.operations.decide import take_up
from onefold.operations.forget import Found, forget
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun, run_batch, unfinished
from onefold.proof.prove import prove
from onefold.publish import publish_batch
from onefold.quality.documents import GateResult
from onefold.report.decisions import decisions_of
from onefold.report.document import describe
from onefold.report.ledger import batches_of, offsets_of, rows_of, verdicts_of
from tests.support import layouts as L
from tests.support.pipeline import Sent, accounts, export, run

MakeDataset = Callable[..., Dataset]
QUALITY = {"max_rejected_rate": 0.0, "min_records": 0}


@pytest.fixture
def send(session: SparkSession, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., BatchRun]:
    """Runs one batch of records, each (offset, key, version, owner or None for a tombstone)."""

    def sent(dataset: Dataset, *records: tuple[int, str, int, str | None]) -> BatchRun:
        lines = [
            Sent(0, offset, offset, key, version, f"m{offset}", None if owner is None else value(dataset, key, owner))
            for offset, key, version, owner in records
        ]
        return run(session, lake, dataset, export(tmp_path_factory.mktemp("e") / "x", lines))

    return sent


def value(dataset: Dataset, key: str, owner: str) -> dict[str, Any]:
    return {"id": key, "owner": owner, "credit": "1.00"}


def carry_out(session: SparkSession, lake: Lake, dataset: Dataset, *keys: str, **more: Any) -> BatchRun:
    """What `onefold forget` does."""
    made, _ = forget(lake, dataset, [{"id": key} for key in keys], more.get("before"), "mia", "asked to")
    assert made
    return run_batch(lake, dataset, find_plan(lake, dataset, made.batch), InSession(lake, session))


def owners(lake: Lake, dataset: Dataset) -> dict[str, str]:
    return {row["id"]: row["owner"] for row in rows_of(lake, dataset)}


def states(session: SparkSession, lake: Lake, dataset: Dataset) -> list[str]:
    found = StateTable(lake, dataset).table.scan(selected_fields=("_state",)).to_arrow()["_state"].to_pylist()
    return sorted(found)


def proved(session: SparkSession, lake: Lake, dataset: Dataset) -> dict[str, int]:
    return prove(session, lake, dataset).differences


@pytest.mark.nightly(reason="histories forget by day")
def test_L1_a_late_copy_of_an_old_update_brings_a_forgotten_delete_back_to_life(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 1, "ann"), (1, "a", 2, None), (2, "b", 1, "bea"))
    covered = offsets_of(lake, made)
    done = carry_out(session, lake, made, "a")
    assert done.published
    assert (states(session, lake, made), offsets_of(lake, made)) == (["live"], covered)
    send(made, (3, "a", 1, "ann"))  # without the mark the delete at version 2 would stand
    assert owners(lake, made) == {"a": "ann", "b": "bea"}
    assert proved(session, lake, made) == {}


def test_L1_a_position_that_was_forgotten_stays_so_and_hides_no_record_behind_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 9, "old"), (1, "b", 1, "bea"))
    carry_out(session, lake, made, "a")
    done = send(made, (0, "a", 9, "old"), (2, "a", 3, "new"))  # version 9 would win the batch
    assert done.published
    assert owners(lake, made) == {"a": "new", "b": "bea"}
    told = {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, made, done.batch)[0]}
    assert told == {0: ("rejected", "forgotten"), 2: ("applied", "insert")}
    assert "quarantined" not in states(session, lake, made)
    assert proved(session, lake, made) == {}


@pytest.mark.nightly(reason="histories forget and rebuild by day")
def test_L1_a_rebuild_in_another_order_obeys_it_and_is_green(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 9, "old"), (1, "b", 1, "bea"))
    carry_out(session, lake, made, "a")
    send(made, (2, "a", 3, "new"))
    target = {"table": made.target.table, "buckets": 3}
    again = Dataset.model_validate(made.model_dump(by_alias=True) | {"target": target})
    ends = rebuild(lake, again, InSession(lake, session))
    assert ends.swapped
    assert [one.published.counts for one in ends.batches if one.published] == [
        {"applied": {"insert": 1}, "rejected": {"forgotten": 1}},
        {},
        {"applied": {"insert": 1}},
    ]
    assert owners(lake, again) == {"a": "new", "b": "bea"}
    assert proved(session, lake, again) == {}


@pytest.mark.nightly(reason="histories forget, roll back and run again by day")
def test_L1_behind_a_rollback_the_next_batch_forgets_once_more(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    first = send(made, (0, "a", 9, "old"), (1, "b", 1, "bea"))
    mark = carry_out(session, lake, made, "a")
    roll_back(lake, made, first.batch, "mia", "wrong")
    assert owners(lake, made) == {"a": "old", "b": "bea"}
    later = send(made, (2, "a", 3, "new"), (3, "c", 1, "cas"))  # judged against the old row it would be superseded
    assert later.published
    assert owners(lake, made) == {"a": "new", "b": "bea", "c": "cas"}
    assert unfinished(lake, made) == [], "the mark is in force, and its batch waits for an operator"
    take_up(lake, made, mark.batch, "mia")
    [plan] = unfinished(lake, made)
    assert plan.batch == mark.batch
    again = run_batch(lake, made, plan, InSession(lake, session))
    assert (again.red, bool(again.published)) == (None, True)
    assert owners(lake, made) == {"a": "new", "b": "bea", "c": "cas"}
    assert proved(session, lake, made) == {}


@pytest.mark.nightly(reason="histories forget behind a gate and roll back by day")
def test_L1_what_was_judged_before_a_mark_is_judged_again_behind_a_rollback(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun], tmp_path: Path
) -> None:
    made = accounts(dataset, quality=QUALITY)
    first = send(made, (0, "a", 1, "old"), (1, "b", 1, "bea"))
    steps = InSession(lake, session)
    newer = export(tmp_path / "newer", [Sent(0, 2, 2, "a", 3, "m2", value(made, "a", "new"))])
    waiting = plan_batch(lake, made, export=str(newer)).batch
    land_batch(lake, made, waiting)
    steps.run("dedup", made, waiting)
    judged = steps.run("upsert", made, waiting)
    assert steps.run("gate", made, waiting).green
    carry_out(session, lake, made, "a")
    roll_back(lake, made, first.batch, "mia", "wrong")

    published = publish_batch(lake, made, waiting, judged.attempt, steps)
    assert published.attempt != judged.attempt
    assert owners(lake, made) == {"a": "new", "b": "bea"}
    send(made, (3, "c", 1, "cas"))  # it would take out the row of a forgotten key
    assert owners(lake, made) == {"a": "new", "b": "bea", "c": "cas"}
    assert proved(session, lake, made) == {}


def test_deletes_of_an_age_go_and_younger_ones_stay(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 1, None), (1, "b", 1, None), (2, "c", 1, "cas"))  # offsets are milliseconds since 1970
    before = datetime.fromtimestamp(0, tz=UTC) + timedelta(milliseconds=1)
    assert forget(lake, made, [], before, "mia", "old", dry_run=True)[1] == Found(1, {"deleted": 1})
    carry_out(session, lake, made, before=before)
    assert states(session, lake, made) == ["deleted", "live"]
    assert forget(lake, made, [], before, "mia", "old") == (None, Found(0, {}))


@pytest.mark.nightly(reason="histories forget in mode append by day")
def test_append_forgets_by_its_deciding_identity_and_takes_the_message_again(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    fields = {"id": "string", "owner": "string", "credit": "decimal(18,2)?"}
    made = dataset("entries", value={"fields": fields}, identity={"business_key": ["id"]}, quality={"max_conflicts": 0})
    send(made, (0, "a", 0, "ann"), (1, "b", 0, "bea"))
    carry_out(session, lake, made, "a")
    assert owners(lake, made) == {"b": "bea"}
    send(made, (2, "a", 0, "ann, again"))  # would be a conflict with the record at offset 0
    assert owners(lake, made) == {"a": "ann, again", "b": "bea"}


def test_contiguous_forgets_what_is_held_and_begins_at_the_first_version_again(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"owner": "string", "credit": "decimal(18,2)?"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": "long(header.v)", "guard": "contiguous"}},
    )
    send(made, (0, "a", 1, "one"), (1, "a", 3, "three"), (2, "b", 2, "two"))
    carry_out(session, lake, made, "a")
    assert states(session, lake, made) == ["held"]  # b
    send(made, (3, "a", 2, "two"))
    assert (owners(lake, made), states(session, lake, made)) == ({}, ["held", "held"])
    send(made, (4, "a", 1, "one again"))
    assert owners(lake, made) == {"a": "two"}
    assert proved(session, lake, made) == {}


def test_increment_forgets_a_sum_with_its_messages_or_one_message_of_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = dataset(
        "sums",
        key={"format": "json"},
        value={"fields": {"owner": "string", "credit": "decimal(9,2)"}},
        identity={"message_id": "header.m"},
        apply={"mode": "increment", "key": ["key.id"], "add": {"sum": "credit"}},
    )
    send(made, (0, "a", 0, "x"), (1, "a", 0, "x"), (2, "b", 0, "x"), (3, "b", 0, "x"))

    def sums() -> dict[str, str]:
        return {row["id"]: row["sum"] for row in rows_of(lake, made)}

    made_one, found = forget(lake, made, [{made.key_names[0]: "m2"}], None, "mia", "asked to")
    assert (made_one is not None, found.states) == (True, {"entry": 1})
    assert made_one
    assert run_batch(lake, made, find_plan(lake, made, made_one.batch), InSession(lake, session)).published
    assert sums() == {"a": "2.00", "b": "1.00"}
    assert forget(lake, made, [{"id": "a"}], None, "mia", "asked to", dry_run=True)[1] == Found(
        1, {"entry": 2, "live": 1}
    )
    carry_out(session, lake, made, "a")
    assert (sums(), states(session, lake, made)) == ({"b": "1.00"}, ["entry", "live"])
    assert proved(session, lake, made) == {}


def test_L5_a_mark_is_one_batch_that_is_told_everywhere_and_cannot_be_skipped(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset)
    send(made, (0, "a", 1, "ann"))
    first, _ = forget(lake, made, [{"id": "a"}], None, "mia", "asked to")
    twice, _ = forget(lake, made, [{"id": "a"}], None, "tom", "asked to, too")
    assert first == twice
    assert first
    with pytest.raises(UsageError, match="forgets keys and holds no record"):
        decide.skip(lake, made, first.batch, "mia", "no")
    [row] = decisions_of(lake, made)
    assert (row["decision"], row["state"]) == ("forget", "waiting")
    done = run_batch(lake, made, find_plan(lake, made, first.batch), InSession(lake, session))
    assert done.published
    [row] = decisions_of(lake, made)
    assert row["state"] == "published"
    assert describe(lake, made, first.batch).forgets
    assert batches_of(lake, made)[-1]["forgets"] == {"keys": first.keys, "deleted_before": None}
    report = (lake.storage.read(lake_keys.report(made.name, first.batch, "html")) or b"").decode()
    assert "Forgotten" in report
    gate = lake.get(lake_keys.attempt(made, first.batch, done.published.attempt, "gate"), GateResult)
    assert gate
    assert ("nothing_forgotten_left", "0") in {(check.id, check.observed) for check in gate.checks}
    assert forget(lake, made, [{"id": "a"}], None, "mia", "once more") == (None, Found(0, {}))


@pytest.mark.nightly(reason="an erasure and a replay name inferred lines by day")
def test_where_positions_are_inferred_lines_of_objects_are_forgotten(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = L.dataset_of(dataset, "connect")
    L.put_connect(tmp_path / "one", [L.Sent(0, n, f"a{n}", f"{n}.10", at=n, message=f"m{n}") for n in range(3)], "json")
    run(session, lake, made, tmp_path / "one")
    carry_out(session, lake, made, "a1")
    shutil.copytree(tmp_path / "one", tmp_path / "two" / "copy")  # the same object under another name
    again = run(session, lake, made, tmp_path / "two")
    assert again.published
    assert again.published.counts == {"duplicate": {"position": 2}, "rejected": {"forgotten": 1}}
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["a0", "a2"]
    assert proved(session, lake, made) == {}


@pytest.mark.nightly(reason="an erasure and a replay name inferred lines by day")
def test_where_positions_are_inferred_a_record_that_was_held_and_woke_is_forgotten(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = dataset(
        "entries",
        source={"exports": {"path": "exports", "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}},
        value={"fields": L.FIELDS},
        apply={"mode": "upsert", "key": ["id"], "version": {"from": "long(header.m)", "guard": "contiguous"}},
    )
    for one in (L.Sent(0, 0, "a", "1.10", at=0, message="2"), L.Sent(0, 1, "a", "2.10", at=1, message="1")):
        L.put_connect(tmp_path / str(one.offset), [one], "json")
        assert run(session, lake, made, tmp_path / str(one.offset)).published
    assert states(session, lake, made) == ["live"]
    carry_out(session, lake, made, "a")
    assert states(session, lake, made) == []
    assert proved(session, lake, made) == {}
    shutil.copytree(tmp_path / "0", tmp_path / "again" / "copy")
    again = run(session, lake, made, tmp_path / "again")
    assert again.published
    assert again.published.counts == {"rejected": {"forgotten": 1}}
