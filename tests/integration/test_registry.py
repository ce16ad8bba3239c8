"""A real schema registry: records are decoded by the schemas that they were written by, which the lake keeps."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from io import BytesIO
from typing import Any

import fastavro
import pytest
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.sections import Registry
from onefold.lake import Lake
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.replay import plan_replay, replay
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of, verdicts_of
from onefold.schemas.kept import KeptSchema, check_kept
from sample.broker import Broker
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


def record_schema(name: str, **fields: Any) -> dict[str, Any]:
    listed = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": "shop", "fields": listed}


def message(schema: Any, value: Any) -> bytes:
    data = BytesIO()
    fastavro.schemaless_writer(data, fastavro.parse_schema(schema), value)
    return data.getvalue()


def prefixed(id_: int, data: bytes) -> bytes:
    return b"\x00" + id_.to_bytes(4, "big") + data


def verdicts(lake: Lake, made: Dataset, batch: str) -> dict[int, tuple[str, str]]:
    return {row["offset"]: (row["verdict"], row["reason"]) for row in verdicts_of(lake, made, batch)[0]}


def rows(lake: Lake, made: Dataset) -> list[dict[str, Any]]:
    found = rows_of(lake, made)
    return sorted(({name: row[name] for name in made.fields} for row in found), key=lambda row: str(row["id"]))


def test_schemas_evolve_within_a_batch_and_nothing_changes_when_the_registry_is_gone(
    connected: Lake, session: SparkSession, broker: Broker, registry: RegistryServer
) -> None:
    """L1, L6: a field added, a field removed, a type widened; an id that is registered later; a registry that ends."""
    name = f"orders-{uuid.uuid4().hex[:8]}"
    first = record_schema("Order", id="string", amount="int", note="string")
    second = record_schema("Order", id="string", amount="long", region="string")
    third = record_schema("Order", id="string", amount="long", region=["null", "string"])
    ids = [registry.register(f"{name}-value", schema) for schema in (first, second)]
    later = ids[-1] + 1
    values = [
        prefixed(ids[0], message(first, {"id": "a", "amount": 1, "note": "old"})),
        prefixed(ids[1], message(second, {"id": "b", "amount": 2**40, "region": "north"})),
        prefixed(ids[0], message(first, {"id": "c", "amount": 3, "note": "late"})),
        prefixed(later, message(third, {"id": "d", "amount": 4, "region": None})),
        message(first, {"id": "e", "amount": 5, "note": "bare"}),
        prefixed(ids[0], message(first, {"id": "f", "amount": 6, "note": "long"}) + b"\x00"),
        prefixed(ids[0], message(first, {"id": "g", "amount": 7, "note": "short"})[:-1]),
    ]
    topics = Topics.on(broker.bootstrap, connected, session, name)
    topics.create()
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for value in values:
        producer.produce(name, value, partition=0)
    assert producer.flush(30) == 0
    fields = {"id": "string", "amount": "long", "note": "string?", "region": "string?"}
    made = topics.dataset(value={**AVRO, "fields": fields}, quality={"max_rejected_rate": 1.0})
    lake = topics.lake

    done = run_batch(lake, made, topics.plan(value={**AVRO, "fields": fields}), InSession(lake, session))
    assert done.red is None, done.red
    assert verdicts(lake, made, done.batch) == {
        **dict.fromkeys((0, 1, 2), ("applied", "insert")),
        3: ("rejected", "schema_not_found"),
        **dict.fromkeys((4, 5, 6), ("rejected", "undecodable")),
    }
    expected = [
        {"id": "a", "amount": 1, "note": "old", "region": None},
        {"id": "b", "amount": 2**40, "note": None, "region": "north"},
        {"id": "c", "amount": 3, "note": "late", "region": None},
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
    expected.append({"id": "d", "amount": 4, "note": None, "region": None})
    assert rows(lake, made) == expected
    kept = lake.get(lake_keys.schema("registry_default", f"confluent-{later}"), KeptSchema)
    assert kept
    assert [(subject.subject, subject.version) for subject in kept.subjects] == [(f"{name}-value", 3)]
    assert check_kept(lake, REGISTRY) == 3

    registry.delete(f"{name}-value")
    registry.stop()
    try:
        assert rebuild(lake, made, session, again=True).swapped
        assert rows(lake, made) == expected
        assert prove(session, lake, made).holds
    finally:
        registry.start()
