"""What a skip takes out, by position or object, before survivors are chosen; in upsert, and in inexact layouts."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dedup.documents import TakenOut
from onefold.dedup.exclusions import take_out
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.operations import decide
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.publish.publish import Published
from onefold.records import envelope as E
from onefold.report.ledger import records_of, rows_of
from onefold.vocabulary import LogStatus
from tests.support import layouts as L
from tests.support.envelopes import envelope, record
from tests.support.pipeline import Sent, accounts, export, run


@pytest.mark.parametrize(
    ("taken", "fates"),
    [
        (TakenOut(), [None, None, None, "aborted", None]),
        (TakenOut(everything=True), ["skipped"] * 5),
        (TakenOut(partitions={"c/t/1/0": [(0, 1), (2, 9)]}), ["skipped", None, None, "skipped", None]),
        (TakenOut(partitions={"c/t/1/1": [(0, 9)], "c/t/2/0": [(0, 9)]}), [None, None, "skipped", "aborted", None]),
        (TakenOut(objects=["p"]), [None, None, None, "aborted", "skipped"]),
    ],
    ids=["nothing", "everything", "ranges", "another partition", "objects"],
)
def test_what_is_taken_out_has_that_fate_and_nothing_else_changes(
    session: SparkSession, taken: TakenOut, fates: list[str | None]
) -> None:
    """The last record has no position: an unreadable line of an export."""
    rows = [
        record("0", b"1", 0),
        record("1", b"2", 1),
        record("2", b"3", 1, partition=1),
        record("3", b"4", 3, fate=LogStatus.ABORTED),
        record("4", b"5", topic=None, partition=None, object="p"),
    ]
    rows[-1][E.OFFSET] = None
    given = envelope(session, rows)
    found = take_out(given, taken)
    assert found.columns == given.columns
    by_case = {row["case"]: row.asDict() for row in found.collect()}
    assert [by_case[row["case"]][E.FATE] for row in rows] == fates
    kept = [name for name in given.columns if name not in (E.FATE, E.HEADERS)]
    assert [[by_case[row["case"]][name] for name in kept] for row in rows] == [
        [row[name] for name in kept] for row in rows
    ]


def skip(session: SparkSession, lake: Lake, dataset: Dataset, folder: Path) -> Published:
    """Land an export folder, decide to skip it, and run it."""
    plan = plan_batch(lake, dataset, export=str(folder))
    land_batch(lake, dataset, plan.batch)
    decide.skip(lake, dataset, plan.batch, "mia", "test data")
    done = run_batch(lake, dataset, plan, InSession(lake, session))
    assert done.published
    return done.published


@pytest.mark.nightly(
    reason="tests/process/test_decisions.py skips by day: what is skipped is covered and changes no row"
)
def test_in_upsert_what_a_skip_took_out_hides_no_other_version(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Version 9 and the delete are skipped; a later batch brings them again, with a version that counts behind them."""
    made = accounts(dataset)
    first = [Sent(0, 0, 10, "a", 1, "1", {"owner": "A"}), Sent(0, 1, 11, "b", 1, "2", {"owner": "B"})]
    test = [
        Sent(0, 2, 12, "a", 9, "3", {"owner": "test"}),
        Sent(0, 3, 13, "b", 9, "4", None),
        Sent(0, 4, 14, "c", 1, "5", "{"),
    ]
    more = [Sent(0, 5, 15, "a", 2, "6", {"owner": "A2"}), Sent(0, 6, 16, "b", 2, "7", {"owner": "B2"})]
    assert run(session, lake, made, export(tmp_path / "first", first)).published
    assert skip(session, lake, made, export(tmp_path / "test", test)).counts == {"skipped": {"decision": 3}}
    later = run(session, lake, made, export(tmp_path / "more", [*test, *more]))
    assert later.published
    assert later.published.counts == {"applied": {"update": 2}, "duplicate": {"position": 3}}
    assert sorted((row["id"], row["owner"]) for row in rows_of(lake, made)) == [("a", "A2"), ("b", "B2")]
    newest = records_of(lake, made)[0]
    assert {key: partition.present for key, partition in newest.coverage.partitions.items()} == {"c/t/1/0": [(0, 7)]}
    assert [coverage.partitions["c/t/1/0"].present for coverage in newest.skipped.values()] == [[(2, 5)]]


@pytest.mark.nightly(reason="tests/process/test_decisions.py skips by day")
def test_where_positions_are_inferred_an_object_is_taken_out(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    made = L.dataset_of(dataset, "connect")
    sent = [L.Sent(0, 10 + n, f"a{n}", f"{n}.10", at=n, message=f"m{n}") for n in range(4)]
    L.put_connect(tmp_path / "one", sent[:2], "avro")
    L.put_connect(tmp_path / "two", sent[1:], "avro")
    shutil.copytree(tmp_path / "one", tmp_path / "two" / "again")  # the skipped object under another name
    assert skip(session, lake, made, tmp_path / "one").counts == {"skipped": {"decision": 2}}
    later = run(session, lake, made, tmp_path / "two")
    assert later.published
    assert later.published.counts == {"applied": {"insert": 3}, "duplicate": {"position": 2}}
    assert sorted(row["id"] for row in rows_of(lake, made)) == ["a1", "a2", "a3"]
    [took] = records_of(lake, made)[0].skipped.values()
    assert list(took.objects.values()) == [2]
