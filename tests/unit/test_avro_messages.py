"""One Avro message as JSON text: exactly one message of the schema, in time that follows its bytes."""

from __future__ import annotations

import json
import struct
from io import BytesIO
from typing import Any

import fastavro
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from onefold.dataset.types import parse_type
from onefold.formats.avro import message_reader
from onefold.formats.structured_json import FormatError
from onefold.formats.text import Number, parse_exactly
from onefold.proof.avro import decoder

EMPTY = {"type": "record", "name": "Empty", "fields": []}
NULLS = {"type": "record", "name": "Nulls", "fields": [{"name": "n", "type": "null"}]}
SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "R",
    "fields": [
        {"name": "text", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "long"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}


@pytest.mark.parametrize("items", ["null", EMPTY, NULLS])
def test_a_list_of_values_that_take_no_bytes_is_refused(items: Any) -> None:
    """Nine bytes could claim 2^60 of them."""
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": {"type": "array", "items": items}}]}
    with pytest.raises(FormatError, match="a list of values that take no bytes"):
        message_reader(json.dumps(schema), {})


@given(st.binary(max_size=200))
def test_s6_any_bytes_are_one_message_or_none(data: bytes) -> None:
    try:
        text = message_reader(json.dumps(SCHEMA), {})(data)
    except FormatError:
        return
    assert set(json.loads(text.decode("utf-8", "replace"))) == {"text", "tags", "counts", "price"}


def test_a_list_that_claims_more_than_there_is_costs_nothing() -> None:
    claims = b"\x00" + b"\xfe" * 8 + b"\x01"
    with pytest.raises(FormatError):
        message_reader(json.dumps(SCHEMA), {})(claims)


MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
LIST = {"type": "array", "items": ["int", {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}]}
EVERY: dict[str, Any] = {
    "type": "record",
    "name": "Every",
    "namespace": "shop",
    "fields": [
        {"name": "text", "type": ["null", "string"]},
        {"name": "id", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "small", "type": "float"},
        {"name": "large", "type": "double"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}},
        {
            "name": "rate",
            "type": {"type": "fixed", "name": "Rate", "size": 3, "logicalType": "decimal", "precision": 6},
        },
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "clock", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": ["null", {"type": "long", "logicalType": "local-timestamp-millis"}]},
        {"name": "number", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "raw", "type": {"type": "fixed", "name": "Raw", "size": 2}},
        {"name": "flags", "type": {"type": "map", "values": "boolean"}},
        {"name": "home", "type": {"type": "record", "name": "Place", "fields": [{"name": "zip", "type": "int"}]}},
        {"name": "work", "type": "shop.Place"},
        {"name": "others", "type": {"type": "array", "items": "Place"}},
        {"name": "odd", "type": {"type": "string", "logicalType": "decimal"}},
        {"name": "any", "type": ["null", "string", "boolean", "bytes", MOMENT, "float", "Place", LIST]},
        {"name": "two", "type": {"type": "map", "values": ["long", "string"]}},
    ],
}
DECLARED = {"number": parse_type("long"), "at": parse_type("timestamp")}
PLACE = st.fixed_dictionaries({"zip": st.integers(-(2**31), 2**31 - 1)})
VALUES = st.fixed_dictionaries(
    {
        "text": st.none() | st.text(),
        "id": st.text(),
        "small": st.floats(width=32),
        "large": st.floats(),
        "price": st.binary(max_size=20),
        "rate": st.binary(min_size=3, max_size=3),
        "day": st.integers(-(2**31), 2**31 - 1),
        "clock": st.integers(0, 86_399_999),
        "at": st.integers(-(2**63), 2**63 - 1) | st.integers(0, 2**52),
        "local": st.none() | st.integers(0, 2**42),
        "number": st.integers(-(2**63), 2**63 - 1),
        "raw": st.binary(min_size=2, max_size=2),
        "flags": st.dictionaries(st.text(), st.booleans(), max_size=3),
        "home": PLACE,
        "work": PLACE,
        "others": st.lists(PLACE, max_size=3),
        "odd": st.text(),
        "any": st.none()
        | st.text()
        | st.booleans()
        | st.binary()
        | st.integers(0, 2**42)
        | st.floats(width=32)
        | PLACE
        | st.lists(st.integers(0, 5) | st.sampled_from("AB")),
        "two": st.dictionaries(st.text(), st.integers(0, 9) | st.text(), max_size=3),
    }
)
PLAIN = dict.fromkeys(("text", "local")) | {
    "id": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "small": struct.unpack("<f", struct.pack("<f", 0.1))[0], "large": 0.1,
    "price": b"\x7f\xff\xff", "rate": b"\x00\x00\x01", "day": 0, "clock": 34_200_000, "at": 0, "number": 0,
    "raw": b"ab", "flags": {}, "home": {"zip": 1}, "work": {"zip": 2}, "others": [{"zip": 3}], "odd": "1",
    "any": 0, "two": {"a": 1, "b": "1"},
}  # fmt: skip


def without_logical_types(schema: Any) -> Any:
    if isinstance(schema, list):
        return list(map(without_logical_types, schema))
    if isinstance(schema, dict):
        return {name: without_logical_types(part) for name, part in schema.items() if name != "logicalType"}
    return schema


@given(VALUES)
@example(PLAIN)
@example(PLAIN | {"at": -46_388_678_400_000_000})  # the year 500
def test_a_run_and_a_proof_read_every_message_alike(value: dict[str, Any]) -> None:
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(without_logical_types(EVERY)), value)
    first = parse_exactly(message_reader(json.dumps(EVERY), DECLARED)(data.getvalue()).decode())
    second = decoder(json.dumps(EVERY), DECLARED)(data.getvalue())
    for name in ("small", "large", "any"):  # a number may be spelled in two ways
        if isinstance(first[name], Number):
            assert str(float(first.pop(name))) == str(float(second.pop(name)))
    assert first == second


def test_each_type_is_what_a_record_in_json_would_say() -> None:
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(without_logical_types(EVERY)), PLAIN)
    assert json.loads(message_reader(json.dumps(EVERY), DECLARED)(data.getvalue()), parse_float=str) == {
        "text": None, "id": "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "small": "0.1", "large": "0.1",
        "price": "83886.07", "rate": 1, "day": "1970-01-01", "clock": "09:30:00.000000",
        "at": "1970-01-01T00:00:00.000000Z", "local": None, "number": 0, "raw": "YWI=", "flags": {},
        "home": {"zip": 1}, "work": {"zip": 2}, "others": [{"zip": 3}], "odd": "1",
        "any": "1970-01-01T00:00:00.000000Z", "two": {"a": 1, "b": "1"},
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "data", "expected"),
    [
        *(("long", data, number) for number, data in ((0, b"\0"), (-1, b"\1"), (1, b"\2"), (-2, b"\3"), (2, b"\4"))),
        *(("long", data, number) for number, data in ((-64, b"\x7f"), (64, b"\x80\x01"))),
        ("string", b"\x06foo", "foo"),
        ({"type": "array", "items": "long"}, b"\x04\x06\x36\x00", [3, 27]),
        (["null", "string"], b"\x00", None),
        (["null", "string"], b"\x02\x02a", "a"),
    ],
)
def test_the_examples_of_the_specification_are_read_as_it_says(kind: Any, data: bytes, expected: Any) -> None:
    """Section "Binary encoding": a record is its fields one after another, as `a` 27 and `b` foo are 36 06 66 6f 6f."""
    whole = {"type": "record", "name": "test", "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": kind}]}
    read = message_reader(json.dumps(whole), {})
    assert json.loads(read(b"\x36" + data)) == {"a": 27, "b": expected}
