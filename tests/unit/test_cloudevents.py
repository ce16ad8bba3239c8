"""CloudEvents: where each mode has attributes and data, what is no event, and that a proof reads the same."""

from __future__ import annotations

import json
from base64 import b64encode
from random import Random
from typing import Any

import pytest
from pydantic import ValidationError

from onefold.dataset import Dataset
from onefold.formats.cloudevents import BinaryEvent
from onefold.formats.envelopes import BINARY, EVENT, PLAIN
from onefold.proof.cloudevents import event_opener
from onefold.proof.decode import _json_of, fields_of
from onefold.proof.decode import _said as said_again
from onefold.values import columns
from onefold.values.arrow_functions import event_of
from onefold.values.columns import Fields, reader
from tests.support.readings import assert_read_alike

FILE: dict[str, Any] = {
    "name": "orders",
    "source": {
        "kafka": {"connection": "kafka_default", "topics": ["orders"]},
        "filter": "envelope.type = 'order.placed' or envelope.traceid is not null",
    },
    "value": {
        "envelope": "cloudevents",
        "fields": {"order_id": "long", "note": "string?", "id": "long?", "tags": "list<string>?"},
    },
    "identity": {"business_key": ["envelope.source", "envelope.id"]},
    "apply": {
        "mode": "upsert",
        "key": ["envelope.subject"],
        "version": {"from": "timestamp(envelope.time)"},
        "delete_when": "envelope.type = 'order.deleted'",
    },
    "target": {"table": "shop.orders"},
}
ATTRIBUTES = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/shop",
    "type": "order.placed",
    "subject": "7",
    "time": "2026-03-01T08:00:00Z",
}
DATA = {"order_id": 7, "note": "x", "id": 5}
ROW = DATA | {"tags": None}
Pairs = list[tuple[str, str | bytes | None]]


def dataset(**value: Any) -> Dataset:
    return Dataset.model_validate(FILE | {"value": FILE["value"] | value})


def headers(pairs: Pairs) -> list[dict[str, Any]]:
    """As a record has them."""
    texts = [(name, text.encode("utf-8", "replace") if isinstance(text, str) else text) for name, text in pairs]
    return [{"key": name, "value": text} for name, text in texts]


def in_headers(**attributes: Any) -> Pairs:
    """The headers of an event in binary mode; None: without this attribute."""
    named = ATTRIBUTES | attributes
    return [(f"ce_{name}", text) for name, text in named.items() if text is not None]


def read_one(value: Any, pairs: Pairs | None = None) -> tuple[Any, ...]:
    """The row of a value, why it is none, and the attributes."""
    made = dataset()
    data = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
    found = reader(Fields.of(made))([event_of(data, headers(pairs or []))]).to_pylist()[0]
    if found is None:
        return None, None, {}
    names = [name for name, *_ in made.envelope_attributes]
    said = dict(zip(names, found["attributes"].values(), strict=True))
    row = dict(zip(made.fields, found["fields"].values(), strict=True))
    unusable = found["unusable"]
    return row, unusable and (unusable["reason"], unusable["detail"]), said


EVENT_TYPE = {"content-type": "application/cloudevents+json; charset=UTF-8"}
SAID = {name: text for name, text in ATTRIBUTES.items() if name != "specversion"} | {"traceid": None}


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        (ATTRIBUTES | {"data": DATA}, []),
        (ATTRIBUTES | {"data": DATA, "data_base64": None}, [*EVENT_TYPE.items()]),
        (ATTRIBUTES | {"data": DATA}, [("Content-Type", "Application/CloudEvents"), ("ce_specversion", "0.1")]),
        (ATTRIBUTES | {"data": DATA}, [("content-type", "application/json")]),
        (ATTRIBUTES | {"data_base64": b64encode(json.dumps(DATA).encode()).decode()}, []),
        (
            ATTRIBUTES
            | {"data_base64": b64encode(json.dumps(DATA).encode()).decode()}
            | {"datacontenttype": "application/vnd.shop+JSON; v=2"},
            [],
        ),
        (DATA, in_headers()),
        (DATA, [*in_headers(), ("content-type", "application/json")]),
        (DATA, [("ce_id", "e-0"), ("ce_type", b"\xff"), *in_headers(), ("x", b"\xff")]),
    ],
    ids=["structured", "named", "not binary", "by its value", "base64", "base64 of a type", "binary", "typed", "twice"],
)
def test_both_modes_have_the_row_and_the_attributes(value: Any, pairs: Pairs) -> None:
    row, unusable, said = read_one(value, pairs)
    assert (row, unusable) == (ROW, None)
    assert {name: text for name, text in SAID.items() if name in said} == said


def test_attributes_are_text_and_extensions_are_attributes() -> None:
    assert read_one(ATTRIBUTES | {"data": DATA, "traceid": 7})[2]["traceid"] == "7"
    assert read_one(ATTRIBUTES | {"data": DATA, "traceid": True})[2]["traceid"] == "true"
    assert read_one(ATTRIBUTES | {"data": DATA, "traceid": [1]})[2]["traceid"] is None
    assert read_one(DATA, in_headers(traceid="é"))[2]["traceid"] == "é"


@pytest.mark.parametrize(
    ("value", "pairs"),
    [
        (ATTRIBUTES, []),
        (ATTRIBUTES | {"data": None, "data_base64": None}, []),
        (None, in_headers()),
        (b" null\n", in_headers()),
        (ATTRIBUTES | {"data_base64": "77u/bnVsbA=="}, []),
    ],
)
def test_an_event_without_data_is_a_null_that_has_its_attributes(value: Any, pairs: Pairs) -> None:
    row, unusable, said = read_one(value, pairs)
    assert (row, unusable) == (dict.fromkeys(ROW), ("null_value", "the event has no data"))
    assert said["type"] == "order.placed"


def test_a_null_without_attributes_is_a_plain_tombstone() -> None:
    assert read_one(None) == (None, None, {})


BATCH = [("content-type", "application/cloudevents-batch+json")]


@pytest.mark.parametrize(
    ("value", "pairs", "why"),
    [
        (
            DATA,
            [],
            "the value is no CloudEvent: it has no specversion, source and type, and there is no header ce_spec",
        ),
        (ATTRIBUTES | {"type": None}, [], "the value is no CloudEvent: it has no type"),
        (ATTRIBUTES | {"id": 5, "data": DATA}, [], "id of the event is no text"),
        (ATTRIBUTES | {"source": "", "data": DATA}, [], "source of the event is empty"),
        (ATTRIBUTES | {"specversion": "0.3", "data": DATA}, [], "specversion is 0.3, and only 1.0 is read"),
        (ATTRIBUTES | {"data": 5}, [], "data is no JSON object"),
        (ATTRIBUTES | {"data": "{}"}, [], "data is no JSON object"),
        (ATTRIBUTES | {"data": DATA, "data_base64": "e30="}, [], "the event has both data and data_base64"),
        (ATTRIBUTES | {"data_base64": "e30"}, [], "data_base64 is no Base64 text"),
        (ATTRIBUTES | {"data_base64": "e3 0="}, [], "data_base64 is no Base64 text"),
        (ATTRIBUTES | {"data_base64": 5}, [], "data_base64 is no Base64 text"),
        (ATTRIBUTES | {"data_base64": "W10="}, [], "data_base64 is no JSON object"),
        (ATTRIBUTES | {"data_base64": "/w=="}, [], "data_base64 is not UTF-8 at character 1"),
        (
            ATTRIBUTES | {"data_base64": "e30=", "datacontenttype": "image/png"},
            [],
            "data_base64 is of datacontenttype image/png, and only JSON is read",
        ),
        (DATA, in_headers(id=None, type=None), "the event has no ce_id and ce_type among its headers"),
        (DATA, in_headers(id=""), "ce_id of the event is empty"),
        (DATA, in_headers(traceid=b"a\xff"), "header 'ce_traceid' is not UTF-8 at character 2"),
        (DATA, [*in_headers(), ("ce_id", None)], "the event has no ce_id among its headers"),
        (b"[1", in_headers(), "the value is not one JSON value"),
        ([ATTRIBUTES], BATCH, "content-type application/cloudevents-batch+json: a batch of events; write one event a"),
        (
            ATTRIBUTES | {"data": DATA},
            [("content-type", "application/cloudevents+avro")],
            "content-type application/cloudevents+avro: of events in structured mode only JSON is read",
        ),
        (ATTRIBUTES | {"data": DATA}, [("content-type", b"\xff")], "header 'content-type' is not UTF-8 at character 1"),
    ],
)
def test_what_is_no_event_says_why(value: Any, pairs: Pairs, why: str) -> None:
    row, unusable, _ = read_one(value, pairs)
    assert row == dict.fromkeys(ROW)
    assert unusable[1].startswith(why)
    assert unusable[0] in ("undecodable", "wrong_type")


def test_headers_that_cannot_be_read_reject_the_record() -> None:
    assert event_of(b"{}", None) == ("undecodable", "the headers cannot be read")


def test_each_mode_goes_the_fast_way_and_the_other_one_does_not() -> None:
    fields = Fields.of(dataset())
    structured = event_of(json.dumps(ATTRIBUTES | {"data": DATA}).encode(), [])
    binary = event_of(json.dumps(DATA).encode(), headers(in_headers()))
    for value, other, shape in ((structured, binary, EVENT), (binary, structured, BINARY)):
        assert columns._Exact(fields).first_shape([None, ("undecodable", "x"), value]) == shape
        assert columns._Fast(fields, shape).columns([value, None, other])[1] == [2]
    odd = [event_of(json.dumps(ATTRIBUTES | more).encode(), []) for more in ({"data": 5}, {"data": DATA, "id": 5}, {})]
    assert columns._Fast(fields, EVENT).columns([*odd, b'{"order_id": 7}'])[1] == [0, 1, 2, 3]
    assert columns._Exact(fields).first_shape([*odd[:1], b"{"]) == EVENT
    assert columns._Exact(fields).first_shape([b"{"]) == PLAIN


ODD: tuple[Any, ...] = (None, 5, "", "x", True, [], {}, 1.5, "1.0", "\ud83d", 2**70, "e30=", "YWI=", {"order_id": 3})
ODD_HEADERS = ("", "x", None, b"\xff", "1.0", "application/json", "application/cloudevents", "a/cloudevents-batch")
MEDIA = (
    "application/json", "application/cloudevents+json", " Application/CloudEvents ; x=y", "a/+json", ";", "x/y/json",
    "application/cloudevents-batch", "application/cloudevents+avro", "text/plain", "/json", "  /json", "a/b+json",
)  # fmt: skip


def drawn(draw: Random) -> tuple[bytes | None, list[dict[str, Any]] | None]:
    """A value with headers that is an event in either mode, or nearly one."""

    def some(usual: Any, odd: tuple[Any, ...] = ODD, rate: float = 0.05) -> Any:
        return draw.choice(odd) if draw.random() < rate else usual

    data: Any = {name: some(given) for name, given in DATA.items() if draw.random() < 0.95}
    data |= {"data": 1, "more": 2} if draw.random() < 0.1 else {}
    attributes: dict[str, Any] = ATTRIBUTES | ({"traceid": some("t", rate=0.5)} if draw.random() < 0.5 else {})
    attributes |= {"datacontenttype": some(draw.choice(MEDIA))} if draw.random() < 0.3 else {}
    pairs: Pairs = []
    if draw.random() < 0.5:
        texts = [(f"ce_{name}", some(str(text), ODD_HEADERS)) for name, text in attributes.items()]
        pairs += [pair for pair in texts if draw.random() < 0.97]
        pairs += draw.sample(texts, draw.choice([0, 0, 0, 1]))
        value: Any = some(data)
    else:
        value = {name: some(given) for name, given in attributes.items() if draw.random() < 0.98}
        match draw.randrange(6):
            case 0:
                text = json.dumps(some(data)).encode()
                value["data_base64"] = some(
                    b64encode(draw.choice([b"", b"", b"\xef\xbb\xbf", b"\xff"]) + text).decode()
                )
            case 1:
                value |= {"data": some(data, rate=0.3), "data_base64": some(None, rate=0.3)}
            case _:
                value["data"] = some(data)
    if draw.random() < 0.3:
        named = draw.choice(["content-type", "content-type", "Content-Type", "contenttype"])
        pairs.append((named, some(draw.choice(MEDIA), ODD_HEADERS)))
    draw.shuffle(pairs)
    text = some(json.dumps(value).encode(), (None, b"null", b"", b"[]", b"\xff", b"{} {}"))
    return text, None if draw.random() < 0.02 else headers(pairs)


@pytest.mark.parametrize("fast", [bytes, BinaryEvent], ids=["structured", "binary"])
@pytest.mark.parametrize("settings", [{}, {"schema_changes": "quarantine"}], ids=["any names", "known names"])
def test_a_batch_is_read_as_a_proof_reads_it(settings: dict[str, Any], fast: type, draw: Random) -> None:
    """The mode that comes first goes the fast way."""
    made = dataset(**settings)
    records = sorted((drawn(draw) for _ in range(1500)), key=lambda record: not isinstance(event_of(*record), fast))
    open_by, known = event_opener(_json_of), Fields.of(made).known
    names = [name for name, *_ in made.envelope_attributes]
    usable = 0
    values = [event_of(value, named) for value, named in records]
    for (value, named), found in zip(records, reader(Fields.of(made))(values).to_pylist(), strict=True):
        open_value, of_null = open_by(named)
        row, faults, change = fields_of(
            value, made.fields, made.read_places, known, open_value=open_value, of_null=of_null
        )
        said = [said_again(change.attributes.get(name)) for name in names]
        if found is None:
            assert value is None, value
            assert said == [None] * len(names)
            continue
        assert [*found["attributes"].values()] == said, (value, named)
        if value is None:
            continue
        reason = (found["unusable"] or {}).get("reason")
        assert (reason == "null_value", reason not in (None, "null_value")) == (change.is_null, "(value)" in faults), (
            value,
            named,
        )
        if reason is None:
            usable += 1
            assert_read_alike(made, found, row, faults, value)
    assert 400 < usable < 1300, "of each kind there are some"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"value": FILE["value"] | {"format": "json_schema", "registry": {"connection": "r", "name": "prod"}}},
            "not_supported_yet: value.envelope: cloudevents with value.format",
        ),
        ({"source": FILE["source"] | {"filter": "envelope.deleted"}}, "no CloudEvent is marked as a delete; write by"),
        (
            {"source": FILE["source"] | {"filter": "envelope.data.x = 'y'"}},
            "the data of an event is the row; write the",
        ),
        (
            {"source": FILE["source"] | {"filter": "envelope.dataContentType = 'y'"}},
            "names are small letters and digits",
        ),
        (
            {"source": FILE["source"] | {"filter": "envelope.source.table = 'y'"}},
            "source.table is no attribute of a Clo",
        ),
        ({"identity": {"message_id": "debezium.position"}}, "debezium.position needs value.envelope: debezium"),
        ({"value": {"fields": FILE["value"]["fields"]}}, "needs value.envelope: debezium or cloudevents"),
        ({"apply": FILE["apply"] | {"version": {"from": "envelope.time"}}}, r"write long.*timestamp\(envelope.time\)"),
    ],
)
def test_a_file_that_cannot_be_right_says_what_to_write(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        Dataset.model_validate(FILE | keys)


def test_fields_of_the_data_may_have_the_names_of_roots() -> None:
    fields = FILE["value"]["fields"] | {"debezium": "struct<position: string>", "envelope": "string?"}
    identity = {"business_key": ["debezium.position", "value.envelope", "envelope.id"]}
    made = Dataset.model_validate(FILE | {"value": FILE["value"] | {"fields": fields}, "identity": identity})
    assert made.identity.business_key == ["value.debezium.position", "value.envelope", "envelope.id"]
