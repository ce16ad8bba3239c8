"""Forgotten keys: their covered records count for nothing, in every mode, whatever is received before or after (L1);
nothing else changes (L2, L3)."""

from __future__ import annotations

import hashlib
import itertools
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.folding.message_digest import message_digest
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.plan import find_plan
from onefold.operations import decide
from onefold.operations.decide import take_up
from onefold.operations.forget import Found, forget
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.replay import plan_replay, replay
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun, run_batch, unfinished
from onefold.proof.forgotten import identity_of
from onefold.proof.prove import prove
from onefold.publish import publish_batch
from onefold.quality.documents import GateResult
from onefold.report.decisions import decisions_of
from onefold.report.document import describe
from onefold.report.held import held_of
from onefold.report.ledger import batches_of, offsets_of, rows_of, verdicts_of
from onefold.tables import staging as C
from onefold.tables.names import verdict_table
from onefold.upsert.commit_record import find_record
from onefold.vocabulary import RowState
from tests.support import layouts as L
from tests.support.pipeline import Sent, accounts, export, mend, run

MakeDataset = Callable[..., Dataset]
QUALITY = {"max_rejected_rate": 0.0, "min_records": 0}


@pytest.fixture
def send(session: SparkSession, lake: Lake, tmp_path: Path) -> Callable[..., BatchRun]:
    """Run one batch of records, each (offset, key, version, owner or None for a tombstone)."""
    numbers = itertools.count()

    def send_records(dataset: Dataset, *records: tuple[int, str, int, str | None]) -> BatchRun:
        lines = [
            Sent(0, offset, offset, key, version, f"m{offset}", None if owner is None else value(dataset, key, owner))
            for offset, key, version, owner in records
        ]
        return run(session, lake, dataset, export(tmp_path / f"sent-{next(numbers)}", lines))

    return send_records


def value(dataset: Dataset, key: str, owner: str) -> dict[str, Any]:
    return {"id": key, "owner": owner, "credit": "1.00"}


def carry_out(session: SparkSession, lake: Lake, dataset: Dataset, *keys: str, **more: Any) -> BatchRun:
    """Forget keys and run the mark's batch, as `onefold forget` does."""
    mark, _ = forget(lake, dataset, [{"id": key} for key in keys], more.get("before"), "mia", "asked to")
    assert mark
    return run_batch(lake, dataset, find_plan(lake, dataset, mark.batch), InSession(lake, session))


def owners(lake: Lake, dataset: Dataset) -> dict[str, str]:
    return {row["id"]: row["owner"] for row in rows_of(lake, dataset)}


def states(session: SparkSession, lake: Lake, dataset: Dataset) -> list[str]:
    del session
    return sorted(state for state in all_states(lake, dataset) if state != RowState.MESSAGE)


def messages(lake: Lake, dataset: Dataset) -> int:
    """The number of messages in the ledger."""
    return all_states(lake, dataset).count(RowState.MESSAGE)


def all_states(lake: Lake, dataset: Dataset) -> list[str]:
    column: list[str] = (
        StateTable(lake, dataset).table.scan(selected_fields=("_state",)).to_arrow()["_state"].to_pylist()
    )
    return column


def find_differences(session: SparkSession, lake: Lake, dataset: Dataset) -> dict[str, int]:
    return prove(session, lake, dataset).differences


def test_L1_copies_late_records_and_a_rebuild_bring_nothing_forgotten_back(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    """A position that was forgotten, a version that is not higher, and a record that a filter left out before the mark;
    a newer version makes a row."""
    source = {"exports": {"path": "exports", "layout": "kcat", "origin": {"cluster": "c"}}}
    wanted = source | {"filter": "owner <> 'left out'"}
    made = accounts(dataset, quality=QUALITY | {"max_filtered_newer": 9}, source=wanted)
    send(made, (0, "a", 2, "old"), (1, "a", 7, "left out"), (2, "b", 1, "bea"), (3, "b", 2, "left out"))
    covered = offsets_of(lake, made)
    assert carry_out(session, lake, made, "a").published
    assert (states(session, lake, made), offsets_of(lake, made)) == (["live"], covered)
    assert messages(lake, made) == 1, "the message of b; that of a is gone, too"
    late = send(made, (0, "a", 2, "old"), (4, "a", 1, "older"), (5, "a", 3, "new"))
    verdicts = {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, made, late.batch)[0]}
    assert verdicts == {0: ("rejected", "forgotten"), 4: ("rejected", "forgotten"), 5: ("applied", "insert")}
    assert "quarantined" not in states(session, lake, made)
    assert owners(lake, made) == {"a": "new", "b": "bea"}
    again = accounts(dataset, quality=QUALITY, source=source)
    assert rebuild(lake, again, InSession(lake, session)).swapped
    assert owners(lake, again) == {"a": "new", "b": "left out"}
    assert find_differences(session, lake, again) == {}


@pytest.mark.nightly(reason="with a copy, a late record and a filter by day: test_L1_copies_late_records")
def test_L1_a_late_copy_of_an_old_update_stays_away_and_a_newer_version_makes_a_row(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 1, "ann"), (1, "a", 2, None), (2, "b", 1, "bea"))
    covered = offsets_of(lake, made)
    done = carry_out(session, lake, made, "a")
    assert done.published
    assert (states(session, lake, made), offsets_of(lake, made)) == (["live"], covered)
    assert messages(lake, made) == 1, "the message of b; those of a are gone, too"
    late = send(made, (3, "a", 1, "ann"), (4, "a", 2, "ann, once more"))
    assert late.published
    assert late.published.counts == {"rejected": {"forgotten": 2}}
    assert owners(lake, made) == {"b": "bea"}
    send(made, (5, "a", 3, "ann, new"))
    assert owners(lake, made) == {"a": "ann, new", "b": "bea"}
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="with a copy, a late record and a filter by day: test_L1_copies_late_records")
def test_L1_a_forgotten_position_stays_forgotten_and_hides_no_later_record(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 9, "old"), (1, "b", 1, "bea"))
    carry_out(session, lake, made, "a")
    done = send(made, (0, "a", 9, "old"), (2, "a", 10, "new"), (3, "a", 8, "older"))
    assert done.published
    assert owners(lake, made) == {"a": "new", "b": "bea"}
    verdicts = {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, made, done.batch)[0]}
    assert verdicts == {0: ("rejected", "forgotten"), 2: ("applied", "insert"), 3: ("rejected", "forgotten")}
    assert "quarantined" not in states(session, lake, made)
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="histories forget and rebuild by day")
def test_L1_a_rebuild_in_another_order_obeys_a_mark_and_is_green(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 9, "old"), (1, "b", 1, "bea"))
    carry_out(session, lake, made, "a")
    send(made, (2, "a", 10, "new"))
    target = {"table": made.target.table, "buckets": 3}
    again = Dataset.model_validate(made.model_dump(by_alias=True) | {"target": target})
    ends = rebuild(lake, again, InSession(lake, session))
    assert ends.swapped
    assert [batch.published.counts for batch in ends.batches if batch.published] == [
        {"applied": {"insert": 1}, "rejected": {"forgotten": 1}},
        {},
        {"applied": {"insert": 1}},
    ]
    assert owners(lake, again) == {"a": "new", "b": "bea"}
    assert find_differences(session, lake, again) == {}


@pytest.mark.nightly(reason="histories forget, roll back and run again by day")
def test_L1_after_a_rollback_the_next_batch_forgets_again(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    first = send(made, (0, "a", 9, "old"), (1, "b", 1, "bea"))
    mark = carry_out(session, lake, made, "a")
    roll_back(lake, made, first.batch, "mia", "wrong")
    assert owners(lake, made) == {"a": "old", "b": "bea"}
    later = send(made, (2, "a", 10, "new"), (3, "c", 1, "cas"))
    assert later.published
    assert owners(lake, made) == {"a": "new", "b": "bea", "c": "cas"}
    assert unfinished(lake, made) == [], "the mark is in force, and its batch waits for an operator"
    take_up(lake, made, mark.batch, "mia")
    [plan] = unfinished(lake, made)
    assert plan.batch == mark.batch
    again = run_batch(lake, made, plan, InSession(lake, session))
    assert (again.red, bool(again.published)) == (None, True)
    assert owners(lake, made) == {"a": "new", "b": "bea", "c": "cas"}
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="a combination; histories forget, and roll back behind a gate, by day")
def test_L1_a_batch_judged_before_a_mark_is_judged_again_after_a_rollback(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun], tmp_path: Path
) -> None:
    made = accounts(dataset, quality=QUALITY)
    first = send(made, (0, "a", 1, "old"), (1, "b", 1, "bea"))
    steps = InSession(lake, session)
    newer = export(
        tmp_path / "newer",
        [Sent(0, 2, 2, "a", 3, "m2", value(made, "a", "new")), Sent(0, 3, 3, "d", 1, "m3", value(made, "d", "dan"))],
    )
    waiting = plan_batch(lake, made, export=str(newer)).batch
    land_batch(lake, made, waiting)
    steps.run("dedup", made, waiting)
    judged = steps.run("upsert", made, waiting)
    assert steps.run("gate", made, waiting).green
    carry_out(session, lake, made, "a")
    roll_back(lake, made, first.batch, "mia", "wrong")

    published = publish_batch(lake, made, waiting, judged.attempt, steps)
    assert published.attempt != judged.attempt
    assert owners(lake, made) == {"b": "bea", "d": "dan"}, "what was landed before the mark is forgotten"
    send(made, (4, "a", 4, "new"), (5, "c", 1, "cas"))
    assert owners(lake, made) == {"a": "new", "b": "bea", "c": "cas", "d": "dan"}
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="tests/unit/test_forget.py says which deletes are of an age")
def test_deletes_before_a_time_are_forgotten_and_later_deletes_stay(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 1, None), (1, "b", 1, None), (2, "c", 1, "cas"))  # offsets are milliseconds since 1970
    before = datetime.fromtimestamp(0, tz=UTC) + timedelta(milliseconds=1)
    assert forget(lake, made, [], before, "mia", "old", dry_run=True)[1] == Found(1, {"deleted": 1})
    carry_out(session, lake, made, before=before)
    assert states(session, lake, made) == ["deleted", "live"]
    assert forget(lake, made, [], before, "mia", "old") == (None, Found(0, {}))


def test_append_forgets_by_its_deciding_identity_and_the_message_stays_away(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    fields = {"id": "string", "owner": "string", "credit": "decimal(18,2)?"}
    made = dataset("entries", value={"fields": fields}, identity={"business_key": ["id"]}, quality={"max_conflicts": 0})
    send(made, (0, "a", 0, "ann"), (1, "b", 0, "bea"))
    carry_out(session, lake, made, "a")
    assert owners(lake, made) == {"b": "bea"}
    again = send(made, (2, "a", 0, "ann"), (3, "a", 0, "another"), (4, "c", 0, "cas"))
    assert again.published
    assert again.published.counts == {"applied": {"insert": 1}, "rejected": {"forgotten": 2}}
    assert owners(lake, made) == {"b": "bea", "c": "cas"}
    assert find_differences(session, lake, made) == {}


def test_contiguous_forgets_held_records_and_the_mark_takes_the_place_of_their_versions(
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
    late = send(made, (3, "a", 2, "two"), (4, "a", 1, "one again"), (5, "a", 5, "five"))
    assert late.published
    assert late.published.counts == {"held": {"version_gap": 1}, "rejected": {"forgotten": 2}}
    assert (owners(lake, made), states(session, lake, made)) == ({}, ["held", "held"])
    missing = {row["key"]["id"]: row["missing"] for row in held_of(lake, made)}
    assert missing == {"a": [[4, 5]], "b": [[1, 2]]}
    send(made, (6, "a", 4, "four"))
    assert owners(lake, made) == {"a": "five"}
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="a message id of a mark is a rule of its own by day, in an upsert")
def test_increment_forgets_a_sum_with_its_messages_or_one_message_of_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun], tmp_path: Path
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

    mark, found = forget(lake, made, [{made.key_names[0]: "m2"}], None, "mia", "asked to")
    assert (mark is not None, found.states) == (True, {"entry": 1})
    assert mark
    assert run_batch(lake, made, find_plan(lake, made, mark.batch), InSession(lake, session)).published
    assert sums() == {"a": "2.00", "b": "1.00"}
    assert forget(lake, made, [{"id": "a"}], None, "mia", "asked to", dry_run=True)[1] == Found(
        1, {"entry": 2, "live": 1}
    )
    carry_out(session, lake, made, "a")
    assert (sums(), states(session, lake, made)) == ({"b": "1.00"}, ["entry", "live"])
    again = [Sent(0, 4 + n, 4 + n, key, 0, f"m{n}", value(made, key, "x")) for n, key in enumerate("aabb")]
    new = Sent(0, 8, 8, "a", 0, "m8", value(made, "a", "x"))
    assert run(session, lake, made, export(tmp_path / "again", [*again, new])).published
    assert sums() == {"a": "1.00", "b": "1.00"}, "a message that was forgotten is never added again"
    assert find_differences(session, lake, made) == {}


def test_L5_a_mark_is_one_batch_that_is_reported_everywhere_and_cannot_be_skipped(
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


@pytest.mark.nightly(reason="tests/unit/test_replay.py names inferred lines by day")
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
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="tests/unit/test_replay.py names inferred lines by day")
def test_where_positions_are_inferred_a_record_that_was_held_and_woke_is_forgotten(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = dataset(
        "entries",
        source={"exports": {"path": "exports", "layout": "connect", "origin": {"cluster": "c"}, "holes": "none"}},
        value={"fields": L.FIELDS},
        apply={"mode": "upsert", "key": ["id"], "version": {"from": "long(header.m)", "guard": "contiguous"}},
    )
    for record in (L.Sent(0, 0, "a", "1.10", at=0, message="2"), L.Sent(0, 1, "a", "2.10", at=1, message="1")):
        L.put_connect(tmp_path / str(record.offset), [record], "json")
        assert run(session, lake, made, tmp_path / str(record.offset)).published
    assert states(session, lake, made) == ["live"]
    carry_out(session, lake, made, "a")
    assert states(session, lake, made) == []
    assert find_differences(session, lake, made) == {}
    shutil.copytree(tmp_path / "0", tmp_path / "again" / "copy")
    again = run(session, lake, made, tmp_path / "again")
    assert again.published
    assert again.published.counts == {"rejected": {"forgotten": 1}}


def of_log(dataset: MakeDataset, **more: Any) -> Dataset:
    """Accounts whose version is the offset; a tombstone deletes."""
    made = accounts(dataset).model_dump(by_alias=True)
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "offset"}}
    return dataset(
        "accounts",
        key=made["key"],
        value={"fields": {"owner": "string"}},
        apply=apply,
        quality=QUALITY | {"max_conflicts": 9},
        **more,
    )


def owner(offset: int, key: str, message: str, name: str = "ann", partition: int = 0) -> Sent:
    return Sent(partition, offset, offset, key, 0, message, {"owner": name})


def test_L1_under_a_version_from_the_log_a_retry_is_known_by_its_message_id(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = of_log(dataset, identity={"message_id": "header.m"})
    first = [owner(0, "a", "m-1"), owner(1, "a", "m-2", "anna"), owner(2, "b", "m-1", "bea")]
    run(session, lake, made, export(tmp_path / "1", first))
    waiting = plan_batch(lake, made, export=str(export(tmp_path / "2", [owner(3, "a", "m-3", "anne")])))
    land_batch(lake, made, waiting.batch)
    shown = forget(lake, made, [{"id": "a"}], None, "mia", "asked to", dry_run=True)[1]
    assert shown == Found(1, {"live": 1}), "deliveries in the ledger of messages are no rows"
    mark = carry_out(session, lake, made, "a")
    for info in lake.storage.list("datasets/accounts/forgotten/"):
        assert b"m-1" not in (lake.storage.read(info.key) or b""), "identities are digests"
    again = [
        owner(4, "a", "m-1"),
        owner(5, "a", "m-2", "anna"),
        owner(6, "a", "m-3", "anne"),
        owner(7, "b", "m-9", "bo"),
        owner(8, "a", "m-4", "ann, again"),
    ]
    done = run(session, lake, made, export(tmp_path / "3", again))
    assert done.published
    assert done.published.counts == {"applied": {"insert": 1, "update": 1}, "rejected": {"forgotten": 3}}
    verdicts = session.table(verdict_table(made)).where(F.col("batch") == done.batch)
    assert {row.offset: (row.message_id, row.version) for row in verdicts.collect()} == {
        **dict.fromkeys((4, 5, 6), (None, None)),  # the key's identities are not shown
        7: ("m-9", "7"),
        8: ("m-4", "8"),
    }
    assert run_batch(lake, made, waiting, InSession(lake, session)).published
    assert owners_of(lake, made) == ["ann, again", "bo"]
    assert find_differences(session, lake, made) == {}
    record = find_record(lake, made, mark.batch)
    assert record
    assert sum("/forgotten/" in key for key in record.links) == 2, "the mark and its identities are linked"


def owners_of(lake: Lake, dataset: Dataset) -> list[str]:
    return sorted(row["owner"] for row in rows_of(lake, dataset))


@pytest.mark.nightly(reason="message ids go by day")
def test_L1_under_a_version_from_the_log_a_retry_is_known_by_its_producers_sequence(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = of_log(dataset, identity={"producer": {"name": "header.m", "sequence": "header.v"}})
    run(session, lake, made, export(tmp_path / "1", [owner(0, "a", "p")]))
    carry_out(session, lake, made, "a")
    again = [owner(1, "a", "p"), owner(2, "a", "q", "ann, of another producer")]
    done = run(session, lake, made, export(tmp_path / "2", again))
    assert done.published
    assert done.published.counts == {"applied": {"insert": 1}, "rejected": {"forgotten": 1}}
    assert find_differences(session, lake, made) == {}


def test_a_run_and_a_proof_know_a_message_by_the_same_digest_of_its_id_or_its_producers_sequence(
    session: SparkSession,
) -> None:
    order = {"timestamp": 1, "cluster": "c", "topic": "t", "incarnation": 2, "partition": 5, "offset": 9}
    billing, logged = ({"name": name, "epoch": epoch, "sequence": 7} for name, epoch in (("billing", -1), ("4001", 3)))
    rows = [("m-1", billing), (None, billing), (None, logged), (None, None)]
    shape = (
        f"{C.KEY} binary, {C.ORDER} struct<timestamp:long,cluster:string,topic:string,incarnation:int,partition:int,"
        f"offset:long>, {C.MESSAGE_ID} string, {C.PRODUCER} struct<name:string,epoch:int,sequence:long>"
    )
    frame = session.createDataFrame([(b"k", order, message, sent) for message, sent in rows], shape)
    digests = frame.withColumn("digest", message_digest(F.col(C.KEY), frame.columns)).collect()
    texts = ["mm-1", "p7 billing", "p3 c t 5 7 4001"]
    expected = [hashlib.sha256(b"k" + text.encode()).digest()[:16] for text in texts]
    assert [row.digest and bytes(row.digest) for row in digests] == [*expected, None]
    assert [identity_of(b"k", row.asDict(recursive=True)) for row in digests] == [*expected, None]


@pytest.mark.nightly(
    reason="a combination with a rollback; tests/unit/test_forget.py says what was landed before a mark"
)
def test_L1_a_batch_that_was_rolled_back_before_the_mark_brings_nothing_back_when_it_runs_again(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    first = send(made, (0, "a", 1, "ann"), (1, "b", 1, "bea"))
    second = send(made, (2, "a", 5, "anna"), (3, "b", 2, "bo"))
    roll_back(lake, made, first.batch, "mia", "wrong")
    carry_out(session, lake, made, "a")
    late = send(made, (4, "a", 4, "between"), (5, "c", 1, "cas"))  # older than what the rolled back batch holds
    assert late.published
    assert late.published.counts == {"applied": {"insert": 1}, "rejected": {"forgotten": 1}}
    take_up(lake, made, second.batch, "mia")
    assert run_batch(lake, made, find_plan(lake, made, second.batch), InSession(lake, session)).published
    assert owners(lake, made) == {"b": "bo", "c": "cas"}
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="test_situations has offsets of two partitions by day")
def test_offsets_of_two_partitions_do_not_compare_with_the_highest_of_a_mark_either(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path
) -> None:
    made = of_log(dataset, identity={"message_id": "header.m"})
    run(session, lake, made, export(tmp_path / "1", [owner(9, "a", "m-1")]))
    carry_out(session, lake, made, "a")
    moved = [owner(3, "a", "m-2", "moved", partition=1), owner(8, "a", "m-3", "late")]
    done = run(session, lake, made, export(tmp_path / "2", moved))
    assert done.published
    assert done.published.counts == {"applied": {"insert": 1}, "rejected": {"forgotten": 1}}
    assert owners_of(lake, made) == ["moved"]
    assert find_differences(session, lake, made) == {}


@pytest.mark.nightly(reason="a combination; two contents at a position are red by day in tests/process/test_reds.py")
def test_two_contents_at_a_position_stay_red_where_one_of_them_is_of_a_forgotten_key(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = accounts(dataset, quality=QUALITY)
    send(made, (0, "a", 1, "ann"), (1, "b", 1, "bea"))
    carry_out(session, lake, made, "a")
    done = send(made, (2, "a", 1, "ann"), (2, "b", 2, "bo"), (3, "a", 1, "ann"))
    assert done.red
    assert {(row["offset"], row["reason"]) for row in verdicts_of(lake, made, done.batch)[0]} >= {
        (2, "inconsistent_position"),
        (3, "forgotten"),
    }


@pytest.mark.nightly(reason="with a copy, a late record and a filter by day: test_L1_copies_late_records")
def test_L1_a_filter_that_is_taken_away_brings_no_record_back_that_was_landed_before_the_mark(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    source = {"exports": {"path": "exports", "layout": "kcat", "origin": {"cluster": "c"}}}
    made = accounts(dataset, quality=QUALITY | {"max_filtered_newer": 9}, source=source | {"filter": "owner = 'ann'"})
    done = send(made, (0, "a", 1, "ann"), (1, "a", 7, "left out"), (2, "b", 1, "ann"), (3, "b", 2, "kept"))
    assert done.published
    carry_out(session, lake, made, "a")
    again = accounts(dataset, quality=QUALITY, source=source)
    assert rebuild(lake, again, InSession(lake, session)).swapped
    assert owners(lake, again) == {"b": "kept"}
    assert find_differences(session, lake, again) == {}


@pytest.mark.nightly(
    reason="a combination with a replay; what was landed before a mark stays away by day: tests/unit/test_forget.py"
)
def test_L6_a_record_in_quarantine_before_the_mark_stays_forgotten_when_a_replay_can_read_it(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = accounts(dataset, quality=QUALITY | {"max_rejected_rate": 1.0})
    broken = [
        Sent(0, n, n, key, 9, f"m{n}", "~" + json.dumps(value(made, key, key))) for n, key in ((1, "a"), (2, "b"))
    ]
    first = run(
        session, lake, made, export(tmp_path / "1", [Sent(0, 0, 0, "a", 1, "m0", value(made, "a", "ann")), *broken])
    )
    carry_out(session, lake, made, "a")
    mend(monkeypatch, "~")
    plan = plan_replay(lake, made, first.batch).plan
    replay(lake, made, plan, "mia", "the decoder is mended")
    done = run_batch(lake, made, plan, InSession(lake, session))
    assert done.published
    assert done.published.counts == {"applied": {"insert": 1}, "rejected": {"forgotten": 1}}
    assert (owners(lake, made), states(session, lake, made)) == ({"b": "b"}, ["live"])
    assert find_differences(session, lake, made) == {}


def hiding(dataset: MakeDataset) -> Dataset:
    """Accounts; readers do not see the closed ones."""
    where = {"table": "tests.accounts", "buckets": 2, "where": "value.owner <> 'closed'"}
    return accounts(dataset, quality=QUALITY, target=where)


@pytest.mark.nightly(reason="a combination with a filter that hides; a live row is forgotten by day")
def test_L1_a_hidden_row_is_forgotten_as_any_other_and_a_retry_shows_it_in_no_order(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = hiding(dataset)
    first = send(made, (0, "a", 1, "ann"), (1, "a", 2, "closed"), (2, "b", 1, "closed"), (3, "c", 1, "cas"))
    assert states(session, lake, made) == ["hidden", "hidden", "live"]
    assert forget(lake, made, [{"id": "a"}], None, "mia", "asked to", dry_run=True)[1] == Found(1, {"hidden": 1})
    carry_out(session, lake, made, "a")
    assert states(session, lake, made) == ["hidden", "live"]
    send(made, (4, "a", 1, "ann"), (5, "b", 2, "bea"))  # without the mark's version it would be live
    assert owners(lake, made) == {"b": "bea", "c": "cas"}
    again = hiding(dataset)
    target = again.target.model_dump(by_alias=True) | {"buckets": 3}
    again = Dataset.model_validate(again.model_dump(by_alias=True) | {"target": target})
    assert rebuild(lake, again, InSession(lake, session)).swapped
    assert (owners(lake, again), states(session, lake, again)) == ({"b": "bea", "c": "cas"}, ["live", "live"])
    assert find_differences(session, lake, again) == {}
    roll = send(again, (6, "a", 3, "closed"), (7, "c", 2, "closed"))
    assert roll.published
    assert states(session, lake, again) == ["hidden", "hidden", "live"]
    assert first.published


@pytest.mark.nightly(reason="histories roll back and forget by day")
def test_L1_after_a_rollback_a_hidden_row_is_removed_by_the_next_batch(
    session: SparkSession, lake: Lake, dataset: MakeDataset, send: Callable[..., BatchRun]
) -> None:
    made = hiding(dataset)
    first = send(made, (0, "a", 1, "ann"), (1, "a", 2, "closed"), (2, "b", 1, "bea"))
    carry_out(session, lake, made, "a")
    roll_back(lake, made, first.batch, "mia", "wrong")
    assert states(session, lake, made) == ["hidden", "live"]
    send(made, (3, "a", 1, "ann"), (4, "c", 1, "cas"))
    assert (owners(lake, made), states(session, lake, made)) == ({"b": "bea", "c": "cas"}, ["live", "live"])
    assert find_differences(session, lake, made) == {}
