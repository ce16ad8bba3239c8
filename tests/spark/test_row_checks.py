"""Great Expectations is asked of every key what columns say of it, and of its digest where they do not say all."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from itertools import chain
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.quality.expectations import FEW, check_rows
from onefold.vocabulary import RowState
from tests.support.pipeline import accounts, entries

MakeDataset = Callable[..., Dataset]
FIELDS = {"id": "string", "part": "int", "at": "timestamp"}
WITHIN = {"business_key": ["id"], "within": "day(at)"}


def by(**identity: Any) -> Callable[[MakeDataset], Dataset]:
    """Append by an identity."""
    return lambda dataset: dataset("things", value={"fields": FIELDS}, identity=identity)


@pytest.mark.by_day(
    "upsert", "within", "header", "position", why="the others are named by the same function from other columns"
)
@pytest.mark.parametrize(
    ("made", "columns", "row", "unique", "others"),
    [
        (accounts, "id string", ("a",), "id unique", ["id not null"]),
        (entries, "id string", ("a",), "id unique", ["id not null"]),
        (
            by(business_key=["id", "part"]),
            "id string, part int",
            ("a", 1),
            "(id, part) unique",
            ["id not null", "part not null"],
        ),
        (
            by(**WITHIN),
            "id string, _within date",
            ("a", date(2026, 3, 1)),
            "(id, _within) unique",
            ["id not null", "_within not null"],
        ),
        (by(business_key=["lower(id)"]), "id string", ("a",), "key digest unique", ["id unique", "id not null"]),
        (by(message_id="header.m"), "", (), "key digest unique", []),
        (by(business_key=["id", "header.m"]), "id string", ("a",), "key digest unique", ["id not null"]),
        (by(), "", (), "key digest unique", []),
    ],
    ids=["upsert", "append", "compound", "within", "function", "header", "column and header", "position"],
)
def test_L3_a_duplicate_key_is_found(
    spark: SparkSession,
    dataset: MakeDataset,
    made: Callable[[MakeDataset], Dataset],
    columns: str,
    row: tuple[Any, ...],
    unique: str,
    others: list[str],
) -> None:
    shape = ", ".join(filter(None, ["_key binary, _state string", columns]))

    def checks(*rows: tuple[Any, ...]) -> dict[str, tuple[str, str, bool]]:
        frame = spark.createDataFrame(rows, shape)
        few, many = (
            list(chain.from_iterable(check_rows(made(dataset), frame, count).values())) for count in (2, FEW + 1)
        )
        assert few == many, "with Spark and without it"
        return {check.title: (check.status, check.law, check.waivable) for check in few}

    live, deleted = (b"1", RowState.LIVE, *row), (b"1", RowState.DELETED, *row)
    fine = {name: ("passed", "L3", False) if "unique" in name else ("passed", "", True) for name in others}
    assert checks(live, deleted) == {unique: ("passed", "L3", False)} | fine, "only live rows are readers'"
    again = (b"1", RowState.LIVE, "A") if "id unique" in others else live
    assert checks(live, again) == {unique: ("failed", "L3", False)} | fine
