"""Envelopes: what each form of Debezium's changes and Connect's wrapper says, and that a proof reads the same."""

from __future__ import annotations

import json
from base64 import b64encode
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from onefold.dataset import Dataset
from onefold.formats.connect_decimals import DECIMAL
from onefold.formats.envelopes import Form, Shape
from onefold.proof.decode import _said as said_again
from onefold.proof.decode import fields_of
from onefold.proof.envelopes import opener
from onefold.values import columns
from onefold.values.columns import Fields, reader
from tests.support.readings import assert_read_alike

FILE: dict[str, Any] = {
    "name": "items",
    "source": {"kafka": {"connection": "kafka_default", "topics": ["shop.public.items"]}},
    "value": {
        "envelope": "debezium",
        "fields": {"id": "long", "name": "string?", "tags": "list<string>?", "price": "decimal(9,2)?", "n": "int"},
    },
    "identity": {"message_id": "debezium.position"},
    "apply": {"mode": "upsert", "key": ["id"], "version": {"from": "offset"}},
    "target": {"table": "shop.items"},
}
SOURCE = {"name": "shop", "ts_ms": 1_772_359_200_123, "sequence": '["1","2"]', "lsn": 24_023_128, "table": "items"}
ROW = {"id": 7, "name": "x", "tags": ["a"], "price": "1.50", "n": 1}
PLACEHOLDERS = ("__debezium_unavailable_value", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==")


def dataset(**value: Any) -> Dataset:
    """The file with other settings of its value."""
    identity = FILE["identity"] if value.get("envelope", "debezium") == "debezium" else {}
    return Dataset.model_validate(FILE | {"identity": identity, "value": FILE["value"] | value})


def read_one(value: Any, made: Dataset) -> tuple[Any, ...]:
    """Of a value its fields, the reasons of their problems, what is wrong with all of it, and its attributes."""
    found = reader(Fields.of(made))([json.dumps(value).encode()]).to_pylist()[0]
    if found is None:
        return None, {}, None, {}
    problems = {name: problem["reason"] for name, problem in found["problems"] or ()}
    names = [".".join(name) for name in made.envelope_attributes]
    attributes = dict(zip(names, (found.get("attributes") or {}).values(), strict=True))
    row = dict(zip(made.fields, found["fields"].values(), strict=True))
    return row, problems, found["unusable"] and found["unusable"]["reason"], attributes


def change(op: str, **more: Any) -> dict[str, Any]:
    image = {"before": {"id": 7, "name": "made up"}, "after": None} if op == "d" else {"before": None, "after": ROW}
    return image | {"source": SOURCE, "op": op, "ts_ms": 5} | more


@pytest.mark.parametrize("wrapped", [False, True], ids=["bare", "in schema and payload"])
@pytest.mark.parametrize("op", ["c", "u", "r"])
def test_the_row_of_a_change_is_after(op: str, wrapped: bool) -> None:
    value = change(op)
    row, problems, unusable, attributes = read_one({"schema": {}, "payload": value} if wrapped else value, dataset())
    assert (row["id"], row["name"], str(row["price"]), problems, unusable) == (7, "x", "1.50", {}, None)
    assert (attributes["op"], attributes["source.lsn"]) == (op, "24023128")


def schema_of_price(**price: Any) -> dict[str, Any]:
    row = {
        "field": "after",
        "type": "struct",
        "fields": [{"field": "id", "type": "int64"}, {"field": "price", **price}],
    }
    return {"type": "struct", "fields": [{"field": "before", "type": "struct", "fields": row["fields"]}, row]}


PARTS = "struct<d: {0}?, m: map<string, {0}>?>?"
IN_BASE64 = "decimal(9,2,base64)"
SCALED = {"type": "bytes", "name": DECIMAL, "parameters": {"scale": "2", "connect.decimal.precision": "9"}}


MANY = {"type": "array", "items": SCALED}
MAP = {"type": "map", "keys": {"type": "string"}, "values": SCALED}


@pytest.mark.parametrize(
    ("price", "schema", "expected"),
    [
        ("ANc=", SCALED, "2.15"),
        ("/w==", SCALED, "-0.01"),
        ("AA==", SCALED, "0.00"),
        ("1234", SCALED, "-26588.24"),
        ("1234", {"type": "string"}, "1234.00"),
        ("ABI0VniavA==", SCALED, None),  # more digits than the type has
        (None, SCALED, "None"),
        ("2.15", SCALED, "2.15"),  # the mode has changed, and the schema not
        (2.15, SCALED, "2.15"),
        (1234, SCALED, "1234.00"),  # decimal.format=NUMERIC
        ("no", SCALED, None),
        ("ANc", SCALED, None),
        ("ANc=", SCALED | {"parameters": {"scale": "0"}}, "215.00"),
        ("ANc=", SCALED | {"parameters": {"scale": "-1"}}, "2150.00"),
        ("ANc=", SCALED | {"parameters": {"scale": "3"}}, None),
        ("ANc=", SCALED | {"parameters": {}}, None),
        ("ANc=", {"type": "bytes"}, None),
        ({"scale": 2, "value": "ANc="}, {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}, "2.15"),
    ],
)
@pytest.mark.parametrize("flat", [False, True], ids=["whole", "flat"])
@pytest.mark.parametrize("kind", ["decimal(9,2)?", "decimal(9,2,base64)?"])
@pytest.mark.parametrize("n", [1, 1.0], ids=["the fast way", "the exact way"])
def test_a_decimal_is_what_the_schema_next_to_it_says(
    price: Any, schema: Any, expected: str | None, flat: bool, kind: str, n: float
) -> None:
    row = ROW | {"price": price, "n": n}
    described = schema_of_price(**schema)
    if flat:
        described = described["fields"][1]
    value = row | {"__op": "u", "__deleted": "false"} if flat else change("u", after=row)
    made = dataset(fields=FILE["value"]["fields"] | {"price": kind})
    found, problems, _, _ = read_one({"schema": described, "payload": value}, made)
    assert (None if "price" in problems else str(found["price"])) == expected


@pytest.mark.parametrize(
    ("price", "expected"),
    [
        ("ANc=", "2.15"),
        ("/w==", "-0.01"),
        ("AA==", "0.00"),
        ("1234", "-26588.24"),
        (2.15, "2.15"),
        (None, "None"),
        ("2.15", None),
        ("ABI0VniavA==", None),  # more digits than the type has
        ("ANc", None),
        ("", None),
        ("no", None),
        (True, None),
    ],
)
def test_without_a_schema_the_type_says_that_a_decimal_is_base64(price: Any, expected: str | None) -> None:
    made = dataset(fields=FILE["value"]["fields"] | {"price": "decimal(9,2,base64)?"})
    found, problems, _, _ = read_one(change("u", after=ROW | {"price": price}), made)
    assert (None if "price" in problems else str(found["price"])) == expected


@pytest.mark.parametrize(
    ("kind", "described"),
    [("decimal(9,2)?", True), ("decimal(9,2,base64)?", True), ("decimal(9,2,base64)?", False)],
    ids=["schema", "schema and type", "type"],
)
def test_decimals_in_base64_go_the_fast_way(monkeypatch: pytest.MonkeyPatch, kind: str, described: bool) -> None:
    monkeypatch.setattr(columns._Exact, "read", lambda *_: pytest.fail("the exact way"))
    value = change("u", after=ROW | {"price": "ANc="})
    given = {"schema": schema_of_price(**SCALED), "payload": value} if described else value
    made = dataset(fields=FILE["value"]["fields"] | {"price": kind})
    assert str(read_one(given, made)[0]["price"]) == "2.15"


@pytest.mark.parametrize(("given", "said"), [("ANc=", "2.15"), ("2.15", "2.15"), (None, None)])
def test_a_decimal_that_is_declared_as_text_is_its_digits(
    given: str | None, said: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `decimal.handling.mode=string` writes it: a mode that changes in the middle of a topic changes no value."""
    monkeypatch.setattr(columns._Exact, "read", lambda *_: pytest.fail("the exact way"))
    made = dataset(fields=FILE["value"]["fields"] | {"price": "string?"})
    value = {"schema": schema_of_price(**SCALED), "payload": change("u", after=ROW | {"price": given})}
    assert read_one(value, made)[0]["price"] == said


def test_a_part_of_the_kafka_key_is_no_decimal_in_base64() -> None:
    apply = FILE["apply"] | {"key": ["key.price"]}
    value = FILE["value"] | {"fields": FILE["value"]["fields"] | {"price": "decimal(9,2,base64)"}}
    with pytest.raises(ValidationError, match=r"value\.fields\.price: decimal\(9,2,base64\) is read from values alone"):
        Dataset.model_validate(FILE | {"apply": apply, "value": value, "key": {"format": "json"}})


@pytest.mark.parametrize(
    ("kind", "given", "schema", "said"),
    [
        ("list<decimal(9,2)>", ["ANc=", None, "2.15"], MANY, "[Decimal('2.15'), None, Decimal('2.15')]"),
        ("list<string>", ["ANc=", "2.15"], MANY, "['2.15', '2.15']"),
        ("list<decimal(9,2,base64)>", ["ANc=", "1234"], None, "[Decimal('2.15'), Decimal('-26588.24')]"),
        ("list<decimal(9,2,base64)>", ["ANc="], MANY, "[Decimal('2.15')]"),
        ("list<decimal(9,2,base64)>", ["1234"], {"type": "array", "items": {"type": "string"}}, "[Decimal('1234.00')]"),
        ("map<string, string>", {"x": "ANc="}, MAP, "[('x', '2.15')]"),
        (
            "struct<d: string, e: string>",
            {"d": "ANc=", "e": "ANc="},
            {"type": "struct", "fields": [{"field": "d", **SCALED}, {"field": "e", "type": "string"}]},
            "{'d': '2.15', 'e': 'ANc='}",
        ),
        (
            "struct<scale: int, value: binary>",
            {"scale": 2, "value": "ANc="},
            {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"},
            "{'scale': 2, 'value': b'\\x00\\xd7'}",
        ),
    ],
)
def test_decimals_within_a_field_are_what_the_schema_says(kind: str, given: Any, schema: Any, said: str) -> None:
    made = dataset(fields=FILE["value"]["fields"] | {"price": kind})
    value = change("u", after=ROW | {"price": given})
    found, problems, _, _ = read_one({"schema": schema_of_price(**schema), "payload": value} if schema else value, made)
    assert problems == {}
    assert str(found["price"]) == said


def test_a_delete_has_its_key_and_nothing_else() -> None:
    for value in (change("d"), ROW | {"__op": "d", "__deleted": "true"}, ROW | {"__deleted": True}):
        row, _, unusable, _ = read_one(value, dataset())
        assert unusable is None
        assert {name: given for name, given in row.items() if given is not None} == {"id": 7}


def test_a_flattened_change_has_its_row_at_the_top() -> None:
    value = ROW | {"__op": "u", "__deleted": "false", "__lsn": 5, "__source_ts_ms": 9}
    row, problems, unusable, attributes = read_one(value, dataset())
    assert (row["name"], problems, unusable) == ("x", {}, None)
    read_at = ROW | {"__op": "u", "__deleted": "false", "__ts_ms": 9}
    assert read_one(read_at, dataset())[3]["source.ts_ms"] is None, "it is of the envelope"
    assert (attributes["op"], attributes["source.lsn"], attributes["source.ts_ms"]) == ("u", "5", "9")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (change("t", after=None), "truncate"),
        (change("m", after=None), "service"),
        ({"ts_ms": 5}, "service"),
        ({"status": "BEGIN", "id": "5:7", "event_count": None}, "service"),
        ({"source": SOURCE, "databaseName": "shop", "ddl": "ALTER TABLE", "tableChanges": []}, "schema_change"),
        (change("x"), "undecodable"),
        (change("u", after=None), "missing_field"),
        ({"id": 7, "n": 1}, "undecodable"),
        (ROW | {"__op": "u"}, "undecodable"),
        ({"schema": {}, "payload": 5}, "wrong_type"),
    ],
)
def test_what_is_no_row_says_why(value: Any, reason: str) -> None:
    assert read_one(value, dataset())[2] == reason


OID = "596e275826f08b2730779e1f"
DOCUMENT = {
    "_id": {"$oid": OID},
    "n": {"$numberLong": "1004"},
    "small": {"$numberInt": "4"},
    "rate": {"$numberDouble": "1.25"},
    "price": {"$numberDecimal": "19.990"},
    "at": {"$date": 1_559_729_470_123},
    "then": {"$date": {"$numberLong": "-1"}},
    "relaxed": {"$date": "2019-06-05T10:11:10Z"},
    "raw": {"$binary": {"base64": "AQI=", "subType": "00"}},
    "old_raw": {"$binary": "AQI=", "$type": "00"},
    "lines": [{"sku": {"$oid": OID}, "count": {"$numberInt": "2"}}],
    "plain": 7,
}


def test_a_document_of_mongodb_is_a_row_of_the_values_that_its_text_means() -> None:
    fields: dict[str, Any] = {"n": "long", "small": "int", "rate": "double", "price": "decimal(9,3)", "plain": "int"}
    fields |= {"id": {"type": "string", "from": "_id"}}
    fields |= dict.fromkeys(("at", "then", "relaxed"), "timestamp") | dict.fromkeys(("raw", "old_raw"), "binary")
    made = dataset(fields=fields | {"lines": "list<struct<sku: string, count: int>>"})
    value = change("u", after=json.dumps(DOCUMENT), source={"name": "m", "ts_ms": 5, "ord": 1, "collection": "items"})
    row, problems, unusable, _ = read_one(value, made)
    assert (problems, unusable) == ({}, None)
    assert {name: given.isoformat() for name, given in row.items() if name in ("at", "then", "relaxed")} == {
        "at": "2019-06-05T10:11:10.123000+00:00",
        "then": "1969-12-31T23:59:59.999000+00:00",
        "relaxed": "2019-06-05T10:11:10+00:00",
    }
    assert (row["id"], row["n"], row["small"], row["rate"], str(row["price"])) == (OID, 1004, 4, 1.25, "19.990")
    assert (row["raw"], row["old_raw"], row["plain"]) == (b"\x01\x02", b"\x01\x02", 7)
    assert row["lines"] == [{"sku": OID, "count": 2}]


def test_what_is_no_document_says_why_and_an_update_alone_what_to_set() -> None:
    for text in ("", "{", "[]", "5", '{"a": 1} x'):
        assert read_one(change("u", after=text), dataset())[2] == "undecodable"
    alone = change("u", after=None, updateDescription={"updatedFields": '{"n": 5}'})
    found = reader(Fields.of(dataset()))([json.dumps(alone).encode()]).to_pylist()[0]["unusable"]
    assert found["reason"] == "missing_field"
    assert "capture.mode=change_streams_update_full" in found["detail"]


def test_an_envelope_around_null_is_null() -> None:
    for envelope in ("connect", "debezium"):
        assert read_one({"schema": None, "payload": None}, dataset(envelope=envelope))[0] is None


def test_a_value_that_the_connector_did_not_have_is_named() -> None:
    for given in (*PLACEHOLDERS, [PLACEHOLDERS[0]], {PLACEHOLDERS[0]: "x"}):
        for value in (change("u", after=ROW | {"name": given}), ROW | {"__deleted": "false", "name": given}):
            row, problems, _, _ = read_one(value, dataset())
            assert (row["name"], problems) == (None, {"name": "unavailable_value"})


def test_the_common_shapes_go_the_fast_way() -> None:
    fields = Fields.of(dataset())
    full, flat = change("c"), ROW | {"__op": "u", "__deleted": "false"}
    for value, shape in (
        (full, Shape(Form.CHANGE)),
        ({"schema": {"type": "struct"}, "payload": full}, Shape(Form.CHANGE, ("payload",))),
        (flat, Shape(Form.FLAT)),
        ({"schema": None, "payload": flat}, Shape(Form.FLAT, ("payload",))),
    ):
        text = json.dumps(value).encode()
        assert columns._Exact(fields).first_shape([None, b"{", text]) == shape
        assert columns._Fast(fields, shape).columns([text, text])[1] == []
        others = {Shape(form, around) for form in (Form.CHANGE, Form.FLAT) for around in ((), ("payload",))} - {shape}
        assert [columns._Fast(fields, other).columns([text])[1] for other in others] == [[0]] * 3


ODD: tuple[Any, ...] = (None, 5, "x", True, [], {}, 1.5, "true", "false", 2**70, "__debezium_unavailable_value")


WRAPPERS = ("$oid", "$numberInt", "$numberLong", "$numberDouble", "$numberDecimal", "$date", "$binary", "$timestamp")
WRAPPED = (
    "5",
    "-7",
    "1.50",
    "1e3",
    "NaN",
    "x",
    "",
    5,
    -1,
    1.5,
    None,
    [],
    1_559_729_470_123,
    -62_135_596_800_001,
    10**15,
)


def extended(value: Any, draw: Random) -> Any:
    """A value as MongoDB's documents may have it in text."""
    if isinstance(value, int) and draw.random() < 0.6:
        return {draw.choice(["$numberInt", "$numberLong"]): str(value)}
    if isinstance(value, list):
        return [extended(item, draw) for item in value]
    if draw.random() < 0.8:
        return value
    inner = draw.choice(WRAPPED)
    match draw.randrange(4):
        case 0:
            inner = {"base64": inner, "subType": "00"} | ({"x": 1} if draw.random() < 0.2 else {})
        case 1:
            inner = {draw.choice(WRAPPERS): inner}
    pairs = [(draw.choice(WRAPPERS), inner)] + ([("$type", "00")] if draw.random() < 0.2 else [])
    return dict(draw.sample(pairs, len(pairs)))


def drawn(draw: Random) -> Any:
    """A value that is a change in one of its forms, or nearly one."""

    def some(usual: Any, rate: float = 0.06) -> Any:
        return draw.choice(ODD) if draw.random() < rate else usual

    row: Any = {name: some(given) for name, given in ROW.items() if draw.random() < 0.95}
    row |= {"op": "x"} if draw.random() < 0.05 else {}
    source = {name: some(given) for name, given in SOURCE.items() if draw.random() < 0.9}
    match draw.randrange(8):
        case 0:
            value: Any = draw.choice([{"ts_ms": 5}, {"status": "END", "id": "5"}, {"ddl": "x"}, {}, row])
        case 1 | 2 | 3:
            value = row | {"__op": some(draw.choice("cuurd")), "__deleted": some(draw.choice(["false"] * 5 + ["true"]))}
            value |= {draw.choice(["__lsn", "__source_ts_ms", "__ts_ms", "__source_lsn"]): some(5)}
        case _:
            op = some(draw.choice("cuuuurdtm"))
            images = {"before": row, "after": None} if op == "d" else {"before": None, "after": some(row)}
            if draw.random() < 0.3:
                image = "before" if op == "d" else "after"
                images[image] = some(json.dumps({name: extended(given, draw) for name, given in row.items()}))
            value = {"source": some(source), "op": op, "ts_ms": some(5)} | images
    for name in draw.sample([*value], draw.choice([0, 0, 0, 1]) if value else 0) if isinstance(value, dict) else ():
        del value[name]
    if draw.random() < 0.4:
        payload = some(value)
        schema = some({"type": "struct", "fields": [some(part) for part in described(payload, draw)]})
        value = {"schema": schema, "payload": payload} | ({"x": 1} if draw.random() < 0.1 else {})
    return value


def described(payload: Any, draw: Random) -> list[Any]:
    """The members of a schema of a value, whose decimals it says are Base64; and so they are, in the payload."""
    if not isinstance(payload, dict):
        return []
    members: list[Any] = []
    for name, given in payload.items():
        if isinstance(given, dict):
            members.append({"field": name, "type": "struct", "fields": described(given, draw)})
        elif name == "price" and draw.random() < 0.8:
            scale, kind = draw.choice([2, 2, 0, 4, -1]), draw.choice([DECIMAL] * 4 + ["other"])
            members.append({"field": name, "type": "bytes", "name": kind, "parameters": {"scale": str(scale)}})
            number = draw.choice([150, 0, -1, 10**9, 10**6 + draw.randrange(99)])
            payload[name] = draw.choice([base64_of(number)] * 6 + [given, "1234", "RME", 1.5, 1234])
        elif name == "tags" and draw.random() < 0.6:
            members.append({"field": name, **draw.choice([MANY, {"type": "array", "items": {"type": "string"}}])})
            payload[name] = draw.choice(
                [[base64_of(215), None], ["1234"], ["2.15", base64_of(-1)], [1.5, 1234], [], given]
            )
        elif name == "name" and draw.random() < 0.4:
            members.append(
                {"field": name, "type": "struct", "fields": [{"field": "d", **SCALED}, {"field": "m", **MAP}]}
            )
            payload[name] = {"d": draw.choice([base64_of(7), "1234", "7.00", None]), "m": {"x": base64_of(-150)}}
        else:
            members.append({"field": name, "type": "string"})
    return members


def base64_of(number: int) -> str:
    return b64encode(number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)).decode()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"schema_changes": "quarantine"},
        {"fields": FILE["value"]["fields"] | {"op": "string?", "payload": "string?"}},
        {"envelope": "connect"},
        {"fields": FILE["value"]["fields"] | {"price": "string?"}},
        {"fields": FILE["value"]["fields"] | {"price": "decimal(9,2,base64)?"}},
        {"fields": FILE["value"]["fields"] | {"tags": "list<decimal(9,2)>?", "name": PARTS.format("decimal(9,2)")}},
        {"fields": FILE["value"]["fields"] | {"name": PARTS.format("string")}, "envelope": "connect"},
        {"fields": FILE["value"]["fields"] | {"name": "json?", "d": {"type": "decimal(9,2)?", "from": "name.d"}}},
        {"fields": FILE["value"]["fields"] | {"tags": f"list<{IN_BASE64}>?", "name": PARTS.format(IN_BASE64)}},
    ],
    ids=[
        "changes",
        "known names",
        "fields with the envelope's names",
        "connect",
        "decimals as text",
        "in Base64",
        "within",
        "text within",
        "next to all of it",
        "in Base64 within",
    ],
)
def test_a_batch_is_read_as_a_proof_reads_it(settings: dict[str, Any], draw: Random) -> None:
    made = dataset(**settings)
    values = [json.dumps(drawn(draw)).encode() for _ in range(1500)]
    open_value, known = opener(made), Fields.of(made).known
    names = [".".join(name) for name in made.envelope_attributes]
    for value, found in zip(values, reader(Fields.of(made))(list(values)).to_pylist(), strict=True):
        row, faults, change = fields_of(value, made.fields, made.read_places, known, open_value=open_value)
        if found is None:
            assert change.is_null, value
            continue
        unusable = found["unusable"] is not None
        assert unusable == ("(value)" in faults), value
        assert [*(found.get("attributes") or {}).values()] == [
            said_again(change.attributes.get(name)) for name in names
        ]
        if not unusable:
            assert_read_alike(made, found, row, faults, value)


def test_a_field_that_is_read_from_a_mark_is_of_its_declared_type_or_named() -> None:
    made = dataset(fields=FILE["value"]["fields"] | {"kind": {"type": "long?", "from": "__op"}})
    row, problems, _, _ = read_one(ROW | {"__op": "u", "__deleted": "false"}, made)
    assert (row["kind"], problems) == (None, {"kind": "wrong_type"})


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"apply": {"mode": "append"}}, "changes update and delete rows.*write apply.mode: upsert"),
        ({"apply": FILE["apply"] | {"version": {"from": "n"}}}, "a delete .* has no field but its key; write offset"),
        (
            {
                "apply": FILE["apply"] | {"version": {"from": "debezium"}},
                "value": {"fields": FILE["value"]["fields"]},
                "identity": {},
            },
            "debezium.major needs value.envelope: debezium",
        ),
        (
            {
                "apply": FILE["apply"] | {"version": {"from": "debezium"}},
                "value": FILE["value"] | {"fields": FILE["value"]["fields"] | {"debezium": "string?"}},
            },
            "debezium is the position of the connector, and value.fields has a field of this name",
        ),
        ({"apply": FILE["apply"] | {"version": {"from": "envelope.ts_ms"}}}, "envelope values are text.*long"),
        ({"identity": {"message_id": "debezium.lsn"}}, "debezium has no lsn; write debezium.position"),
        ({"identity": {"business_key": ["debezium.position"]}}, "it is an identity.message_id"),
        ({"target": {"table": "shop.items", "where": "envelope.op = 'c'"}}, "which rows do not keep"),
        ({"value": {"fields": FILE["value"]["fields"]}}, "debezium.position needs value.envelope: debezium"),
        ({"value": FILE["value"] | {"envelope": "debezuim"}}, "'none', 'connect', 'debezium' or 'cloudevents'"),
    ],
)
def test_a_file_that_cannot_be_right_says_what_to_write(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Dataset.model_validate(FILE | keys)


def test_a_field_that_is_called_envelope_stays_a_field() -> None:
    fields = {"id": "long", "envelope": "struct<op: string>", "n": "long"}
    apply = {"mode": "upsert", "key": ["id"], "version": {"from": "n"}, "delete_when": "envelope.op = 'd'"}
    made = Dataset.model_validate(FILE | {"value": {"fields": fields}, "identity": {}, "apply": apply})
    assert made.apply.delete_when == "value.envelope.op = 'd'"


def test_what_is_read_of_the_envelope_is_what_expressions_ask_for() -> None:
    apply = FILE["apply"] | {"delete_when": "envelope.op in ('d', 'x')"}
    source = FILE["source"] | {"filter": "envelope.source.table = 'items'"}
    made = Dataset.model_validate(FILE | {"identity": {}, "apply": apply, "source": source})
    assert made.envelope_attributes == [("deleted",), ("op",), ("source", "table")]
    assert made.generation != Dataset.model_validate(FILE).generation
