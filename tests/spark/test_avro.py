"""Avro values and keys: the same stream as JSON and as Avro has the same rows and verdicts, and a proof agrees."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.proof.decode import decode_again
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of, verdicts_of
from onefold.values.decode import DELETED, REJECTED, decode
from tests.support.envelopes import envelope, record
from tests.support.layouts import write_parquet
from tests.support.pipeline import run
from tests.support.registry_messages import avro_message

MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": ["null", "long"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "at", "type": MILLIS},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "ratio", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {
            "name": "to",
            "type": {"type": "record", "name": "To", "fields": [{"name": "city", "type": "string"}]},
        },
    ],
}
FIELDS = {
    "id": "string",
    "n": "long?",
    "price": "decimal(10,2)",
    "at": "timestamp",
    "day": "date",
    "state": "string",
    "ratio": "double",
    "paid": "boolean",
    "tags": "list<string>",
    "to": "struct<city: string>",
}
ORDER: dict[str, Any] = {
    "id": "a",
    "n": 7,
    "price": Decimal("12.50"),
    "at": datetime(2026, 3, 1, 9, 30, 0, 250_000, UTC),
    "day": date(2026, 3, 1),
    "state": "PAID",
    "ratio": 0.1,
    "paid": True,
    "tags": ["x", "é"],
    "to": {"city": "Bern"},
}
IN_JSON = (
    b'{"id": "a", "n": 7, "price": 12.50, "at": "2026-03-01T09:30:00.250Z", "day": "2026-03-01", "state": "PAID", '
    b'"ratio": 0.1, "paid": true, "tags": ["x", "\\u00e9"], "to": {"city": "Bern"}}'
)


def order(**changes: Any) -> bytes:
    return avro_message(SCHEMA, ORDER | changes)


def orders(dataset: Callable[..., Dataset], **more: Any) -> Dataset:
    value = {"format": "avro", "schema": "order.avsc", "fields": FIELDS}
    return dataset(value=value, **more).with_schemas({"value": json.dumps(SCHEMA), "key": json.dumps("string")})


def test_a_message_has_the_fields_of_the_same_record_in_json(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    names = [*FIELDS, REJECTED, DELETED]
    avro, plain = orders(dataset), dataset(value={"fields": FIELDS})
    [expected] = decode(envelope(spark, [record("a", IN_JSON)]), plain).select(*names).collect()
    assert expected[REJECTED] is None
    given = envelope(spark, [record("a", order())])
    assert decode(given, avro).select(*names).collect() == [expected]
    assert decode_again(given, avro).select(*names).collect() == [expected]


def test_what_is_no_message_of_the_schema_is_rejected_and_says_why(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    made = orders(dataset)
    cases = {
        "empty": b"",
        "cut": order()[:-3],
        "bytes behind": order() + b"\x00",
        "json": IN_JSON,
        "a prefix of a registry": b"\x00\x00\x00\x00\x07" + order(),
        "no symbol": order().replace(b"\x02\x9a", b"\x7e\x9a", 1),
        "fine": order(n=None),
    }
    given = envelope(spark, [record(name, data) for name, data in cases.items()])
    first, second = (
        {row["case"]: row[REJECTED] for row in how(given, made).collect()} for how in (decode, decode_again)
    )
    reasons = {name: rejected["reason"] for name, rejected in first.items() if rejected}
    assert reasons == dict.fromkeys(cases.keys() - {"fine"}, "undecodable")
    assert {name for name, rejected in second.items() if rejected} == set(reasons)
    assert first["bytes behind"]["detail"] == "1 bytes behind it are no part of it"
    assert "it is no message of the schema" in first["cut"]["detail"]


def test_a_type_that_does_not_fit_is_named(spark: SparkSession, dataset: Callable[..., Dataset]) -> None:
    value = {"format": "avro", "schema": "s.avsc", "fields": {"id": "int", "price": "decimal(4,1)?"}}
    made = dataset(value=value).with_schemas({"value": json.dumps(SCHEMA)})
    [row] = decode(envelope(spark, [record("a", order())]), made).collect()
    assert (row[REJECTED]["reason"], row[REJECTED]["detail"]) == ("wrong_type", "id: wanted int, found string a")


def test_a_field_that_cannot_be_read_is_said_before_a_record_is(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", "string", "R"]}]}
    value = {"format": "avro", "schema": "s.avsc", "fields": {"id": "string"}}
    made = dataset(value=value).with_schemas({"value": json.dumps(schema)})
    with pytest.raises(UsageError, match=r"things: value\.schema s\.avsc: id: R holds itself"):
        decode(envelope(spark, [record("a", b"")]), made)


@pytest.mark.nightly(reason="test_protobuf folds Avro next to the other formats, and test_registered reads keys by day")
def test_a_batch_of_messages_with_avro_keys_is_folded_and_proved(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    exports = {"path": "e", "layout": "parquet", "origin": {"cluster": "c", "incarnation": 1}, "holes": "none"}
    apply = {"mode": "upsert", "key": ["key"], "version": {"from": "value.at"}, "delete_when": "never"}
    key = {"format": "avro", "schema": "key.avsc"}
    made = orders(dataset, source={"exports": exports}, key=key, apply=apply, quality={"max_rejected_rate": 1.0})
    later = datetime(2026, 3, 2, tzinfo=UTC)
    values = [order(), order(n=8, at=later), order(id="b"), order()[:-1]]
    rows = [
        (offset, avro_message("string", key), data)
        for offset, (key, data) in enumerate(zip(("a", "a", "b", "c"), values, strict=True))
    ]
    write_parquet(tmp_path / "one", rows)
    done = run(session, lake, made, tmp_path / "one")
    assert done.red is None, done.red
    verdicts = {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, made, done.batch)[0]}
    assert verdicts == {
        0: ("superseded", "in_batch"), 1: ("applied", "insert"), 2: ("applied", "insert"),
        3: ("rejected", "undecodable"),
    }  # fmt: skip
    assert sorted((row["id"], row["n"], row["price"]) for row in rows_of(lake, made)) == [
        ("a", 8, "12.50"), ("b", 7, "12.50")
    ]  # fmt: skip
    assert prove(session, lake, made).holds
