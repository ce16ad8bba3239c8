"""Brokers and disks that fail while a topic is read: a clear error, nothing lost, and the rerun ends right."""

from __future__ import annotations

import base64
import contextlib
import gc
import json
import logging
import os
import time
import uuid
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.errors import ClusterRefusedError, ClusterUnavailableError, LandingInterruptedError, TransientError
from onefold.kafka.cluster import Cluster
from onefold.kafka.condition import Activity
from onefold.kafka.inspection import Inspection
from onefold.lake import Lake
from onefold.landing.live import LiveSource
from onefold.landing.manifest import Manifest
from onefold.landing.plan import RangesPlan
from sample.broker import Broker
from tests.support.certificates import certificate_in
from tests.support.disk import Disk
from tests.support.line import Line
from tests.support.logs import Client, kinds, read, wait_for_end
from tests.support.project import SETTINGS, Project
from tests.support.topics import Topics, ranges

pytestmark = pytest.mark.kafka
PASSWORD = "correct-horse"
MANY = 10_000
PATIENCE = 6.0


@dataclass
class Weak:
    """A broker of this module's own, the line to it, and the certificate that it shows."""

    broker: Broker
    line: Line
    certificate: Path

    def secure(self, **settings: str) -> dict[str, str | int | float | bool]:
        """Client settings for its SASL_SSL listener."""
        return {
            "bootstrap.servers": self.broker.secured,
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "onefold",
            "sasl.password": PASSWORD,
            "ssl.ca.location": str(self.certificate),
        } | settings


@pytest.fixture(scope="module")
def weak(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Weak]:
    certificate, store = certificate_in(tmp_path_factory.mktemp("tls"))
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    secure = {
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{module} required user_onefold="{PASSWORD}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "super.users": "User:ANONYMOUS",
    }
    with Line() as line, Broker(advertise=line.port, secure=secure) as broker:
        line.target = broker.behind
        yield Weak(broker, line, certificate)


@pytest.fixture
def topic(weak: Weak, lake: Lake, session: SparkSession) -> Callable[..., Topics]:
    """Makes a topic on the broker itself; Onefold reaches it by the client settings given."""

    def make(kafka: dict[str, Any], create: bool = True) -> Topics:
        t = Topics.on(weak.broker.bootstrap, lake, session, f"weak-{uuid.uuid4().hex[:8]}")
        if create:
            t.create()
        t.lake = Lake(lake.settings.model_copy(update={"kafka": {"kafka_default": kafka}}))
        return t

    return make


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """As shipped, only sooner."""
    monkeypatch.setattr("onefold.kafka.cluster.SECONDS", PATIENCE)
    monkeypatch.setattr("onefold.records.layouts.kafka.SILENCE", PATIENCE)


def manifest_of(t: Topics, plan: RangesPlan) -> Manifest | None:
    return t.lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest)


def offsets(t: Topics, manifest: Manifest) -> list[int]:
    return [offset for _, _, offset in t.positions(manifest)]


@pytest.mark.nightly(reason="a leader that dies goes by day")
@pytest.mark.parametrize("failure", ["killed", "silent"])
@pytest.mark.usefixtures("impatient")
def test_a_broker_that_fails_while_it_is_read_costs_a_rerun(
    weak: Weak, topic: Callable[..., Topics], failure: str
) -> None:
    t = topic({"bootstrap.servers": weak.line.address})
    t.send([0.1] * MANY, pad=300)
    plan = t.plan()
    # Some fetches, of 1 MiB at most, are through.
    weak.line.cut_after(MANY * 200, weak.broker.kill if failure == "killed" else lambda: weak.line.slow_down(0))
    try:
        with pytest.raises(
            LandingInterruptedError, match=r"reading the topics failed: .*(Cannot fetch|Timeout)"
        ) as raised:
            t.land(plan)
    finally:
        weak.line.slow_down(None)
        if weak.broker.process.poll() is not None:
            weak.broker.start()
    assert (raised.value.exit_code, manifest_of(t, plan)) == (1, None)
    assert "\n" not in str(raised.value)
    assert offsets(t, t.land(plan)) == list(range(MANY))


@pytest.mark.parametrize("ask", ["starts", "commit_upwards"])
def test_an_error_leaves_no_client_to_the_garbage_collector(ask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may run in a thread of another client, where ending this one crashes the process."""
    monkeypatch.setattr("onefold.kafka.cluster.SECONDS", 0.5)
    cluster = Cluster("c", {"bootstrap.servers": "127.0.0.1:9"})
    left = weakref.ref(cluster)
    gc.disable()
    try:
        with contextlib.suppress(ClusterUnavailableError):
            cluster.starts([("t", 0)]) if ask == "starts" else cluster.commit_upwards("g", {("t", 0): 1})
        del cluster
        assert left() is None
    finally:
        gc.enable()


def test_a_slow_broker_is_waited_for(weak: Weak, topic: Callable[..., Topics]) -> None:
    t = topic({"bootstrap.servers": weak.line.address})
    t.send([0.1] * MANY)
    weak.line.slow_down(400_000)
    try:
        manifest = t.land(t.plan())
    finally:
        weak.line.slow_down(None)
    assert offsets(t, manifest) == list(range(MANY))


@pytest.mark.usefixtures("impatient")
def test_a_broker_that_is_reached_but_never_answers_is_reported_in_time(
    weak: Weak, topic: Callable[..., Topics]
) -> None:
    t = topic({"bootstrap.servers": weak.line.address})
    weak.line.slow_down(0)
    begun = time.monotonic()
    try:
        with pytest.raises(ClusterUnavailableError, match=rf"kafka_default \({weak.line.address}\): "):
            t.plan()
    finally:
        weak.line.slow_down(None)
    assert time.monotonic() - begun < 5 * PATIENCE
    assert t.plan().empty


def test_a_leader_that_dies_between_plan_and_land_is_followed(
    weak: Weak, topic: Callable[..., Topics], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is called gone because its leader did not answer; the controller misses a broker after nine seconds."""
    monkeypatch.setattr("onefold.kafka.cluster.SECONDS", 10.0)
    with Broker(joins=weak.broker) as second:
        t = topic({"bootstrap.servers": f"{weak.broker.bootstrap},{second.bootstrap}"}, create=False)
        new = NewTopic(
            t.names[0], 1, replica_assignment=[[second.node, weak.broker.node]], config={"retention.ms": "-1"}
        )
        t.admin.create_topics([new])[t.names[0]].result(30)
        t.described(t.names[0], 1)
        t.send([0.1] * 100)
        plan = t.plan()
        assert ranges(plan) == {(t.names[0], 0): (0, 100)}
        second.kill()
        manifest = landed_in(t, plan, tries=3)
        assert manifest.holes == []
        assert offsets(t, manifest) == list(range(100))
    assert t.plan().empty


def allow(t: Topics, *operations: AclOperation) -> None:
    """Let the user of the connection do this with the topic, and nothing else."""
    for operation in operations:
        binding = AclBinding(
            ResourceType.TOPIC,
            t.names[0],
            ResourcePatternType.LITERAL,
            "User:onefold",
            "*",
            operation,
            AclPermissionType.ALLOW,
        )
        t.admin.create_acls([binding])[binding].result(30)


def test_a_client_that_may_not_fetch_raw_batches_lands_with_a_note_that_shows_no_password(
    weak: Weak, topic: Callable[..., Topics], caplog: pytest.LogCaptureFixture
) -> None:
    """The records are read by another user here, so that only the look at the raw batches is refused."""
    caplog.set_level(logging.DEBUG)
    t = topic(weak.secure())
    transaction = Client.in_transaction(t)
    transaction.send("ab")
    transaction.end(commit=False)
    wait_for_end(t, 3)
    Client(t).send("c")
    allow(t, AclOperation.DESCRIBE)
    plan = t.plan()
    refused = LiveSource(t.lake, t.dataset(), read(t)).land(plan, plan.batch, "refused")
    assert kinds(refused.holes) == dict.fromkeys(range(3), "log_gap")
    [note] = refused.notes
    assert note.startswith(f"3 offsets (the first: {t.names[0]}, partition 0, offset 0) are holes without evidence")
    assert "TopicAuthorizationFailedError" in note
    allow(t, AclOperation.READ)  # not DESCRIBE_CONFIGS, which only tells whether a topic is compacted
    manifest = t.land(plan, read(t))
    assert kinds(manifest.holes) == {0: "aborted", 1: "aborted", 2: "control"}
    assert manifest.notes == []
    assert PASSWORD not in caplog.text
    assert PASSWORD.encode().hex() not in caplog.text


def landed_in(t: Topics, plan: RangesPlan, tries: int) -> Manifest:
    """Land as a scheduler does: what is transient is tried again."""
    for left in reversed(range(tries)):
        try:
            return t.land(plan)
        except TransientError:
            assert manifest_of(t, plan) is None
            if not left:
                raise
    raise AssertionError


def test_a_topic_is_planned_and_landed_over_sasl_and_tls(weak: Weak, topic: Callable[..., Topics]) -> None:
    t = topic(weak.secure())
    t.send([0.1, 0.2])
    assert offsets(t, t.land(t.plan())) == [0, 1]


def test_a_cluster_is_inspected_over_sasl_and_tls(weak: Weak) -> None:
    """By both clients: who writes and who reads is asked by another than the rest."""
    name = f"weak-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": weak.broker.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
    condition = Inspection("c", {name: str(value) for name, value in weak.secure().items()}).condition([name])
    assert condition.topics[0].config.number("retention.ms") == 604_800_000
    assert condition.activity == Activity((), (), ())


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"sasl.password": "battery-staple"}, "Authentication failed"),
        ({"ssl.ca.location": ""}, "certificate verify failed"),
    ],
)
def test_a_refused_client_fails_at_once(
    weak: Weak, topic: Callable[..., Topics], wrong: dict[str, str], said: str
) -> None:
    t = topic({name: value for name, value in weak.secure(**wrong).items() if value})
    begun = time.monotonic()
    with pytest.raises(ClusterRefusedError, match=rf"kafka_default \({weak.broker.secured}\): .*{said}") as raised:
        t.plan()
    assert time.monotonic() - begun < 20, "librdkafka would try for longer"
    assert "battery-staple" not in str(raised.value)
    t.names = ("^weak.*",)
    with pytest.raises(ClusterRefusedError):
        t.plan()


def test_the_command_line_names_the_connection_and_keeps_the_password(weak: Weak, tmp_path: Path) -> None:
    project = Project(tmp_path)
    wrong = weak.secure(**{"sasl.password": "battery-staple"})
    lines = [f"{json.dumps(name)} = {json.dumps(value)}" for name, value in wrong.items()]
    (tmp_path / "onefold.toml").write_text("\n".join([SETTINGS, "[kafka.kafka_default]", *lines]))
    project.write_dataset(
        "live",
        "name: live\nsource: {kafka: {topics: [any]}}\nvalue: {fields: {id: string}}\napply: {mode: append}\n"
        "target: {table: live.rows, buckets: 2}\n",
    )
    done = project.onefold("run", "live", "--dry-run")
    assert done.code == 1
    said = " ".join(done.err.split())
    assert f"kafka_default ({weak.broker.secured})" in said
    assert "Authentication failed" in said
    assert "Traceback" not in said
    assert "battery-staple" not in done.err + done.out


def test_a_disk_that_is_full_lands_nothing_and_the_rerun_does(
    weak: Weak,
    session: SparkSession,
    lake_in: Callable[[Path], Lake],
    small_disk: Disk,
) -> None:
    t = Topics.on(weak.broker.bootstrap, lake_in(small_disk.place), session, f"weak-{uuid.uuid4().hex[:8]}")
    t.create()
    producer = Producer({"bootstrap.servers": t.servers, "log_level": 0})
    for _ in range(1_000):
        producer.produce(t.names[0], base64.b64encode(os.urandom(3_000)))
    assert producer.flush(30) == 0
    plan = t.plan()
    with pytest.raises(LandingInterruptedError, match="No space left on device"):
        t.land(plan)
    assert manifest_of(t, plan) is None
    small_disk.resize(40 << 20)
    assert offsets(t, t.land(plan)) == list(range(1_000))
