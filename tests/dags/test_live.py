"""The DAG of live topics: Spark lands them by Airflow's own connection, whose secrets no log holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from sample.broker import Broker
from tests.support.airflow_process import SPARK_HERE

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.kafka,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("airflow_database"),
]
DONE = dict.fromkeys(("plan", "land", "dedup", "upsert", "gate", "publish", "report"), "success")
CLICKS = """\
name: clicks
source: {kafka: {topics: [dag-clicks]}}
value: {fields: {id: string}}
identity: {message_id: id}
apply: {mode: append}
target: {table: web.clicks, buckets: 2}
"""
SECRET = "never-in-a-log"


@pytest.mark.nightly(
    reason="test_runs runs the same tasks by day, and tests/integration/test_looks.py plans and lands live topics"
)
@pytest.mark.parametrize(
    "spark", [SPARK_HERE, pytest.param({}, marks=pytest.mark.nightly)], ids=["here", "spark-submit"]
)
def test_a_dateless_run_lands_and_publishes_all_that_is_new(
    probe: Any, tmp_path: Path, broker: Broker, spark: dict[str, str]
) -> None:
    topic = f"dag-clicks-{len(spark)}"
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "clicks.yaml").write_text(CLICKS.replace("dag-clicks", topic))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for number in range(20):
        producer.produce(topic, json.dumps({"id": f"id-{number % 15}"}), partition=number % 2)
    assert producer.flush(30) == 0
    long = {"transactional.id": f"{topic}-tx", "transaction.timeout.ms": 600_000}
    waiting = Producer({"bootstrap.servers": broker.bootstrap} | long)
    waiting.init_transactions(30)
    waiting.begin_transaction()
    waiting.produce(topic, b"{}", partition=0)
    assert waiting.flush(30) == 0
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap, "sasl.password": SECRET}}
    settings = {
        "ONEFOLD_HOME": str(tmp_path),
        "ONEFOLD_LAKE": str(tmp_path / "lake"),
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        **spark,
    }
    both = probe("runs", "clicks", "{}", "{}", **settings)
    found, again = both["runs"]
    assert (found["state"], found["tasks"]) == ("success", DONE), both["log"][-5000:]
    (event,) = found["events"]
    assert event["extra"]["batch"].startswith("new_")
    assert event["extra"]["counts"] == {"applied": {"insert": 15}, "duplicate": {"message_id": 5}}
    assert SECRET not in both["log"]
    files = [file for file in (tmp_path / "lake").rglob("*") if file.is_file()]
    assert not [file for file in files if SECRET.encode() in file.read_bytes()]
    assert again["tasks"]["plan"] == "skipped"
    held_back = both["log"].count(f"transactional.id {topic}-tx), begun ")
    assert held_back >= 2, "the plan says what holds it back, also with no batch"
    waiting.abort_transaction(30)
