"""`onefold init` from a live topic: the newest committed records of each partition, how the brokers clean it, and clear
words without any record."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, AclPermissionType, AdminClient, NewTopic, ResourceType

from onefold.draft import Sample, Topics, draft_dataset, text_of
from onefold.draft.topics import newest_of_topics
from onefold.kafka.cluster import Cluster
from sample.broker import Broker
from tests.support.project import Project
from tests.support.rights import AUTHORIZER, acl, granted

pytestmark = pytest.mark.kafka


@pytest.fixture
def topic(broker: Broker) -> str:
    """An empty topic of three partitions."""
    return create(broker, partitions=3)


def create(broker: Broker, *, partitions: int = 1, **config: str) -> str:
    """An empty topic."""
    name = f"shop.orders-{uuid.uuid4().hex[:8]}"
    new = NewTopic(name, num_partitions=partitions, replication_factor=1, config=config)
    admin = client(broker)
    admin.create_topics([new])[name].result(30)
    return name


def client(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})


@pytest.fixture
def project(tmp_path: Path, broker: Broker) -> Project:
    project = Project(tmp_path)
    with (tmp_path / "onefold.toml").open("a") as settings:
        settings.write(f'[kafka.kafka_default]\n"bootstrap.servers" = "{broker.bootstrap}"\n')
    return project


def send(broker: Broker, topic: str, count: int) -> None:
    """Versions of orders, an aborted transaction, and a tombstone."""
    quiet = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer({**quiet, "transactional.id": topic})
    producer.init_transactions(30)
    for values, commit in ((range(count), True), (range(count, count + 5), False)):
        producer.begin_transaction()
        for number in values:
            order, version = f"o-{number % 40}", str(number // 40)
            value = json.dumps({"status": f"s{version}", "total": f"{number}.50", "changed_at": "2026-03-01T08:00:00Z"})
            headers = [("message-id", str(uuid.UUID(int=number)).encode()), ("version", version.encode())]
            producer.produce(topic, value, json.dumps({"order_id": order}), number % 40 % 3, headers=headers)
        producer.flush(30)
        producer.commit_transaction(30) if commit else producer.abort_transaction(30)
    plain = Producer(quiet)
    plain.produce(topic, None, b'{"order_id": "o-0"}', 0, headers=[("message-id", b"x"), ("version", b"99")])
    assert plain.flush(30) == 0


def test_a_live_topic_is_drafted_and_runs(project: Project, broker: Broker, topic: str) -> None:
    empty = project.onefold("init", "orders", "--topic", topic)
    assert (empty.code, empty.out) == (2, "")
    assert "the topic is empty. No dataset file was written" in empty.err
    missing = project.onefold("init", "orders", "--topic", f"{topic}s")
    assert missing.code == 2
    assert f"did you mean {topic}?" in missing.err
    assert not (project.home / "datasets/orders.yaml").exists()

    send(broker, topic, 400)
    done = project.onefold("init", "orders", "--topic", topic, "--sample", "200", "--json")
    assert done.code == 0, done.err
    choices = {row["key"]: row["drafted"] for row in done.json["choices"]}
    assert choices["source.kafka.topics"] == f"[{topic}]"
    assert choices["value.fields.total"] == '"decimal(18,2)"'
    assert choices["value.fields.changed_at"] == "timestamp"
    assert choices["identity.message_id"] == "header.message-id"
    assert choices["apply.key"] == "[key.order_id]"
    assert choices["apply.version.from"] == "long(header.version)"
    assert choices["apply.delete_when"] == "tombstone"
    assert choices["target"].startswith("{table: shop.orders")
    assert "from 1" in done.json["text"].splitlines()[0], "about 200 offsets, some of them markers and aborted"

    judged = project.onefold("validate", "orders", "--sample", "100", "--json")
    assert judged.code == 0, judged.out + judged.err
    ran = project.onefold("run", "orders", "--json")
    assert ran.code == 0, ran.err
    assert ran.json[0]["verdicts"] == {"applied": 40, "superseded": 361}


def sampled(broker: Broker, *topics: str) -> Sample:
    """The sample of topics, each of which has a record with a key."""
    quiet = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
    producer = Producer(quiet)
    for topic in topics:
        producer.produce(topic, b'{"n": 1}', b"a", 0)
    assert producer.flush(30) == 0
    return newest_of_topics("orders", Cluster("kafka_default", quiet), topics, 100)


@pytest.mark.parametrize(("policy", "compacted"), [("compact", True), ("compact,delete", True), ("delete", False)])
def test_the_brokers_say_whether_a_topic_is_compacted(broker: Broker, policy: str, compacted: bool) -> None:
    sample = sampled(broker, create(broker, **{"cleanup.policy": policy}))
    assert (sample.compacted, sample.policy_unknown) == (compacted, "")
    [line] = [line for line in drafted(sample).splitlines() if line.startswith("  mode:")]
    assert line.startswith("  mode: upsert" if compacted else "  mode: append")
    assert ("  delete_when: tombstone" in drafted(sample)) == compacted


def test_topics_of_which_one_is_not_compacted_are_not_compacted(broker: Broker) -> None:
    both = create(broker, **{"cleanup.policy": "compact"}), create(broker)
    assert not sampled(broker, *both).compacted


def test_a_policy_that_the_user_may_not_read_is_unknown_and_breaks_nothing(tmp_path: Path) -> None:
    with Broker(settings=AUTHORIZER, log=tmp_path / "broker.log") as guarded:
        topic = create(guarded, **{"cleanup.policy": "compact"})
        allowed = [
            acl(ResourceType.TOPIC, topic, operation, AclPermissionType.ALLOW)
            for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE)
        ]
        with granted(client(guarded), allowed):
            sample = sampled(guarded, topic)
    assert (sample.compacted, sample.policy_unknown) == (False, "the user lacks DESCRIBE_CONFIGS on the topic")
    assert "cleanup.policy of the topic is unknown" in drafted(sample)


def drafted(sample: Sample) -> str:
    return text_of(draft_dataset("orders", Topics("kafka_default", ("shop.orders",)), sample))
