"""What the gate finds wrong with the rows of a key, on rows that are made by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions.accepted_gaps import Link
from onefold.folding.strategy import NULLS, REGRESSIONS, REPEATED, UNAPPLIED, folding_of
from onefold.tables import staging as C
from tests.support.pipeline import accounts, chained, entries

AT = "struct<offset: bigint>"
OF_ROWS = (
    f"_key binary, _version bigint, _order {AT}, _state string, _base_order {AT}, _base_version bigint, "
    f"_new_order {AT}, _new_lowers boolean"
)
RIGHT = (False, 0, 0, 0)
REPEATS, IS_NULL, WENT_BACK, NOT_AS_MEANT = (True, 0, 0, 0), (False, 1, 0, 0), (False, 0, 1, 0), (False, 0, 0, 1)
"""Whether a key is repeated; how many of its rows have a null, went back, and are not as they were meant."""


def judged(
    session: SparkSession, made: Dataset, rows: Sequence[tuple[Any, ...]], links: Sequence[Link] = ()
) -> dict[str, tuple[bool, int, int, int]]:
    """What is wrong with each key of rows: (key, version, offset, state, base's offset, base's version, meant)."""
    placed = [
        (key.encode(), version, (at,), state, base if base is None else (base,), before, (meant,), False)
        for key, version, at, state, base, before, meant in rows
    ]
    changed = session.createDataFrame(placed, OF_ROWS)
    found = folding_of(made).faults_by_key(changed, F.col(C.VERSION).isNull(), links).collect()
    return {row[C.KEY].decode(): (row[REPEATED], row[NULLS], row[REGRESSIONS], row[UNAPPLIED]) for row in found}


def test_L4_a_row_of_a_newer_version_is_not_repeated_does_not_go_back_and_is_as_it_was_meant(
    session: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    rows = [
        ("updated", 2, 2, "live", 1, 1, 2),
        ("inserted", 1, 1, "live", None, None, 1),
        ("twice", 2, 2, "live", 1, 1, 2),
        ("twice", 2, 2, "live", 1, 1, 2),
        ("an older version", 1, 3, "live", 2, 2, 3),
        ("an earlier order", 2, 1, "live", 2, 2, 1),
        ("another record", 2, 2, "live", 1, 1, 3),
        ("no version", None, 2, "live", None, None, 2),
    ]

    assert judged(session, accounts(dataset), rows) == {
        "updated": RIGHT,
        "inserted": RIGHT,
        "twice": REPEATS,
        "an older version": WENT_BACK,
        "an earlier order": WENT_BACK,
        "another record": NOT_AS_MEANT,
        "no version": IS_NULL,
    }


def test_L4_a_row_that_is_appended_is_never_of_a_later_record_than_before(
    session: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    rows = [
        ("inserted", 1, 1, "live", None, None, 1),
        ("earlier", 1, 1, "live", 2, None, 1),
        ("later", 1, 3, "live", 2, None, 3),
    ]

    assert judged(session, entries(dataset), rows) == {"inserted": RIGHT, "earlier": RIGHT, "later": WENT_BACK}


@pytest.mark.parametrize("links", [[], [Link(b"other", 3)], [Link(b"accepted", 3)]], ids=["none", "other", "accepted"])
def test_L4_of_a_chain_there_is_one_head_that_does_not_go_back_and_what_is_held_has_a_gap_below_it(
    session: SparkSession, dataset: Callable[..., Dataset], links: list[Link]
) -> None:
    rows = [
        (key, version, version, state, None, before, version)
        for key, version, state, before in (
            ("whole", 2, "live", 1),
            ("whole", 4, "held", 1),
            ("first", 1, "live", None),
            ("two heads", 1, "deleted", None),
            ("two heads", 2, "live", None),
            ("version twice", 1, "live", 1),
            ("version twice", 3, "held", 1),
            ("version twice", 3, "held", 1),
            ("older head", 1, "live", 2),
            ("no head", 3, "held", 2),
            ("no gap", 1, "live", 1),
            ("no gap", 2, "held", 1),
            ("nothing missing", 1, "held", None),
            ("accepted", 1, "live", 1),
            ("accepted", 3, "held", 1),
        )
    ]

    assert judged(session, chained(dataset), rows, links) == {
        "whole": RIGHT,
        "first": RIGHT,
        "two heads": REPEATS,
        "version twice": REPEATS,
        "older head": WENT_BACK,
        "no head": WENT_BACK,
        "no gap": NOT_AS_MEANT,
        "nothing missing": NOT_AS_MEANT,
        "accepted": NOT_AS_MEANT if Link(b"accepted", 3) in links else RIGHT,
    }


def test_L5_a_row_that_was_not_removed_does_not_make_up_for_one_that_is_missing(
    session: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    folding, meant, none = folding_of(accounts(dataset)), {"insert": 2, "remove": 1}, session.range(0)

    assert [folding.count_missing(none, none, meant, keys) for keys in (1, 2, 3)] == [1, 0, 1]
