"""A client's retry has the same id and another time of sending: `apply.compare: {except: [sent_at]}`, end to end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.operations.run import BatchRun
from onefold.proof.prove import prove
from onefold.report.changes import changes_of
from onefold.report.ledger import rows_of
from onefold.tables import staging as C
from onefold.tables.names import state_table
from tests.support.fold import CONTENT
from tests.support.fold import fold as fold_tables
from tests.support.generate import CHAINS, KINDS, Arrival
from tests.support.literal import rec
from tests.support.pipeline import Sent, export, run, tampered

MakeDataset = Callable[..., Dataset]
Fold = Callable[..., BatchRun]
EXCEPT = {"compare": {"except": ["sent_at"]}}
UPSERT = {"mode": "upsert", "key": ["key.id"]}
FIRST, LAST = "08:55", "09:05"
MODES: dict[str, tuple[dict[str, Any], str | None]] = {
    # the section `apply`, and the time of sending that the row has in the end
    "append": ({"mode": "append"}, FIRST),
    "upsert": (UPSERT | {"version": {"from": "long(header.v)"}}, FIRST),
    "contiguous": (UPSERT | {"version": {"from": "long(header.v)", "guard": "contiguous"}}, FIRST),
    "increment": ({"mode": "increment", "key": ["key.id"], "add": {"sum": "total"}}, None),
}
LOG = [
    Sent(0, 0, 20, "a", 1, "m1", {"total": 5, "sent_at": "09:00"}),
    Sent(0, 1, 21, "b", 1, "m2", {"total": 7, "sent_at": "09:01"}),
    Sent(0, 2, 25, "a", 1, "m1", {"total": 5, "sent_at": LAST}),
    Sent(1, 0, 15, "a", 1, "m1", {"total": 5, "sent_at": FIRST}),
]
SPLITS: dict[str, list[list[int]]] = {
    "at once": [[0, 1, 2, 3]],
    "in order, overlapping": [[0, 1], [1, 2, 3]],
    "backwards, overlapping": [[3, 2], [2, 0, 1]],
}


def make_dataset(dataset: MakeDataset, mode: str, name: str = "things", **more: Any) -> Dataset:
    keys = {
        "key": {"format": "json"},
        "value": {"fields": {"total": "long", "sent_at": "string"}},
        "identity": {"message_id": "header.m"},
        "apply": MODES[mode][0] | EXCEPT,
        "quality": {"max_conflicts": 0, "max_rejected_rate": 0.0},
    }
    return dataset(name, **(keys | more))


@pytest.fixture
def fold(session: SparkSession, lake: Lake, tmp_path: Path) -> Fold:
    """Run a batch of records."""
    folders = iter(range(100))
    return lambda into, *records: run(session, lake, into, export(tmp_path / f"export-{next(folders)}", list(records)))


@pytest.mark.nightly(
    reason="test_laws folds with excepted fields by day, and a retry under another version is a duplicate"
)
@pytest.mark.parametrize("mode", MODES)
def test_a_retry_is_a_duplicate_and_the_order_says_which_time_of_sending_the_row_has(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake, mode: str
) -> None:
    """One batch and several, in any order, overlapping, give the same row (L1). Where the version comes from the
    delivery, a message counts as it was first sent; a link of a chain is not removed for that, and the batch is red."""
    sent_at = MODES[mode][1]
    for number, (split, batches) in enumerate(SPLITS.items()):
        into, verdicts = make_dataset(dataset, mode, f"things_{number}"), Counter[str]()
        for numbers in batches:
            done = fold(into, *(LOG[n] for n in numbers))
            if mode == "contiguous" and split == "in order, overlapping" and 3 in numbers:
                assert "earlier" in str(done.red)
                break
            assert done.published, (split, done.red)
            verdicts.update({verdict: sum(reasons.values()) for verdict, reasons in done.published.counts.items()})
        else:
            assert verdicts == {"applied": 2, "duplicate": sum(map(len, batches)) - 2}, split
            _check_rows(rows_of(lake, into), sent_at, split)
    assert prove(session, lake, into).holds


def _check_rows(table: list[dict[str, Any]], sent_at: str | None, split: str) -> None:
    rows = sorted(tuple(row.values()) for row in table)
    expected = [("a", 5), ("b", 7)] if sent_at is None else [(5, sent_at), (7, "09:01")]
    assert [row[-2:] for row in rows] == expected, split


@pytest.mark.nightly(reason="tests/property/test_laws.py draws fields that do not count by day")
def test_a_difference_in_another_field_is_a_conflict(fold: Fold, dataset: MakeDataset) -> None:
    other = Sent(0, 2, 25, "a", 1, "m1", {"total": 6, "sent_at": LAST})
    assert "conflicts: found 1" in str(fold(make_dataset(dataset, "append", "at_once"), LOG[0], other).red)
    into = make_dataset(dataset, "upsert")
    assert fold(into, LOG[0]).published
    assert "conflicts: found 1" in str(fold(into, other).red)


def test_a_retry_under_another_version_is_a_duplicate(fold: Fold, dataset: MakeDataset, lake: Lake) -> None:
    """A version that is stamped at each send; without an id the retry would be a newer version of the row. The message
    counts as it was first sent, in whichever batch that is."""
    into, verdicts = make_dataset(dataset, "upsert"), Counter[str]()
    first = [LOG[0], Sent(0, 3, 20, "c", 1, "m3", {"total": 5, "sent_at": "09:00"})]
    again = [Sent(0, 2, 25, "a", 2, "m1", {"total": 5, "sent_at": LAST})]
    again += [Sent(0, 4, 25, "c", 2, "m3", {"total": 5, "sent_at": LAST})]
    for records in ([first[0], *again], first[1:]):
        done = fold(into, *records)
        assert done.published
        verdicts.update({verdict: sum(reasons.values()) for verdict, reasons in done.published.counts.items()})
    assert verdicts == {"applied": 2, "duplicate": 2}
    assert [row["sent_at"] for row in rows_of(lake, into)] == ["09:00", "09:00"]


@pytest.mark.nightly(reason="tests/property/test_laws.py folds with excepted fields by day")
def test_a_rewritten_row_is_a_change_for_readers_and_both_hashes_are_kept(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    into = make_dataset(dataset, "upsert")
    first = fold(into, LOG[0], LOG[1])
    before = {row["id"]: row for row in read_stored(session, into)}
    again = fold(into, LOG[3])
    assert again.published
    assert again.published.counts == {"duplicate": {"message_id": 1}}
    changes = changes_of(lake, into, since=first.batch).rows
    assert [(change["change"], change["row"]["sent_at"]) for change in changes] == [("updated", FIRST)]
    after = {row["id"]: row for row in read_stored(session, into)}
    assert before["a"]["_compared"] == after["a"]["_compared"] != before["b"]["_compared"]
    assert before["a"]["_hash"] != after["a"]["_hash"]
    whole = make_dataset(dataset, "upsert", "whole", apply=MODES["upsert"][0])
    fold(whole, LOG[0])
    assert "_compared" not in read_stored(session, whole)[0]


@pytest.mark.nightly(reason="test_proof names each kind of wrong row by day")
def test_a_proof_finds_a_wrong_time_of_sending_and_a_wrong_hash(
    fold: Fold, dataset: MakeDataset, session: SparkSession, lake: Lake
) -> None:
    into = make_dataset(dataset, "upsert")
    fold(into, *LOG)
    tampered(session, lake, into, "UPDATE {t} SET sent_at = '09:00' WHERE id = 'a'")
    assert prove(session, lake, into).differences == {"other_content": 1}
    tampered(session, lake, into, "UPDATE {t} SET _compared = _hash WHERE id = 'a'")
    assert prove(session, lake, into).differences == {"other_record": 1}


@pytest.mark.nightly(reason="test_known_positions has two contents of a position by day")
def test_one_position_with_two_times_of_sending_is_inconsistent(fold: Fold, dataset: MakeDataset) -> None:
    """A position has one content: two contents that differ in any field are from two topics."""
    twin = Sent(0, 0, 20, "a", 1, "m1", {"total": 5, "sent_at": "10:00"})
    ends = [fold(make_dataset(dataset, "append", "at_once"), LOG[0], twin)]
    for mode in ("upsert", "contiguous"):
        into = make_dataset(dataset, mode, mode)
        assert fold(into, LOG[0]).published
        ends.append(fold(into, twin))
    for end in ends:
        assert "no position with two contents: found 1" in str(end.red)


@pytest.mark.by_day(
    "append, sent_at excepted", "upsert, sent_at excepted", why="a chain compares contents in the same way"
)
@pytest.mark.parametrize(
    "kind", ["append, sent_at excepted", "upsert, sent_at excepted", "contiguous, sent_at excepted"]
)
def test_between_equal_places_in_the_order_the_hash_of_the_whole_content_decides(
    spark: SparkSession, dataset: MakeDataset, kind: str
) -> None:
    """Connect's objects have no timestamps, and their positions are inferred: two records may have one position."""
    source = {"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}}}
    into = dataset(**((KINDS | CHAINS)[kind] | {"source": source}))
    winner, loser = (replace(rec(0, "x", message_id="m"), sent=sent) for sent in "12")
    if into.apply.mode == "upsert":
        winner, loser = (replace(record, version=1) for record in (winner, loser))
    splits = {"at once": [[loser, winner]], "in order": [[winner], [loser]], "backwards": [[loser], [winner]]}
    arrivals = [
        Arrival(name, (winner, loser), tuple(map(tuple, batches)), exact=False) for name, batches in splits.items()
    ]
    for arrival, table in zip(arrivals, fold_tables(spark, arrivals, into), strict=True):
        assert [row[CONTENT] for row in table.rows.values()] == [winner.whole], arrival.name
        verdicts = Counter(row[C.VERDICT] for judged in table.judged for row in judged if row[C.SURVIVOR] is not None)
        assert verdicts == {"applied": 1, "duplicate": 1}, arrival.name


@pytest.mark.nightly(reason="it is a hint: the batch is red without it, too")
def test_a_red_batch_names_the_fields_without_which_it_would_be_green(fold: Fold, dataset: MakeDataset) -> None:
    red = str(fold(make_dataset(dataset, "upsert", apply=MODES["upsert"][0]), LOG[0], LOG[2]).red)
    assert "the contents that are shown differ in sent_at only" in red
    assert "declare apply.compare: {except: [sent_at]}; or of several contents of one version" in red


def read_stored(session: SparkSession, into: Dataset) -> list[dict[str, Any]]:
    return [row.asDict() for row in session.table(state_table(into)).where("_key IS NOT NULL").collect()]
