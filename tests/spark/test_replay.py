"""Quarantined records fold as if they had been good from the beginning, once, whatever came meanwhile (L1, L2, L6)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.decisions import log_of
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.offsets import Position, Range, TopicPartition
from onefold.operations.decide import take_up
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.replay import plan_replay, replay
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun, run_batch, unfinished
from onefold.records import envelope as E
from onefold.records.covered import mark_lines, mark_positions
from onefold.report.document import describe
from onefold.report.explain import explain_position
from onefold.report.ledger import batches_of, offsets_of, records_of, rows_of, verdicts_of
from onefold.report.quarantine import quarantine_of
from tests.support import layouts as L
from tests.support import oracle
from tests.support.envelopes import envelope, record
from tests.support.pipeline import Sent, accounts, entries, export, run
from tests.support.pipeline import mend as install

BROKEN = b"~"
"""What a producer's serializer put before its values, and the decoder did not know until it was mended."""


@pytest.fixture
def mended(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`tests.support.pipeline.mend`, for one test."""
    return partial(install, monkeypatch)


def press(session: SparkSession, lake: Lake, dataset: Dataset, batch: str, **chosen: Any) -> BatchRun | None:
    """What the command does; None: nothing is left to replay."""
    plan = plan_replay(lake, dataset, batch, **chosen).plan
    if plan.empty:
        return None
    replay(lake, dataset, plan, "mia", "the decoder is mended")
    return run_batch(lake, dataset, plan, InSession(lake, session))


def counts(done: BatchRun | None) -> dict[str, dict[str, int]]:
    assert done is not None
    assert done.red is None, done.red
    assert done.published
    return done.published.counts


def owners(lake: Lake, dataset: Dataset) -> dict[str, str]:
    return {row["id"]: row["owner"] for row in rows_of(lake, dataset)}


def wanted(dataset: Dataset, sent: Iterable[Sent]) -> dict[str, Any]:
    """The oracle's live rows, every value as if it had been good."""
    good = [mend(message).decoded(dataset) for message in sent]
    rules = oracle.Rules(dataset.apply.mode, tie="conflict", narrow=("message_id",))
    rules = replace(rules, by_delivery=dataset.versions_by_delivery)
    return {key: row.content for key, row in oracle.live(good, rules).items()}


def mend(message: Sent) -> Sent:
    return replace(message, value=json.loads(message.value.lstrip("~#"))) if isinstance(message.value, str) else message


def broken(text: str, mark: str = "~") -> str:
    return f'{mark}{{"owner": "{text}"}}'


FIRST = [
    Sent(0, 0, 10, "a", 1, "1", {"owner": "A"}),
    Sent(0, 1, 11, "a", 3, "2", broken("A3")),
    Sent(0, 2, 12, "b", 2, "3", broken("B2")),
    Sent(0, 3, 13, "c", 1, "4", broken("C")),
    Sent(1, 0, 14, "d", 1, "5", broken("D", "#")),
    Sent(1, 1, 15, "e", 1, "6", {"owner": "E"}),
    Sent(1, 2, 16, "e", 5, "7", broken("E5")),
]
"""Rejected: 1 to 3 of partition 0, 0 (in another way) and 2 of partition 1."""
LATER = [
    Sent(0, 4, 20, "a", 2, "8", {"owner": "A2"}),
    Sent(0, 5, 21, "b", 9, "9", {"owner": "B9"}),
    Sent(1, 3, 22, "e", 6, "10", None),
]
"""Older than a record in quarantine, newer, and a delete."""


@pytest.mark.nightly(reason="test_known_positions has quarantined offsets by day")
def test_a_quarantined_offset_is_no_loss_in_a_later_batch_that_lies_around_it(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, mended: Callable[[str], None]
) -> None:
    """An offset is landed or a hole: the rejected one was landed, and what is replayed later is not missing."""
    made = accounts(dataset, quality={"max_rejected_rate": 0.8, "min_records": 1})
    sent = [Sent(0, at, at, f"k{at}", 1, f"{at}", broken("B") if at == 3 else {"owner": "A"}) for at in range(7)]
    inner = run(session, lake, made, export(tmp_path / "inner", sent[2:5]))
    assert counts(inner) == {"applied": {"insert": 2}, "rejected": {"undecodable": 1}}
    around = run(session, lake, made, export(tmp_path / "around", [*sent[:2], *sent[5:]], files=2))
    assert counts(around) == {"applied": {"insert": 4}}
    [account] = describe(lake, made, around.batch).accounts
    assert account.explained == {"covered by another batch": 2, "landed by another batch": 1}
    [row] = offsets_of(lake, made)
    assert (row["covered"], row["holes"], row["quarantined"]) == ([[0, 3], [4, 7]], [], [[3, 4]])
    mended("~")
    assert counts(press(session, lake, made, inner.batch)) == {"applied": {"insert": 1}}
    [row] = offsets_of(lake, made)
    assert (row["covered"], row["holes"], row["quarantined"]) == ([[0, 7]], [], [])
    assert owners(lake, made) == {f"k{at}": "B" if at == 3 else "A" for at in range(7)}


def content(lake: Lake, dataset: Dataset) -> dict[str, str]:
    return {key: json.dumps({"owner": owner}) for key, owner in owners(lake, dataset).items()}


@pytest.mark.nightly(reason="histories mend the decoder, replay and compare with the oracle by day")
def test_replayed_records_fold_as_if_they_had_been_good_from_the_beginning(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, mended: Callable[[str], None]
) -> None:
    """Batches: first, later, replay, replay with a better decoder; then the first once more, in another export."""
    made = accounts(dataset, quality={"max_rejected_rate": 0.8, "min_records": 1})
    first = run(session, lake, made, export(tmp_path / "first", FIRST))
    origin = first.batch
    assert counts(first) == {"applied": {"insert": 2}, "rejected": {"undecodable": 5}}
    assert counts(run(session, lake, made, export(tmp_path / "later", LATER))) == {
        "applied": {"delete": 1, "insert": 1, "update": 1}
    }

    mended("~")
    made = accounts(dataset, quality={"max_rejected_rate": 0.0, "min_records": 1})  # what fails again is no news
    again = press(session, lake, made, origin)
    # A3 over A2; B2 is older than B9, E5 than the delete; C is new; D is rejected once more.
    assert counts(again) == {
        "applied": {"insert": 1, "update": 1},
        "rejected": {"undecodable": 1},
        "superseded": {"stored": 2},
    }
    assert owners(lake, made) == {"a": "A3", "b": "B9", "c": "C"}
    [left] = quarantine_of(lake, made)
    assert (left["batch"], left["partition"], left["offset"], left["key_text"]) == (origin, 1, 0, '{"id": "d"}')
    assert again
    report = describe(lake, made, again.batch)
    assert (report.landed, report.replayed, report.replays, report.status) == (0, 5, origin, "published")
    assert {
        (account.partition[-1], account.start, account.end, account.distinct, account.quarantined)
        for account in report.accounts
    } == {
        ("0", 1, 4, 3, 0), ("1", 0, 3, 2, 1)
    }  # fmt: skip
    assert [account.explained for account in report.accounts] == [{}, {"not replayed": 1}]
    assert report.decision is not None
    assert report.decision.sentence == f"5 quarantined records of {origin} replayed by mia: the decoder is mended"
    row = batches_of(lake, made)[-1]
    assert {name: row[name] for name in ("landed", "replayed", "replays", "verdicts", "gate", "published")} == {
        "landed": 0, "replayed": 5, "replays": origin, "gate": "green", "published": True,
        "verdicts": {"applied": 2, "rejected": 1, "superseded": 2},
    }  # fmt: skip
    rows, published = verdicts_of(lake, made, again.batch)
    assert (len(rows), published) == (5, True)
    assert {(row["partition"], row["offset"]): row["verdict"] for row in rows}[1, 0] == "rejected"
    assert {offset["partition"]: (offset["covered"], offset["quarantined"]) for offset in offsets_of(lake, made)} == {
        0: ([[0, 6]], []), 1: ([[1, 4]], [[0, 1]])
    }  # fmt: skip
    story = [(row["batch"], row["verdict"]) for row in explain_position(lake, made, Position("t", 0, 3))]
    assert sorted(story) == sorted([(origin, "rejected"), (again.batch, "applied")])

    # The button once more, with the same decoder: nothing that could change.
    before = records_of(lake, made)
    assert press(session, lake, made, origin) is None
    assert records_of(lake, made) == before
    # The first run of it, whose process did not learn that it was done.
    over = run_batch(lake, made, find_plan(lake, made, again.batch), InSession(lake, session))
    assert over.published
    assert over.published.already

    mended("~#")
    assert counts(press(session, lake, made, origin)) == {"applied": {"insert": 1}}
    assert quarantine_of(lake, made) == []
    assert content(lake, made) == wanted(made, [*FIRST, *LATER])
    assert counts(run(session, lake, made, export(tmp_path / "copy", FIRST))) == {"duplicate": {"position": 7}}
    assert content(lake, made) == wanted(made, [*FIRST, *LATER])


@pytest.mark.nightly(reason="histories mend the decoder, replay and compare with the oracle by day")
def test_one_position_and_one_key_and_what_comes_between(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, mended: Callable[[str], None]
) -> None:
    """A position, a record from another export, then all, as it was asked before: each counts once (append)."""
    made = entries(dataset)
    first = [
        Sent(0, 0, 10, "a", 1, "1", '~{"id": "a", "credit": "1"}'),
        Sent(0, 1, 11, "b", 1, "2", '~{"id": "b", "credit": "2"}'),
        Sent(0, 2, 12, "c", 1, "3", '~{"id": "c", "credit": "3"}'),
        Sent(0, 3, 13, "a", 1, "4", {"id": "a", "credit": "1"}),
    ]
    origin = run(session, lake, made, export(tmp_path / "first", first)).batch
    mended("~")
    everything = plan_replay(lake, made, origin).plan
    # It takes the row over: of one identity the smallest wins.
    assert counts(press(session, lake, made, origin, positions=[Position("t", 0, 0)])) == {
        "duplicate": {"business_key": 1}
    }
    assert [row["offset"] for row in quarantine_of(lake, made)] == [1, 2]
    assert counts(run(session, lake, made, export(tmp_path / "copy", first[1:2]))) == {"applied": {"insert": 1}}
    assert [row["offset"] for row in quarantine_of(lake, made)] == [2]
    assert press(session, lake, made, origin, key='{"id": "b"}') is None
    replay(lake, made, everything, "noa", "")
    last = run_batch(lake, made, everything, InSession(lake, session))
    assert counts(last) == {"applied": {"insert": 1}, "duplicate": {"position": 2}}
    assert quarantine_of(lake, made) == []
    rows = rows_of(lake, made)
    assert sorted((row["id"], row["credit"]) for row in rows) == [("a", "1.00"), ("b", "2.00"), ("c", "3.00")]

    # Rolled back it lies in quarantine again, and the replay waits for an operator.
    previous = records_of(lake, made)[1].batch
    roll_back(lake, made, previous, "mia", "")
    assert [row["offset"] for row in quarantine_of(lake, made)] == [2]
    assert unfinished(lake, made) == []
    take_up(lake, made, everything.batch, "mia")
    assert unfinished(lake, made) == [everything]
    assert counts(run_batch(lake, made, everything, InSession(lake, session))) == counts(last)
    assert (rows_of(lake, made), quarantine_of(lake, made)) == (rows, [])


@pytest.mark.nightly(reason="tests/unit/test_known_positions.py has a rejected copy of what is covered")
@pytest.mark.parametrize("files", [1, 2])
def test_a_damaged_copy_of_a_sound_record_is_not_quarantined_nor_replayed(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    mended: Callable[[str], None],
    files: int,
) -> None:
    """In one object, or in two of which each holds something that was rejected."""
    made = accounts(dataset, quality={"max_rejected_rate": 0.8, "min_records": 1})
    sent = [Sent(0, 0, 10, "a", 1, "1", broken("A")), Sent(0, 0, 10, "a", 1, "1", {"owner": "A"})]
    sent += [Sent(0, 2, 12, "c", 1, "3", {"owner": "C"}), Sent(0, 1, 11, "b", 1, "2", broken("B"))]
    first = run(session, lake, made, export(tmp_path / "first", sent, files))
    assert counts(first) == {"applied": {"insert": 2}, "rejected": {"undecodable": 2}}
    assert [row["offset"] for row in quarantine_of(lake, made)] == [1]
    again = press(session, lake, made, first.batch)
    assert counts(again) == {"rejected": {"undecodable": 1}}
    assert [row["offset"] for row in quarantine_of(lake, made)] == [1]
    assert again
    assert describe(lake, made, again.batch).replayed == 1
    mended("~")
    assert counts(press(session, lake, made, first.batch)) == {"applied": {"insert": 1}}
    assert (quarantine_of(lake, made), owners(lake, made)) == ([], {"a": "A", "b": "B", "c": "C"})


@pytest.mark.nightly(reason="tests/unit/test_replay.py has the lines of a replay by day")
def test_where_positions_are_inferred_lines_are_replayed(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, mended: Callable[[str], None]
) -> None:
    """The object was covered by the batch that rejected two of its lines: these lines were not."""
    made = L.dataset_of(dataset, "connect")
    sent = [L.Sent(0, 10 + n, f"a{n}", f"{n}.10", at=n, message=f"m{n}") for n in range(4)]
    name = L.put_connect(tmp_path / "one", sent, "json")
    file = tmp_path / "one" / f"{name}.json"
    lines = file.read_bytes().splitlines()
    file.write_bytes(L.lines([lines[0], BROKEN + lines[1], lines[2], b"#" + lines[3]]))
    origin = run(session, lake, made, tmp_path / "one").batch
    assert [(row["line"], row["reason"]) for row in quarantine_of(lake, made)] == [
        (2, "undecodable"), (4, "undecodable")
    ]  # fmt: skip
    mended("~")
    again = press(session, lake, made, origin)
    assert counts(again) == {"applied": {"insert": 1}, "rejected": {"undecodable": 1}}
    assert [row["line"] for row in quarantine_of(lake, made)] == [4]
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["a0", "a1", "a2"]
    assert offsets_of(lake, made)[-1] == {"objects": 1, "records": 4, "quarantined": 1}
    assert again
    assert describe(lake, made, again.batch).replayed == 2
    assert press(session, lake, made, origin) is None

    # The object under another name: three lines are covered, and the fourth is good by now.
    mended("~#")
    shutil.copytree(tmp_path / "one", tmp_path / "two" / "copy")
    assert counts(run(session, lake, made, tmp_path / "two")) == {
        "applied": {"insert": 1}, "duplicate": {"position": 3}
    }  # fmt: skip
    assert counts(press(session, lake, made, origin)) == {"duplicate": {"position": 1}}
    assert quarantine_of(lake, made) == []
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["a0", "a1", "a2", "a3"]


class KilledError(BaseException):
    """In place of a process that is killed: no handler of Onefold's catches it."""


def killed(*_: object) -> None:
    raise KilledError


POINTS = ("before_decision", "after_decision", "before_manifest", "after_merge", "after_gate", "after_commit")
"""The steps behind the landing are those of any batch, whose every point `tests/process/test_crashes.py` passes."""


@pytest.mark.nightly(reason="tests/unit/test_replay.py records a replay once; by day other decisions are killed")
def test_ended_anywhere_and_pressed_again_it_happens_once(
    session: SparkSession,
    lake: Lake,
    dataset: Callable[..., Dataset],
    tmp_path: Path,
    mended: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One replay, which ends at one point after the other."""
    made = accounts(dataset)
    origin = run(session, lake, made, export(tmp_path / "first", FIRST[:4])).batch
    mended("~")
    plan = plan_replay(lake, made, origin).plan
    monkeypatch.setattr("onefold.faults.os.kill", killed)
    for point in POINTS:
        monkeypatch.setenv("ONEFOLD_FAULT", point)
        with pytest.raises(KilledError):
            press(session, lake, made, origin)
        if point != "after_commit":
            assert owners(lake, made) == {"a": "A"}
            assert [row["offset"] for row in quarantine_of(lake, made)] == [1, 2, 3]
    monkeypatch.delenv("ONEFOLD_FAULT")
    assert press(session, lake, made, origin) is None, "what is left is to learn that it was done"
    assert content(lake, made) == wanted(made, FIRST[:4])
    assert quarantine_of(lake, made) == []
    assert [committed.batch for committed in records_of(lake, made)] == [plan.batch, origin]
    assert len(log_of(lake, made.name, plan.batch)) == 1
    assert unfinished(lake, made) == []


@pytest.mark.nightly(reason="histories mend, replay and rebuild by day")
def test_a_rebuild_folds_the_landed_bytes_to_the_same_rows(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path, mended: Callable[[str], None]
) -> None:
    """The batch that had rejected them uses them now, and its replay finds them covered."""
    made = accounts(dataset)
    origin = run(session, lake, made, export(tmp_path / "first", FIRST[:4])).batch
    mended("~")
    assert counts(press(session, lake, made, origin)) == {"applied": {"insert": 2, "update": 1}}
    assert content(lake, made) == wanted(made, FIRST[:4])
    other = accounts(dataset, tie="last")
    done = rebuild(lake, other, InSession(lake, session))
    assert done.swapped
    assert [batch.published.counts for batch in done.batches if batch.published] == [
        {"applied": {"insert": 3}, "superseded": {"in_batch": 1}},
        {"duplicate": {"position": 3}},
    ]
    assert content(lake, other) == wanted(made, FIRST[:4])
    assert quarantine_of(lake, other) == []


def at(offset: int | None, partition: int = 0, **more: Any) -> dict[str, Any]:
    row = record(f"{partition}@{offset}", b"", partition=partition, **more)
    row[E.OFFSET] = offset
    return row


def test_a_position_lies_in_ranges_of_its_own_partition_also_across_blocks(session: SparkSession) -> None:
    first, second = TopicPartition.of("c/t/1/0"), TopicPartition.of("c/t/1/1")
    ranges: list[tuple[TopicPartition, Range]] = [(first, (3, 5)), (first, (7, 40_000)), (second, (5, 6))]
    rows = [at(offset, partition) for partition in (0, 1) for offset in (2, 3, 4, 5, 7, 16_383, 16_384, 39_999, 40_000)]
    rows += [at(None), at(3, topic="u"), at(3, incarnation=2)]
    given = envelope(session, rows)
    found = mark_positions(given, "inside", ranges)
    assert found.columns == [*given.columns, "inside"]
    marked = [row["case"] for row in found.where("inside").collect()]
    assert sorted(marked) == sorted(["0@3", "0@4", "0@7", "0@16383", "0@16384", "0@39999", "1@5"])
    assert found.where("inside IS NULL").count() == 0
    assert found.count() == len(rows)


def test_a_line_lies_in_ranges_of_its_own_object(session: SparkSession) -> None:
    rows = [at(line, object=name, line=line) for name in ("o", "p") for line in (1, 2, 3)]
    found = mark_lines(envelope(session, rows), "inside", {"o": [(2, 3)], "p": [(1, 2), (3, 9)]})
    assert sorted((row[E.OBJECT], row[E.LINE]) for row in found.where("inside").collect()) == [
        ("o", 2), ("p", 1), ("p", 3)
    ]  # fmt: skip
