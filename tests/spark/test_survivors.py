"""What a batch alone says of each record: whole verdict tables of literal rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.positions import fold_positions, has_inconsistent_positions
from onefold.dedup.survivors import choose_survivors, judge_batch
from onefold.records import envelope as E
from onefold.tables import staging as C
from tests.support.fold import CASE, CONTENT, identified, order_of
from tests.support.generate import KINDS
from tests.support.literal import PRODUCER, append, rec, upsert
from tests.support.oracle import Decoded

MakeDataset = Callable[..., Dataset]
Expected = tuple[Decoded, str | None, str | None, int | None]
"""A record, its verdict and reason, and the offset of the record that it lost to."""


def judged(session: SparkSession, table: list[Expected], made: Dataset, *, folded: bool = False) -> list[Any]:
    """(offset, content, verdict, reason, winner's offset, survivor) of each record."""
    rows = identified(session, [("", record, False) for record, *_ in table], made).orderBy(F.xxhash64(C.ORDER))
    rows = judge_batch(fold_positions(rows) if folded else rows, made, within=(CASE,))
    found = rows.select(f"{C.ORDER}.offset", CONTENT, C.VERDICT, C.REASON, f"{C.WINNER}.offset", C.SURVIVOR)
    return sorted((tuple(row) for row in found.collect()), key=repr)


def expected_rows(table: list[Expected]) -> list[Any]:
    """The same of the table itself."""
    return sorted(
        (
            (record.position[-1], record.content, verdict, reason, winner, verdict is None)
            for record, verdict, reason, winner in table
        ),
        key=repr,
    )


def test_append_keeps_the_smallest_and_names_the_narrowest_repetition(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    made = append(dataset)
    table: list[Expected] = [
        # the earliest timestamp wins, whatever its offset
        (rec(9, key="a", at=1, message_id="m1"), None, None, None),
        (rec(1, key="a", at=2, message_id="m2"), "duplicate", "business_key", 9),
        (rec(2, key="a", at=3, message_id="m1"), "duplicate", "message_id", 9),
        (rec(3, key="a", at=3, message_id="m2"), "duplicate", "message_id", 9),  # first of m2 is itself a loser
        (rec(3, key="a", at=3, message_id="m2"), "duplicate", "position", 9),
        (rec(4, key="a", at=4, message_id=None), "duplicate", "business_key", 9),
        (rec(5, key="a", at=5, message_id=None), "duplicate", "business_key", 9),  # nulls never match
        (rec(6, "y", key="a", at=6, message_id="m1"), "conflict", "same_identity", 9),
        (rec(6, "y", key="a", at=6, message_id="m1"), "duplicate", "position", 9),  # read twice, in conflict once
        # equal timestamps: the smaller offset wins
        (rec(21, key="b"), "duplicate", "business_key", 20),
        (rec(20, key="b"), None, None, None),
        # who leaves, whatever the others are
        (rec(30, key=None, rejected="undecodable"), "rejected", "undecodable", None),
        (rec(31, key=None, rejected="null_identity"), "rejected", "null_identity", None),
        (rec(32, key=None, filtered=True), "filtered", "filter", None),
    ]
    assert judged(spark, table, made) == expected_rows(table)


def test_upsert_keeps_the_newest_version_and_of_it_the_last(spark: SparkSession, dataset: MakeDataset) -> None:
    made = upsert(dataset)
    table: list[Expected] = [
        (rec(1, "x", "a", version=1), "duplicate", "key_version", 2),
        (rec(2, "x", "a", version=1), "superseded", "in_batch", 6),  # wins version 1, not the key
        (rec(3, "y", "a", version=2), "conflict", "same_version", 4),
        (rec(3, "y", "a", version=2), "duplicate", "position", 4),  # read twice, in conflict once
        (rec(4, "z", "a", version=2), "superseded", "in_batch", 6),
        (rec(5, "w", "a", version=3, message_id="m"), "duplicate", "message_id", 6),
        (rec(6, "w", "a", version=3, message_id="m"), None, None, None),
        (rec(10, "x", "b", version=1, message_id="n"), "duplicate", "message_id", 11),  # a retry under another version
        (rec(11, "x", "b", version=2, message_id="n"), None, None, None),
        (rec(12, "y", "b", version=1, message_id="n"), "superseded", "backwards", 11),  # the id again, other content
        # the id of another version's record, with other content, is no reason: its own version did not have it before
        (rec(15, "w", "c", version=2, message_id="p"), None, None, None),
        (rec(16, "x", "c", version=1, message_id="p"), "duplicate", "key_version", 17),
        (rec(17, "x", "c", version=1, message_id="q"), "superseded", "backwards", 15),
        (rec(20, "deleted", "d", version=2, deleted=True), None, None, None),
        (rec(21, "x", "d", version=1), "superseded", "backwards", 20),
        (rec(30, key=None, rejected="null_version"), "rejected", "null_version", None),
    ]
    assert judged(spark, table, made) == expected_rows(table)


def at(record: Decoded, partition: int = 0, incarnation: int = 1) -> Decoded:
    """A record in another partition, or of another incarnation of the topic."""
    return replace(record, position=("c", "t", incarnation, partition, record.position[-1]))


@pytest.mark.parametrize("tie", ["conflict", "last", "first"])
def test_a_lower_version_that_lies_later_in_its_partition_went_backwards(
    spark: SparkSession, dataset: MakeDataset, tie: str
) -> None:
    table: list[Expected] = [
        # a counter that began again: of version 1 there are two contents, and no conflict
        (rec(1, "x", "a", version=1), "superseded", "in_batch", 2),
        (rec(2, "y", "a", version=2), None, None, None),
        (rec(3, "z", "a", version=1), "superseded", "backwards", 2),
        (rec(4, "w", "a", version=1), "superseded", "backwards", 2),
        (rec(5, "x", "a", version=1), "duplicate", "key_version", 1),  # sent again, as it was
        # and that passed its old end: it went backwards all the same
        (rec(11, "x", "b", version=5), "superseded", "in_batch", 13),
        (rec(12, "y", "b", version=1), "superseded", "backwards", 11),
        (rec(13, "z", "b", version=6), None, None, None),
        # the clock decides nothing, the partition's order does
        (rec(21, "x", "c", version=2, at=9), None, None, None),
        (rec(22, "y", "c", version=1, at=1), "superseded", "backwards", 21),
        (rec(31, "x", "d", version=1, at=9), "superseded", "in_batch", 32),
        (rec(32, "y", "d", version=2, at=1), None, None, None),
        # of two partitions nothing is known
        (rec(41, "x", "e", version=2), None, None, None),
        (at(rec(42, "y", "e", version=1), partition=1), "superseded", "in_batch", 41),
        (at(rec(43, "y", "f", version=3), partition=1), None, None, None),
        (rec(44, "x", "f", version=2), "superseded", "in_batch", 43),
        (rec(45, "y", "f", version=1), "superseded", "backwards", 44),
        # a topic that was created again goes on
        (rec(59, "x", "g", version=2), None, None, None),
        (at(rec(50, "y", "g", version=1), incarnation=2), "superseded", "backwards", 59),
    ]
    assert judged(spark, table, upsert(dataset, tie)) == expected_rows(table)


def test_an_inferred_position_never_says_that_a_version_went_backwards(
    spark: SparkSession, dataset: MakeDataset
) -> None:
    inexact = partial(dataset, source={"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}}})
    table: list[Expected] = [
        (rec(1, "y", version=2), None, None, None),
        (rec(2, "x", version=1), "superseded", "in_batch", 1),
    ]
    assert judged(spark, table, upsert(inexact)) == expected_rows(table)


def test_upsert_tie_last_supersedes_and_tie_first_keeps_the_first(spark: SparkSession, dataset: MakeDataset) -> None:
    last: list[Expected] = [
        (rec(1, "x", version=1), "superseded", "same_version", 3),
        (rec(2, "z", version=1), "duplicate", "key_version", 3),
        (rec(3, "z", version=1), None, None, None),
    ]
    first: list[Expected] = [
        (rec(1, "x", version=1), None, None, None),
        (rec(2, "z", version=1), "superseded", "same_version", 1),
        (rec(3, "z", version=1), "superseded", "same_version", 1),
        (rec(4, "x", version=1), "duplicate", "key_version", 1),
    ]
    assert judged(spark, last, upsert(dataset, "last")) == expected_rows(last)
    assert judged(spark, first, upsert(dataset, "first")) == expected_rows(first)


def test_the_smaller_hash_of_two_contents_at_one_position_is_used(spark: SparkSession, dataset: MakeDataset) -> None:
    made = append(dataset)
    table: list[Expected] = [
        (rec(1, "b", "k"), "conflict", "inconsistent_position", 1),
        (rec(1, "a", "l"), None, None, None),
        (rec(1, "a", "l"), "duplicate", "position", 1),
        (rec(2, "b", "k"), None, None, None),
        (rec(3, "c", None, rejected="undecodable"), "rejected", "undecodable", None),
        (rec(3, "d", "m"), None, None, None),
        # the conflict names the winner at its position, also where that lost to another record
        (rec(4, "a", "n"), None, None, None),
        (rec(5, "a", "n", message_id="1"), "duplicate", "business_key", 4),
        (rec(5, "b", "o", message_id="1"), "conflict", "inconsistent_position", 5),
    ]
    assert judged(spark, table, made, folded=True) == expected_rows(table)


def test_a_beaten_content_names_the_whole_order_of_the_winner(spark: SparkSession, dataset: MakeDataset) -> None:
    """Two exports may give one position two timestamps."""
    made = upsert(dataset)
    records = [rec(1, "b", "k", version=1, at=100), rec(1, "a", "l", version=1, at=200), rec(2, "c", "k", version=1)]
    rows = judge_batch(
        fold_positions(identified(spark, [("", record, False) for record in records], made)), made, (CASE,)
    )
    found = {row[CONTENT]: (row[C.REASON], order_of(row, C.WINNER)) for row in rows.toArrow().to_pylist()}
    assert found == {"b": ("inconsistent_position", records[1].order), "a": (None, None), "c": (None, None)}


def test_inconsistent_positions_are_found_only_where_contents_differ(spark: SparkSession, dataset: MakeDataset) -> None:
    made = append(dataset)

    def inconsistent(*records: Decoded) -> bool:
        rows = identified(spark, [("", record, False) for record in records], made)
        return has_inconsistent_positions(rows.withColumn(C.RAW_VALUE, F.when(F.col(C.KEY).isNull(), F.col(C.HASH))))

    assert not inconsistent(rec(1, "a"), rec(1, "a"), rec(2, "b"))
    assert inconsistent(rec(1, "a"), rec(1, "b"))
    assert inconsistent(rec(1, "a"), rec(1, "a", "l"))
    assert inconsistent(rec(1, "a", None, rejected="undecodable"), rec(1, "b", None, rejected="undecodable"))
    assert inconsistent(rec(1, "a"), rec(1, "b", at=101))


def test_an_inferred_position_never_says_that_it_has_two_contents(spark: SparkSession, dataset: MakeDataset) -> None:
    inexact = {"exports": {"path": "e", "layout": "connect", "origin": {"cluster": "c"}}}
    entries = append(partial(dataset, source=inexact))
    accounts = upsert(partial(dataset, source=inexact), "last")
    of_append: list[Expected] = [(rec(1, "a"), None, None, None), (rec(1, "b"), "conflict", "same_identity", 1)]
    of_upsert: list[Expected] = [
        (rec(1, "a", version=1), None, None, None),
        (rec(1, "b", version=1), "superseded", "same_version", 1),
    ]
    assert judged(spark, of_append, entries) == expected_rows(of_append)
    assert judged(spark, of_upsert, accounts) == expected_rows(of_upsert)


def test_slots_do_not_change_a_verdict(session: SparkSession, dataset: MakeDataset) -> None:
    made = append(dataset)
    records = [rec(n, "xy"[n % 7 == 0], f"k{n % 5}", message_id=f"m{n % 3}") for n in range(60)]
    records += [rec(n, key=None, rejected="undecodable") for n in range(60, 70)]
    rows = identified(session, [("", record, False) for record in records], made).withColumn(
        "_line", F.lit(None).cast("int")
    )
    columns = (f"{C.ORDER}.offset", C.SURVIVOR, C.VERDICT, C.REASON, C.WINNER)
    expected = sorted(judge_batch(rows, made, within=(CASE,)).select(*columns).collect(), key=repr)
    for slots in (1, 3):
        assert sorted(choose_survivors(rows, made, slots).select(*columns).collect(), key=repr) == expected


@pytest.mark.parametrize("kind", ["append by business_key", "upsert, tie conflict", "upsert by a version of the value"])
def test_L8_every_identity_level_is_judged_behind_the_one_exchange_by_one_sort_each(
    session: SparkSession, dataset: MakeDataset, kind: str
) -> None:
    made = dataset(**KINDS[kind]) if kind in KINDS else upsert(dataset, producer=PRODUCER)
    assert set(made.narrow) >= {"producer", "message_id"}
    rows = identified(session, [("", rec(1, version=1), False)], made).withColumn(E.LINE, F.lit(None).cast("int"))
    plan = choose_survivors(rows, made)._jdf.queryExecution().executedPlan().toString()
    assert plan.count("Exchange shufflepartitionidpassthrough") == plan.count("Exchange") == 1, plan
    in_log_order = 1 if made.apply.version else 0  # by it versions that go backwards are found
    deliveries = (
        2 if kind == "upsert, tie conflict" else 0
    )  # its version is in a header: whose copy, and what was between
    assert made.versions_by_delivery is bool(deliveries)
    assert plan.count("Sort [") == 1 + len(made.narrow) + in_log_order + deliveries, plan
