"""One Avro message as JSON text: exactly one message of the schema, in time that follows its bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.formats.avro import message_reader
from onefold.formats.structured_json import FormatError

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
