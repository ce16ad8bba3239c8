"""`mask: {column: hash}`: digests in place of values, wherever a value leaves the table for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from pydantic import ValidationError

from onefold.dataset import Dataset
from onefold.dataset.masks import HIDDEN, digest, masked, masked_json

MakeDataset = Callable[..., Dataset]
FIELDS = {"owner": "string", "home": "struct<city: string>", "at": "timestamp", "stock": "long"}


def made(dataset: MakeDataset, *mask: str, **more: Any) -> Dataset:
    version = {"from": "long(header.v)"}
    upsert = {"mode": "upsert", "key": ["key.id", "value.home.city"], "version": version}
    given = {"key": {"format": "json"}, "value": {"fields": FIELDS}, "apply": upsert} | more
    return dataset("things", mask=dict.fromkeys(mask, "hash"), **given)


def test_a_digest_is_that_of_the_value_as_text() -> None:
    assert digest("Ann") == f"sha256:{hashlib.sha256(b'Ann').hexdigest()[:12]}"
    assert digest(12) == digest("12")
    assert digest(Decimal("1.50")) == digest("1.50")
    assert digest(True) == digest("true")
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) != digest({"a": 2})


def test_only_masked_columns_are_masked_and_null_stays(dataset: MakeDataset) -> None:
    things = made(dataset, "owner")
    row = {"id": "a", "owner": "Ann", "at": None}
    assert masked(things, row) == row | {"owner": digest("Ann")}
    assert masked(things, {"owner": None}) == {"owner": None}
    assert masked_json(things, '{"owner":"Ann","stock":1.50}') == f'{{"owner": "{digest("Ann")}", "stock": "1.50"}}'
    assert masked_json(made(dataset), '{"owner":"Ann"}') == '{"owner":"Ann"}'


def test_what_is_made_of_a_masked_column_is_masked(dataset: MakeDataset) -> None:
    assert made(dataset, "owner").masked == {"owner"}
    assert made(dataset, "id").masked == {"id"}
    assert made(dataset, "home").masked == {"home", "home_city"}
    within = {"message_id": "header.m", "within": "day(at)"}
    assert made(dataset, "at", identity=within).masked == {"at", "_within"}
    add = {"mode": "increment", "key": ["owner"], "add": {"total": "stock"}}
    assert made(dataset, "stock", apply=add, identity={"message_id": "header.m"}).masked == {"stock", "total"}


def test_a_mask_is_no_part_of_the_meaning(dataset: MakeDataset) -> None:
    assert made(dataset, "owner").generation == made(dataset).generation


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ({"ownr": "hash"}, r"mask\.ownr: there is no such column \(there are id, home_city, owner, home, at, stock\)"),
        ({"owner": "drop"}, "'hash'"),
    ],
)
def test_a_mask_that_cannot_be_is_refused(dataset: MakeDataset, mask: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Dataset.model_validate(made(dataset).model_dump(by_alias=True, exclude_none=True) | {"mask": mask})


def test_a_producers_name_is_not_masked(dataset: MakeDataset) -> None:
    with pytest.raises(ValidationError, match=r"identity\.producer\.name reads a masked column"):
        made(dataset, "owner", identity={"producer": {"name": "owner", "sequence": "stock"}})


ROWS = pd.DataFrame({"owner": ["Ann", "Bob"], "stock": [7, 8]})


@pytest.mark.parametrize(
    ("type_", "kwargs", "observed", "detail"),
    [
        ("expect_column_values_to_be_in_set", {"column": "owner", "value_set": ["Bob"]}, "1 of 2", digest("Ann")),
        ("expect_column_values_to_be_in_set", {"column": "stock", "value_set": [8]}, "1 of 2", "7"),
        (
            "expect_column_values_to_be_in_set",
            {"column": "stock", "value_set": [8], "row_condition": "owner = 'Ann'"},
            "1 of 2",  # all rows that it is given meet the condition
            digest(7),
        ),
        ("expect_column_most_common_value_to_be_in_set", {"column": "owner", "value_set": ["C"]}, "sha256:", ""),
        ("expect_column_max_to_be_between", {"column": "stock", "max_value": 1}, "8", ""),
        ("expect_column_pair_values_to_be_equal", {"column_A": "owner", "column_B": "stock"}, "2 of 2", "sha256:"),
        ("expect_table_row_count_to_equal", {"value": 3}, "2", ""),
    ],
)
def test_a_check_tells_no_value_of_a_masked_column(
    type_: str, kwargs: dict[str, Any], observed: str, detail: str
) -> None:
    from onefold.quality.expectations import expect

    [outcome] = expect(ROWS, [(type_, kwargs)], {"owner"})
    assert outcome.status == "failed"
    assert outcome.observed.startswith(observed)
    assert outcome.detail.startswith(detail)
    assert ("Ann" in outcome.observed + outcome.detail, bool(outcome.detail)) == (False, bool(detail))


def test_an_error_of_a_check_of_a_masked_column_is_not_told() -> None:
    from onefold.quality.expectations import expect

    [hidden] = expect(ROWS, [("expect_column_max_to_be_between", {"column": "owner2", "max_value": 1})], {"owner2"})
    assert (hidden.status, hidden.detail) == ("errored", HIDDEN)


def test_s6_a_long_value_is_shown_by_its_beginning_its_length_and_a_digest(dataset: MakeDataset) -> None:
    long, other = "<" * 900_000, "<" * 899_999 + ">"
    row = {"id": long, "owner": other, "home": {"city": long}, "stock": 7, "at": None}
    plain = masked(made(dataset), row)
    assert plain["id"] == f"{'<' * 1_000}… (900,000 letters, {digest(long)})"
    assert plain["id"] != plain["owner"], "two long values that differ are shown as different"
    assert plain["home"].endswith(f"letters, {digest({'city': long})})")
    assert (plain["stock"], plain["at"]) == (7, None)
    assert masked(made(dataset, "owner"), row)["owner"] == digest(other), "the digest is of all of it"
    assert masked_json(made(dataset), json.dumps({"id": "a", "stock": 1.5})) == '{"id": "a", "stock": 1.5}'
    assert len(masked_json(made(dataset), json.dumps(row))) < 4_000


def test_s6_examples_of_a_check_are_cut() -> None:
    from onefold.quality.expectations import expect

    rows = pd.DataFrame({"owner": ["x" * 10_000, "y" * 10_000]})
    kwargs = {"column": "owner", "value_set": ["z"]}
    [outcome] = expect(rows, [("expect_column_values_to_be_in_set", kwargs)])
    assert outcome.status == "failed"
    assert len(outcome.detail) < 2_200
    assert "(10,000 letters, sha256:" in outcome.detail
