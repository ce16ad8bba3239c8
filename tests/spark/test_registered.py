"""Messages that name their schema, without a registry: each is read by its own, and a second decoder agrees."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.writer_schema import SchemaReference, WriterSchema
from onefold.proof.decode import decode_again
from onefold.records import envelope as E
from onefold.values.decode import DELETED, FILTERED, LEFT_OUT, REJECTED, decode
from onefold.values.registered import ids_named
from tests.support.envelopes import envelope, record
from tests.support.registry_messages import avro_message

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
REGISTRY = {"connection": "registry_default"}
FIELDS = {"id": "string", "n": "long", "to": "struct<city: string>?"}


def record_schema(name: str, /, **fields: Any) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": listed}


def doubling(levels: int) -> dict[str, Any]:
    """Each record holds the next twice: a message of no bytes has 2 to the power of `levels` nulls."""
    kind: Any = "null"
    for level in range(levels):
        kind = record_schema(f"Of{level}", a=kind, b="null" if kind == "null" else f"shop.{kind['name']}")
    return record_schema("Order", id=kind)


CITY = record_schema("City", city="string")
NARROW, WIDE = record_schema("Order", id="string", n="int"), record_schema("Order", n="long", more="bytes", id="string")
BUILT_ON = record_schema("Order", id="string", n="long", to="shop.City", other=["null", "City"])
OTHER = record_schema("Payment", amount="double")
FOREIGN = record_schema("Order", id="string", n="string")


def make_schemas(*schemas: Any, kind: Any = "AVRO") -> list[WriterSchema]:
    return [WriterSchema(type=kind, text=json.dumps(schema)) for schema in schemas]


SCHEMAS = dict(
    zip(
        [*(f"confluent-{number}" for number in range(1, 5)), f"guid-{GUID}", f"glue-{GUID}", "global-1", "content-1"],
        make_schemas(NARROW, WIDE, OTHER, FOREIGN, NARROW, WIDE, WIDE, NARROW),
        strict=True,
    )
) | {
    "confluent-5": WriterSchema(
        type="AVRO",
        text=json.dumps(BUILT_ON),
        references=[SchemaReference(name="shop.City", subject="city", version=1, text=json.dumps(CITY))],
    ),
    "confluent-6": WriterSchema(type="PROTOBUF", text='syntax = "proto3";'),
    "confluent-7": WriterSchema(type="AVRO", text="{"),
    "confluent-8": make_schemas(doubling(40))[0],
    "confluent-9": WriterSchema(type="AVRO", text='{"type":"array","items":' * 5_000 + '"int"' + "}" * 5_000),
}  # fmt: skip


def numbered(id_: int) -> bytes:
    return b"\x00" + id_.to_bytes(4, "big")


def long(id_: int) -> bytes:
    return id_.to_bytes(8, "big")


NARROW_BYTES = avro_message(NARROW, {"id": "a", "n": 7})
WIDE_BYTES = avro_message(WIDE, {"id": "b", "n": 2**40, "more": b"\xff"})
BUILT_BYTES = avro_message(BUILT_ON, {"id": "c", "n": 1, "to": {"city": "Bern"}, "other": {"city": "Rom"}}, CITY)


def orders(dataset: Callable[..., Dataset], **more: Any) -> Dataset:
    value = {"format": "avro", "registry": REGISTRY, "fields": FIELDS}
    return dataset(value=value, **more).with_writer_schemas({"value": SCHEMAS, "key": SCHEMAS})


def judged(records: Any, made: Dataset, decoder: Any) -> dict[str, Any]:
    """By case: the fields, `filtered`, or the reason."""
    columns = list(made.fields)
    found = {}
    for row in decoder(records, made).select("case", *columns, REJECTED, FILTERED, DELETED).collect():
        fields = tuple(row[name] for name in columns)
        found[row["case"]] = row[REJECTED]["reason"] if row[REJECTED] else ("filtered" if row[FILTERED] else fields)
    return found


def test_each_message_is_read_by_the_schema_that_it_names(spark: SparkSession, dataset: Callable[..., Dataset]) -> None:
    narrow, wide = ("a", 7, None), ("b", 2**40, None)
    cases: dict[str, tuple[bytes | None, list[tuple[str, bytes]], Any]] = {
        "confluent": (numbered(1) + NARROW_BYTES, [], narrow),
        "another version": (numbered(2) + WIDE_BYTES, [], wide),
        "built on another": (numbered(5) + BUILT_BYTES, [], ("c", 1, ("Bern",))),
        "guid": (NARROW_BYTES, [("__value_schema_id", b"\x01" + GUID.bytes)], narrow),
        "id in a header": (WIDE_BYTES, [("__value_schema_id", numbered(2))], wide),
        "the last header counts": (
            WIDE_BYTES, [("__value_schema_id", numbered(1)), ("__value_schema_id", numbered(2))], wide,
        ),
        "header of a key": (numbered(1) + NARROW_BYTES, [("__key_schema_id", numbered(2))], narrow),
        "glue": (b"\x03\x00" + GUID.bytes + WIDE_BYTES, [], wide),
        "glue, packed": (b"\x03\x05" + GUID.bytes + zlib.compress(WIDE_BYTES), [], wide),
        "apicurio": (b"\x00" + long(1) + WIDE_BYTES, [], wide),
        "apicurio, global id in a header": (WIDE_BYTES, [("apicurio.value.globalId", long(1))], wide),
        "apicurio, content id in a header": (NARROW_BYTES, [("apicurio.value.contentId", long(1))], narrow),
        "unknown": (numbered(99) + NARROW_BYTES, [], "schema_not_found"),
        "unknown in a header": (NARROW_BYTES, [("__value_schema_id", numbered(99))], "schema_not_found"),
        "bare": (NARROW_BYTES, [], "undecodable"),
        "json": (b'{"id": "a", "n": 7}', [], "undecodable"),
        "empty": (b"", [], "undecodable"),
        "only an id": (numbered(1), [], "undecodable"),
        "bytes behind": (numbered(1) + NARROW_BYTES + b"\x00", [], "undecodable"),
        "bytes missing": (numbered(1) + NARROW_BYTES[:-1], [], "undecodable"),
        "no header": (NARROW_BYTES, [("__value_schema_id", b"\x01")], "undecodable"),
        "packed, cut": (b"\x03\x05" + GUID.bytes + zlib.compress(WIDE_BYTES)[:-1], [], "undecodable"),
        "of another type": (numbered(6) + NARROW_BYTES, [], "undecodable"),
        "a schema that is none": (numbered(7) + NARROW_BYTES, [], "undecodable"),
        "a schema of many parts": (numbered(8), [], "undecodable"),
        "a schema that nests deep": (numbered(9), [], "undecodable"),
        "another record": (numbered(3) + avro_message(OTHER, {"amount": 0.5}), [], "missing_field"),
        "another type of a field": (numbered(4) + avro_message(FOREIGN, {"id": "a", "n": "7"}), [], "wrong_type"),
        "null": (None, [], "null_value"),
    }  # fmt: skip
    made = orders(dataset)
    given = envelope(spark, [record(case, data, headers=headers) for case, (data, headers, _) in cases.items()])
    expected = {case: outcome for case, (_, _, outcome) in cases.items()}
    assert judged(given, made, decode) == expected
    again = judged(given, made, decode_again)
    assert again == {case: "undecodable" if isinstance(of, str) else of for case, of in expected.items()}
    named = {str(id_) for id_ in ids_named(given, made)["value"]}
    assert named == {*SCHEMAS, "confluent-99"}
    value = {"format": "avro", "registry": {**REGISTRY, "ids": "content"}, "fields": FIELDS}
    content = dataset(value=value).with_writer_schemas({"value": SCHEMAS})
    of_content = envelope(spark, [record("a", b"\x00" + long(1) + NARROW_BYTES)])
    assert judged(of_content, content, decode) == judged(of_content, content, decode_again) == {"a": narrow}


def test_the_name_of_the_schema_decides_before_a_message_is_decoded(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    """A record of another type is filtered though it is no message at all, or its fields are of other types."""
    cases = {
        "wanted": (numbered(1) + NARROW_BYTES, ("a", 7, None)),
        "wanted, broken": (numbered(1) + NARROW_BYTES[:-1], "undecodable"),
        "too small": (numbered(1) + avro_message(NARROW, {"id": "a", "n": 1}), "filtered"),
        "other": (numbered(3) + avro_message(OTHER, {"amount": 0.5}), "filtered"),
        "other, broken": (numbered(3) + b"x", "filtered"),
        "unknown": (numbered(99) + NARROW_BYTES, "schema_not_found"),
        "bare": (NARROW_BYTES, "undecodable"),
    }
    source = {
        "exports": {"path": "e", "layout": "kcat", "origin": {"cluster": "c", "incarnation": 1}},
        "filter": "schema.name = 'shop.Order' and n > 5",
    }
    made = orders(dataset, source=source)
    given = envelope(spark, [record(case, data) for case, (data, _) in cases.items()])
    expected: dict[str, Any] = {case: outcome for case, (_, outcome) in cases.items()}
    assert judged(given, made, decode) == expected
    again = judged(given, made, decode_again)
    assert {case: "undecodable" if of == "schema_not_found" else of for case, of in expected.items()} == again
    assert not {"_schema_name", "_left_unread"} & {*decode(given, made).columns, *decode_again(given, made).columns}


def test_a_type_of_records_may_delete_and_another_is_no_newer_version_of_a_row(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    exports = {"path": "e", "layout": "kcat", "origin": {"cluster": "c", "incarnation": 1}}
    wanted = "schema.name in ('shop.Order', 'shop.City') and coalesce(n, 9) > 5"
    made = orders(
        dataset,
        source={"exports": exports, "filter": wanted},
        apply={
            "mode": "upsert",
            "key": ["key"],
            "version": {"from": "offset"},
            "delete_when": "schema.name = 'shop.City'",
        },
    )
    schemas = SCHEMAS | {"confluent-10": make_schemas(CITY)[0]}
    made = made.with_writer_schemas({"value": schemas})
    cases = {
        "a row": (numbered(1) + NARROW_BYTES, (False, False, False)),
        "left out": (numbered(1) + avro_message(NARROW, {"id": "a", "n": 1}), (False, True, True)),
        "a delete": (numbered(10) + avro_message(CITY, {"city": "Bern"}), (True, False, False)),
        "another type": (numbered(3) + avro_message(OTHER, {"amount": 0.5}), (False, True, False)),
    }
    given = envelope(spark, [record(case, data, key_bytes=b"k") for case, (data, _) in cases.items()])
    for decoder in (decode, decode_again):
        found = {
            row["case"]: (row[DELETED], row[FILTERED], row[LEFT_OUT])
            for row in decoder(given, made).collect()
            if row[REJECTED] is None
        }
        assert found == {case: expected for case, (_, expected) in cases.items()}


def test_json_behind_an_id_is_json(spark: SparkSession, dataset: Callable[..., Dataset]) -> None:
    text = b'{"id": "a", "n": 7}'
    cases = {
        "prefix": (numbered(1) + text, ("a", 7)),
        "no prefix": (text, ("a", 7)),
        "header": (text, ("a", 7)),
        "glue, packed": (b"\x03\x05" + GUID.bytes + zlib.compress(text), ("a", 7)),
        "unknown": (numbered(9) + text, "schema_not_found"),
        "no json": (numbered(1) + b"{", "undecodable"),
        "null": (numbered(1) + b"null", "null_value"),
        "a zero and no id": (b"\x00" + text[:2], "undecodable"),
        "empty": (b"", "undecodable"),
    }
    headers = {"header": [("__value_schema_id", b"\x01" + GUID.bytes)]}
    fields = {"id": "string", "n": "long"}
    made = dataset(value={"format": "json_schema", "registry": REGISTRY, "fields": fields})
    [schema] = make_schemas({"title": "Order", "type": "object"}, kind="JSON")
    made = made.with_writer_schemas({"value": {"confluent-1": schema, f"guid-{GUID}": schema, f"glue-{GUID}": schema}})
    given = envelope(spark, [record(case, data, headers=headers.get(case, [])) for case, (data, _) in cases.items()])
    expected: dict[str, Any] = {case: outcome for case, (_, outcome) in cases.items()}
    assert judged(given, made, decode) == expected
    again = judged(given, made, decode_again)
    assert again == {case: "undecodable" if isinstance(of, str) else of for case, of in expected.items()}
    alone = dataset(value={"format": "json_schema", "fields": fields})
    assert judged(given, alone, decode) == expected | {"unknown": ("a", 7)}
    assert judged(given, alone, decode_again)["unknown"] == ("a", 7)


def test_a_key_is_read_by_the_schema_that_it_names(spark: SparkSession, dataset: Callable[..., Dataset]) -> None:
    made = orders(
        dataset,
        key={"format": "avro", "registry": REGISTRY},
        apply={"mode": "upsert", "key": ["key.city"], "version": {"from": "offset"}, "delete_when": "tombstone"},
    )
    schemas = {"key": dict(zip(["confluent-1"], make_schemas(CITY), strict=True)), "value": SCHEMAS}
    made = made.with_writer_schemas(schemas)
    value, key = numbered(1) + NARROW_BYTES, avro_message(CITY, {"city": "Bern"})
    cases = {
        "fine": record("fine", value, key_bytes=numbered(1) + key),
        "header": record("header", value, key_bytes=key, headers=[("__key_schema_id", numbered(1))]),
        "unknown": record("unknown", value, key_bytes=numbered(2) + key),
        "unknown, deleting": record("unknown, deleting", None, key_bytes=numbered(2) + key),
        "bare": record("bare", value, key_bytes=key),
    }
    given = envelope(spark, list(cases.values()))
    found = judged(given, made, decode)
    assert {case: of for case, of in found.items() if isinstance(of, str)} == {
        "unknown": "schema_not_found", "unknown, deleting": "schema_not_found", "bare": "undecodable",
    }  # fmt: skip
    again = judged(given, made, decode_again)
    assert {case for case, of in again.items() if isinstance(of, str)} == {"unknown", "unknown, deleting", "bare"}
    assert {str(id_) for id_ in ids_named(given.where(f"{E.VALUE_BYTES} IS NOT NULL"), made)["key"]} == {
        "confluent-1", "confluent-2",
    }  # fmt: skip


PROTO = """
syntax = "proto3";
package shop;
import "shop/city.proto";
message Payment { double amount = 1; }
message Order {
  string id = 1;
  int64 n = 2;
  City to = 3;
  message Line { string id = 1; int64 n = 2; }
}
"""
CITY_PROTO = 'syntax = "proto3"; package shop; message City { string city = 1; }'
ORDER_BYTES = b"\x0a\x01a\x10\x07\x1a\x06\x0a\x04Bern"


def test_a_protobuf_message_is_read_by_the_message_that_it_names(
    spark: SparkSession, dataset: Callable[..., Dataset]
) -> None:
    city = SchemaReference(name="shop/city.proto", subject="city", version=1, text=CITY_PROTO)
    schema = WriterSchema(type="PROTOBUF", text=PROTO, references=[city])
    only = WriterSchema(type="", text='syntax = "proto3"; message Thing { string id = 1; int64 n = 2; }')
    lacking = WriterSchema(type="PROTOBUF", text=PROTO)
    schemas = {
        "confluent-1": schema, f"guid-{GUID}": schema, f"glue-{GUID}": schema, "global-1": schema, "global-2": only,
        "confluent-3": lacking, "confluent-4": make_schemas(NARROW)[0],
    }  # fmt: skip
    order, line, first = ("a", 7, ("Bern",)), ("a", 7, None), b"\x02\x02"
    cases: dict[str, tuple[bytes, list[tuple[str, bytes]], Any]] = {
        "second of the file": (numbered(1) + first + ORDER_BYTES, [], order),
        "within another": (numbered(1) + b"\x04\x02\x00" + ORDER_BYTES[:5], [], line),
        "first of the file": (numbered(1) + b"\x00" + ORDER_BYTES[:0], [], "filtered"),
        "place in a header": (ORDER_BYTES, [("__value_schema_id", b"\x01" + GUID.bytes + first)], order),
        "apicurio": (b"\x00" + long(1) + b"\x07\x0a\x05Order" + ORDER_BYTES, [], order),
        "apicurio, the only message": (ORDER_BYTES[:5], [("apicurio.value.globalId", long(2))], line),
        "apicurio, one of several": (ORDER_BYTES, [("apicurio.value.globalId", long(1))], "undecodable"),
        "apicurio, no such message": (b"\x00" + long(1) + b"\x07\x0a\x05Other" + ORDER_BYTES, [], "undecodable"),
        "no such place": (numbered(1) + b"\x02\x0a" + ORDER_BYTES, [], "undecodable"),
        "no place": (numbered(1), [], "undecodable"),
        "unknown": (numbered(9) + first + ORDER_BYTES, [], "schema_not_found"),
        "bare": (ORDER_BYTES, [], "undecodable"),
        "cut": (numbered(1) + first + ORDER_BYTES[:-1], [], "undecodable"),
        "an import that lacks": (numbered(3) + first + ORDER_BYTES, [], "undecodable"),
        "of avro": (numbered(4) + first + ORDER_BYTES, [], "undecodable"),
        "of glue": (b"\x03\x00" + GUID.bytes + ORDER_BYTES, [], "undecodable"),
    }  # fmt: skip
    exports = {"path": "e", "layout": "kcat", "origin": {"cluster": "c", "incarnation": 1}}
    source = {"exports": exports, "filter": "schema.name in ('shop.Order', 'shop.Order.Line', 'Thing')"}
    made = dataset(source=source, value={"format": "protobuf", "registry": REGISTRY, "fields": FIELDS})
    made = made.with_writer_schemas({"value": schemas})
    given = envelope(spark, [record(case, data, headers=headers) for case, (data, headers, _) in cases.items()])
    expected: dict[str, Any] = {case: outcome for case, (_, _, outcome) in cases.items()}
    assert judged(given, made, decode) == expected
    again = judged(given, made, decode_again)
    assert again == {case: "undecodable" if of == "schema_not_found" else of for case, of in expected.items()}
    assert {str(id_) for id_ in ids_named(given, made)["value"]} == {*schemas, "confluent-9"}


@pytest.mark.parametrize("kept", [True, False])
def test_nothing_of_a_registry_is_looked_at_where_the_file_names_none(
    spark: SparkSession, dataset: Callable[..., Dataset], kept: bool
) -> None:
    made = dataset(value={"fields": {"id": "string"}})
    made = made.with_writer_schemas({"value": SCHEMAS}) if kept else made
    given = envelope(spark, [record("a", b'{"id": "a"}', headers=[("__value_schema_id", b"x")])])
    assert judged(given, made, decode) == judged(given, made, decode_again) == {"a": ("a",)}
