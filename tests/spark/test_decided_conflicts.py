"""A conflict that was released stays decided: what lost wins nowhere, and is a duplicate when it is sent again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup.lost_contents import DETAIL
from onefold.errors import UsageError
from onefold.generation import settle
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.offsets import Position
from onefold.operations import decide
from onefold.operations.forget import forget
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.report.explain import explain_position
from onefold.report.ledger import rows_of
from onefold.upsert import conflicts
from tests.support.pipeline import Sent, accounts, chained, export, increments, moved, run

MakeDataset = Callable[..., Dataset]
Make = Callable[[Dataset], "Operator"]
OPEN = {"max_rejected_rate": 1.0, "max_duplicate_rate": 1.0}


class Operator:
    """Sends batches to one dataset, and releases its conflicts."""

    def __init__(self, session: SparkSession, lake: Lake, made: Dataset, folder: Path) -> None:
        self.session, self.lake, self.made, self.folder, self.exports = session, lake, made, folder, 0
        self.spark = InSession(lake, session)

    @property
    def dataset(self) -> Dataset:
        return settle(self.lake, self.made)

    def send(self, *records: Sent) -> BatchRun:
        self.exports += 1
        return run(self.session, self.lake, self.dataset, export(self.folder / str(self.exports), records))

    def green(self, *records: Sent) -> dict[str, dict[str, int]]:
        """The counts of a batch that is published."""
        done = self.send(*records)
        assert done.published, done.red
        return done.published.counts

    def release(self, *records: Sent) -> BatchRun:
        """Send records that are in conflict, look, and accept the winner."""
        red = self.send(*records)
        assert red.red
        decide.release(self.lake, self.dataset, red.batch, ["conflicts=1"], "mia", "the first is right")
        return self.run_again(red.batch)

    def run_again(self, batch: str) -> BatchRun:
        return run_batch(self.lake, self.dataset, find_plan(self.lake, self.dataset, batch), self.spark)

    def change(self, **sections: Any) -> None:
        """Write other sections into the dataset file."""
        self.made = Dataset.model_validate(self.made.model_dump(by_alias=True) | sections)

    def rebuild(self, *without: str) -> None:
        """Fold every batch again: without some, or into a table of more buckets."""
        if not without:
            self.change(target={"table": self.made.target.table, "buckets": self.made.target.buckets + 1})
        made = self.dataset if without else self.made
        done = rebuild(self.lake, made, self.spark, without=without, who="mia", reason="wrong")
        assert done.swapped, [end.red for end in done.batches]  # what readers see needed no other decision

    def rows(self, name: str) -> list[Any]:
        """A column of what readers see, proved."""
        assert prove(self.session, self.lake, self.dataset).holds
        return sorted(row[name] for row in rows_of(self.lake, self.dataset))


@pytest.fixture
def operator(session: SparkSession, lake: Lake, tmp_path: Path) -> Make:
    return lambda made: Operator(session, lake, made, tmp_path)


@pytest.fixture
def appended(operator: Make, dataset: MakeDataset) -> Operator:
    made = dataset(
        "decided",
        quality=OPEN,
        value={"fields": {"id": "string", "a": "string?", "b": "string?"}},
        identity={"message_id": "header.m"},
    )
    return operator(made)


def said(offset: int, a: str, message: str = "m1") -> Sent:
    """A record of mode append: the smaller offset is the row."""
    return Sent(0, offset, offset, "k", 1, message, {"id": "x", "a": a})


def owned(offset: int, owner: str | None, version: int = 3, message: str | None = None) -> Sent:
    """A record of an upsert: of equal versions the larger offset is the row."""
    value = None if owner is None else {"owner": owner}
    return Sent(0, offset, offset, "k", version, message or f"m{offset}", value)


@pytest.mark.nightly(reason="tests/property/test_decided.py sends again what lost, in every order and split, by day")
def test_what_lost_is_a_duplicate_when_it_is_sent_again_also_where_it_comes_first(appended: Operator) -> None:
    released = appended.release(said(10, "right"), said(11, "wrong"))
    assert released.published
    assert released.published.counts == {"applied": {"insert": 1}, "conflict": {"same_identity": 1}}
    for offset in (12, 0):
        assert appended.green(said(offset, "wrong")) == {"duplicate": {"message_id": 1}}
    assert appended.green(said(11, "wrong")) == {"duplicate": {"position": 1}}, "read again"
    assert appended.green(said(1, "right")) == {"duplicate": {"message_id": 1}}
    assert appended.rows("a") == ["right"]
    early = explain_position(appended.lake, appended.dataset, Position("t", 0, 0))[0]
    assert [early[name] for name in ("offset", "verdict", "detail")] == [0, "duplicate", DETAIL]
    assert early["survivor"]["offset"] == 10
    assert appended.send(said(13, "other")).red, "nothing was decided of this content"


@pytest.mark.nightly(reason="tests/property/test_decided.py draws upserts by day")
def test_an_upsert_keeps_winner_and_loser_of_a_version(operator: Make, dataset: MakeDataset) -> None:
    desk = operator(accounts(dataset, quality=OPEN))
    assert desk.green(owned(10, "A")) == {"applied": {"insert": 1}}
    assert desk.release(owned(11, "B")).published
    assert desk.rows("owner") == ["B"]
    assert desk.green(owned(12, "A")) == {"duplicate": {"key_version": 1}}
    assert desk.rows("owner") == ["B"]
    red = desk.send(owned(13, "C"))
    assert red.red, "a third content is a conflict"
    decide.discard(desk.lake, desk.dataset, red.batch, "mia", "to look")
    assert desk.send(owned(14, "C")).red, "of what was discarded nothing is decided"
    decide.skip(desk.lake, desk.dataset, red.batch, "mia", "no")
    assert desk.run_again(red.batch).published
    desk.rebuild()
    assert desk.rows("owner") == ["B"]
    assert desk.green(owned(15, "A", version=4)) == {"applied": {"update": 1}}, "another version was not decided"
    assert desk.rows("owner") == ["A"]


@pytest.mark.nightly(reason="tests/property/test_decided.py draws several decisions by day")
def test_each_loser_of_two_decisions_stays_a_loser(appended: Operator) -> None:
    assert appended.release(said(10, "second"), said(11, "third")).published
    assert appended.release(said(5, "first"), said(0, "third")).published
    counts = appended.green(said(1, "third"), said(2, "second"), said(3, "first"))
    assert counts == {"duplicate": {"message_id": 3}}
    appended.rebuild()
    assert appended.rows("a") == ["first"]


@pytest.mark.nightly(reason="tests/property/test_decided.py draws deletes and decisions by day")
def test_a_delete_that_won_stays_deleted(operator: Make, dataset: MakeDataset) -> None:
    desk = operator(accounts(dataset, quality=OPEN))
    assert desk.release(owned(10, "A"), owned(11, None)).published
    assert desk.rows("owner") == []
    assert desk.green(owned(12, "A")) == {"duplicate": {"key_version": 1}}
    desk.rebuild()
    assert desk.rows("owner") == []


@pytest.mark.nightly(reason="tests/property/test_decided.py draws chains by day")
def test_a_chain_keeps_winner_and_loser_at_its_head_and_above_a_gap(operator: Make, dataset: MakeDataset) -> None:
    desk = operator(chained(dataset, quality=OPEN | {"max_held": 9}))
    assert desk.green(owned(10, "A", 1), owned(11, "held", 3))["held"] == {"version_gap": 1}
    assert desk.release(owned(12, "B", 1)).published
    assert desk.release(owned(13, "kept", 3)).published
    again = desk.green(owned(14, "A", 1), owned(15, "held", 3))
    assert again == {"duplicate": {"key_version": 2}}
    assert desk.rows("owner") == ["B"]
    desk.rebuild()
    assert desk.green(owned(16, "link", 2)) == {"applied": {"folded": 1, "update": 1}}
    assert desk.rows("owner") == ["kept"]


@pytest.mark.nightly(reason="tests/property/test_decided.py draws sums by day")
def test_a_sum_counts_the_winner_once(operator: Make, dataset: MakeDataset) -> None:
    fields = {"delta": "long", "worth": "decimal(18,2)"}
    desk = operator(increments(dataset, fields, {"stock": "delta"}, quality=OPEN))
    assert desk.release(moved(10, "a", "m1", 5), moved(11, "a", "m1", 7)).published
    assert desk.green(moved(0, "a", "m1", 7)) == {"duplicate": {"message_id": 1}}
    assert desk.rows("stock") == [5]
    desk.rebuild()
    assert desk.rows("stock") == [5]


@pytest.mark.nightly(reason="a version of one part goes by day")
def test_it_is_decided_for_a_version_of_several_parts(operator: Make, dataset: MakeDataset) -> None:
    made = dataset(
        "composite",
        key={"format": "json"},
        value={"fields": {"owner": "string", "epoch": "int", "at": "timestamp"}},
        identity={},
        apply={"mode": "upsert", "key": ["key.id"], "version": {"from": ["epoch", "at"], "max_ahead": None}},
        quality=OPEN,
    )
    desk = operator(made)

    def at_noon(offset: int, owner: str, epoch: int = 1) -> Sent:
        value = {"owner": owner, "epoch": epoch, "at": "2026-01-01T12:00:00.5Z"}
        return Sent(0, offset, offset, "k", 1, "m", value)

    assert desk.release(at_noon(10, "A"), at_noon(11, "B")).published
    assert desk.green(at_noon(12, "A")) == {"duplicate": {"key_version": 1}}
    desk.rebuild()
    assert desk.rows("owner") == ["B"]
    assert desk.green(at_noon(13, "A", epoch=2)) == {"applied": {"update": 1}}


@pytest.mark.nightly(reason="tests/unit/test_decided_conflicts.py says how long a release counts")
def test_L1_a_rebuild_with_another_file_needs_no_other_release(appended: Operator) -> None:
    assert appended.release(said(10, "right"), said(11, "wrong")).published
    appended.green(said(0, "wrong"), said(1, "other", message="m2"))
    source = appended.made.source.model_dump(by_alias=True)
    appended.change(source=source | {"filter": "value.id = 'x'"})
    done = rebuild(appended.lake, appended.made, appended.spark)
    assert (done.swapped, [end.red for end in done.batches]) == (True, [None, None])
    assert appended.rows("a") == ["other", "right"]
    assert appended.green(said(20, "wrong")) == {"duplicate": {"message_id": 1}}


@pytest.mark.nightly(reason="a combination with a rebuild; test_ties has the rules of a tie by day")
def test_where_the_file_resolves_ties_nothing_is_decided(operator: Make, dataset: MakeDataset) -> None:
    desk = operator(accounts(dataset, quality=OPEN))
    assert desk.release(owned(10, "A"), owned(11, "B")).published
    desk.green(owned(12, "A"))
    desk.made = accounts(dataset, tie="last", quality=OPEN)
    assert rebuild(desk.lake, desk.made, desk.spark).swapped
    assert desk.rows("owner") == ["A"], "its offset is the largest"


@pytest.mark.nightly(reason="tests/property/test_decided.py tries every order and split of decided contents by day")
def test_L1_without_the_winners_batch_the_loser_is_the_row_until_another_content_is_received(
    appended: Operator,
) -> None:
    winner = appended.send(said(10, "right"), said(5, "other", message="m2"))
    assert appended.release(said(11, "wrong")).published
    appended.rebuild(winner.batch)
    assert appended.rows("a") == ["wrong"]
    assert appended.green(said(30, "right")) == {"applied": {"replace": 1}}, "although it is later than the loser"
    assert appended.rows("a") == ["right"]


@pytest.mark.nightly(
    reason="tests/unit/test_decided_conflicts.py says how long a release counts, and histories roll releases back"
)
def test_L1_without_the_released_batch_its_decision_does_not_count(appended: Operator) -> None:
    released = appended.release(said(10, "right"), said(11, "wrong"))
    appended.green(said(0, "wrong"))
    appended.rebuild(released.batch)
    assert appended.rows("a") == ["wrong"]


@pytest.mark.nightly(reason="tests/unit/test_decided_conflicts.py says how long a release counts")
def test_a_rollback_of_the_released_batch_overrules_what_it_decided(appended: Operator) -> None:
    first = appended.send(said(10, "right"))
    released = appended.release(said(11, "wrong"))
    again = appended.send(said(12, "wrong"))
    assert again.published
    roll_back(appended.lake, appended.dataset, first.batch, "mia", "to look")
    decide.take_up(appended.lake, appended.dataset, again.batch, "mia")
    assert appended.run_again(again.batch).red
    decide.take_up(appended.lake, appended.dataset, released.batch, "mia")
    assert appended.run_again(released.batch).red


@pytest.mark.nightly(reason="a combination with a mark: tests/unit/test_decided_conflicts.py has its rule")
def test_both_contents_of_a_forgotten_key_stay_away(operator: Make, dataset: MakeDataset) -> None:
    desk = operator(accounts(dataset, quality=OPEN))
    assert desk.release(owned(10, "wrong"), owned(11, "right")).published
    made, _ = forget(desk.lake, desk.dataset, [{"id": "k"}], None, "mia", "asked to")
    assert made
    assert desk.run_again(made.batch).published
    for offset, owner in ((20, "wrong"), (21, "right")):
        assert desk.green(owned(offset, owner)) == {"rejected": {"forgotten": 1}}
    assert desk.rows("owner") == []
    assert desk.green(owned(22, "next", version=4)) == {"applied": {"insert": 1}}


@pytest.mark.nightly(reason="a combination with a mark: tests/unit/test_decided_conflicts.py has its rule")
def test_L1_next_to_a_record_of_a_forgotten_key_what_lost_stays_lost(operator: Make, dataset: MakeDataset) -> None:
    desk = operator(accounts(dataset, quality=OPEN))
    assert desk.send(Sent(0, 1, 1, "j", 1, "m1", {"owner": "gone"})).published
    assert desk.release(owned(10, "wrong"), owned(11, "right")).published
    made, _ = forget(desk.lake, desk.dataset, [{"id": "j"}], None, "mia", "asked to")
    assert made
    assert desk.run_again(made.batch).published
    again = (Sent(0, 20, 20, "j", 1, "m1", {"owner": "gone"}), owned(21, "wrong"))
    assert desk.green(*again) == {"rejected": {"forgotten": 1}, "duplicate": {"key_version": 1}}
    assert desk.rows("owner") == ["right"]


def test_a_release_of_too_many_conflicts_is_refused(appended: Operator, monkeypatch: pytest.MonkeyPatch) -> None:
    red = appended.send(*(said(offset, str(offset), f"m{offset % 2}") for offset in range(4)))
    assert red.red
    decide.release(appended.lake, appended.dataset, red.batch, ["conflicts=2"], "mia", "known")
    monkeypatch.setattr(conflicts, "LARGEST", 1)
    with pytest.raises(UsageError, match="more than 1 identities of the batch are in conflict"):
        appended.run_again(red.batch)
    monkeypatch.undo()
    assert appended.run_again(red.batch).published
