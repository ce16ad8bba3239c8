"""The gate asks uniqueness of the columns that are the key, not of a field that has the name of a part of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.report.ledger import rows_of
from onefold.tables import staging as C
from tests.support.pipeline import Sent, export, run

MakeDataset = Callable[..., Dataset]
FIELDS = {"id": "string", "m": "string", "at": "timestamp", "of": "struct<id: string>"}
APPEND: list[tuple[dict[str, Any], list[str]]] = [
    ({"message_id": "header.id"}, []),
    ({"business_key": ["key.id"]}, []),
    ({"business_key": ["header.id", "m"]}, ["m"]),
    ({"business_key": ["header.id", "id"]}, ["id"]),
    ({"business_key": ["id", "m"]}, ["id", "m"]),
    ({"business_key": ["lower(id)"]}, ["id"]),
    ({"business_key": ["of.id"]}, []),
    ({"producer": {"name": "header.id", "sequence": "header.m"}}, []),
    ({"business_key": ["header.m", "id"], "within": "day(at)"}, ["id", C.WITHIN]),
    ({"business_key": ["id"], "within": "day(at)"}, ["id", C.WITHIN]),
]


@pytest.mark.parametrize(("identity", "columns"), APPEND)
def test_the_parts_of_a_key_that_are_columns(
    dataset: MakeDataset, identity: dict[str, Any], columns: list[str]
) -> None:
    made = dataset(key={"format": "json"}, value={"fields": FIELDS}, identity=identity)
    assert made.row_key_columns == columns


def test_in_upsert_and_increment_every_part_is_a_column(dataset: MakeDataset) -> None:
    apply = {"mode": "upsert", "key": ["key.k", "of.id", "m"], "version": {"from": "offset"}}
    made = dataset(key={"format": "json"}, value={"fields": FIELDS}, identity={}, apply=apply)
    assert made.row_key_columns == ["k", "of_id", "m"]
    fields = {"sku": "string", "delta": "long"}
    apply = {"mode": "increment", "key": ["key.shop", "sku"], "add": {"stock": "delta"}}
    identity = {"message_id": "header.sku"}
    made = dataset(key={"format": "json"}, value={"fields": fields}, identity=identity, apply=apply)
    assert made.row_key_columns == ["shop", "sku"]


@pytest.mark.parametrize(
    ("identity", "field"), [({"message_id": "header.m"}, "m"), ({"business_key": ["key.id"]}, "id")]
)
def test_messages_that_differ_in_what_a_header_or_key_says_may_have_one_value(
    session: SparkSession, lake: Lake, dataset: MakeDataset, tmp_path: Path, identity: dict[str, Any], field: str
) -> None:
    """As in an outbox, whose header and value both have an `id`."""
    made = dataset("outbox", key={"format": "json"}, value={"fields": {field: "string"}}, identity=identity)
    sent = [Sent(0, n, 10 + n, f"k{n}", 1, f"m{n}", {field: "x"}) for n in range(2)]
    done = run(session, lake, made, export(tmp_path / "export", sent))
    assert done.red is None, done.red
    assert rows_of(lake, made) == [{field: "x"}, {field: "x"}]
