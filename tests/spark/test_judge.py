"""A batch against the table: whole tables of verdicts, the other record that each names, and what changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.positions import fold_positions
from onefold.dedup.survivors import judge_batch
from onefold.folding.strategy import folding_of
from onefold.spark.key_filter import LARGE, MOST, worthwhile
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.known_positions import settle_known
from tests.support.fold import CASE, CONTENT, identified, state
from tests.support.generate import CHAINS
from tests.support.literal import append, rec, upsert
from tests.support.oracle import Decoded

MakeDataset = Callable[..., Dataset]
Expected = tuple[Decoded, str, str, str, int | None, bool, str | None]
"""A record; its verdict, reason and scope; the offset of the other record; whether it won; the action."""


def judge_records(
    session: SparkSession, base: list[Decoded], batch: list[Decoded], made: Dataset, covered: tuple[int, ...] = ()
) -> list[Any]:
    """What the look-up says of each record of the batch, in the order of offsets."""
    table = [_row(record) for record in base]
    staged = judge_batch(_identified(session, batch, made, covered), made, within=(CASE,))
    return _judged(staged, state(session, table, made), made)


def _identified(session: SparkSession, batch: list[Decoded], made: Dataset, covered: tuple[int, ...]) -> DataFrame:
    return identified(session, [("", record, record.position[-1] in covered) for record in batch], made)


def _judged(staged: DataFrame, table: DataFrame, made: Dataset) -> list[Any]:
    folding = folding_of(made)
    return _select_rows(settle_known(folding.judge(staged, folding.base_columns(table))))


def _select_rows(judged: DataFrame) -> list[Any]:
    offset = F.col(f"{C.ORDER}.offset")
    columns = (offset, CONTENT, C.VERDICT, C.REASON, U.SCOPE, F.col(f"{U.OTHER}.offset"), U.WON, U.ACTION)
    return [tuple(row) for row in judged.select(*columns).orderBy(offset, CONTENT, C.VERDICT).collect()]


def expected_rows(table: list[Expected]) -> list[Any]:
    """The same of the table itself."""
    return [(record.position[-1], record.content, *rest) for record, *rest in table]


def test_append_into_an_empty_table_inserts_survivors_only(spark: SparkSession, dataset: MakeDataset) -> None:
    table: list[Expected] = [
        (rec(1), "applied", "insert", "in_batch", None, False, "insert"),
        (rec(2), "duplicate", "business_key", "in_batch", 1, False, None),
        (rec(3, "y"), "conflict", "same_identity", "in_batch", 1, False, None),
        (rec(4, key=None, rejected="undecodable"), "rejected", "undecodable", "in_batch", None, False, None),
        (rec(5, key=None, filtered=True), "filtered", "filter", "in_batch", None, False, None),
    ]
    assert judge_records(spark, [], [record for record, *_ in table], append(dataset)) == expected_rows(table)


def test_append_against_rows_the_smaller_wins_and_equal_content_is_a_duplicate(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    base = [rec(50, key=key, message_id="m50") for key in ("a", "b", "c", "d", "e", "f", "g", "h")]
    table: list[Expected] = [
        (rec(10, key="a"), "duplicate", "business_key", "stored", 50, False, "update"),  # earlier: lowers the order
        (rec(11, key="b", message_id="m50"), "duplicate", "message_id", "stored", 50, False, "update"),
        (rec(12, "y", "c"), "conflict", "same_identity", "stored", 50, True, "update"),
        (rec(50, key="d"), "duplicate", "position", "stored", 50, False, None),
        (rec(50, "z", "e"), "conflict", "inconsistent_position", "stored", 50, False, None),
        (rec(60, key="f"), "duplicate", "business_key", "stored", 50, False, None),
        (rec(61, "y", "g"), "conflict", "same_identity", "stored", 50, False, None),
        # a loser of the batch names the record that wins its key in the end
        (rec(62, "y", "f"), "conflict", "same_identity", "in_batch", 50, False, None),
        (rec(63, "y", "g"), "conflict", "same_identity", "stored", 50, False, None),
        (rec(64, "x", "g"), "duplicate", "business_key", "stored", 50, False, None),
        (rec(65, "y", "c"), "duplicate", "business_key", "in_batch", 12, False, None),
        (rec(66, "y", "h"), "conflict", "same_identity", "stored", 50, False, None),
        (rec(66, "y", "h"), "duplicate", "position", "in_batch", 50, False, None),  # in conflict once
    ]
    assert judge_records(spark, base, [record for record, *_ in table], append(dataset)) == expected_rows(table)


def test_upsert_into_an_empty_table(spark: SparkSession, dataset: MakeDataset) -> None:
    table: list[Expected] = [
        (rec(1, "x", "a", version=1), "superseded", "in_batch", "in_batch", 2, False, None),
        (rec(2, "y", "a", version=2), "applied", "insert", "in_batch", None, False, "insert"),
        (rec(3, "deleted", "b", version=1, deleted=True), "applied", "delete", "in_batch", None, False, "insert"),
    ]
    assert judge_records(spark, [], [record for record, *_ in table], upsert(dataset)) == expected_rows(table)


UPSERT_BASE = [rec(50, key=key, version=2, message_id="m50") for key in ("a", "b", "c", "d", "e", "f", "g", "h")]
DELETED = rec(50, "deleted", "gone", version=2, deleted=True)


def test_upsert_against_rows_the_newer_version_wins(spark: SparkSession, dataset: MakeDataset) -> None:
    table: list[Expected] = [
        (rec(10, "y", "a", version=3), "applied", "update", "stored", 50, False, "update"),
        (rec(11, "deleted", "b", version=3, deleted=True), "applied", "delete", "stored", 50, False, "update"),
        (rec(12, "y", "gone", version=3), "applied", "insert", "stored", 50, False, "update"),
        (rec(13, "y", "c", version=1), "superseded", "stored", "stored", 50, False, None),
        (rec(61, "x", "d", version=1, message_id="m50"), "duplicate", "message_id", "stored", 50, False, None),
        (rec(62, "x", "e", version=3, message_id="m50"), "duplicate", "message_id", "stored", 50, False, "update"),
        (rec(63, "x", "f", version=3), "applied", "update", "stored", 50, False, "update"),
        # lower versions of the batch still meet their own version in the table
        (rec(64, "x", "f", version=2), "duplicate", "key_version", "in_batch", 50, False, None),
        (rec(65, "v", "g", version=2), "conflict", "same_version", "stored", 50, False, None),
        (rec(66, "w", "g", version=3), "applied", "update", "stored", 50, False, "update"),
        (rec(67, "v", "g", version=1), "superseded", "backwards", "in_batch", 66, False, None),
        # and so do those who lost to that one, the latest of its version
        (rec(68, "x", "f", version=2), "duplicate", "key_version", "in_batch", 50, False, None),
        (rec(69, "x", "f", version=2, message_id="m50"), "duplicate", "message_id", "stored", 50, False, None),
    ]
    assert judge_records(
        spark, [*UPSERT_BASE, DELETED], [record for record, *_ in table], upsert(dataset)
    ) == expected_rows(table)


def test_a_lower_version_behind_the_row_in_its_partition_went_backwards(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    base = [rec(50, key=key, version=5) for key in "abcd"] + [rec(55, "x", "e", version=1)]
    elsewhere = replace(rec(61, "y", "a", version=1), position=("c", "t", 1, 1, 61))
    table: list[Expected] = [
        (rec(10, "y", "b", version=1), "superseded", "stored", "stored", 50, False, None),  # before the row: late
        # two contents of a lower version are no conflict, and the greatest may come later
        (rec(62, "x", "c", version=3), "superseded", "backwards", "stored", 50, False, None),
        (rec(63, "y", "c", version=3), "superseded", "backwards", "stored", 50, False, None),
        (rec(64, "x", "d", version=3), "superseded", "backwards", "stored", 50, False, None),
        (rec(65, "y", "d", version=9), "applied", "update", "stored", 50, False, "update"),
        # within the batch, too, whatever the table has of that version
        (rec(70, "z", "e", version=2), "applied", "update", "stored", 55, False, "update"),
        (rec(71, "w", "e", version=1), "superseded", "backwards", "in_batch", 70, False, None),
        (rec(72, "x", "e", version=1), "duplicate", "key_version", "stored", 55, False, None),
    ]
    apart: list[Expected] = [(elsewhere, "superseded", "stored", "stored", 50, False, None)]
    for rows in (table, apart):
        assert judge_records(spark, base, [record for record, *_ in rows], upsert(dataset)) == expected_rows(rows)


@pytest.mark.parametrize("chained", [False, True])
@pytest.mark.parametrize("tie", ["conflict", "last", "first"])
def test_a_record_that_lost_to_its_own_version_names_the_row_that_beats_both(
    spark: SparkSession, dataset: MakeDataset, tie: str, chained: bool
) -> None:
    first, winner, loser = (50, 60, 61) if tie == "first" else (70, 61, 60)
    base = [rec(first, key=key, version=2) for key in "abcd"]
    differs = {"conflict": "conflict", "last": "superseded", "first": "superseded"}[tie]
    table: list[Expected] = [
        (rec(winner, "x", "a", version=2), "duplicate", "key_version", "stored", first, False, None),
        (rec(loser, "x", "a", version=2), "duplicate", "key_version", "in_batch", first, False, None),
        (rec(winner, "y", "b", version=2), differs, "same_version", "stored", first, False, None),
        (rec(loser, "y", "b", version=2), differs, "same_version", "stored", first, False, None),
        (rec(winner, "y", "c", version=2), differs, "same_version", "stored", first, False, None),
        (rec(loser, "x", "c", version=2), "duplicate", "key_version", "stored", first, False, None),
        (rec(winner, "y", "d", version=2), differs, "same_version", "stored", first, False, None),
        (rec(winner, "y", "d", version=2), "duplicate", "position", "in_batch", first, False, None),
    ]
    batch = [record for record, *_ in table]
    if chained:  # the base's rows are held, or heads: it does not matter
        made = dataset(**CHAINS[f"contiguous, tie {tie}"])
        rows = judge_batch(_identified(spark, batch, made, ()), made, within=(CASE,))
        base_rows = state(spark, [_row(record) | {S.STATE: "held", C.PRODUCER: None} for record in base], made)
        outcome = _judged(rows, base_rows, made)
    else:
        outcome = judge_records(spark, base, batch, upsert(dataset, tie))
    assert sorted(outcome, key=str) == sorted(expected_rows(table), key=str)


def tied(tie: str) -> list[Expected]:
    """Records of the stored version, earlier and later than it, under each tie."""
    later_wins = tie != "first"
    verdicts = {
        # tie: ((an earlier one of other content), (a later one))
        "conflict": (("conflict", "same_version"), ("conflict", "same_version")),
        "last": (("superseded", "same_version"), ("applied", "replace")),
        "first": (("applied", "replace"), ("superseded", "same_version")),
    }
    earlier, later = verdicts[tie]
    update = {True: "update", False: None}
    return [
        (rec(10, "x", "a", version=2), "duplicate", "key_version", "stored", 50, False, update[not later_wins]),
        (rec(11, "y", "b", version=2), *earlier, "stored", 50, not later_wins, update[not later_wins]),
        (rec(50, "x", "c", version=2), "duplicate", "position", "stored", 50, False, None),
        (rec(50, "y", "d", version=2), "conflict", "inconsistent_position", "stored", 50, False, None),
        (rec(51, "x", "e", version=2), "duplicate", "key_version", "stored", 50, False, update[later_wins]),
        (
            rec(52, "x", "f", version=2, message_id="m50"),
            "duplicate",
            "message_id",
            "stored",
            50,
            False,
            update[later_wins],
        ),
        (rec(53, "y", "g", version=2), *later, "stored", 50, later_wins, update[later_wins]),
    ]


def test_upsert_of_the_stored_version_follows_the_tie(spark: SparkSession, dataset: MakeDataset) -> None:
    for tie in ("conflict", "last", "first"):
        table = tied(tie)
        assert judge_records(
            spark, UPSERT_BASE, [record for record, *_ in table], upsert(dataset, tie)
        ) == expected_rows(table), tie


def test_an_inferred_position_never_says_that_it_has_two_contents(spark: SparkSession, dataset: MakeDataset) -> None:
    inexact = partial(dataset, source={"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}}})
    expected: list[Expected] = [(rec(50, "z"), "conflict", "same_identity", "stored", 50, False, None)]
    assert judge_records(spark, [rec(50)], [rec(50, "z")], append(inexact)) == expected_rows(expected)
    two: list[Expected] = [(rec(50, "z", version=1), "superseded", "same_version", "stored", 50, False, None)]
    assert judge_records(
        spark, [rec(50, version=1)], [rec(50, "z", version=1)], upsert(inexact, "last")
    ) == expected_rows(two)


def test_a_covered_position_is_a_stored_duplicate_of_itself(spark: SparkSession, dataset: MakeDataset) -> None:
    """Whatever the record would be by its identity; what cannot be read stays rejected."""
    base = [rec(50, key="a"), rec(51, key="b")]
    table: list[Expected] = [
        (rec(1, key="a"), "duplicate", "position", "stored", 1, False, None),
        (rec(3, key=None, rejected="undecodable"), "rejected", "undecodable", "in_batch", None, False, None),
        (rec(4, key=None, filtered=True), "duplicate", "position", "stored", 4, False, None),
        (rec(40, "x", "b"), "duplicate", "business_key", "stored", 51, False, "update"),
        (rec(60, "y", "a"), "duplicate", "position", "stored", 60, False, None),  # it had lost
        (rec(61, key="new"), "duplicate", "position", "stored", 61, False, None),  # its row was forgotten
    ]
    batch = [record for record, *_ in table]
    assert judge_records(spark, base, batch, append(dataset), covered=(1, 3, 4, 60, 61)) == expected_rows(table)


@pytest.mark.parametrize("mode", ["append", "newer", "contiguous"])
def test_another_content_at_a_covered_position_is_a_conflict_and_changes_nothing(
    spark: SparkSession, dataset: MakeDataset, mode: str
) -> None:
    """A record that would be a new row, that would take a row's place, that loses, and that is filtered."""
    made = {
        "append": append(dataset),
        "newer": upsert(dataset),
        "contiguous": dataset(**CHAINS["contiguous, tie conflict"]),
    }[mode]
    numbers = {} if mode == "append" else {"version": 2}
    base = [rec(50, key="a", **numbers), rec(51, key="b", **numbers)]
    log = [rec(3, "y", "new", **numbers), rec(10, "y", "a", **numbers), rec(60, "y", "b", **numbers)]
    log.append(rec(61, key=None, filtered=True, **numbers))
    table: list[Expected] = [
        (record, "conflict", "inconsistent_position", "stored", record.position[-1], False, None) for record in log
    ]
    base_rows = state(spark, [_row(record) | {C.PRODUCER: None} for record in base], made)
    rows = judge_batch(_identified(spark, log, made, (3, 10, 60, 61)), made, within=(CASE,))
    assert _judged(rows.withColumn(U.DIFFERS, F.lit(True)), base_rows, made) == expected_rows(table)


def test_a_content_that_was_beaten_at_its_position_names_the_winner_in_every_look_up(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    """Whatever the table has, and though the position is covered: it meets no key."""
    base = [rec(50, key="a", version=1), rec(51, key="b", version=1)]
    batch = [rec(60, "x", "a", version=1), rec(60, "y", "b", version=2), rec(61, "y", "a", version=2)]
    for made in (append(dataset), upsert(dataset), dataset(**CHAINS["contiguous, tie conflict"])):
        rows = judge_batch(fold_positions(_identified(spark, batch, made, (60,))), made, within=(CASE,))
        base_rows = state(spark, [_row(record) | {C.PRODUCER: None} for record in base], made)
        outcome = _judged(rows, base_rows, made)
        beaten: list[Expected] = [(batch[1], "conflict", "inconsistent_position", "in_batch", 60, False, None)]
        assert [row for row in outcome if row[:2] == (60, "y")] == expected_rows(beaten), made.apply


def _row(record: Decoded) -> dict[str, Any]:
    names = ("timestamp", "cluster", "topic", "incarnation", "partition", "offset")
    return {
        C.KEY: f"|{record.key}".encode(),
        C.ORDER: dict(zip(names, record.order, strict=True)),
        C.HASH: record.content.encode(),
        C.VERSION: record.version,
        C.MESSAGE_ID: record.message_id,
        C.BUSINESS_KEY: record.business_key,
        S.STATE: "deleted" if record.deleted else "live",
        C.DELETED: record.deleted,
        CONTENT: record.content,
    }


def test_only_a_large_table_is_narrowed_and_by_no_large_batch() -> None:
    assert worthwhile(LARGE, MOST)
    assert not worthwhile(LARGE - 1, MOST)
    assert not worthwhile(LARGE, MOST + 1)
