"""`onefold doctor` against real brokers: what is bad is found, what is good is not, what is refused is unknown."""

from __future__ import annotations

import contextlib
import gc
import json
import re
import time
import uuid
import weakref
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AclOperation, AclPermissionType, AdminClient, NewPartitions, NewTopic, ResourceType

from onefold.dataset import Dataset
from onefold.diagnosis import Diagnosis, Facts, diagnose, gather
from onefold.diagnosis.rules import clients
from onefold.errors import ClusterRefusedError, ClusterUnavailableError, UnknownTopicError
from onefold.kafka import newest_batches as newest
from onefold.kafka.condition import Activity
from onefold.kafka.inspection import Inspection
from onefold.kafka.raw_log import RawLog
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.plan import Interval, RangesPlan
from sample.broker import Broker
from tests.support.project import Project
from tests.support.rights import AUTHORIZER, acl, granted

pytestmark = pytest.mark.kafka
DAILY = {"cron": "0 0 * * *", "start": "2026-01-01T00:00:00Z"}
ASKED = {"max_duplicate_rate": 0.3, "freshness": "2d"}
ALONE = {("error", "replication"), ("error", "internal_topics"), ("warning", "internal_topics")}
"""What is found of any topic of a cluster that is one broker."""
UNSEEN = ("unknown", "unseen_batches")


@pytest.fixture(scope="module")
def lax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that is set badly, and that keeps to access rules."""
    settings = {
        "offsets.retention.minutes": 60,
        "producer.id.expiration.ms": 3_600_000,
        "transactional.id.expiration.ms": 86_400_000,
        "transaction.max.timeout.ms": 7_200_000,
        "group.consumer.min.session.timeout.ms": 8_000,
        "group.consumer.session.timeout.ms": 8_000,
        "unclean.leader.election.enable": "true",
        "auto.create.topics.enable": "true",
        **AUTHORIZER,
    }
    with Broker(settings=settings, log=tmp_path_factory.mktemp("lax") / "broker.log") as started:
        yield started


class Place:
    """One topic on a broker, a lake, and a dataset that reads it."""

    def __init__(self, broker: Broker, lake: Lake, *, partitions: int = 1, replicas: Any = None, **config: str) -> None:
        self.name = f"doctor-{uuid.uuid4().hex[:8]}"
        self.client = {"bootstrap.servers": broker.bootstrap, "log_level": 0}
        self.admin = AdminClient(self.client)
        given: Any = {"replica_assignment": replicas} if replicas else {"replication_factor": 1}
        new = NewTopic(self.name, len(replicas) if replicas else partitions, config=config, **given)
        self.admin.create_topics([new])[self.name].result(30)
        kafka = {"kafka_default": {"bootstrap.servers": broker.bootstrap}}
        self.lake = Lake(lake.settings.model_copy(update={"kafka": kafka}))

    def dataset(self, **keys: Any) -> Dataset:
        given: dict[str, Any] = {
            "name": "live",
            "source": {"kafka": {"topics": [self.name]}},
            "schedule": DAILY,
            "value": {"fields": {"id": "string"}},
            "identity": {"message_id": "id"},
            "apply": {"mode": "append"},
            "target": {"table": "live.rows", "buckets": 2},
            "quality": ASKED,
        }
        return Dataset.model_validate(given | keys)

    def send(self, count: int, *, partition: int = 0, at: datetime | None = None, **config: Any) -> Producer:
        """Idempotent unless the config says otherwise; with a transactional.id the transaction stays open."""
        producer = Producer(self.client | {"enable.idempotence": True, "linger.ms": 5} | config)
        if "transactional.id" in config:
            producer.init_transactions(30)
            producer.begin_transaction()
        for number in range(count):
            stamp = {"timestamp": int(at.timestamp() * 1000)} if at else {}
            producer.produce(self.name, json.dumps({"id": f"{number}"}), key=b"k", partition=partition, **stamp)
        assert producer.flush(30) == 0
        return producer

    def expire(self, before: int) -> None:
        where = TopicPartition(self.name, 0, before)
        next(iter(self.admin.delete_records([where]).values())).result(30)

    def commit(self, group: str, offset: int) -> None:
        consumer = Consumer(self.client | {"group.id": group, "enable.auto.commit": False})
        try:
            consumer.commit(offsets=[TopicPartition(self.name, 0, offset)], asynchronous=False)
        finally:
            consumer.close()

    def facts(self, now: datetime | None = None, **keys: Any) -> Facts:
        return gather(self.lake, self.dataset(**keys), now)

    def look(self, now: datetime | None = None, **keys: Any) -> Diagnosis:
        return diagnose(self.facts(now, **keys))


def rules(found: Diagnosis) -> set[tuple[str, str]]:
    return {(finding.finding.severity, finding.rule) for finding in found.findings}


def the(found: Diagnosis, rule: str) -> Any:
    (entry,) = (entry.finding for entry in found.findings if entry.rule == rule)
    return entry


def project(home: Path, broker: Broker, topic: str) -> Project:
    made = Project(home)
    with (home / "onefold.toml").open("a") as settings:
        settings.write(f'[kafka.kafka_default]\n"bootstrap.servers" = "{broker.bootstrap}"\n')
    made.write_dataset(
        "live",
        f"name: live\nsource: {{kafka: {{topics: [{topic}]}}}}\nschedule: {{cron: '0 0 * * *', start: 2026-01-01}}\n"
        "value: {fields: {id: string}}\napply: {mode: append}\ntarget: {table: live.rows, buckets: 2}\n",
    )
    return made


def test_a_topic_and_a_broker_that_are_set_badly(lax: Broker, lake: Lake, tmp_path: Path) -> None:
    bad = {
        "retention.ms": "3600000",
        "retention.bytes": "1000000",
        "cleanup.policy": "compact,delete",
        "unclean.leader.election.enable": "true",
        "message.timestamp.after.max.ms": str(2**62),
    }
    place = Place(lax, lake, **bad)
    place.send(3, **{"enable.idempotence": False})
    done = project(tmp_path, lax, place.name).onefold("doctor", "live", "--json")
    assert done.code == 0, done.err
    found = {
        (finding["severity"], finding["rule"], (finding["set"] or {}).get("name")) for finding in done.json["findings"]
    }
    assert found == {
        ("error", "unclean_election", "unclean.leader.election.enable"),
        ("error", "replication", "replication.factor"),
        ("error", "retention_time", "retention.ms"),
        ("error", "compaction", "min.compaction.lag.ms"),
        ("error", "idempotence", "enable.idempotence"),
        ("error", "internal_topics", "offsets.topic.replication.factor"),
        ("error", "internal_topics", "transaction.state.log.replication.factor"),
        ("warning", "internal_topics", "transaction.state.log.min.isr"),
        ("error", "offsets_retention", "offsets.retention.minutes"),
        ("warning", "producer_memory", "producer.id.expiration.ms"),
        ("warning", "producer_memory", "transactional.id.expiration.ms"),
        ("warning", "long_transactions", "transaction.max.timeout.ms"),
        ("warning", "unclean_election", "unclean.leader.election.enable"),
        ("warning", "topic_creation", "auto.create.topics.enable"),
        ("warning", "position_decides", "identity.message_id"),
        ("info", "retention_bytes", "retention.bytes"),
        ("info", "future_timestamps", "message.timestamp.after.max.ms"),
        ("info", "no_freshness", "quality.freshness"),
        ("info", "no_duplicate_rate", "quality.max_duplicate_rate"),
    }
    severities = [finding["severity"] for finding in done.json["findings"]]
    assert severities == sorted(severities, key=["error", "warning", "info", "unknown"].index)
    assert done.json["cluster"]
    assert "Warning" not in done.err, "the clients' own warnings are not shown"
    assert not (tmp_path / ".lake/sources").exists(), "it writes nothing"


def test_a_topic_that_is_set_well_leaves_only_its_single_broker(broker: Broker, lake: Lake) -> None:
    place = Place(broker, lake, partitions=2)
    place.send(3)
    place.send(3, partition=1)
    place.commit("reader", 2)
    assert rules(place.look()) == ALONE


def test_an_open_transaction_is_named_and_one_that_is_too_old_hangs(broker: Broker, lake: Lake) -> None:
    place = Place(broker, lake)
    place.send(2)
    producer = place.send(3, **{"transactional.id": "tx-of-somebody"})
    found = place.look()
    assert rules(found) - ALONE == {("info", "open_transactions")}
    assert "[2, 5)" in the(found, "open_transactions").found
    assert "transactional.id tx-of-somebody" in the(found, "open_transactions").found
    late = the(place.look(datetime.now(UTC) + timedelta(minutes=16)), "open_transactions")
    assert late.severity == "error"
    assert late.action == f"kafka-transactions.sh abort --topic {place.name} --partition 0 --start-offset 2"
    producer.abort_transaction(30)
    assert rules(place.look()) == ALONE


def test_a_plan_names_the_transaction_that_holds_it_back_and_its_age_also_where_it_reads_nothing(
    lax: Broker, lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(lax, lake)
    name = f"tx-{place.name}"
    opener = place.send(2, **{"transactional.id": name, "transaction.timeout.ms": 600_000})
    at = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ \([0-9dhms ]+ ago\)"
    begun = rf" of producer \d+ \(epoch 0, transactional\.id {name}\), begun {at},"
    nameless = rf" of producer \d+ \(epoch 0, no transactional\.id known\), whose first record is of {at},"

    def note(of: str) -> str:
        return rf"{place.name}, partition 0: an open transaction{of} holds back offset 0 and what follows"

    def planned() -> str:
        plan = plan_batch(place.lake, place.dataset(), dry_run=True)
        assert isinstance(plan, RangesPlan)
        assert plan.empty
        (sentence,) = plan.notes
        return sentence

    here = project(tmp_path, lax, place.name)
    [row] = here.onefold("run", "live", "--dry-run", "--json").json
    assert (row["offsets"], [bool(re.fullmatch(note(begun), text)) for text in row["notes"]]) == (0, [True]), row
    assert re.search(note(begun) + r"\s+live: nothing new", here.onefold("run", "live").err)
    hidden = acl(ResourceType.TRANSACTIONAL_ID, name, AclOperation.DESCRIBE, AclPermissionType.DENY)
    with granted(place.admin, [hidden]):
        assert re.fullmatch(note(nameless), planned())
    monkeypatch.setattr("onefold.kafka.activity.python_settings", lambda _: {"bootstrap_servers": ["127.0.0.1:1"]})
    monkeypatch.setattr("onefold.kafka.activity._WAITS", {"bootstrap_timeout_ms": 500})
    assert re.fullmatch(note(rf", whose first record is of {at},"), planned()), "the second client gets no answer"
    opener.abort_transaction(30)


def test_a_group_behind_the_logs_start_has_lost_records(broker: Broker, lake: Lake) -> None:
    place = Place(broker, lake)
    place.send(9)
    group = f"reader-{place.name}"
    place.commit(group, 2)
    place.expire(5)
    found = place.look()
    assert rules(found) - ALONE == {("error", "groups_behind")}
    assert [finding.places for finding in found.findings if finding.rule == "groups_behind"] == [(f"group {group}",)]
    assert "committed 2, the log begins at 5" in the(found, "groups_behind").found


def test_readers_are_listed_by_group_and_client(broker: Broker, lake: Lake) -> None:
    place = Place(broker, lake)
    place.send(1)
    group = f"reader-{place.name}"
    consumer = Consumer(place.client | {"group.id": group, "client.id": "billing", "auto.offset.reset": "earliest"})
    try:
        consumer.subscribe([place.name])
        assert consumer.poll(30) is not None
        groups = Inspection("c", {"bootstrap.servers": broker.bootstrap}).condition([place.name]).activity.groups
    finally:
        consumer.close()
    assert [(reader.name, reader.state, reader.clients) for reader in groups or ()] == [(group, "Stable", ("billing",))]


@pytest.mark.parametrize("protocol", ["consumer", "classic"])
def test_what_the_brokers_hold_for_a_group_is_read_and_judged(
    broker: Broker, lax: Broker, lake: Lake, protocol: str
) -> None:
    """Groups of the new protocol (KIP-848); members of the others have settings of their own."""
    held = []
    for cluster in (broker, lax):
        place = Place(cluster, lake)
        place.send(1)
        group = f"reader-{place.name}"
        config = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        consumer = Consumer(place.client | config)
        try:
            consumer.subscribe([place.name])
            assert consumer.poll(30) is not None
            consumer.commit(asynchronous=False)
            found = place.look()
        finally:
            consumer.close()
        findings = [finding for finding in found.findings if finding.rule == "group_sessions"]
        held.append([(at.replace(place.name, "it"), each.finding.found) for each in findings for at in each.places])
    short = [("group reader-it", "consumer.session.timeout.ms=8000 (8s)")]
    assert held == [[], short if protocol == "consumer" else []]


def test_a_producer_without_an_id_is_noticed_by_what_the_partition_remembers(broker: Broker, lake: Lake) -> None:
    """Where no record batch can be looked at."""
    place = Place(broker, lake)

    def inferred() -> list[str]:
        return [finding.found for finding in clients.idempotence(replace(place.facts(), record_batches=None))]

    place.send(2)
    assert inferred() == []
    place.send(1, **{"enable.idempotence": False})
    assert inferred() == ["enable.idempotence=false: no producer id behind the newest records, partition 0"]
    place.send(1)
    assert inferred() == []


def test_writers_are_described_by_the_newest_record_batches(broker: Broker, lake: Lake) -> None:
    place = Place(broker, lake, partitions=2)
    sizes = {"batch.num.messages": 2}
    place.send(40, **{"enable.idempotence": False, "compression.type": "gzip", "linger.ms": 500})
    place.send(3, **sizes)
    committed = place.send(2, partition=1, **{"transactional.id": f"done-{place.name}"})
    committed.commit_transaction(30)
    place.send(3, partition=1, **{"transactional.id": f"open-{place.name}"})  # beyond the last stable offset
    found = place.look()
    assert the(found, "idempotence").found.startswith("enable.idempotence=false: 1 of 5 record batches")
    [writer] = found.writers
    assert (writer.partitions, writer.batches, writer.records, writer.without_id) == (2, 5, 48, 1)
    assert (writer.transactional, writer.producers, writer.epochs, writer.append_time) == (2, 3, 3, 0)
    assert writer.codecs == {"gzip": 1, "none": 4}
    assert not {"unseen_batches", "restarted_producers"} & {rule for _, rule in rules(found)}


def test_what_is_looked_at_does_not_grow_with_the_log(
    broker: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(broker, lake)
    place.send(400, **{"batch.num.messages": 10})
    opener = place.send(1, **{"transactional.id": f"open-{place.name}"})
    place.send(40, **{"batch.num.messages": 10})
    fetched: list[int] = []
    fetch = RawLog.fetch

    def counting(self: RawLog, *where: Any, **more: Any) -> Any:
        fetched.append(where[2])
        return fetch(self, *where, **more)

    monkeypatch.setattr(RawLog, "fetch", counting)
    monkeypatch.setattr(newest, "OFFSETS", 20)
    seen = place.facts()
    assert [batch.offset for batch in seen.record_batches or ()] == [400, 421, 431]
    assert fetched == [400, 421], "the open transaction's first batch, and from the 20th before the end on"
    quiet = replace(seen, cluster=replace(seen.cluster, activity=Activity())) if seen.cluster else seen
    [stalled] = clients.open_transactions(quiet)
    [first] = [batch for batch in seen.record_batches or () if batch.offset == 400]
    assert f"of producer {first.producer} (epoch 0)" in stalled.found
    opener.abort_transaction(30)


def test_record_batches_that_cannot_be_had_are_unknown(
    broker: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(broker, lake)
    place.send(1)
    monkeypatch.setattr("onefold.kafka.raw_log.python_settings", lambda _: {"bootstrap_servers": ["127.0.0.1:1"]})
    monkeypatch.setattr("onefold.kafka.raw_log.SECONDS", 1.0)
    found = place.look()
    assert rules(found) == ALONE | {UNSEEN}
    assert "kafka-python cannot reach" in the(found, "unseen_batches").why


def test_what_left_the_log_before_the_landing_is_lost_and_reported(broker: Broker, lake: Lake) -> None:
    place = Place(broker, lake)
    place.send(4)
    dataset = place.dataset()
    batch = plan_batch(place.lake, dataset).batch
    land_batch(
        place.lake, dataset, batch, read=lambda ranges, *_: {range_.topic_partition.key: [(0, 4)] for range_ in ranges}
    )
    place.send(6)
    assert rules(place.look()) == ALONE | {("info", "restarted_producers")}
    week_later = place.look(datetime.now(UTC) + timedelta(days=6, hours=20))
    assert "6 offsets wait" in the(week_later, "expiring_backlog").found
    place.expire(7)
    assert the(place.look(), "gone_before_landing").found == "offsets [4, 7) are gone, not landed"


UPSERT = {"mode": "upsert", "key": ["key"], "version": {"from": "offset"}}


@pytest.mark.by_day("False", why="with cuts, what they know says it")
@pytest.mark.parametrize("dated", [True, False])
def test_partitions_that_were_added_since_the_first_landing_are_reported(
    broker: Broker, lake: Lake, dated: bool
) -> None:
    """Cuts know the partitions that were empty; without cuts they are reported once others hold records."""
    place = Place(broker, lake, partitions=2)
    dataset, now = place.dataset(apply=UPSERT, identity={}), datetime.now(UTC)

    def look() -> list[str]:
        found = place.look(apply=UPSERT, identity={}).findings
        return [entry.finding.found for entry in found if entry.rule == "added_partitions"]

    def grow(count: int) -> None:
        place.admin.create_partitions([NewPartitions(place.name, count)])[place.name].result(30)

    def land(start: int) -> None:
        begin = now + timedelta(hours=start)
        interval = Interval(start=begin, end=begin + timedelta(hours=1)) if dated else None
        batch = plan_batch(place.lake, dataset, interval).batch
        land_batch(place.lake, dataset, batch, read=lambda ranges, *_: {
            range_.topic_partition.key: [(range_.start, range_.end)] for range_ in ranges
        })  # fmt: skip

    send = partial(place.send, at=now - timedelta(hours=2, minutes=30))
    send(1)
    if not dated:
        send(1, partition=1)
    land(-3)
    assert look() == []
    grow(3)
    first = "3 partitions, 2 when it was first landed"
    assert look() == ([f"{first}; apply.version.from is the offset"] if dated else [])
    send(1, partition=2)
    end = "" if dated else " (or the others were empty)"
    assert look() == [f"{first}{end}; apply.version.from is the offset"]
    land(-2)
    assert look() == [f"{first}{end}; apply.version.from is the offset"], "also once they are landed"


def test_settings_that_are_refused_are_unknown(lax: Broker, lake: Lake, tmp_path: Path) -> None:
    place = Place(lax, lake)
    place.send(1)
    allow, deny = AclPermissionType.ALLOW, AclPermissionType.DENY
    acls = [
        acl(ResourceType.TOPIC, place.name, AclOperation.READ, allow),
        acl(ResourceType.TOPIC, place.name, AclOperation.DESCRIBE, allow),
        acl(ResourceType.BROKER, "kafka-cluster", AclOperation.ALL, allow),
        acl(ResourceType.BROKER, "kafka-cluster", AclOperation.DESCRIBE_CONFIGS, deny),
    ]
    with granted(place.admin, acls):
        done = project(tmp_path, lax, place.name).onefold("doctor", "live", "--json")
        assert done.code == 0, done.err
        unknown = {
            tuple(finding["where"]): finding for finding in done.json["findings"] if finding["rule"] == "unreadable"
        }
        assert set(unknown) == {(f"topic {place.name}",), ("broker 1",)}
        assert "retention.ms" in unknown[f"topic {place.name}",]["found"]
        assert "authorization failed" in unknown["broker 1",]["why"]
        assert unknown["broker 1",]["do"] == "grant DESCRIBE_CONFIGS on the cluster"
    hidden = [acl(ResourceType.TOPIC, place.name, AclOperation.DESCRIBE, deny)]
    with granted(place.admin, hidden), pytest.raises(ClusterRefusedError, match="opic authorization failed"):
        place.look()


def test_brokers_that_do_not_answer_and_topics_that_are_not_there(
    broker: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = Place(broker, lake)
    with pytest.raises(UnknownTopicError, match=f"did you mean {place.name}"):
        place.look(source={"kafka": {"topics": [f"{place.name}x"]}})
    monkeypatch.setattr("onefold.kafka.cluster.SECONDS", 1.0)
    nowhere = {"kafka_default": {"bootstrap.servers": "127.0.0.1:9"}}
    place.lake = Lake(lake.settings.model_copy(update={"kafka": nowhere}))
    with pytest.raises(ClusterUnavailableError, match=r"kafka_default \(127\.0\.0\.1:9\)"):
        place.look()


def test_what_the_second_client_cannot_reach_leaves_clients_unknown(
    broker: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onefold.kafka.activity.python_settings", lambda _: {"bootstrap_servers": ["127.0.0.1:1"]})
    monkeypatch.setattr("onefold.kafka.activity._WAITS", {"bootstrap_timeout_ms": 500})
    found = Place(broker, lake).look()
    assert rules(found) == ALONE | {("unknown", "unreadable")}
    unknown = [finding.finding.found for finding in found.findings if finding.rule == "unreadable"]
    assert unknown == ["groups", "producers", "transactions"]


@pytest.mark.nightly(reason="unit tests of the rules go by day")
def test_partitions_that_lost_their_brokers(lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One replica away, or no leader. Until the cluster has missed its broker, a question may wait for that in vain."""
    monkeypatch.setattr("onefold.kafka.cluster.SECONDS", 5.0)
    with Broker(log=tmp_path / "first.log") as first, Broker(joins=first, log=tmp_path / "second.log") as second:
        both = Place(first, lake, replicas=[[first.node, second.node]])
        alone = Place(first, lake, replicas=[[second.node]])
        source = {"kafka": {"topics": [both.name, alone.name]}}
        both.send(3)
        fewer = {("warning", "replication"), ("warning", "in_sync_minimum")}
        assert rules(both.look(source=source)) - ALONE == fewer
        second.kill()
        deadline = time.monotonic() + 90
        places: dict[str, tuple[str, ...]] = {}
        while not {"leaders", "in_sync_now"} <= set(places):
            assert time.monotonic() < deadline, places
            with contextlib.suppress(ClusterUnavailableError):
                places = {finding.rule: finding.places for finding in both.look(source=source).findings}
        assert places["leaders"] == (f"topic {alone.name}",)
        assert places["in_sync_now"] == (f"topic {both.name}",)


@pytest.mark.parametrize("reached", [True, False])
def test_no_client_is_left_to_the_garbage_collector(
    broker: Broker, lake: Lake, monkeypatch: pytest.MonkeyPatch, reached: bool
) -> None:
    """It may run in a thread of another client, where ending this one crashes the process."""
    place = Place(broker, lake)
    place.send(1)
    if not reached:
        monkeypatch.setattr("onefold.kafka.cluster.SECONDS", 0.5)
    inspection = Inspection("c", {"bootstrap.servers": broker.bootstrap if reached else "127.0.0.1:9"})
    left = weakref.ref(inspection)
    gc.disable()
    try:
        with contextlib.nullcontext() if reached else contextlib.suppress(ClusterUnavailableError):
            inspection.condition([place.name])
        del inspection
        assert left() is None
    finally:
        gc.enable()
