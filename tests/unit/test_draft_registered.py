"""Drafts from records that name schemas of a registry: the fields are the schema's, all else is the records'."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from onefold.dataset.sections import Registry
from onefold.dataset.types import FieldType
from onefold.dataset.writer_schema import SchemaReference, WriterSchema
from onefold.draft import Asked, Draft, draft_dataset
from onefold.draft.languages import open_message
from onefold.draft.languages import protobuf as of_protobuf
from onefold.draft.sample import sample_of
from onefold.errors import NoDraftError, RegistryRefusedError, RegistryUnavailableError
from onefold.formats import protobuf
from onefold.formats.avro import message_reader
from onefold.formats.wire import SchemaId
from onefold.kafka.record import Record
from onefold.schemas.client import Answer, Client, open_registry
from onefold.settings import Settings
from onefold.values.columns import PROBLEMS, Fields, reader
from tests.support.drafts import KCAT, entry, loaded, notes, record
from tests.support.protobuf import schema_from
from tests.support.registry_messages import avro_message, prefixed

SUBJECT = "shop.things-value"


class Registered:
    """A registry that answers from memory: ids count from 1, in the order in which schemas come."""

    def __init__(self) -> None:
        self.schemas: list[Answer] = []
        self.guids: dict[str, int] = {}

    def register(self, schema: Any, subject: str = SUBJECT, kind: Any = "AVRO", **references: Any) -> int:
        def text(of: Any) -> str:
            return of if isinstance(of, str) else json.dumps(of)

        built_on = [
            SchemaReference(name=name, subject=name, version=1, text=text(of)) for name, of in references.items()
        ]
        version = 1 + sum(answer.subjects[0][0] == subject for answer in self.schemas)
        meaning = WriterSchema(type=kind, text=text(schema), references=built_on)
        self.schemas.append(Answer(meaning, [(subject, version)]))
        return len(self.schemas)

    def schema(self, schema_id: SchemaId) -> Answer | None:
        number = self.guids.get(schema_id.value) or int(schema_id.value)
        return self.schemas[number - 1] if number <= len(self.schemas) else None

    def newest(self, subject: str) -> Answer | None:
        return next(iter(self.versions(subject, 1)), None)

    def versions(self, subject: str, most: int) -> list[Answer]:
        return [answer for answer in reversed(self.schemas) if answer.subjects[0][0] == subject][:most]


@pytest.fixture
def registry() -> Registered:
    return Registered()


def drafted(records: Iterable[Record], registry: Client, **seen: Any) -> Draft:
    sample = replace(sample_of("there", records), **seen)
    return draft_dataset("things", KCAT, sample, None, Asked("prod", lambda: registry))


def declared(draft: Draft, folder: Path) -> dict[str, str]:
    """The fields as the drafted file declares them, with defaults and former names."""
    made = loaded(draft, folder)
    renamed = made.value.renamed
    found = {}
    for name, field in made.value.fields.items():
        more = "" if field.default is None else f" = {field.default!r}"
        found[name] = field.type + more + "".join(f" was {former}" for former in renamed.get(name, ()))
    return found


def check_taken(draft: Draft, folder: Path, read: Callable[[Mapping[str, FieldType]], Iterable[bytes]]) -> None:
    """Each drafted field takes what the run's own decoder makes of the messages: `read`, by what is declared."""
    made = loaded(draft, folder)
    found = reader(Fields.of(made))([*read(made.read_fields)])
    assert [row[PROBLEMS] or row["unusable"] for row in found.to_pylist()] == [None] * len(found)


def of_record(name: str, *fields: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": [*fields], **more}


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    return {"name": name, "type": kind, **more}


def logical(kind: str, name: str, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": name, **more}


PLACE = of_record("Place", field("city", "string"), field("zip", ["null", "string"]))
TREE = of_record("Tree", field("name", "string"), field("under", {"type": "array", "items": "Tree"}))
EVERY_AVRO = of_record(
    "Every",
    field("id", "string", doc="What it is\n called"),
    field("small", "int"),
    field("large", "long"),
    field("half", "float"),
    field("ratio", ["null", "double"]),
    field("is_new", "boolean", default=True),
    field("raw", "bytes"),
    field("digest", {"type": "fixed", "name": "Digest", "size": 2}),
    field("state", {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}, default="OPEN"),
    field("price", logical("bytes", "decimal", precision=12, scale=2)),
    field("amount", ["null", logical("bytes", "decimal", precision=64, scale=2)]),
    field("day", logical("int", "date")),
    field("at", logical("long", "timestamp-millis")),
    field("local", logical("long", "local-timestamp-micros")),
    field("clock", logical("int", "time-millis")),
    field("key", logical("string", "uuid")),
    field("changed", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}),
    field("tags", {"type": "array", "items": ["null", "string"]}),
    field("counts", {"type": "map", "values": "long"}),
    field("place", PLACE),
    field("other", ["null", "Place"]),
    field("mixed", ["null", "string", "long"]),
    field("nothing", "null"),
    field("tree", TREE),
    field("_own", "int"),
    doc="Every type that there is",
)
AVRO_VALUE = {
    "id": "a", "small": 1, "large": 2**40, "half": 0.5, "ratio": None, "is_new": False, "raw": b"\xff",
    "digest": b"ab", "state": "PAID", "price": 1, "amount": None, "day": 1, "at": 1_772_323_200_000,
    "local": 1_772_323_200_000_000, "clock": 1, "key": "k", "changed": 5, "tags": ["x", None], "counts": {"a": 1},
    "place": {"city": "Bern", "zip": None}, "other": None, "mixed": "m", "nothing": None,
    "tree": {"name": "t", "under": []}, "_own": 3,
}  # fmt: skip


def test_the_types_of_avro(registry: Registered, tmp_path: Path) -> None:
    id_ = registry.register(EVERY_AVRO)
    values = [AVRO_VALUE | {"id": text, "price": Decimal("12.50")} for text in "abc"]
    draft = drafted(
        (record(n, prefixed(id_, avro_message(EVERY_AVRO, value))) for n, value in enumerate(values)), registry
    )
    assert declared(draft, tmp_path) == {
        "id": "string",
        "small": "int",
        "large": "long",
        "half": "double",
        "ratio": "double?",
        "is_new": "boolean = True",
        "raw": "binary",
        "digest": "binary",
        "state": "string = 'OPEN'",
        "price": "decimal(12,2)",
        "amount": "decimal(38,2)?",
        "day": "date",
        "at": "timestamp",
        "local": "timestamp",
        "clock": "string",
        "key": "string",
        "changed": "timestamp(micros)",
        "tags": "list<string>",
        "counts": "map<string, long>",
        "place": "struct<city: string, zip: string?>",
        "other": "struct<city: string, zip: string?>?",
        "mixed": "json?",
        "tree": "struct<name: string>",
        "own": "int",
    }
    check_taken(
        draft,
        tmp_path,
        lambda fields: [
            message_reader(json.dumps(EVERY_AVRO), fields)(avro_message(EVERY_AVRO, value)) for value in values
        ],
    )
    made = loaded(draft, tmp_path)
    assert (made.value.format, made.value.registry and made.value.registry.connection) == ("avro", "prod")
    assert made.description == "Every type that there is"
    assert entry(draft, "value.fields.id")[1] == "What it is called"
    assert entry(draft, "value.format")[1] == f"3 values name schemas of the registry ({SUBJECT}, version 1)"
    assert "left out: 'nothing': it is null in every record" in notes(draft)


def test_the_types_of_protobuf(registry: Registered, tmp_path: Path) -> None:
    text = """
        syntax = "proto3";
        package shop;
        import "google/protobuf/timestamp.proto";
        import "google/protobuf/duration.proto";
        import "google/protobuf/wrappers.proto";
        import "google/protobuf/struct.proto";
        import "google/protobuf/any.proto";
        enum State { OPEN = 0; PAID = 1; }
        message Place { string city = 1; optional string zip = 2; }
        message Tree { string name = 1; repeated Tree under = 2; }
        // An order
        message Every {
          // What it is called
          string id = 1;
          sint32 small = 2;
          int64 large = 3;
          uint32 unsigned = 4;
          fixed64 huge = 5;
          float half = 6;
          optional double ratio = 7;
          bool is_new = 8;
          bytes raw = 9;
          State state = 10;
          Place place = 11;
          repeated Place places = 12;
          map<int32, int64> counts = 13;
          oneof how { string card = 14; int32 cash = 15; }
          google.protobuf.Timestamp at = 16;
          google.protobuf.Duration took = 17;
          google.protobuf.Int64Value maybe = 18;
          google.protobuf.Struct more = 19;
          google.protobuf.Any any = 20;
          Tree tree = 21;
        }"""
    id_ = registry.register(text, kind="PROTOBUF")
    values = [b"\x02\x04" + b"\x0a\x01" + letter for letter in (b"a", b"b", b"c")]  # the third message of the file
    draft = drafted((record(n, prefixed(id_, value)) for n, value in enumerate(values)), registry)
    assert declared(draft, tmp_path) == {
        "id": "string",
        "small": "int",
        "large": "long",
        "unsigned": "long",
        "huge": "decimal(20,0)",
        "half": "double",
        "ratio": "double?",
        "is_new": "boolean",
        "raw": "binary",
        "state": "string",
        "place": "struct<city: string, zip: string?>?",
        "places": "list<struct<city: string, zip: string?>>",
        "counts": "map<string, long>",
        "card": "string?",
        "cash": "int?",
        "at": "timestamp?",
        "took": "decimal(21,9)?",
        "maybe": "long?",
        "more": "json?",
        "tree": "json?",
    }
    schema = schema_from(text, "shop.Every")
    check_taken(
        draft, tmp_path, lambda fields: [protobuf.message_reader(schema, fields)(value[2:]) for value in values]
    )
    assert entry(draft, "value.fields.id")[1] == "What it is called"
    assert "left out: 'any': google.protobuf.Any may be any message" in notes(draft)
    made = loaded(draft, tmp_path)
    assert (made.value.format, made.description) == ("protobuf", "An order")


def test_all_of_googles_own_types_have_one() -> None:
    read = {*protobuf._WRAPPED, *protobuf._TIME_TYPES, *protobuf._JSON_TYPES}
    assert read == {*of_protobuf._WELL_KNOWN}


def test_the_types_of_json_schema(registry: Registered, tmp_path: Path) -> None:
    def of(kind: Any, **more: Any) -> dict[str, Any]:
        return {"type": kind, **more}

    place = of("object", properties={"city": of("string"), "zip": of("string")}, required=["city"])
    tree = of("object", properties={"name": of("string"), "under": of("array", items={"$ref": "#/$defs/Tree"})})
    properties = {
        "id": of("string", description="What it is called"),
        "small": of("integer", minimum=0, maximum=100),
        "large": of("integer"),
        "huge": of("integer", minimum=0, maximum=2**64 - 1),
        "price": of("number", multipleOf=0.01),
        "ratio": of("number"),
        "note": of(["string", "null"]),
        "is_new": of("boolean", default=False),
        "state": {"enum": ["OPEN", "PAID"]},
        "day": of("string", format="date"),
        "at": of("string", format="date-time"),
        "raw": of("string", contentEncoding="base64"),
        "tags": of("array", items=of("string")),
        "place": {"$ref": "#/$defs/Place"},
        "elsewhere": {"$ref": "place.json"},
        "maybe": {"oneOf": [of("null"), of("integer")]},
        "mixed": {"anyOf": [of("string"), of("integer")]},
        "counts": of("object", additionalProperties=of("integer")),
        "tree": {"$ref": "#/$defs/Tree"},
        "changed": of("integer", title="org.apache.kafka.connect.data.Timestamp"),
        "two words": of("string"),
    }
    schema = {
        "title": "Every",
        "description": "An order",
        "type": "object",
        "properties": properties,
        "required": [*properties.keys() - {"large"}],
        "$defs": {"Place": place, "Tree": tree},
    }
    id_ = registry.register(schema, kind="JSON", **{"place.json": place})
    values = [{"id": text, "ratio": 1.25, "more": "x"} for text in "abc"]
    bodies = [prefixed(id_, json.dumps(value).encode()) for value in values[:2]] + [json.dumps(values[2]).encode()]
    draft = drafted((record(n, body) for n, body in enumerate(bodies)), registry)
    assert declared(draft, tmp_path) == {
        "id": "string",
        "small": "int",
        "large": "long?",
        "huge": "decimal(38,0)",
        "price": "decimal(18,2)",
        "ratio": "decimal(18,2)",
        "note": "string?",
        "is_new": "boolean = False",
        "state": "string",
        "day": "date",
        "at": "timestamp",
        "raw": "binary",
        "tags": "list<string>",
        "place": "struct<city: string, zip: string?>",
        "elsewhere": "struct<city: string, zip: string?>",
        "maybe": "long?",
        "mixed": "json",
        "counts": "map<string, long>",
        "tree": "struct<name: string?, under: list<json>?>",
        "changed": "timestamp(millis)",
        "two_words": "string",
        "more": "string",  # no schema has it, and the values do
    }
    made = loaded(draft, tmp_path)
    assert (made.value.format, made.description) == ("json_schema", "An order")


def test_the_fields_are_those_of_all_versions(registry: Registered, tmp_path: Path) -> None:
    """Also of versions that no record of the sample has: the topic's older records have them."""
    first = of_record(
        "Order", field("id", "string"), field("amount", "int"), field("narrow", "long"), field("text", "string"),
        field("gone", "string"),
        field("other", "string"), field("at", of_record("At", field("city", "string"))),
    )  # fmt: skip
    newest = of_record(
        "Order", field("id", "string", default=""), field("amount", "long"), field("narrow", "int"),
        field("note", "string", aliases=["text", "id"]), field("currency", "string", default="EUR"),
        field("limit", logical("bytes", "decimal", precision=4, scale=2), default="\u00fa"), field("region", "string"),
        field("since", logical("int", "date"), default=20_000), field("other", "long"),
        field("at", of_record("At", field("city", "string"), field("zip", "string"))),
    )  # fmt: skip
    registry.register(first)
    registry.register(of_record("Payment", field("id", "string")))
    id_ = registry.register(newest)
    value = {
        "amount": 1,
        "narrow": 1,
        "note": "x",
        "currency": "CHF",
        "limit": b"",
        "region": "r",
        "since": 1,
        "other": 1,
    }
    value |= {"at": {"city": "Bern", "zip": "3000"}}
    bodies = [avro_message(newest, value | {"id": text, "limit": Decimal("1.50")}) for text in "abc"]
    draft = drafted((record(n, prefixed(id_, body)) for n, body in enumerate(bodies)), registry)
    assert declared(draft, tmp_path) == {
        "id": "string",  # an identity has no default
        "amount": "long",
        "narrow": "long",
        "note": "string was text",
        "currency": "string = 'EUR'",
        "limit": "decimal(4,2) = '-0.06'",
        "region": "string?",
        "since": "date = '2024-10-04'",
        "other": "long",
        "at": "struct<city: string, zip: string?>",
        "gone": "string?",
    }
    assert entry(draft, "value.fields.region")[1] == "not in version 1"
    assert entry(draft, "value.fields.gone")[1] == "only in version 1"
    assert entry(draft, "value.fields.amount")[1] == ""
    assert entry(draft, "value.fields.narrow")[1] == "long in version 1"
    assert entry(draft, "value.fields.other")[1] == "string in version 1, whose records are rejected"
    assert "versions 1 to 3" in entry(draft, "value.format")[1]


def test_records_of_older_versions_count_under_the_new_names(registry: Registered, tmp_path: Path) -> None:
    first = of_record("Order", field("message_id", "string"), field("n", "int"))
    newest = of_record("Order", field("event_id", "string", aliases=["message_id"]), field("n", "int"))
    ids = registry.register(first), registry.register(newest)
    bodies = [prefixed(ids[0], avro_message(first, {"message_id": f"m-{n}", "n": n})) for n in range(5)]
    bodies += [prefixed(ids[1], avro_message(newest, {"event_id": f"m-{n}", "n": n})) for n in range(3, 8)]
    draft = drafted((record(n, body) for n, body in enumerate(bodies)), registry)
    assert declared(draft, tmp_path) == {"event_id": "string was message_id", "n": "int"}
    assert entry(draft, "identity.message_id") == (
        "event_id", "field event_id: in all records, 8 distinct; 2 repeated: what Onefold folds"
    )  # fmt: skip


def test_the_most_frequent_of_several_record_types_is_drafted(registry: Registered, tmp_path: Path) -> None:
    order, payment = of_record("Order", field("id", "string")), of_record("Payment", field("amount", "long"))
    ids = registry.register(order, "shop.things-shop.Order"), registry.register(payment, "shop.things-shop.Payment")
    bodies = [prefixed(ids[0], avro_message(order, {"id": f"o-{n}"})) for n in range(6)]
    bodies += [prefixed(ids[1], avro_message(payment, {"amount": n})) for n in range(4)]
    draft = drafted((record(n, body) for n, body in enumerate(bodies)), registry)
    value, why = entry(draft, "source.filter")
    assert value == "\"schema.name = 'shop.Order'\""
    assert why == "6 values of type shop.Order; others are of shop.Payment (4), each a dataset of its own"
    assert draft.notes == (why,)
    assert declared(draft, tmp_path) == {"id": "string"}
    assert entry(draft, "quality.max_rejected_rate")[0] == "0.01", "what is filtered is not rejected"
    assert "shop.things-shop.Order, version 1" in entry(draft, "value.format")[1]


@pytest.mark.parametrize(
    ("schema", "keys", "expression"),
    [
        (of_record("Key", field("order_id", "string")), [{"order_id": "a"}, {"order_id": "b"}], "[key.order_id]"),
        ({"type": "string"}, ["a", "b"], "[key]"),
    ],
    ids=["record", "text"],
)
def test_keys_of_a_registry_key_rows_and_delete(
    registry: Registered, tmp_path: Path, schema: Any, keys: list[Any], expression: str
) -> None:
    value = of_record("Order", field("n", "long"))
    of_key, of_value = registry.register(schema, "shop.things-key"), registry.register(value)
    bodies = [prefixed(of_value, avro_message(value, {"n": n})) for n in range(4)]
    records = [record(n, body, prefixed(of_key, avro_message(schema, keys[n % 2]))) for n, body in enumerate(bodies)]
    records.append(record(4, None, prefixed(of_key, avro_message(schema, keys[0]))))
    draft = drafted(records, registry)
    assert entry(draft, "key") == (
        "{format: avro, registry: {connection: prod}}",
        "5 keys name schemas of the registry (shop.things-key, version 1)",
    )
    assert entry(draft, "apply.key")[0] == expression
    assert entry(draft, "apply.delete_when")[0] == "tombstone"
    assert declared(draft, tmp_path) == {"n": "long"}


def test_headers_name_schemas_too(registry: Registered, tmp_path: Path) -> None:
    value = of_record("Order", field("n", "long"))
    number, guid = registry.register(value), uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
    registry.guids[str(guid)] = number
    binary = (("__value_schema_id", b"\x01" + guid.bytes),)
    records = [replace(record(n, avro_message(value, {"n": n})), binary_headers=binary) for n in range(3)]
    numbered = (("__value_schema_id", f"\0\0\0\0{chr(number)}"),)
    records.append(replace(record(3, avro_message(value, {"n": 3})), headers=numbered))
    draft = drafted(records, registry)
    assert (entry(draft, "value.format")[0], declared(draft, tmp_path)) == ("avro", {"n": "long"})
    # JSON is JSON without the registry that its header is of.
    records = [replace(record(n, {"n": n}), binary_headers=binary) for n in range(3)]
    plain = draft_dataset("things", KCAT, sample_of("there", records), None, Asked("prod", unreachable))
    assert entry(plain, "value.format")[0] == "json"


def unreachable() -> Client:
    raise RegistryUnavailableError("prod", "http://r", "refused")


def test_numbers_as_keys_are_no_messages(registry: Registered) -> None:
    """A long of eight bytes may look like the id of a schema and a message."""
    value = of_record("Order", field("n", "long"))
    id_ = registry.register(value)
    keys = [(2**40 + n).to_bytes(8, "big") for n in range(4)]
    bodies = [prefixed(id_, avro_message(value, {"n": n})) for n in range(4)]
    draft = drafted((record(n, body, key) for n, (body, key) in enumerate(zip(bodies, keys, strict=True))), registry)
    assert entry(draft, "key")[0] == "{format: bytes}"


def test_changes_of_a_database_have_the_types_of_their_rows(registry: Registered, tmp_path: Path) -> None:
    row = of_record(
        "Value", field("id", "int"), field("name", ["null", "string"], default=None),
        field("at", ["null", {"type": "long", "connect.name": "io.debezium.time.MicroTimestamp"}]),
        field("day", {"type": "int", "connect.name": "io.debezium.time.Date"}),
    )  # fmt: skip
    source = of_record("Source", field("table", "string"), field("lsn", "long"))
    envelope = of_record(
        "Envelope", field("before", ["null", row]), field("after", ["null", "Value"]), field("source", source),
        field("op", "string"),
    )  # fmt: skip
    key = of_record("Key", field("id", "int"))
    of_value, of_key = registry.register(envelope), registry.register(key, "shop.things-key")
    values = [{"before": None, "after": {"id": n, "name": None, "at": n, "day": n}, "op": "c"} for n in range(3)]
    values.append({"before": values[0]["after"], "after": None, "op": "d"})
    records = []
    for n, value in enumerate(values):
        data = avro_message(envelope, value | {"source": {"table": "items", "lsn": n}})
        records.append(record(n, prefixed(of_value, data), prefixed(of_key, avro_message(key, {"id": n % 3}))))
    draft = drafted(records, registry)
    assert declared(draft, tmp_path) == {
        "id": "int", "name": "string?", "at": "timestamp(micros)?", "day": "date(days)",
    }  # fmt: skip
    found = {
        key: entry(draft, key)[0] for key in ("value.format", "value.envelope", "identity.message_id", "apply.key")
    }
    assert found == {
        "value.format": "avro", "value.envelope": "debezium", "identity.message_id": "debezium.position",
        "apply.key": "[id]",
    }  # fmt: skip


def test_what_the_registry_does_not_say_is_one_sentence(registry: Registered) -> None:
    records = [record(n, prefixed(41 + n % 2, b"\x02a")) for n in range(3)]
    sample = sample_of("there", records)

    def refusal(client: Any) -> str:
        with pytest.raises(NoDraftError) as raised:
            draft_dataset("things", KCAT, sample, None, Asked("prod", client))
        return str(raised.value)

    def failing(error: Exception) -> Any:
        def client() -> Client:
            raise error

        return client

    seen = "things: there: 3 of 3 values in the sample name schemas of a registry (schema ids 41, 42), and"
    how = 'Put its address into onefold.toml ([registry.prod] with "url" = "https://host:8081")'
    unset = refusal(lambda: open_registry(Settings(), Registry(connection="prod")))
    assert unset.startswith(f"{seen} nothing says how to reach the schema registry 'prod'. No dataset file was written")
    assert how in unset
    assert "--registry names another connection" in unset
    wrong = Settings(registry={"prod": {"url": "host:8081"}})
    assert "is no address such as" in refusal(lambda: open_registry(wrong, Registry(connection="prod")))
    down = refusal(failing(RegistryUnavailableError("prod", "http://r", "refused")))
    assert f"{seen} the schema registry prod (http://r) does not answer: refused. No dataset" in down
    assert "login is refused" in refusal(failing(RegistryRefusedError("prod", "http://r", "its login is refused")))
    unknown = refusal(lambda: registry)
    assert f"{seen} the schema registry prod knows none of them" in unknown
    for _ in range(42):
        registry.register({"type": "record", "name": "R", "fields": [{"name": "n", "type": "double"}]})
    assert "none can be read: 3 are bytes that are no message of their schema" in refusal(lambda: registry)


def test_a_change_in_json_schema_has_the_fields_of_its_row() -> None:
    row = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    change = {"type": "object", "properties": {"after": {"oneOf": [{"type": "null"}, {"$ref": "#/definitions/Row"}]}}}
    schema = WriterSchema(type="JSON", text=json.dumps(change | {"definitions": {"Row": row}}))
    kind = open_message(schema, ())
    assert [(found.name, str(found.type)) for found in kind.fields(("after",))] == [("id", "long")]
    assert kind.fields(("before",)) == []
