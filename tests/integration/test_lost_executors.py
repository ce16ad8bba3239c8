"""Executors that are lost in each step change nothing, nor do dynamic allocation and speculation."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import SparkSession

from onefold.dataset import Dataset, find_dataset
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.landing.plan import find_plan
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.report.ledger import rows_of, verdicts_of
from onefold.settings import Settings
from sample.broker import Broker
from tests.support import oracle
from tests.support.cluster import Cluster
from tests.support.generate import rules_of
from tests.support.jvm import INTERPRETED, short_lived
from tests.support.pipeline import Sent

pytestmark = [pytest.mark.kafka, pytest.mark.process, pytest.mark.timeout(1200)]
PROJECT = Path(__file__).parents[2]
LOST = "ExecutorLostFailure"
"""Spark's reason why a task has ended."""
STEPS = ("land", "dedup", "upsert", "gate")
TOPIC, PARTITIONS, RECORDS = "lost-executors", 4, 2_000
ACCOUNTS = f"""\
name: accounts
source: {{kafka: {{topics: [{TOPIC}]}}}}
key: {{format: json}}
value: {{fields: {{n: long}}}}
identity: {{message_id: header.m}}
apply: {{mode: upsert, key: [key.id], version: {{from: long(header.v)}}, delete_when: tombstone}}
target: {{table: bank.accounts, buckets: 4}}
quality: {{max_duplicate_rate: 1.0, max_rejected_rate: 1.0, max_conflicts: 100000}}
"""
CONF = INTERPRETED | {
    "spark.executor.memory": "600m",
    "spark.executor.cores": "1",
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.shuffleTracking.enabled": "true",
    "spark.dynamicAllocation.initialExecutors": "2",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": "2",
    "spark.dynamicAllocation.executorIdleTimeout": "5s",
    "spark.speculation": "true",
    "spark.speculation.quantile": "0.1",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "0",
    "spark.speculation.efficiency.enabled": "false",
    "spark.speculation.task.duration.threshold": "1s",
    "spark.sql.shuffle.partitions": "6",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
}


def drawn(draw: random.Random, earlier: list[Sent]) -> list[Sent]:
    """Versions in any order, messages sent twice, versions of several contents, deletes, what cannot be read."""
    made: list[Sent] = []
    offsets = [sum(record.partition == partition for record in earlier) for partition in range(PARTITIONS)]
    for number in range(RECORDS):
        id_, version = f"account-{draw.randrange(RECORDS // 4)}", draw.randrange(6)
        value = draw.choice([None, "{", *({"n": n} for n in (0, 0, 0, 1, 1, 2) for _ in range(6))])
        message = f"{id_} {version} {draw.randrange(3)}"
        at, partition = 1 + len(earlier) + number, number % PARTITIONS
        for _ in range(1 + (draw.random() < 0.1)):
            made.append(Sent(partition, offsets[partition], at, id_, version, message, value, TOPIC))
            offsets[partition] += 1
    return made


def send(servers: str, records: list[Sent]) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "enable.idempotence": True})  # keeps the order
    for record in records:
        value = record.value if record.value is None or isinstance(record.value, str) else json.dumps(record.value)
        headers = [("m", record.message_id.encode()), ("v", str(record.version).encode())]
        where = {"key": json.dumps({"id": record.id}), "partition": record.partition, "timestamp": record.at}
        producer.produce(TOPIC, value, headers=headers, **where)
    assert producer.flush(60) == 0


@dataclass(frozen=True, slots=True)
class Planned:
    """Batches of the topic, planned in a lake of their own."""

    lake: Lake
    dataset: Dataset
    batches: list[str] = field(default_factory=list)

    def rows(self) -> list[dict[str, Any]]:
        return sorted(rows_of(self.lake, self.dataset), key=str)

    def verdicts(self, batch: str) -> list[dict[str, Any]]:
        """Of each record; names of objects are drawn."""
        return [{**row, "object": None} for row in verdicts_of(self.lake, self.dataset, batch)[0]]


@dataclass(frozen=True, slots=True)
class Log:
    """What was sent for each of two batches, and lakes in which they are planned."""

    sent: list[list[Sent]]
    lakes: dict[str, Planned]


@pytest.fixture(scope="module")
def log(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Log:
    draw, made = random.Random(20), Log([], {})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})])[TOPIC].result(30)
    for name in ("one host", "killed", "frozen", "killed twice"):
        home = tmp_path_factory.mktemp("home")
        (home / "datasets").mkdir()
        (home / "datasets" / "accounts.yaml").write_text(ACCOUNTS)
        lake = Lake(Settings(home=home, lake="lake", kafka={"kafka_default": {"bootstrap.servers": broker.bootstrap}}))
        made.lakes[name] = Planned(lake, find_dataset(home / "datasets", "accounts"))
    for _ in range(2):
        made.sent.append(drawn(draw, [record for batch in made.sent for record in batch]))
        send(broker.bootstrap, made.sent[-1])
        for planned in made.lakes.values():
            planned.batches.append(plan_batch(planned.lake, planned.dataset, None).batch)
    return made


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_L1_an_executor_lost_in_each_step_changes_no_row_and_no_verdict(log: Log, tmp_path: Path, how: str) -> None:
    """A frozen executor goes on with its tasks behind the copies that speculation has made of them."""
    ran, sent = log.lakes[how], log.sent[0]

    lose(how, ran, ran.batches[:1], tmp_path)

    rules = rules_of(ran.dataset)
    assert ran.rows() == sorted(wanted_rows(ran, sent, rules), key=str)
    verdicts = {
        (row["partition"], row["offset"]): (row["verdict"], row["reason"]) for row in ran.verdicts(ran.batches[0])
    }
    assert len(verdicts) == len(sent)
    for record, verdict in wanted_verdicts(ran, sent, rules):
        found = verdicts[record.partition, record.offset]
        assert found == verdict[:2] if verdict.verdict else found[0] == "applied", record


def by_key(sent: list[Sent]) -> list[list[Sent]]:
    """The records of each key. The oracle compares each record with all others, too slow for the whole topic; only
    records of the same key affect each other here, because no position has two contents."""
    keys: dict[str, list[Sent]] = {}
    for record in sent:
        keys.setdefault(record.id, []).append(record)
    return list(keys.values())


def wanted_rows(ran: Planned, sent: list[Sent], rules: oracle.Rules) -> Iterator[dict[str, Any]]:
    for records in by_key(sent):
        by_position = {record.decoded(ran.dataset).position: record for record in records}
        for key, row in oracle.live(decoded(ran, records), rules).items():
            value = by_position[row.position].value
            if isinstance(value, dict):
                yield {"id": key, **value}


def wanted_verdicts(ran: Planned, sent: list[Sent], rules: oracle.Rules) -> Iterator[tuple[Sent, oracle.Verdict]]:
    for records in by_key(sent):
        yield from zip(records, oracle.verdicts(decoded(ran, records), rules), strict=True)


def decoded(ran: Planned, sent: list[Sent]) -> list[oracle.Decoded]:
    return [record.decoded(ran.dataset) for record in sent]


@pytest.fixture(scope="module")
def on_one_host(log: Log, session_on: Callable[[Lake], SparkSession]) -> Planned:
    """Folded by this process, of which nothing is lost."""
    ran = log.lakes["one host"]
    session = InSession(ran.lake, session_on(ran.lake))
    for batch in ran.batches:
        assert run_batch(ran.lake, ran.dataset, find_plan(ran.lake, ran.dataset, batch), session).published
    return ran


@pytest.mark.nightly
def test_L1_executors_lost_while_a_batch_meets_the_table_change_no_row_and_no_verdict(
    log: Log, on_one_host: Planned, tmp_path: Path
) -> None:
    ran = log.lakes["killed twice"]
    assert ran.batches == on_one_host.batches

    lose("killed", ran, ran.batches, tmp_path)

    assert ran.rows() == on_one_host.rows()
    for batch in ran.batches:
        assert ran.verdicts(batch) == on_one_host.verdicts(batch)


def lose(how: str, ran: Planned, batches: list[str], folder: Path) -> None:
    """Run batches on a cluster of two workers, and lose an executor in each step, with a task that it runs."""
    logs = folder / "events"
    logs.mkdir()
    with Cluster(folder) as cluster:
        settings = {
            "ONEFOLD_HOME": str(ran.lake.settings.home),
            "ONEFOLD_LAKE": "lake",
            "ONEFOLD_JARS": str(PROJECT / ".jars"),
            "ONEFOLD_KAFKA": json.dumps(ran.lake.settings.kafka),
            "ONEFOLD_SPARK_MASTER": cluster.master,
            "ONEFOLD_SPARK_CONF": json.dumps(CONF | {"spark.eventLog.dir": logs.as_uri()}),
        }
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.losses", how, "accounts", *batches],
            cwd=PROJECT,
            env=os.environ | short_lived() | settings,
            capture_output=True,
            text=True,
            check=False,
            timeout=900,
        )
    assert done.returncode == 0, done.stdout + done.stderr[-5000:]
    steps = [json.loads(line) for line in done.stdout.splitlines()]
    assert [step["step"] for step in steps] == [step for _ in batches for step in STEPS]
    events = [json.loads(line) for file in sorted(logs.rglob("events_*")) for line in file.read_bytes().splitlines()]
    ends = [event for event in events if event["Event"] == "SparkListenerTaskEnd"]
    if how == "killed":
        gone = {end["Task Info"]["Executor ID"] for end in ends if end["Task End Reason"]["Reason"] == LOST}
        assert [step for step in steps if step["lost"] not in gone] == []
        assert len({end["Task Info"]["Executor ID"] for end in ends}) > 2, "others have come in their place"
    else:
        assert [step for step in steps if step["lost"] is None] == []
        met = {(end["Task Info"]["Speculative"], end["Task End Reason"]["Reason"]) for end in ends}
        assert {(True, "Success"), (False, "TaskKilled")} <= met, "a copy was faster than a frozen task"
