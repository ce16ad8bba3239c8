"""`mask: {column: hash | hmac | hide}`: no values, wherever a value leaves the table for people."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from pydantic import SecretStr, ValidationError

from onefold.dataset import Dataset
from onefold.dataset.advice import notes_of
from onefold.dataset.masks import (
    HIDDEN,
    NOT_SHOWN,
    Mask,
    Masks,
    check_mask_key,
    digest,
    masked,
    masked_json,
    masked_key_digest,
    masked_text,
)
from onefold.dedup.documents import Reused
from onefold.errors import UsageError
from onefold.generation import settle
from onefold.lake import Lake
from onefold.landing.plan import ObjectsPlan
from onefold.operations.run import run_batch

MakeDataset = Callable[..., Dataset]
FIELDS = {"owner": "string", "home": "struct<city: string>", "at": "timestamp", "stock": "long"}


def masking(dataset: MakeDataset, mask: dict[str, str], **more: Any) -> Dataset:
    version = {"from": "long(header.v)"}
    upsert = {"mode": "upsert", "key": ["key.id", "value.home.city"], "version": version}
    given = {"key": {"format": "json"}, "value": {"fields": FIELDS}, "apply": upsert} | more
    return dataset("things", mask=mask, **given)


def make_dataset(dataset: MakeDataset, *mask: str, **more: Any) -> Dataset:
    return masking(dataset, dict.fromkeys(mask, "hash"), **more)


def test_a_digest_is_that_of_the_value_as_text() -> None:
    assert digest("Ann") == f"sha256:{hashlib.sha256(b'Ann').hexdigest()[:12]}"
    assert digest(12) == digest("12")
    assert digest(Decimal("1.50")) == digest("1.50")
    assert digest(True) == digest("true")
    assert digest({"b": 1, "a": 2}) == digest({"a": 2, "b": 1}) != digest({"a": 2})


def test_only_masked_columns_are_masked_and_null_stays(dataset: MakeDataset) -> None:
    things = make_dataset(dataset, "owner")
    row = {"id": "a", "owner": "Ann", "at": None}
    assert masked(things, row) == row | {"owner": digest("Ann")}
    assert masked(things, {"owner": None}) == {"owner": None}
    assert masked_json(things, '{"owner":"Ann","stock":1.50}') == f'{{"owner": "{digest("Ann")}", "stock": "1.50"}}'
    assert masked_json(make_dataset(dataset), '{"owner":"Ann"}') == '{"owner":"Ann"}'


def test_s5_hmac_is_keyed_and_hide_shows_nothing(dataset: MakeDataset) -> None:
    mask = {"owner": "hmac", "id": "hide", "stock": "hash"}
    things = masking(dataset, mask).with_mask_key(b"sixteen letters!")
    keyed = hmac.new(b"sixteen letters!", b"Ann", hashlib.sha256).hexdigest()[:12]
    row = {"id": "a", "owner": "Ann", "stock": 7, "at": "2026-01-01"}
    shown = {"id": NOT_SHOWN, "owner": f"hmac:{keyed}", "stock": digest(7), "at": "2026-01-01"}
    assert masked(things, row) == shown
    assert masked(things, dict.fromkeys(row)) == dict.fromkeys(row), "NULL stays NULL"
    assert masked(things.with_mask_key(b"another key, too"), row)["owner"] not in (NOT_SHOWN, f"hmac:{keyed}")
    assert masked(masking(dataset, mask), row)["owner"] == NOT_SHOWN, "without a key nothing is shown"


def test_s5_hmac_without_its_key_is_refused_before_anything_runs(dataset: MakeDataset) -> None:
    things = masking(dataset, {"stock": "hash", "owner": "hmac"})
    with pytest.raises(UsageError, match=r"things: mask\.owner: hmac needs the setting mask_key"):
        check_mask_key(things)
    check_mask_key(things.with_mask_key(b"sixteen letters!"))
    check_mask_key(masking(dataset, {"owner": "hide"}))


def test_s5_no_batch_is_judged_without_the_key_of_hmac(lake: Lake, dataset: MakeDataset) -> None:
    things = masking(dataset, {"owner": "hmac"})
    plan = ObjectsPlan(source=things.source_id, place="exports", objects=[])
    with pytest.raises(UsageError, match=r"mask\.owner: hmac needs the setting mask_key"):
        run_batch(lake, settle(lake, things), plan, spark=None)  # type: ignore[arg-type] # no step is reached
    keyed = Lake(lake.settings.model_copy(update={"mask_key": SecretStr("sixteen letters!")}))
    check_mask_key(settle(keyed, things))


def test_s5_it_is_said_plainly_what_hash_does_not_protect(dataset: MakeDataset) -> None:
    masks = {"owner": "hash", "id": "hide", "stock": "hash"}
    [note] = [note for note in notes_of(masking(dataset, masks)) if note.startswith("mask: ")]
    assert note.startswith("mask: hash (owner, stock) protects no value that can be guessed")
    assert not [note for note in notes_of(masking(dataset, {"id": "hide"})) if note.startswith("mask: ")]


def test_s5_what_two_columns_make_has_the_stricter_mask(dataset: MakeDataset) -> None:
    named = {"message_id": "owner", "business_key": ["owner", "stock"]}
    append = {"apply": {"mode": "append"}, "identity": named}
    things = masking(dataset, {"owner": "hide", "stock": "hash"}, **append)
    assert masked_text(things, "Ann", *things.level_expressions("business_key")) == NOT_SHOWN
    reused = Reused(level="message_id", identity="Ann", records=2, first="t-0@1", last="t-0@2")
    assert reused.shown(things).identity == NOT_SHOWN
    assert reused.shown(masking(dataset, {"owner": "hash"}, **append)).identity == digest("Ann")


@pytest.mark.parametrize(("mask", "shown"), [("hash", "00ff"), ("hide", NOT_SHOWN), ("hmac", NOT_SHOWN)])
def test_s5_the_digest_of_a_key_confirms_no_guess(dataset: MakeDataset, mask: str, shown: str) -> None:
    assert masked_key_digest(masking(dataset, {"id": mask}), b"\x00\xff") == shown
    assert masked_key_digest(masking(dataset, {"owner": mask}), b"\x00\xff") == "00ff"
    keyed = masking(dataset, {"id": mask}).with_mask_key(b"sixteen letters!")
    assert masked_key_digest(keyed, b"\x00\xff").startswith("hmac:" if mask == "hmac" else shown)


def test_what_is_made_of_a_masked_column_is_masked(dataset: MakeDataset) -> None:
    assert make_dataset(dataset, "owner").masked == {"owner": "hash"}
    assert make_dataset(dataset, "id").masked == {"id": "hash"}
    assert make_dataset(dataset, "home").masked == {"home": "hash", "home_city": "hash"}
    within = {"message_id": "header.m", "within": "day(at)"}
    assert make_dataset(dataset, "at", identity=within).masked == {"at": "hash", "_within": "hash"}
    add = {"mode": "increment", "key": ["owner"], "add": {"total": "stock"}}
    summed = {"apply": add, "identity": {"message_id": "header.m"}}
    assert make_dataset(dataset, "stock", **summed).masked == {"stock": "hash", "total": "hash"}


def test_s5_what_shows_the_same_values_under_another_name_is_masked(dataset: MakeDataset) -> None:
    assert masking(dataset, {"home_city": "hide"}).masked == {"home_city": "hide", "home": "hide"}
    both = {"home_city": "hash", "home": "hmac"}
    assert masking(dataset, both).masked == {"home_city": "hmac", "home": "hmac"}
    add = {"mode": "increment", "key": ["owner"], "add": {"total": "stock", "all": "stock"}}
    summed = masking(dataset, {"total": "hide"}, apply=add, identity={"message_id": "header.m"})
    assert summed.masked == {"total": "hide", "stock": "hide", "all": "hide"}


def test_s5_fields_that_are_read_from_one_place_are_masked_together(dataset: MakeDataset) -> None:
    person = {"type": "struct<mail: string, phone: string>", "from": "person"}
    fields = {
        "person": person,
        "mail": {"type": "string", "from": "person.mail"},
        "phone": {"type": "string", "from": "person.phone"},
        "copy": {"type": "string", "from": "person.mail"},
        "id": "string",
    }
    append = {"value": {"fields": fields}, "apply": {"mode": "append"}, "identity": {"message_id": "header.m"}}
    found = masking(dataset, {"mail": "hide"}, **append).masked
    assert found == {"mail": "hide", "copy": "hide", "person": "hide"}
    assert masking(dataset, {"person": "hide"}, **append).masked == {**found, "phone": "hide"}


def test_a_mask_is_no_part_of_the_meaning(dataset: MakeDataset) -> None:
    assert make_dataset(dataset, "owner").generation == make_dataset(dataset).generation


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        ({"ownr": "hash"}, r"mask\.ownr: there is no such column \(there are id, home_city, owner, home, at, stock\)"),
        ({"owner": "drop"}, "'hash', 'hmac' or 'hide'"),
        ({"OWNER": "hash"}, r"mask\.OWNER: there is no such column"),
    ],
)
def test_a_mask_that_cannot_be_is_refused(dataset: MakeDataset, mask: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Dataset.model_validate(make_dataset(dataset).model_dump(by_alias=True, exclude_none=True) | {"mask": mask})


def test_a_producers_name_is_not_masked(dataset: MakeDataset) -> None:
    with pytest.raises(ValidationError, match=r"identity\.producer\.name reads a masked column"):
        make_dataset(dataset, "owner", identity={"producer": {"name": "owner", "sequence": "stock"}})


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
        (
            "expect_column_values_to_be_in_set",
            {"column": "stock", "value_set": [8], "row_condition": "value.owner = 'Ann'"},
            "1 of 2",
            digest(7),
        ),
        ("expect_column_max_to_be_between", {"column": "stock", "max_value": 1}, "8", ""),
        ("expect_column_pair_values_to_be_equal", {"column_A": "owner", "column_B": "stock"}, "2 of 2", "sha256:"),
        ("expect_table_row_count_to_equal", {"value": 3}, "2", ""),
    ],
)
def test_a_check_tells_no_value_of_a_masked_column(
    type_: str, kwargs: dict[str, Any], observed: str, detail: str
) -> None:
    from onefold.quality.expectations import expect

    [outcome] = expect(ROWS, [(type_, kwargs)], Masks({"owner": Mask.HASH}))
    assert outcome.status == "failed"
    assert outcome.observed.startswith(observed)
    assert outcome.detail.startswith(detail)
    assert ("Ann" in outcome.observed + outcome.detail, bool(outcome.detail)) == (False, bool(detail))


def test_an_error_of_a_check_of_a_masked_column_is_not_shown() -> None:
    from onefold.quality.expectations import expect

    wanted = [("expect_column_max_to_be_between", {"column": "owner2", "max_value": 1})]
    [hidden] = expect(ROWS, wanted, Masks({"owner2": Mask.HASH}))
    assert (hidden.status, hidden.detail) == ("errored", HIDDEN)


def test_s6_a_long_value_is_shown_by_its_beginning_its_length_and_a_digest(dataset: MakeDataset) -> None:
    long, other = "<" * 900_000, "<" * 899_999 + ">"
    row = {"id": long, "owner": other, "home": {"city": long}, "stock": 7, "at": None}
    plain = masked(make_dataset(dataset), row)
    assert plain["id"] == f"{'<' * 1_000}… (900,000 letters, {digest(long)})"
    assert plain["id"] != plain["owner"], "two long values that differ are shown as different"
    assert plain["home"].endswith(f"letters, {digest({'city': long})})")
    assert (plain["stock"], plain["at"]) == (7, None)
    assert masked(make_dataset(dataset, "owner"), row)["owner"] == digest(other), "the digest is of all of it"
    assert masked_json(make_dataset(dataset), json.dumps({"id": "a", "stock": 1.5})) == '{"id": "a", "stock": 1.5}'
    assert len(masked_json(make_dataset(dataset), json.dumps(row))) < 4_000


def test_s6_the_values_of_a_long_row_are_cut_shorter(dataset: MakeDataset) -> None:
    names = [f"c{number}" for number in range(1_000)]
    shown = masked(make_dataset(dataset), dict.fromkeys(names, "x" * 2_000) | {"short": "y" * 60, "n": 7})
    assert len(json.dumps(shown)) < 90_000
    assert shown["c0"].startswith("x" * 1_000 + "… (2,000 letters, sha256:")
    assert shown["c999"] == f"… (2,000 letters, {digest('x' * 2_000)})"
    assert (shown["short"], shown["n"]) == ("y" * 60, 7)


def test_s6_examples_of_a_check_are_cut() -> None:
    from onefold.quality.expectations import expect

    rows = pd.DataFrame({"owner": ["x" * 10_000, "y" * 10_000]})
    kwargs = {"column": "owner", "value_set": ["z"]}
    [outcome] = expect(rows, [("expect_column_values_to_be_in_set", kwargs)])
    assert outcome.status == "failed"
    assert len(outcome.detail) < 2_200
    assert "(10,000 letters, sha256:" in outcome.detail
