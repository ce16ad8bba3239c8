"""Declared defaults: a field that a record does not have is its default, and an explicit null is null (L1)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import ValidationError
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.writer_schema import WriterSchema
from onefold.proof.decode import decode_again
from onefold.values.decode import REJECTED, decode
from tests.support.envelopes import envelope, record

FIELDS: dict[str, Any] = {
    "id": "string",
    "currency": {"type": "string", "default": "EUR"},
    "n": {"type": "long?", "default": -1},
    "at": {"type": "timestamp(millis)", "default": 0},
    "since": {"type": "timestamp", "default": "2026-01-01T00:00:00Z"},
    "day": {"type": "date", "default": "2026-01-01"},
    "price": {"type": "decimal(20,2)", "default": "123456789012345678.90"},
    "rate": {"type": "double", "default": 0.5},
    "paid": {"type": "boolean", "default": False},
    "city": {"type": "string", "from": "address.city", "default": "Bern"},
}
ALL = (
    "EUR", -1, datetime(1970, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC), date(2026, 1, 1),
    Decimal("123456789012345678.90"), 0.5, False, "Bern",
)  # fmt: skip


def fields_of(row: Any) -> Any:
    if row[REJECTED]:
        return row[REJECTED]["reason"]
    found = (row[name] for name in FIELDS if name != "id")
    return tuple(part.replace(tzinfo=UTC) if isinstance(part, datetime) else part for part in found)


def test_a_field_that_a_record_does_not_have_is_its_default(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    cases: dict[str, tuple[Any, Any]] = {
        "none": ({"id": "a"}, ALL),
        "one": ({"id": "a", "currency": "CHF", "address": {"city": "Rom"}}, ("CHF", *ALL[1:-1], "Rom")),
        "null": (dict.fromkeys(["currency", "n", "paid"]) | {"id": "a"}, (None, None, *ALL[2:7], None, ALL[8])),
        "another type": ({"id": "a", "n": "7"}, "wrong_type"),
        "no field that has none": ({}, "missing_field"),
        "no object": (7, "wrong_type"),
    }
    made = dataset(value={"fields": FIELDS})
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    given = envelope(spark, [record(case, json.dumps(value).encode()) for case, (value, _) in cases.items()])
    found = {row["case"]: fields_of(row) for row in decode(given, made).collect()}
    assert found == {case: expected for case, (_, expected) in cases.items()}
    again = {row["case"]: fields_of(row) for row in decode_again(given, made).collect()}
    assert again == {case: "undecodable" if isinstance(of, str) else of for case, of in found.items()}


def test_a_field_that_the_writers_schema_lacks_is_the_default_and_not_that_of_another_schema(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "string"}]}
    registry = {"connection": "registry_default"}
    made = dataset(value={"format": "avro", "registry": registry, "fields": FIELDS})
    made = made.with_writer_schemas({"value": {"confluent-1": WriterSchema(type="AVRO", text=json.dumps(schema))}})
    given = envelope(spark, [record("a", b"\x00\x00\x00\x00\x01\x02a")])
    assert [fields_of(row) for row in decode(given, made).collect()] == [ALL]
    assert [fields_of(row) for row in decode_again(given, made).collect()] == [ALL]


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("string", 1), ("long", "1"), ("int", 2**31), ("long", 1.0), ("long", True), ("boolean", "true"),
        ("boolean", 0),
        ("decimal(4,2)", "100.00"), ("decimal(4,2)", "1.001"), ("decimal(4,2)", "x"), ("double", "1"),
        ("double", float("inf")), ("date", "2026-13-01"), ("date", 1), ("timestamp", "2026-01-01"), ("timestamp", "x"),
        ("timestamp(millis)", "2026-01-01T00:00:00Z"), ("list<string>", "a"),
    ],
)  # fmt: skip
def test_a_default_is_a_value_of_the_fields_type(dataset: Callable[..., Dataset], kind: str, default: Any) -> None:
    with pytest.raises(ValidationError, match=r"n: the default .* is no"):
        dataset(value={"fields": {"id": "string", "n": {"type": kind, "default": default}}})


@pytest.mark.parametrize(
    "more",
    [
        {"identity": {"business_key": ["n"]}},
        {"apply": {"mode": "upsert", "key": ["n"], "version": {"from": "offset"}, "delete_when": "tombstone"}},
        {"apply": {"mode": "upsert", "key": ["id"], "version": {"from": "n"}, "delete_when": "never"}},
        {
            "key": {"format": "json"},
            "apply": {"mode": "upsert", "key": ["key.n"], "version": {"from": "offset"}, "delete_when": "tombstone"},
        },
    ],
)
def test_what_tells_records_apart_has_no_default(dataset: Callable[..., Dataset], more: dict[str, Any]) -> None:
    fields = {"id": "string", "n": {"type": "long", "default": 1}}
    with pytest.raises(ValidationError, match="n has a default"):
        dataset(value={"fields": fields}, **more)


def test_a_default_is_part_of_the_generation(dataset: Callable[..., Dataset]) -> None:
    def generation(**default: Any) -> str:
        return dataset(value={"fields": {"id": "string", "n": {"type": "long?", **default}}}).generation

    assert len({generation(), generation(default=1), generation(default=2)}) == 3
