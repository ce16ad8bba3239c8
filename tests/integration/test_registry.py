"""A real schema registry: records are decoded by the schemas that they were written by, which the lake keeps."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from moto.server import ThreadedMotoServer
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.protobuf_schema import compile_texts
from onefold.dataset.sections import Registry
from onefold.errors import RegistryDiffersError, RegistryRefusedError, RegistryUnavailableError, UsageError
from onefold.formats import registered_protobuf
from onefold.formats.avro import message_reader
from onefold.formats.wire import IdSpace, SchemaId
from onefold.generation import to_rebuild
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.replay import plan_replay, replay
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of, verdicts_of
from onefold.schemas.client import open_registry
from onefold.schemas.kept import KeptSchema, check_kept, keep
from onefold.schemas.newest import notes_of_registry
from sample.broker import Broker
from tests.support.project import Project
from tests.support.registry_messages import avro_message, prefixed
from tests.support.registry_server import RegistryServer
from tests.support.topics import Topics

pytestmark = pytest.mark.kafka
REGISTRY = Registry(connection="registry_default")
AVRO = {"format": "avro", "registry": {"connection": "registry_default"}}


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as started:
        yield started


@pytest.fixture
def connected(lake: Lake, registry: RegistryServer) -> Lake:
    """A lake that reaches the registry."""
    return lake_with(lake, registry.url)


def lake_with(lake: Lake, url: str) -> Lake:
    return Lake(lake.settings.model_copy(update={"registry": {"registry_default": {"url": url}}}))


def record_schema(name: str, /, **fields: Any) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": listed}


def verdicts(lake: Lake, made: Dataset, batch: str) -> dict[int, tuple[str, str]]:
    return {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, made, batch)[0]}


def rows(lake: Lake, made: Dataset) -> list[dict[str, Any]]:
    found = rows_of(lake, made)
    return sorted(({name: row[name] for name in made.fields} for row in found), key=lambda row: str(row["id"]))


@pytest.mark.nightly(reason="tests/spark/test_registered.py reads each message by its own schema by day")
def test_schemas_evolve_within_a_batch_and_nothing_changes_when_the_registry_is_gone(
    connected: Lake, session: SparkSession, broker: Broker, registry: RegistryServer
) -> None:
    """L1, L6: a field added, a field removed, a type widened; an id that is registered later, and one that never is;
    records of another type, which the filter leaves out undecoded."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    first = record_schema("Order", id="string", amount="int", note="string")
    second = record_schema("Order", id="string", amount="long", region="string")
    third = record_schema("Order", id="string", amount="long", region=["null", "string"])
    ids = [registry.register(f"{name}-value", schema) for schema in (first, second)]
    ids.append(registry.register(f"{name}-payments", record_schema("Payment", amount="string")))
    later = ids[-1] + 1
    values = [
        prefixed(ids[0], avro_message(first, {"id": "a", "amount": 1, "note": "old"})),
        prefixed(ids[1], avro_message(second, {"id": "b", "amount": 2**40, "region": "north"})),
        prefixed(ids[0], avro_message(first, {"id": "c", "amount": 3, "note": "late"})),
        prefixed(later, avro_message(third, {"id": "d", "amount": 4, "region": None})),
        avro_message(first, {"id": "e", "amount": 5, "note": "bare"}),
        prefixed(ids[0], avro_message(first, {"id": "f", "amount": 6, "note": "long"}) + b"\x00"),
        prefixed(ids[0], avro_message(first, {"id": "g", "amount": 7, "note": "short"})[:-1]),
        prefixed(2**31 - 1, avro_message(first, {"id": "h", "amount": 8, "note": "never"})),
        prefixed(ids[2], b"no message"),
        prefixed(ids[0], avro_message(first, {"id": "i", "amount": 0, "note": "too little"})),
    ]
    topics = Topics.on(broker.bootstrap, connected, session, name)
    topics.create()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(name, value, partition=0)
    assert producer.flush(30) == 0
    fields = {
        "id": "string",
        "amount": "long",
        "note": "string?",
        "region": "string?",
        "currency": {"type": "string", "default": "EUR"},  # no schema has it
    }
    keys: dict[str, Any] = {
        "source": {"kafka": {"topics": [name]}, "filter": "schema.name = 'shop.Order' and amount > 0"},
        "value": {**AVRO, "fields": fields},
        "quality": {"max_rejected_rate": 1.0},
    }
    made, lake = topics.dataset(**keys), topics.lake

    done = run_batch(lake, made, topics.plan(**keys), InSession(lake, session))
    assert done.red is None, done.red
    assert verdicts(lake, made, done.batch) == {
        **dict.fromkeys((0, 1, 2), ("applied", "insert")),
        3: ("rejected", "schema_not_found"),
        **dict.fromkeys((4, 5, 6), ("rejected", "undecodable")),
        7: ("rejected", "schema_not_found"),
        **dict.fromkeys((8, 9), ("filtered", "filter")),
    }
    expected = [
        {"id": "a", "amount": 1, "note": "old", "region": None, "currency": "EUR"},
        {"id": "b", "amount": 2**40, "note": None, "region": "north", "currency": "EUR"},
        {"id": "c", "amount": 3, "note": "late", "region": None, "currency": "EUR"},
    ]
    assert rows(lake, made) == expected

    # Replayed before it is registered, it is rejected again; and not for ever.
    def replayed() -> BatchRun:
        plan = plan_replay(lake, made, done.batch).plan
        replay(lake, made, plan, "mia", "the schema is registered")
        return run_batch(lake, made, plan, InSession(lake, session))

    again = replayed()
    assert verdicts(lake, made, again.batch)[3] == ("rejected", "schema_not_found")
    assert registry.register(f"{name}-value", third) == later
    last = replayed()
    assert verdicts(lake, made, last.batch)[3] == ("applied", "insert")
    expected.append({"id": "d", "amount": 4, "note": None, "region": None, "currency": "EUR"})
    assert rows(lake, made) == expected
    kept = lake.get(lake_keys.schema("registry_default", f"confluent-{later}"), KeptSchema)
    assert kept
    assert [(subject.subject, subject.version) for subject in kept.subjects] == [(f"{name}-value", 3)]
    assert check_kept(lake, REGISTRY) == 4

    registry.delete(f"{name}-value")
    registry.stop()
    try:
        other = to_rebuild(lake, topics.dataset(**keys, target={"table": "live.things", "buckets": 1}))
        assert rebuild(lake, other, InSession(lake, session)).swapped
        assert rows(lake, other) == expected
        assert prove(session, lake, other).holds
    finally:
        registry.start()


def proto_text(*fields: str) -> str:
    return f'syntax = "proto3"; package shop; message Order {{ {" ".join(fields)} }}'


def proto_message(text: str, value: dict[str, Any]) -> bytes:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_texts({"order.proto": text}, "order.proto")).file:
        pool.Add(file)
    data: bytes = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))(**value).SerializeToString()
    return b"\x00" + data  # the file's first message


def json_schema(**fields: str) -> dict[str, Any]:
    return {"title": "Order", "type": "object", "properties": {name: {"type": kind} for name, kind in fields.items()}}


V1, V2 = (
    {"id": "string", "amount": "int", "note": "string", "status": "string"},
    {"id": "string", "amount": "long", "region": "string", "state": "string", "currency": "string"},
)
PROTO_V2 = ("string id = 1;", "int64 amount = 2;", "string region = 5;", "string state = 4;", "string currency = 6;")
JSON_VERSIONS = [dict.fromkeys(version, "string") | {"amount": "integer"} for version in (V1, V2, {**V2, "more": ""})]
EVOLVING: dict[str, tuple[str, list[Any], Callable[[Any, Any], bytes]]] = {
    "avro": (
        "AVRO",
        [record_schema("Order", **V1), record_schema("Order", **V2), record_schema("Order", **V2, more="string")],
        avro_message,
    ),
    "protobuf": (
        "PROTOBUF",
        [
            proto_text("string id = 1;", "int32 amount = 2;", "string note = 3;", "string status = 4;"),
            proto_text(*PROTO_V2),
            proto_text(*PROTO_V2, "string more = 7;"),
        ],
        proto_message,
    ),
    "json_schema": (
        "JSON",
        [json_schema(**version) for version in JSON_VERSIONS],
        lambda _, value: json.dumps(value).encode(),
    ),
}
"""Of each language three versions: in the second a field is added, another removed, one renamed and one widened."""


@pytest.mark.nightly(reason="tests/spark/test_registered.py reads by each schema, and unit tests by each language")
@pytest.mark.parametrize("language", EVOLVING)
def test_what_was_written_by_an_older_version_is_read_by_it_whatever_is_registered_later(
    connected: Lake, session: SparkSession, broker: Broker, registry: RegistryServer, language: str
) -> None:
    name, (kind, schemas, written) = f"evolving-{language}-{uuid.uuid4().hex[:8]}", EVOLVING[language]
    old, new = (registry.register(f"{name}-value", schema, schemaType=kind) for schema in schemas[:2])
    values = [
        (old, {"id": "a", "amount": 1, "note": "x", "status": "open"}),
        (new, {"id": "b", "amount": 2**40, "region": "north", "state": "paid", "currency": "CHF"}),
        (old, {"id": "c", "amount": 3, "note": "y", "status": "late"}),
    ]
    topics = Topics.on(broker.bootstrap, connected, session, name)
    topics.create()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for id_, value in values:
        producer.produce(name, prefixed(id_, written(schemas[id_ == new], value)), partition=0)
    assert producer.flush(30) == 0
    fields = {"id": "string", "amount": "long", "state": "string", "note": "string?", "region": "string?"}
    keys: dict[str, Any] = {
        "source": {"kafka": {"topics": [name]}},
        "value": {
            "format": language,
            "registry": {"connection": "registry_default"},
            "fields": fields | {"currency": {"type": "string", "default": "EUR"}},
            "renamed": {"state": "status"},
        },
    }
    made, lake = topics.dataset(**keys), topics.lake
    done = run_batch(lake, made, topics.plan(**keys), InSession(lake, session))
    assert done.red is None, done.red
    expected = [
        {"id": "a", "amount": 1, "state": "open", "note": "x", "region": None, "currency": "EUR"},
        {"id": "b", "amount": 2**40, "state": "paid", "note": None, "region": "north", "currency": "CHF"},
        {"id": "c", "amount": 3, "state": "late", "note": "y", "region": None, "currency": "EUR"},
    ]
    assert rows(lake, made) == expected
    registry.register(f"{name}-value", schemas[2], schemaType=kind)
    other = to_rebuild(lake, topics.dataset(**keys, target={"table": "live.things", "buckets": 1}))
    assert rebuild(lake, other, InSession(lake, session)).swapped
    assert rows(lake, other) == expected
    assert prove(session, lake, other).holds


def test_a_registry_is_asked_for_what_a_schema_is_built_on_and_for_ids_of_each_kind(
    connected: Lake, registry: RegistryServer
) -> None:
    name = uuid.uuid4().hex[:8]
    city = record_schema("City", street=record_schema("Street", name="string"))
    first = registry.register(f"{name}-city", city)
    order = record_schema("Order", id="string", to="shop.City")
    built_on = [{"name": "shop.City", "subject": f"{name}-city", "version": 1}]
    second = registry.register(f"{name}-value", order, references=built_on)
    # The same content for another subject: one content id, and two global ids.
    assert registry.register(f"{name}-copy", city) == first
    client = open_registry(connected.settings, REGISTRY)

    def answer(space: IdSpace, number: int) -> Any:
        return client.schema(SchemaId(space, str(number)))

    found = answer(IdSpace.CONFLUENT, second)
    assert json.loads(found.schema.text) == order
    assert found.schema.type == "AVRO"
    [reference] = found.schema.references
    assert (reference.name, reference.subject, reference.version) == ("shop.City", f"{name}-city", 1)
    read = message_reader(found.schema.text, {}, [reference.text])
    data = avro_message(order, {"id": "a", "to": {"street": {"name": "x"}}}, city)
    assert json.loads(read(data)) == {"id": "a", "to": {"street": {"name": "x"}}}
    assert answer(IdSpace.CONTENT, second).schema.references == [reference]
    of_contents = {text(answer(IdSpace.CONTENT, first)), text(answer(IdSpace.CONFLUENT, first))}
    assert of_contents == {json.dumps(city)}
    globals_ = [answer(IdSpace.GLOBAL, number) for number in range(1, 100)]
    assert [found.schema.text for found in globals_ if found].count(answer(IdSpace.CONFLUENT, first).schema.text) == 2
    assert answer(IdSpace.CONFLUENT, 2**31 - 1) is answer(IdSpace.GLOBAL, 2**40) is answer(IdSpace.GLUE, 1) is None

    # Protobuf, with an import.
    place = 'syntax = "proto3"; package shop; message Place { string city = 1; }'
    file = 'syntax = "proto3"; package shop; import "place.proto"; message Visit { Place at = 1; }'
    registry.register(f"{name}-place", place, schemaType="PROTOBUF")
    imports = [{"name": "place.proto", "subject": f"{name}-place", "version": 1}]
    visit = registry.register(f"{name}-visit", file, schemaType="PROTOBUF", references=imports)
    kept_visit = keep(connected, REGISTRY, [SchemaId(IdSpace.CONFLUENT, str(visit))])
    [described] = registered_protobuf.described(kept_visit).values()
    assert registered_protobuf.message_of(described, (0,)) == "shop.Visit"
    read = registered_protobuf.reader(described, (0,), {})
    assert json.loads(read(b"\x0a\x06\x0a\x04Bern")) == {"at": {"city": "Bern"}}

    # What was deleted stays kept; what is not what was kept is an error.
    assert keep(connected, REGISTRY, [SchemaId(IdSpace.CONFLUENT, str(first))]).keys() == {f"confluent-{first}"}
    registry.delete(f"{name}-value")
    registry.delete(f"{name}-copy")
    assert check_kept(connected, REGISTRY) == 2
    key = lake_keys.schema("registry_default", f"confluent-{first}")
    kept = connected.get(key, KeptSchema)
    assert kept
    other = kept.model_copy(update={"meaning": kept.meaning.model_copy(update={"text": json.dumps(order)})})
    connected.put(key, other)
    with pytest.raises(RegistryDiffersError, match=f"confluent-{first}"):
        check_kept(connected, REGISTRY)
    new = SchemaId(IdSpace.CONFLUENT, str(registry.register(f"{name}-new", json.dumps(city | {"doc": "new"}))))
    with pytest.raises(RegistryDiffersError, match=f"confluent-{first}"):
        keep(connected, REGISTRY, [SchemaId(IdSpace.CONFLUENT, str(first)), new])
    assert connected.get(lake_keys.schema("registry_default", str(new)), KeptSchema) is None


def text(answer: Any) -> str:
    return json.dumps(json.loads(answer.schema.text))


def test_an_address_that_is_no_registry_is_no_unknown_schema(lake: Lake, registry: RegistryServer) -> None:
    """Else all records of a batch would be quarantined for a wrong path."""
    ids = [SchemaId(IdSpace.CONFLUENT, "2147483646")]
    for url in (registry.url.removesuffix("/v7"), registry.url.replace("ccompat", "registry"), registry.url + "/x"):
        with pytest.raises(RegistryRefusedError, match=r"registry_default .*no answer of a registry"):
            keep(lake_with(lake, url), REGISTRY, ids)
    with pytest.raises(UsageError, match="nothing says how to reach"):
        keep(lake, REGISTRY, ids)


def test_a_registry_that_does_not_answer_is_a_transient_error_unless_it_never_knew_the_ids(
    lake: Lake, registry: RegistryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.schemas.confluent.TRIES", 0)
    known, unknown, other = (SchemaId(IdSpace.CONFLUENT, str(number)) for number in (1, 2147483646, 2147483645))
    registry.register("things-value", record_schema("Thing", id="string"))
    connected = lake_with(lake, registry.url)
    assert keep(connected, REGISTRY, [unknown, known]).keys() == {"confluent-1"}
    gone = lake_with(lake, "http://127.0.0.1:9")
    assert keep(gone, REGISTRY, [known]).keys() == {"confluent-1"}
    assert keep(gone, REGISTRY, [unknown, known], again=False).keys() == {"confluent-1"}
    for ids, again in (([unknown], True), ([unknown, other], False)):
        with pytest.raises(RegistryUnavailableError, match=r"does not answer: .*[Cc]onnection"):
            keep(gone, REGISTRY, ids, again=again)


@pytest.mark.nightly(reason="an imitation of AWS Glue, which no change of Onefold's own rules concerns")
def test_a_version_in_aws_glue_is_asked_for_by_its_uuid(lake: Lake) -> None:
    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        given = {
            "url": "glue://eu-central-1",
            "endpoint_url": f"http://{host}:{port}",
            "aws_access_key_id": "a",
            "aws_secret_access_key": "b",
        }
        login = {name: value for name, value in given.items() if name != "url"}
        glue: Any = boto3.client("glue", region_name="eu-central-1", **login)  # type: ignore[call-overload]
        glue.create_registry(RegistryName="shop")
        schema = json.dumps(record_schema("Order", id="string"))
        of_shop = {"RegistryId": {"RegistryName": "shop"}, "DataFormat": "AVRO", "Compatibility": "NONE"}
        made = glue.create_schema(SchemaName="orders", SchemaDefinition=schema, **of_shop)
        connected = Lake(lake.settings.model_copy(update={"registry": {"registry_default": given}}))
        id_, other = (SchemaId(IdSpace.GLUE, text) for text in (made["SchemaVersionId"], str(uuid.uuid4())))
        found = keep(connected, REGISTRY, [id_, other, SchemaId(IdSpace.CONFLUENT, "1")])
        assert {name: (kept.type, kept.text) for name, kept in found.items()} == {str(id_): ("AVRO", schema)}
        kept = connected.get(lake_keys.schema("registry_default", str(id_)), KeptSchema)
        assert kept
        assert [(subject.subject, subject.version) for subject in kept.subjects] == [("orders", 1)]
    finally:
        server.stop()
    with pytest.raises(RegistryUnavailableError, match="does not answer"):
        keep(connected, REGISTRY, [other])


def test_a_batch_that_is_red_for_unknown_schemas_is_green_once_they_are_registered(
    connected: Lake, session: SparkSession, registry: RegistryServer, dataset: Callable[..., Dataset], tmp_path: Path
) -> None:
    """Though it was staged already, and no code has changed."""
    subject = uuid.uuid4().hex[:8]
    schema = record_schema(f"Thing{subject}", id="string")
    unknown = registry.register(f"{subject}-a", record_schema(f"Other{subject}", id="string")) + 1
    exports = {"path": "e", "layout": "parquet", "origin": {"cluster": "c", "incarnation": 1}, "holes": "none"}
    made = dataset(
        source={"exports": exports},
        value={**AVRO, "fields": {"id": "string"}},
        identity={"business_key": ["id"]},
        quality={},
    )
    write_parquet(tmp_path / "e", [prefixed(unknown, avro_message(schema, {"id": text})) for text in ("a", "b")])
    plan = plan_batch(connected, made, export=str(tmp_path / "e"))
    red = run_batch(connected, made, plan, InSession(connected, session))
    assert red.red is not None
    assert registry.register(f"{subject}-a", schema) == unknown
    done = run_batch(connected, made, plan, InSession(connected, session))
    assert done.red is None, done.red
    assert verdicts(connected, made, done.batch) == dict.fromkeys((0, 1), ("applied", "insert"))


def write_parquet(folder: Path, values: list[bytes]) -> None:
    folder.mkdir()
    count = len(values)
    table = pa.table(
        {
            "topic": pa.array(["t"] * count),
            "partition": pa.array([0] * count, pa.int32()),
            "offset": pa.array(range(count), pa.int64()),
            "timestamp": pa.array([1_772_323_200_000] * count, pa.timestamp("ms", "UTC")),
            "key": pa.array([None] * count, pa.binary()),
            "value": pa.array(values, pa.binary()),
        }
    )
    pq.write_table(table, folder / "part-0.parquet")


def test_a_dataset_file_is_compared_with_the_newest_schemas(
    connected: Lake, registry: RegistryServer, dataset: Callable[..., Dataset]
) -> None:
    name = uuid.uuid4().hex[:8]
    topics = [f"{name}-{kind}" for kind in ("avro", "json", "proto", "none")]
    registry.register(f"{topics[0]}-value", record_schema("Old", gone="string"))
    registry.register(f"{topics[0]}-value", record_schema("New", id="string", more="int"))
    properties = {"id": {"type": "string"}, "n": {"type": "integer"}, "city": {"type": "string"}}
    registry.register(f"{topics[1]}-value", {"type": "object", "properties": properties}, schemaType="JSON")
    file = 'syntax = "proto3"; message Thing { string id = 1; int64 n = 2; }'
    registry.register(f"{topics[2]}-value", file, schemaType="PROTOBUF")
    fields = {"id": "string", "n": "long", "at": {"type": "long", "default": 0}, "note": "string?"}

    def notes(given: str, *of: str) -> list[str]:
        value = {"format": given, "registry": {"connection": "registry_default"}, "fields": fields}
        made = dataset(source={"kafka": {"topics": [*of]}}, value=value, identity={"message_id": "id"})
        return notes_of_registry(connected, made)

    assert notes("avro", topics[0], topics[3]) == [
        f"{topics[0]}-value version 2: it has no field n: its records are rejected/missing_field, unless value.fields "
        "has a default or a ?",
        f"{topics[0]}-value version 2: value.fields does not name more: its records lose them",
        f"the registry registry_default has no subject {topics[3]}-value, so its fields were not compared",
    ]
    assert notes("json_schema", topics[1]) == [
        f"{topics[1]}-value version 1: value.fields does not name city: its records lose them"
    ]
    assert notes("protobuf", topics[2]) == []
    assert "its messages cannot be read" in notes("avro", topics[2])[0]


PLACED = {"type": "long", "logicalType": "timestamp-millis"}
PRICE = {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 2}
STATE = {"type": "enum", "name": "State", "symbols": ["OPEN", "PAID"]}
LINES = {"type": "array", "items": record_schema("Line", sku="string", count="int")}
OLD_ORDER = record_schema("Order", status=STATE, placed=PLACED, price=PRICE, text=["null", "string"], lines=LINES)
NEW_STATE = {"name": "state", "type": STATE, "aliases": ["status"]}
CURRENCY = {"name": "currency", "type": "string", "default": "EUR"}
NEW_ORDER = {**OLD_ORDER, "fields": [NEW_STATE, *OLD_ORDER["fields"][1:], CURRENCY]}
PROTO_ORDER = """
syntax = "proto3"; package shop;
import "google/protobuf/timestamp.proto";
message Line { string sku = 1; int32 count = 2; }
message Order {
  enum State { OPEN = 0; PAID = 1; }
  State state = 1; google.protobuf.Timestamp placed = 2; uint64 price = 3; optional string text = 4;
  repeated Line lines = 5; string currency = 6;
}"""
JSON_ORDER = {
    "title": "Order",
    "type": "object",
    "required": ["state", "placed", "price", "lines"],
    "properties": {
        "state": {"enum": ["OPEN", "PAID"]},
        "placed": {"type": "string", "format": "date-time"},
        "price": {"type": "number", "multipleOf": 0.01},
        "text": {"type": "string"},
        "lines": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["sku", "count"],
                "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "maximum": 9, "minimum": 0}},
            },
        },
        "currency": {"type": "string", "default": "EUR"},
    },
}


def order_of(number: int) -> dict[str, Any]:
    """The values of an order, the same in each language; an older one has no currency."""
    return {
        "state": "PAID" if number % 2 else "OPEN",
        "placed": datetime.fromtimestamp(1_772_323_200 + number, tz=UTC),
        "price": Decimal(number) / 4,
        "text": None if number % 3 else f"note {number}",
        "lines": [{"sku": f"s{number % 7}", "count": number % 5}],
        "currency": "CHF",
    }


def avro_orders(registry: RegistryServer, topic: str) -> Callable[[int], bytes]:
    old = registry.register(f"{topic}-value", OLD_ORDER)
    new = registry.register(f"{topic}-value", NEW_ORDER)

    def written(number: int) -> bytes:
        given = order_of(number)
        if number < AGED:
            return prefixed(old, avro_message(OLD_ORDER, given | {"status": given["state"]}))
        return prefixed(new, avro_message(NEW_ORDER, given))

    return written


def protobuf_orders(registry: RegistryServer, topic: str) -> Callable[[int], bytes]:
    id_ = registry.register(f"{topic}-value", PROTO_ORDER, schemaType="PROTOBUF")
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_texts({"order.proto": PROTO_ORDER}, "order.proto")).file:
        pool.Add(file)
    kind = GetMessageClass(pool.FindMessageTypeByName("shop.Order"))

    def written(number: int) -> bytes:
        given = order_of(number)
        made = kind(state=given["state"], price=int(given["price"] * 100), text=given["text"], lines=given["lines"])
        made.placed.FromDatetime(given["placed"])
        made.currency = "EUR" if number < AGED else given["currency"]
        return prefixed(id_, b"\x02\x02" + made.SerializeToString())  # the file's second message

    return written


def json_orders(registry: RegistryServer, topic: str) -> Callable[[int], bytes]:
    id_ = registry.register(f"{topic}-value", JSON_ORDER, schemaType="JSON")

    def written(number: int) -> bytes:
        given = {name: value for name, value in order_of(number).items() if value is not None}
        if number < AGED:
            del given["currency"]
        return prefixed(id_, json.dumps(given | {"placed": given["placed"].isoformat()}, default=float).encode())

    return written


AGED, ORDERS = 20, 60
"""Of so many orders the first are of an older version."""


def key_of(number: int) -> str:
    """A few orders never change, each other key has every fifteenth."""
    return f"old-{number}" if number < 5 else f"o-{number % 15}"


LANGUAGES = {"avro": avro_orders, "protobuf": protobuf_orders, "json_schema": json_orders}
FIELDS = {
    "state": "string",
    "placed": "timestamp",
    "price": "decimal(12,2)",
    "text": "string?",
    "lines": "list<struct<sku: string, count: int>>",
    "currency": "string",
}
DRAFTED = {
    "avro": FIELDS,
    "protobuf": FIELDS | {"placed": "timestamp?", "price": "decimal(20,0)"},
    "json_schema": FIELDS | {"price": "decimal(18,2)", "currency": "string?"},
}


def send_orders(home: Path, broker: Broker, registry: RegistryServer, language: str) -> str:
    """Orders with keys in Avro, and a tombstone, in a new topic that a project's settings lead to."""
    with (home / "onefold.toml").open("a") as settings:
        settings.write(f'[kafka.kafka_default]\n"bootstrap.servers" = "{broker.bootstrap}"\n')
    topic, key_schema = f"shop.{language}-{uuid.uuid4().hex[:8]}", record_schema("Key", id="string")
    written, of_key = LANGUAGES[language](registry, topic), registry.register(f"{topic}-key", key_schema)
    quiet = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    admin = AdminClient(quiet)
    admin.create_topics([NewTopic(topic, num_partitions=1, replication_factor=1)])[topic].result(30)
    producer = Producer(quiet)
    for number in range(ORDERS + 1):
        key = prefixed(of_key, avro_message(key_schema, {"id": key_of(number)}))
        producer.produce(topic, written(number) if number < ORDERS else None, key, 0)
    assert producer.flush(30) == 0
    return topic


@pytest.mark.by_day("avro", why="tests/unit/test_draft_registered.py drafts from each language by day")
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_drafted_file_runs_as_it_is(
    tmp_path: Path, session: SparkSession, broker: Broker, registry: RegistryServer, language: str
) -> None:
    """A topic of a registry's messages, keys as text, tombstones: `init`, `validate`, `run`, and no edit between."""
    project, topic = Project(tmp_path), send_orders(tmp_path, broker, registry, language)
    unset = project.onefold("init", "orders", "--topic", topic)
    assert (unset.code, unset.out) == (2, "")
    assert "name schemas of a registry (schema id" in unset.err
    assert "[registry.registry_default]" in unset.err
    with (tmp_path / "onefold.toml").open("a") as settings:
        settings.write(f'[registry.registry_default]\nurl = "{registry.url}"\n')
    done = project.onefold("init", "orders", "--topic", topic, "--json")
    assert done.code == 0, done.err
    made = project.dataset("orders")
    assert (made.key.format, made.value.format, made.apply.delete_when) == ("avro", language, "tombstone")
    assert {name: field.type for name, field in made.value.fields.items()} == DRAFTED[language]

    judged = project.onefold("validate", "orders", "--registry", "--sample", "100", "--json")
    assert judged.code == 0, judged.out + judged.err
    assert [note for note in judged.json[0]["notes"] if topic in note] == [], "the schemas say the same"
    ran = project.onefold("run", "orders", "--json")
    assert ran.code == 0, ran.err
    newest = {key_of(number): order_of(number) for number in range(ORDERS)}
    assert ran.json[0]["verdicts"] == {"applied": len(newest), "superseded": ORDERS + 1 - len(newest)}
    del newest[key_of(ORDERS)]  # by the tombstone
    for key, row in newest.items():
        row["placed"] = row["placed"].isoformat()
        row["price"] = f"{100 * row['price']:.0f}" if language == "protobuf" else f"{row['price']:.2f}"
        row["currency"] = "EUR" if key.startswith("old-") else row["currency"]
    assert {row["id"]: {name: row[name] for name in FIELDS} for row in rows_of(project.lake, made)} == newest


@pytest.mark.nightly(reason="keys and values are read by one reader each, which runs and proofs use by day")
@pytest.mark.parametrize("language", LANGUAGES)
def test_what_a_registrys_messages_say_of_a_key_is_explained_and_erased(
    tmp_path: Path, broker: Broker, registry: RegistryServer, language: str
) -> None:
    project, topic = Project(tmp_path), send_orders(tmp_path, broker, registry, language)
    with (tmp_path / "onefold.toml").open("a") as settings:
        settings.write(f'[registry.registry_default]\nurl = "{registry.url}"\n')
    for words in (("init", "orders", "--topic", topic), ("run", "orders")):
        done = project.onefold(*words)
        assert done.code == 0, done.err
    key = ("--key", json.dumps({"id": key_of(7)}))
    explained = project.onefold("explain", "orders", *key, "--json")
    assert explained.code == 0, explained.err
    offsets = [number for number in range(ORDERS) if key_of(number) == key_of(7)]
    assert sorted(record["offset"] for record in explained.json) == offsets
    erased = project.onefold("erase", "orders", *key, "--reason", "request 1", "--yes", "--json")
    assert (erased.code, erased.json["records"]) == (0, len(offsets)), erased.err
    made = project.dataset("orders")
    assert key_of(7) not in [row["id"] for row in rows_of(project.lake, made)]
    assert len(rows_of(project.lake, made)) > 10
    proved = project.onefold("prove", "orders")
    assert proved.code == 0, proved.err
