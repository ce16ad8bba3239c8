"""One Protobuf message as JSON text: exactly what the message says, and of any bytes one answer, in time that follows
them. Schemas go through protoc; what a message is, Google's own classes say."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Callable
from decimal import Decimal
from random import Random
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from onefold.dataset.protobuf_schema import compile_texts, message_at, schema_text
from onefold.dataset.types import FieldType, parse_type
from onefold.formats import protobuf as of_runs
from onefold.formats.protobuf import message_reader
from onefold.formats.structured_json import FormatError, TooLargeError
from onefold.formats.text import Number, parse_exactly
from onefold.proof.numbers import float_number
from onefold.proof.protobuf import decoder
from tests.support.protobuf import class_of, schema_from, schema_of

GOLDEN = """
syntax = "proto3";
message Test1 { int32 a = 1; }
message Test2 { string b = 2; }
message Test3 { Test1 c = 3; }
message Test4 { string d = 4; repeated int32 e = 6; }
message Test5 { repeated int32 f = 6; }
message Test6 { map<string, int32> g = 7; }
message Signs { sint32 s = 1; int32 i = 2; }
"""
DOCUMENTED = {
    "Test1, a is 150": ("Test1", "089601", {"a": 150}),
    "Test2, b is testing": ("Test2", "120774657374696e67", {"b": "testing"}),
    "Test3, an embedded Test1": ("Test3", "1a03089601", {"c": {"a": 150}}),
    "Test4, not packed": ("Test4", "220568656c6c6f300130023003", {"d": "hello", "e": [1, 2, 3]}),
    "Test5, packed": ("Test5", "3206038e029ea705", {"f": [3, 270, 86942]}),
    "zigzag: 3 is -2": ("Signs", "0803", {"s": -2, "i": 0}),
    "zigzag: the most negative": ("Signs", "08ffffffff0f", {"s": -(2**31), "i": 0}),
    "-2 takes ten bytes": ("Signs", "10feffffffffffffffff01", {"s": 0, "i": -2}),
    "the last of a number counts": ("Test1", "08010802", {"a": 2}),
    "pieces of a message are one": ("Test3", "1a0208011a00", {"c": {"a": 1}}),
    "the last entry of a key counts": ("Test6", "3a050a016110013a050a01611002", {"g": {"a": 2}}),
    "an entry without its value": ("Test6", "3a030a0161", {"g": {"a": 0}}),
}
"""Of https://protobuf.dev/programming-guides/encoding/: message, bytes in hexadecimal, and what they say."""


@pytest.mark.parametrize("name", DOCUMENTED)
def test_the_examples_of_the_documentation_are_read_as_it_says(name: str) -> None:
    message, data, said = DOCUMENTED[name]
    schema = schema_from(GOLDEN, message)
    assert json.loads(message_reader(schema, {})(bytes.fromhex(data))) == said
    assert plain(decoder(schema, {})(bytes.fromhex(data))) == said


EVERY, FEW = schema_of("shop.Every"), json.loads(schema_of("shop.Every"))["messages"]["shop.Every"]
WHOLE = {name: parse_type("json?") for name in FEW if name not in ("any", "self")}
PART = {
    "a_string": parse_type("string"),
    "state": parse_type("long?"),
    "box": parse_type("struct<n: int, size: string?>?"),
    "points": parse_type("map<string, struct<x: int, next: struct<y: int?>?>>"),
    "self": parse_type("struct<box: json?, a_bool: boolean>?"),
}


def said_of(data: bytes, fields: dict[str, FieldType] = WHOLE, schema: str = EVERY) -> dict[str, Any]:
    """What a run and a proof read, which is the same."""
    first = parse_exactly(message_reader(schema, fields)(data).decode())
    assert same(first, decoder(schema, fields)(data)), data.hex()
    return plain(first)  # type: ignore[no-any-return]


def plain(value: Any) -> Any:
    """Numbers as Python has them."""
    match value:
        case Number():
            return int(value) if value.lstrip("-").isdigit() else float(value)
        case dict():
            return {name: plain(part) for name, part in value.items()}
        case list():
            return list(map(plain, value))
        case _:
            return value


def same(first: Any, second: Any) -> bool:
    """Equal JSON; a number may be spelled in two ways."""
    if isinstance(first, Number) and isinstance(second, Number):
        return Decimal(first) == Decimal(second)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(same, first, second))
    return type(first) is type(second) and bool(first == second)


def every(**given: Any) -> bytes:
    return class_of("shop.Every")(**given).SerializePartialToString()  # type: ignore[no-any-return]


def test_an_empty_message_has_its_defaults_and_lacks_what_it_can_lack() -> None:
    there = said_of(b"")
    zero = ("int32", "int64", "uint32", "uint64", "sint32", "sint64", "fixed32", "fixed64", "sfixed32", "sfixed64")
    numbers = {name: 0 for name in FEW if name.startswith(("a_", "an_")) and name.endswith(zero)}
    others = {"a_double": 0.0, "a_float": 0.0, "a_bool": False, "a_string": "", "some_bytes": "", "state": "OPEN"}
    lists = {name: [] for name, field in FEW.items() if field.get("repeated")}
    maps = {name: {} for name, field in FEW.items() if "key" in field}
    assert there == numbers | others | lists | maps
    box = schema_of("old.Box")
    assert json.loads(message_reader(box, {})(b"")) == {"packed": [], "loose": [], "sizes": {}}


EXACT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "unsigned": ({"a_uint64": 2**64 - 1, "a_fixed64": 2**63}, {"a_uint64": 2**64 - 1, "a_fixed64": 2**63}),
    "enum": ({"state": -1, "states": [0, 1, 77]}, {"state": "MINUS", "states": ["OPEN", "PAID", 77]}),
    "bytes": ({"some_bytes": b"\xff\x00"}, {"some_bytes": "/wA="}),
    "specials": (
        {"doubles": [float("nan"), float("inf"), -0.0], "a_float": float("-inf")},
        {"doubles": ["NaN", "Infinity", -0.0], "a_float": "-Infinity"},
    ),
    "a float": ({"a_float": 0.1}, {"a_float": 0.1}),
    "explicit zero": ({"perhaps": 0, "number": 0}, {"perhaps": 0, "number": 0}),
    "map keys": (
        {"counts": {"b": 1, "": 2}, "flags": {True: "t", False: "f"}, "points": {-(2**63): {"y": 1}}},
        {
            "counts": {"b": 1, "": 2}, "flags": {"true": "t", "false": "f"},
            "points": {str(-(2**63)): {"x": 0, "y": 1}},
        },
    ),
    "groups": (
        {"box": {"n": 1, "inner": {"text": "t", "deeper": {"more": [{"yes": True}, {}]}}}, "point": {"next": {"x": 2}}},
        {
            "box": {
                "n": 1, "packed": [], "loose": [], "sizes": {},
                "inner": {"text": "t", "deeper": {"more": [{"yes": True}, {}]}},
            },
            "point": {"x": 0, "next": {"x": 2}},
        },
    ),
    "first name": (
        {"box": {"size": 2, "n": 0}}, {"box": {"n": 0, "size": "LARGE", "packed": [], "loose": [], "sizes": {}}},
    ),
    "times": (
        {"at": {"seconds": -1, "nanos": 999_999_999}, "times": [{"seconds": -62135596800}, {"seconds": 253402300799}]},
        {
            "at": "1969-12-31T23:59:59.999999999Z",
            "times": ["0001-01-01T00:00:00.000000Z", "9999-12-31T23:59:59.000000Z"],
        },
    ),
    "no times": (
        {"at": {"seconds": 253402300800}, "times": [{"nanos": -1}, {"nanos": 10**9}]},
        {
            "at": {"seconds": 253402300800, "nanos": 0},
            "times": [{"seconds": 0, "nanos": -1}, {"seconds": 0, "nanos": 10**9}],
        },
    ),
    "duration": ({"took": {"seconds": -3, "nanos": -500_000_000}}, {"took": -3.5}),
    "short duration": ({"took": {"nanos": -1}}, {"took": -1e-9}),
    "no duration": ({"took": {"seconds": 1, "nanos": -1}}, {"took": {"seconds": 1, "nanos": -1}}),
    "wrappers": (
        {"wrapped": {}, "wrapped_text": {"value": "x"}, "wrapped_uint64": {"value": 2**64 - 1}, "wrapped_bytes": {}},
        {"wrapped": 0, "wrapped_text": "x", "wrapped_uint64": 2**64 - 1, "wrapped_bytes": ""},
    ),
    "json": (
        {"object": {"b": [1, None, True, {"x": "y"}], "a": {}}, "anything": {"null_value": 0}, "list": []},
        {"object": {"b": [1.0, None, True, {"x": "y"}], "a": {}}, "anything": None, "list": []},
    ),
}  # fmt: skip
"""What a message has, and what is read of it besides defaults."""


@pytest.mark.parametrize("name", EXACT)
def test_each_type_is_read_exactly(name: str) -> None:
    given, said = EXACT[name]
    found = said_of(every(**given))
    first, second = (json.dumps(value, sort_keys=True) for value in ({name: found[name] for name in said}, said))
    assert first == second


def test_the_last_field_of_a_oneof_counts() -> None:
    data = every(text="x") + every(chosen={"n": 1}) + every(number=3)
    assert {name for name in ("text", "chosen", "number") if name in said_of(data)} == {"number"}


def test_a_number_of_an_enum_without_a_name_is_no_text_and_no_number() -> None:
    """Of proto2, too, where Google's library says that there is no such field."""
    data = b"\x10\x07"  # size = 7 of old.Box
    schema = schema_of("old.Box")
    for kind, said in {"string?": 7, "long?": {"number": 7}, "decimal(9,2)?": {"number": 7}}.items():
        assert said_of(data, {"size": parse_type(kind)}, schema) == {"size": said}


def test_undeclared_fields_are_named_and_not_read() -> None:
    data = every(a_string="x", text="y", at={"seconds": 1}) + b"\xf2\x3f\x01z" + b"\x72\x02\xff\xfe"
    found = said_of(data, {"an_int32": parse_type("int")})
    assert found == {"an_int32": 0, "a_string": None, "text": None, "at": None, "1022": None}


REFUSED: dict[str, bytes] = {
    "cut": every(a_string="abc")[:-1],
    "the number 0": b"\x00\x01",
    "wire type 6": b"\x0e",
    "a number without an end": b"\x18" + b"\xff" * 10 + b"\x01",
    "a group without an end": b"\xfb\x3f",
    "the end of a group": b"\xfc\x3f",
    "the end of another group": b"\xfb\x3f\xf4\x3f",
    "packed and cut": b"\xaa\x01\x07" + bytes(7),
    "text that is none": b"\x72\x02\xff\xfe",
    "another type": b"\x72\x01\xff" + b"\x70\x05",
    "another type in an entry": b"\xb2\x01\x06\x0a\x01a\x12\x01a",
    "another type in a time": b"\xf2\x01\x03\x0a\x01a",
    "a json value that says nothing": b"\xd2\x02\x00",
    "a json number that is none": every(anything={"number_value": float("nan")}),
    "101 levels": b"".join([b"\xfb\x3f"] * 101 + [b"\xfc\x3f"] * 101),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_message_is_refused(name: str) -> None:
    with pytest.raises((FormatError, UnicodeDecodeError)):
        message_reader(EVERY, WHOLE)(REFUSED[name]).decode()
    assert answer(decoder(EVERY, WHOLE), REFUSED[name]) is None


def test_a_refusal_names_the_field_and_what_it_is() -> None:
    with pytest.raises(FormatError, match=r"^box\.n: it is bytes with their length, which its type .* is not$"):
        message_reader(EVERY, PART)(b"\xe2\x01\x03\x0a\x01a")
    with pytest.raises(FormatError, match=r"^it is no shop\.Every: DecodeError"):
        message_reader(EVERY, PART)(b"\x00")
    with pytest.raises(FormatError, match=r"^any: google\.protobuf\.Any may be any message"):
        message_reader(EVERY, {"any": parse_type("json")})
    with pytest.raises(FormatError, match=r"^self\.any: google\.protobuf\.Any"):
        message_reader(EVERY, {"self": parse_type("json")})
    other = schema_from('syntax="proto3"; package google.protobuf; message Timestamp { string at = 1; }')
    with pytest.raises(FormatError, match=r"another google\.protobuf\.Timestamp than Google's"):
        message_reader(other, {})


def test_s6_a_few_bytes_are_not_believed_to_be_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bytes are an empty message, and with its defaults hundreds of letters."""
    schema = schema_from(
        f"syntax = 'proto3'; message M {{ repeated E e = 1; }} "
        f"message E {{ {' '.join(f'int64 a_long_name_{n} = {n};' for n in range(1, 200))} }}",
        "M",
    )
    assert len(decoder(schema, {})(b"\x0a\x00" * 3)["e"]) == 3
    monkeypatch.setattr("onefold.formats.protobuf.LARGEST", 100_000)
    monkeypatch.setattr("onefold.proof.protobuf._LARGEST", 100_000)
    counted = Counted(message_reader(schema, {}))
    with pytest.raises(TooLargeError, match="more than 100,000 letters"):
        counted(b"\x0a\x00" * 40_000)
    assert counted.calls < 100_000
    with pytest.raises(ValueError, match="too large"):
        decoder(schema, {})(b"\x0a\x00" * 1_000)
    with pytest.raises(TooLargeError, match="at most 100,000 can be read"):
        message_reader(schema, {})(bytes(100_001))


class Counted:
    """Calls of functions while another function runs."""

    def __init__(self, function: Callable[[bytes], Any]) -> None:
        self.function, self.calls = function, 0

    def __call__(self, data: bytes) -> Any:
        def count(_: Any, event: str, __: Any) -> None:
            self.calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            return self.function(data)
        finally:
            sys.setprofile(None)


@pytest.mark.parametrize(
    "piece", [b"\xfb\x3f\xfc\x3f", b"\xb2\x01\x02\x0a\x00", b"\x18\x01", b"\xf2\x01\x00", b"\xca\x01\x01a"]
)
def test_s6_work_follows_the_bytes(piece: bytes) -> None:
    def calls(times: int) -> list[int]:
        found = []
        for read in (message_reader(EVERY, WHOLE), decoder(EVERY, WHOLE)):
            counted = Counted(read)
            counted(piece * times)
            found.append(counted.calls)
        return found

    for few, many in zip(calls(100), calls(1_000), strict=True):
        assert many <= few * 12


def test_s6_any_bytes_have_one_answer_and_a_run_and_a_proof_have_the_same(draw: Random) -> None:
    given = (WHOLE, PART, {})
    readers = [(message_reader(EVERY, fields), decoder(EVERY, fields)) for fields in given]
    taken = 0
    for _ in range(400):
        data = spoiled(draw, filled(draw) + (filled(draw) if draw.random() < 0.2 else b""))
        for run, proof in readers:
            first, second = answer(lambda data, run=run: parse_exactly(run(data).decode()), data), answer(proof, data)
            assert same(first, second), data.hex()
            taken += first is not None
    assert 200 < taken < 1_000, "of each kind there are some"


def answer(read: Callable[[bytes], Any], data: bytes) -> Any:
    try:
        return read(data)
    except (FormatError, ValueError):
        return None


def filled(draw: Random) -> bytes:
    """A message with some fields, through Google's own class."""
    message = class_of("shop.Every")()
    fill(draw, message, 0)
    return message.SerializePartialToString()  # type: ignore[no-any-return]


def fill(draw: Random, message: Any, depth: int) -> None:
    for field in message.DESCRIPTOR.fields:
        if draw.random() < (0.6 if depth == 0 else 0.7 - depth * 0.15) or depth > 4:
            continue
        given = getattr(message, field.name)
        if field.message_type and field.message_type.GetOptions().map_entry:
            key, value = field.message_type.fields
            for _ in range(draw.randrange(3)):
                if value.message_type:
                    fill(draw, given[some(draw, key)], depth + 1)
                else:
                    given[some(draw, key)] = some(draw, value)
        elif field.is_repeated:
            for _ in range(draw.randrange(3)):
                if field.message_type:
                    fill(draw, given.add(), depth + 1)
                else:
                    given.append(some(draw, field))
        elif field.message_type:
            given.SetInParent()
            fill(draw, given, depth + 1)
        else:
            setattr(message, field.name, some(draw, field))


def some(draw: Random, field: Any) -> Any:
    """A value of a field, often one of the ends of its type."""
    if field.enum_type:
        return draw.choice(
            [*(value.number for value in field.enum_type.values), *([] if field.enum_type.is_closed else [77])]
        )
    ends = {
        FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1), FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
        FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1), FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
    }.get(field.cpp_type)  # fmt: skip
    if ends:
        return draw.choice([*ends, 0, 1, draw.randrange(1000)])
    return draw.choice(
        {
            FieldDescriptor.CPPTYPE_DOUBLE: [0.0, -0.0, 0.1, 1e300, float("nan"), float("inf"), -2.5],
            FieldDescriptor.CPPTYPE_FLOAT: [0.0, -0.0, 0.1, 1e30, float("inf"), 16777217.0],
            FieldDescriptor.CPPTYPE_BOOL: [True, False],
            FieldDescriptor.CPPTYPE_STRING: (
                [b"", b"a", b"\xff"] if field.type == FieldDescriptor.TYPE_BYTES else ["", "a", "é😀", '"\\\n']
            ),
        }[field.cpp_type]
    )


def spoiled(draw: Random, data: bytes) -> bytes:
    """The same bytes, or some of them changed, lost or added."""
    kind = draw.random()
    if kind < 0.1:
        return draw.randbytes(draw.randrange(30))
    found = bytearray(data)
    for _ in range(draw.randrange(1, 4) if kind < 0.6 and data else 0):
        at = draw.randrange(len(found) + 1)
        change = draw.random()
        found[at : at + (change < 0.7)] = (
            b"" if 0.5 < change < 0.7 else bytes([draw.choice([0, 0x80, 0xFF, draw.randrange(256)])])
        )
        found = found if change < 0.9 else found[:at]
    return bytes(found)


def test_a_float_is_the_shortest_number_that_is_it_next_to_a_power_of_two_too() -> None:
    numbers = [struct.unpack("<f", struct.pack("<I", exponent << 23))[0] for exponent in range(1, 255)]
    for number in numbers:
        text = message_reader(EVERY, {"a_float": parse_type("double")})(every(a_float=number)).decode()
        assert float(parse_exactly(text)["a_float"]) == float(float_number(number, "float"))


# Schemas.


def test_what_does_not_change_how_a_message_is_read_changes_no_schema() -> None:
    text = """syntax = "proto3"; package shop; message Order { string id = 1; optional Order parent = 2; }"""
    other = """// Orders.
    syntax = "proto3"; package shop; option java_package = "x";
    message Other { int32 n = 1; } service S { rpc Get(Other) returns (Order); }
    message Order { reserved 7; optional Order parent = 2 [deprecated = true]; string id = 1 [json_name = "ID"]; }"""
    assert schema_from(text, "shop.Order") == schema_from(other, "shop.Order")
    assert schema_from(text) != schema_from(text.replace("= 1;", "= 3;"))


def test_a_message_is_found_by_its_indexes() -> None:
    """As a registry's messages name theirs."""
    text = 'syntax = "proto3"; package p; message A { message B {} message C { int32 x = 1; } } message D {}'
    described = compile_texts({"a.proto": text}, "a.proto")
    assert [message_at(described, "a.proto", at) for at in ([0], [1], [0, 1])] == ["p.A", "p.D", "p.A.C"]
    for at in ([2], [0, 2], [-1], [1, 0]):
        with pytest.raises(ValueError, match="no message with the indexes"):
            message_at(described, "a.proto", at)


WRONG = {
    "a syntax error": (
        {"m.proto": 'syntax = "proto3"; message A { int32 x }'},
        None,
        r"m\.proto:1:40: Missing field number",
    ),
    "no import": ({"m.proto": 'syntax = "proto3"; import "n.proto";'}, None, r'Import "n\.proto" was not found'),
    "several": ({"m.proto": 'syntax = "proto3"; message A {} message B {}'}, None, r"say which in `message` \(A, B\)"),
    "none": ({"m.proto": 'syntax = "proto3";'}, None, "it has no message"),
    "a short name": (
        {"m.proto": 'syntax = "proto3"; package p; message A {}'},
        "A",
        r"no message A \(did you mean p\.A\?\)",
    ),
    "a name that leads out": (
        {"m.proto": 'syntax = "proto3"; message A {}', "../n.proto": ""},
        None,
        "no name of an import",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_schema_that_is_none_says_what_is_wrong(name: str) -> None:
    texts, message, said = WRONG[name]
    with pytest.raises(ValueError, match=said):
        schema_text(compile_texts(texts, "m.proto"), message, "m.proto")


def test_every_type_of_protobuf_is_read() -> None:
    types = {field["type"] for fields in json.loads(EVERY)["messages"].values() for field in fields.values()}
    assert len(types | set(of_runs._SHAPES)) == 18


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("StringValue", b"\x0a\x01a", "a"),
        ("Int64Value", b"\x08\x07", Number("7")),
        ("Timestamp", b"\x08\x01", "1970-01-01T00:00:01.000000Z"),
        ("Struct", b"", {}),
    ],
)
def test_a_key_of_a_type_with_a_meaning_of_its_own_is_what_it_means(name: str, data: bytes, said: Any) -> None:
    imported = {"StringValue": "wrappers", "Int64Value": "wrappers", "Timestamp": "timestamp", "Struct": "struct"}[name]
    imports = f'syntax = "proto3"; import "google/protobuf/{imported}.proto";'
    text = f"{imports} message Key {{ google.protobuf.{name} is = 1; }}"
    schema = schema_text(compile_texts({"key.proto": text}, "key.proto"), f"google.protobuf.{name}", "key.proto")
    assert parse_exactly(message_reader(schema, {})(data).decode()) == said
    assert plain(decoder(schema, {})(data)) == plain(said)


def test_the_fast_way_writes_the_same_bytes(draw: Random, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also the same as before there was one: what a record says as a whole is a digest of bytes."""
    messages = [filled(draw) for _ in range(300)]

    def written() -> list[bytes | None]:
        readers = [message_reader(EVERY, fields) for fields in (WHOLE, PART, {})]
        return [answer(read, data) for read in readers for data in messages]

    fast = written()
    monkeypatch.setattr(of_runs, "_NOT_COUNTED", -1)
    assert written() == fast
    assert any(fast)


def test_what_the_schema_knows_goes_the_fast_way(monkeypatch: pytest.MonkeyPatch, draw: Random) -> None:
    monkeypatch.setattr(of_runs, "encoded", lambda *_: pytest.fail("the exact way"))
    messages = [every(a_string="x", an_int64=7)] + [every(a_double=draw.random()) for _ in range(3)]
    for read in (message_reader(EVERY, WHOLE), message_reader(EVERY, {})):
        for data in messages:
            read(data)
    with pytest.raises(pytest.fail.Exception, match="the exact way"):
        message_reader(EVERY, WHOLE)(b"\xfa\x3f\x01a")  # a field that the schema does not know
