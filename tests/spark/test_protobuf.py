"""Protobuf values and keys: one stream as JSON, as Debezium's changes, as Avro and as Protobuf has the same rows and
verdicts, and a proof agrees."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
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
from onefold.values.decode import REJECTED, decode
from tests.support.envelopes import envelope, record
from tests.support.layouts import write_parquet
from tests.support.pipeline import run
from tests.support.protobuf import class_of, schema_from, schema_of
from tests.support.registry_messages import avro_message

PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
enum State { OPEN = 0; PAID = 1; }
message To { string city = 1; }
message Order {
  string id = 1; optional int64 n = 2; uint64 big = 3; google.protobuf.Timestamp at = 4; State state = 5;
  double ratio = 6; bool paid = 7; repeated string tags = 8; To to = 9; map<string, int64> counts = 10; bytes raw = 11;
}
"""
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "n", "type": ["null", "long"]},
        {"name": "big", "type": {"type": "bytes", "logicalType": "decimal", "precision": 20}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}},
        {"name": "ratio", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "to", "type": {"type": "record", "name": "To", "fields": [{"name": "city", "type": "string"}]}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "raw", "type": "bytes"},
    ],
}
FIELDS = {
    "id": "string", "n": "long?", "big": "decimal(20,0)", "at": "timestamp", "state": "string", "ratio": "double",
    "paid": "boolean", "tags": "list<string>", "to": "struct<city: string>", "counts": "map<string, long>",
    "raw": "binary", "payload": {"type": "json", "from": "to"},
}  # fmt: skip
START = datetime(2026, 3, 1, 9, 30, 0, 250_000, UTC)
ORDERS: list[tuple[str, dict[str, Any]]] = [
    ("a", {"n": 7, "big": 2**64 - 1, "state": "PAID", "ratio": 0.1, "tags": ["x", "é"], "counts": {"b": 2, "a": 1}}),
    ("b", {"n": None, "paid": True, "to": {"city": ""}, "raw": "/wA="}),
    ("a", {"n": 8, "at": START.replace(hour=10)}),
    ("a", {"n": 8, "at": START.replace(hour=10)}),
    ("c", {"ratio": float("nan")}),
]
"""The key and what an order has besides defaults: two versions of a key, a copy, and one that no double takes."""
DEFAULTS: dict[str, Any] = {
    "n": 0, "big": 0, "at": START, "state": "OPEN", "ratio": 0.0, "paid": False, "tags": [], "to": {"city": "Bern"},
    "counts": {}, "raw": "",
}  # fmt: skip


def in_json(order: dict[str, Any]) -> bytes:
    ratio = "NaN" if order["ratio"] != order["ratio"] else order["ratio"]
    return json.dumps(order | {"at": order["at"].isoformat(), "ratio": ratio}).encode()


def in_debezium(order: dict[str, Any]) -> bytes:
    """A change of a row, as the JSON of Debezium's connector for PostgreSQL has it, without its schema."""
    source = {"connector": "postgresql", "name": "shop", "db": "shop", "schema": "public", "table": "orders", "lsn": 7}
    change = {"before": None, "after": json.loads(in_json(order)), "source": source, "op": "u", "ts_ms": 1}
    return json.dumps(change).encode()


def in_avro(order: dict[str, Any]) -> bytes:
    return avro_message(AVRO, order | {"big": Decimal(order["big"]), "raw": b"\xff\x00" if order["raw"] else b""})


def in_protobuf(order: dict[str, Any]) -> bytes:
    made = order_class()(
        **{name: value for name, value in order.items() if name not in ("at", "raw") and value is not None}
    )
    made.at.FromDatetime(order["at"])
    made.raw = b"\xff\x00" if order["raw"] else b""
    return made.SerializeToString()  # type: ignore[no-any-return]


def order_class() -> Any:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass

    from onefold.dataset.protobuf_schema import compile_texts

    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_texts({"m.proto": PROTO}, "m.proto")).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


KEY = 'syntax = "proto3"; message Key { string id = 1; bytes raw = 2; }'
WAYS: dict[str, tuple[Callable[[dict[str, Any]], bytes], Callable[[str], bytes], dict[str, Any], dict[str, Any]]] = {
    "json": (in_json, lambda key: json.dumps({"id": key}).encode(), {"format": "json"}, {"format": "json"}),
    "debezium": (
        in_debezium,
        lambda key: json.dumps({"id": key}).encode(),
        {"format": "json", "envelope": "debezium"},
        {"format": "json"},
    ),
    "avro": (
        in_avro,
        lambda key: avro_message(
            {"type": "record", "name": "K", "fields": [{"name": "id", "type": "string"}]}, {"id": key}
        ),
        {"format": "avro", "schema": "order.avsc"},
        {"format": "avro", "schema": "key.avsc"},
    ),
    "protobuf": (
        in_protobuf,
        lambda key: bytes([10, len(key)]) + key.encode(),
        {"format": "protobuf", "schema": "order.proto", "message": "shop.Order"},
        {"format": "protobuf", "schema": "key.proto"},
    ),
}
SCHEMAS: dict[str, dict[str, str]] = {
    "json": {},
    "debezium": {},
    "avro": {
        "value": json.dumps(AVRO),
        "key": json.dumps({"type": "record", "name": "K", "fields": [{"name": "id", "type": "string"}]}),
    },
    "protobuf": {"value": schema_from(PROTO, "shop.Order"), "key": schema_from(KEY)},
}


def test_one_stream_has_the_same_rows_and_verdicts_in_every_format(
    session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    apply = {"mode": "upsert", "key": ["key.id"], "version": {"from": "value.at"}, "delete_when": "never"}
    found = {}
    for way, (of_value, of_key, value, key) in WAYS.items():
        exports = {"path": way, "layout": "parquet", "origin": {"cluster": "c", "incarnation": 1}, "holes": "none"}
        made = dataset(
            f"orders_{way}",
            source={"exports": exports},
            key=key,
            value=value | {"fields": FIELDS},
            apply=apply,
            quality={"max_rejected_rate": 1.0},
        ).with_schemas(SCHEMAS[way])
        rows = [
            (offset, of_key(name), of_value(DEFAULTS | {"id": name} | given))
            for offset, (name, given) in enumerate(ORDERS)
        ]
        write_parquet(tmp_path / way, rows)
        done = run(session, lake, made, tmp_path / way)
        assert done.red is None, done.red
        verdicts = {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, made, done.batch)[0]}
        found[way] = (verdicts, sorted(rows_of(lake, made), key=lambda row: row["id"]))
        assert prove(session, lake, made).holds
    assert found["protobuf"] == found["avro"] == found["debezium"] == found["json"]
    verdicts, rows = found["protobuf"]
    assert [verdicts[offset][0] for offset in range(5)] == ["superseded", "applied", "duplicate", "applied", "rejected"]
    assert verdicts[4] == ("rejected", "wrong_type")
    assert [(row["id"], row["n"], row["counts"], row["raw"], row["payload"]) for row in rows] == [
        ("a", 8, {}, "", '{"city":"Bern"}'),
        ("b", None, {}, "/wA=", '{"city":""}'),
    ]


def test_what_cannot_be_read_is_rejected_with_its_reason_and_its_place(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    fields = {"a_string": "string", "state": "string", "box": "struct<n: int, size: string?>?", "some_bytes": "binary?"}
    value = {"format": "protobuf", "schema": "e.proto", "fields": fields, "schema_changes": "quarantine"}
    made = dataset(value=value).with_schemas({"value": schema_of("shop.Every")})
    every = class_of("shop.Every")
    cases = {
        "fine": every(a_string="x", state=1, box={"n": 1}),
        "no name": every(state=77),
        "no name in a part": b"\xe2\x01\x04\x08\x01\x10\x07",
        "no text": b"\x72\x02\xff\xfe",
        "missing": every(box={}),
        "undeclared": every(an_int32=1),
        "unknown": b"\xf2\x3f\x01z",
        "cut": b"\x72\x05a",
        "json": b'{"a_string": "x"}',
        "large": bytes(16_000_001),
        "large as json": every(some_bytes=bytes(12_500_000)),
    }
    given = {name: data if isinstance(data, bytes) else data.SerializePartialToString() for name, data in cases.items()}
    rows = envelope(spark, [record(name, data) for name, data in given.items()])
    first, second = (
        {row["case"]: row[REJECTED] for row in how(rows, made).select("case", REJECTED).collect()}
        for how in (decode, decode_again)
    )
    assert {name: found and (found["reason"], found["detail"]) for name, found in first.items()} == {
        "fine": None,
        "no name": ("wrong_type", "state: wanted string, found number 77"),
        "no name in a part": ("wrong_type", "box.size: wanted string?, found number 7"),
        "no text": ("undecodable", "the value is not UTF-8 at character 14"),
        "missing": ("missing_field", "box.n is absent"),
        "undeclared": ("unknown_schema", "value.fields does not name an_int32"),
        "unknown": ("unknown_schema", "value.fields does not name 1022"),
        "cut": ("undecodable", "it is no shop.Every: DecodeError Wire format was corrupt"),
        "json": ("undecodable", "it is no shop.Every: DecodeError Wire format was corrupt"),
        "large": ("too_large", "it has 16,000,001 bytes, at most 16,000,000 can be read"),
        "large as json": ("too_large", "as JSON it has more than 16,000,000 letters, which is as much as can be read"),
    }
    assert {name for name, found in second.items() if found} == {name for name, found in first.items() if found}


def test_a_field_that_cannot_be_read_is_said_before_a_record_is(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    value = {"format": "protobuf", "schema": "e.proto", "fields": {"any": "json?"}}
    made = dataset(value=value).with_schemas({"value": schema_of("shop.Every")})
    with pytest.raises(
        UsageError, match=r"things: value\.schema e\.proto: any: google\.protobuf\.Any may be any message"
    ):
        decode(envelope(spark, [record("a", b"")]), made)
