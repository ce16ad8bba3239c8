"""Wire formats: what a key or a value says of its schema, byte by byte."""

from __future__ import annotations

import zlib
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.formats import wire
from onefold.formats.structured_json import FormatError
from onefold.formats.wire import (
    Header,
    IdSpace,
    MessagePlace,
    SchemaId,
    message_indexes,
    message_place,
    payload,
    schema_id,
)

GUID = UUID("89791762-2336-4186-9674-299b90a802e2")
VALUE_ID, KEY_ID = "__value_schema_id", "__key_schema_id"


def read(data: bytes, header: Header | None = None, space: IdSpace | None = None) -> tuple[str, bytes]:
    found, at = schema_id(data[: wire.PREFIX], header, space)
    return str(found), payload(data, at)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00\x00\x00\x00\x07abc", ("confluent-7", b"abc")),
        (b"\x00\x7f\xff\xff\xff", ("confluent-2147483647", b"")),
        (b"\x00" + bytes(7) + b"\x07abc", ("global-7", b"abc")),
        (b"\x00" + bytes(4) + b"\xff\xff\xff\xff", ("global-4294967295", b"")),
        (b"\x03\x00" + GUID.bytes + b"abc", (f"glue-{GUID}", b"abc")),
        (b"\x03\x05" + GUID.bytes + zlib.compress(b"abc"), (f"glue-{GUID}", b"abc")),
    ],
)
def test_a_prefix_names_the_schema(data: bytes, expected: tuple[str, bytes]) -> None:
    assert read(data) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (VALUE_ID, b"\x01" + GUID.bytes, f"guid-{GUID}"),
        (KEY_ID, b"\x00\x00\x00\x01\x00", "confluent-256"),
        ("apicurio.value.globalId", bytes(7) + b"\x09", "global-9"),
        ("apicurio.key.contentId", bytes(7) + b"\x09", "content-9"),
    ],
)
def test_a_header_names_the_schema_and_the_bytes_have_no_prefix(name: str, value: bytes, expected: str) -> None:
    for data in (b"", b"abc", b"\x00\x00\x00\x00\x07abc"):
        assert read(data, Header(name, value)) == (expected, data)


def test_the_dataset_file_may_say_whose_numbers_apicurios_ids_are() -> None:
    short, long = b"\x00\x00\x00\x00\x07", b"\x00" + bytes(7) + b"\x07"
    assert {read(data, None, IdSpace.CONTENT)[0] for data in (short, long)} == {"content-7"}
    assert {read(data, None, IdSpace.GLOBAL)[0] for data in (short, long)} == {"global-7"}


@pytest.mark.parametrize(
    ("data", "header", "problem"),
    [
        (b"", None, "does not begin with the id of a schema"),
        (b'{"a": 1}', None, "does not begin with the id of a schema"),
        (b"\x00", None, "ends within the id"),
        (b"\x00\x00\x00\x00", None, "ends within the id"),
        (b"\x00" + bytes(7), None, "ends within the id"),
        (b"\x00" + bytes(8), None, "the id 0, and ids begin with 1"),
        (b"\x00\xff\xff\xff\xff", None, "the id -1, and ids begin with 1"),
        (b"\x03\x00" + GUID.bytes[:15], None, "ends within the id"),
        (b"\x03\x01" + GUID.bytes, None, "packed in a way that is none of AWS Glue's: 1"),
        (b"\x03\x05" + GUID.bytes + b"abc", None, "cannot be unpacked"),
        (b"\x03\x05" + GUID.bytes + zlib.compress(b"abc")[:-1], None, "is cut off"),
        (b"\x03\x05" + GUID.bytes + zlib.compress(b"abc") + b"x", None, "1 bytes behind it"),
        (b"\x03\x05" + GUID.bytes + zlib.compress(bytes(wire.LARGEST + 1)), None, "unpacks to more than 16,000,000"),
        (b"a", Header(VALUE_ID, None), f"header {VALUE_ID} holds no id"),
        (b"a", Header(VALUE_ID, b"\x01" + GUID.bytes[1:]), f"header {VALUE_ID} holds no id"),
        (b"a", Header(VALUE_ID, bytes(5)), f"header {VALUE_ID} holds no id"),
        (b"a", Header("apicurio.value.globalId", bytes(4)), r"header apicurio\.value\.globalId holds no id"),
    ],
)
def test_what_names_no_schema_says_why(data: bytes, header: Header | None, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        read(data, header)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00rest", ((0,), 1)),
        (b"\x02\x00", ((0,), 2)),
        (b"\x02\x02", ((1,), 2)),
        (b"\x04\x02\x00", ((1, 0), 3)),
        (b"\x02\x80\x01", ((64,), 3)),
    ],
)
def test_message_indexes_are_zigzag_varints(data: bytes, expected: tuple[tuple[int, ...], int]) -> None:
    assert message_indexes(data) == expected


@pytest.mark.parametrize("data", [b"", b"\x04\x02", b"\x02\x01", b"\x01", b"\xff\xff\xff\xff\xff\xff", b"\xfe\xff\x03"])
def test_what_is_no_list_of_message_indexes_is_refused(data: bytes) -> None:
    with pytest.raises(FormatError, match="message index"):
        message_indexes(data)


@given(st.binary(max_size=40), st.none() | st.binary(max_size=20))
def test_any_bytes_name_a_schema_that_text_names_again_or_say_why_not(data: bytes, header: bytes | None) -> None:
    try:
        found, at = schema_id(data, None if header is None else Header(VALUE_ID, header))
    except FormatError:
        return
    assert SchemaId.of(str(found)) == found
    assert at <= len(data)


@pytest.mark.parametrize(
    ("data", "header", "expected"),
    [
        (b"\x00\x00\x00\x00\x07\x00abc", None, ("confluent-7", (0,), b"abc")),
        (b"\x00\x00\x00\x00\x07\x04\x02\x00abc", None, ("confluent-7", (1, 0), b"abc")),
        (b"abc", Header(VALUE_ID, b"\x01" + GUID.bytes + b"\x04\x02\x00"), (f"guid-{GUID}", (1, 0), b"abc")),
        (b"abc", Header(VALUE_ID, b"\x01" + GUID.bytes), (f"guid-{GUID}", (0,), b"abc")),
        (b"abc", Header(VALUE_ID, b"\x00\x00\x00\x00\x07\x02\x02"), ("confluent-7", (1,), b"abc")),
        (b"\x00" + bytes(7) + b"\x07\x07\x0a\x05Orderabc", None, ("global-7", "Order", b"abc")),
        (b"abc", Header("apicurio.value.globalId", bytes(7) + b"\x07"), ("global-7", "", b"abc")),
    ],
)
def test_a_protobuf_message_says_which_of_its_schema_it_is(
    data: bytes, header: Header | None, expected: tuple[str, MessagePlace, bytes]
) -> None:
    id_, at = schema_id(data[: wire.PREFIX], header, places=True)
    assert (str(id_), *message_place(payload(data, at), id_, header)) == expected


@pytest.mark.parametrize(
    ("data", "header", "problem"),
    [
        (b"\x00\x00\x00\x00\x07", None, "ends within its message indexes"),
        (b"abc", Header(VALUE_ID, b"\x01" + GUID.bytes + b"\x00\x00"), "goes on behind the message indexes"),
        (b"\x00" + bytes(7) + b"\x07abc", None, "does not say which message"),
        (b"\x00" + bytes(7) + b"\x07\x03\x0a\x01\xff", None, "does not say which message"),
        (b"\x03\x00" + GUID.bytes + b"abc", None, "of AWS Glue are not read"),
    ],
)
def test_a_protobuf_message_that_does_not_say_which_it_is(data: bytes, header: Header | None, problem: str) -> None:
    id_, at = schema_id(data[: wire.PREFIX], header, places=True)
    with pytest.raises(FormatError, match=problem):
        message_place(payload(data, at), id_, header)
