"""Kill -9 in the middle of every step, on an Airflow whose database is Postgres: recovered, the sums are right."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import psutil
import pytest

from onefold.lake import Lake
from onefold.publish.lease import hold
from onefold.settings import Settings
from onefold.spark.result import APPLICATION
from sample.broker import Broker
from tests.support.airflow_services import TASKS, Services, create_topic, midnight, produce, started, until
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(3600)]

TOPIC = "killed-stock"
TABLE = "shop.stock"
STOCK = f"""\
name: stock
source: {{kafka: {{topics: [{TOPIC}]}}}}
value: {{fields: {{id: string, sku: string, delta: long}}}}
identity: {{message_id: id}}
apply: {{mode: increment, key: [sku], add: {{stock: delta}}}}
quality: {{max_duplicate_rate: 1.0}}
target: {{table: {TABLE}, buckets: 2}}
"""
"""Sums: what went in twice, or not at all, shows in every later row."""
SPARK_STEPS = ("land", "dedup", "upsert", "gate")
BY_ITSELF = "dedup"
"""The step that Airflow's own retry brings back, a minute later; the others are cleared."""
TAKEN_UP = ("scheduler", "machine")
"""Their tasks go on, or are taken up by the next scheduler once it looks for what the dead one had."""


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, broker: Broker, postgres: Postgres) -> Iterator[Services]:
    create_topic(broker, TOPIC)
    home, database = tmp_path_factory.mktemp("killed"), postgres.database("airflow_killed")
    soon = {"AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "5"}
    with started(home, broker, midnight(0), {"stock": STOCK}, database=database, more=soon) as services:
        services.airflow.api.unpause("stock")
        yield services


@pytest.fixture(scope="module")
def sent() -> list[int]:
    """The movements that were sent so far, with what was sent twice."""
    return []


def send(services: Services, sent: list[int]) -> str:
    """Twenty movements, some of them twice and some sent before, and a run over them."""
    start = len(set(sent))
    new = [*range(start, start + 20), *range(start, start + 5), *range(max(0, start - 5), start)]
    values = [{"id": f"m-{movement}", "sku": f"sku-{movement % 3}", "delta": delta(movement)} for movement in new]
    produce(services.broker, TOPIC, [(datetime.now(UTC), value) for value in values])
    sent += new
    return str(services.airflow.api.trigger("stock", {})["dag_run_id"])


def delta(movement: int) -> int:
    return movement * 7 % 11 - 4


def check(services: Services, sent: list[int], run: str, runs: int) -> None:
    """The run has ended well; sums, batches and asset events are those of undisturbed runs."""
    assert services.ended("stock", run) == "success", services.why("stock", run)
    assert services.states("stock", run) == dict.fromkeys(TASKS, "success")
    sums: Counter[str] = Counter()
    for movement in set(sent):
        sums[f"sku-{movement % 3}"] += delta(movement)
    assert {row["sku"]: row["stock"] for row in services.run_json("show", "stock")} == sums
    batches = services.batches("stock")
    assert [batch["published"] for batch in batches] == [True] * runs
    events = services.get("assets/events", limit=100)["asset_events"]
    assert sorted(event["extra"]["batch"] for event in events) == sorted(batch["batch"] for batch in batches)


@pytest.mark.parametrize("what", ["driver", "task", "worker", "scheduler", "machine"])
def test_a_run_whose_every_step_is_killed_once_adds_each_message_once(
    services: Services, sent: list[int], what: str
) -> None:
    runs = len(services.runs("stock"))
    run = send(services, sent)
    for step in SPARK_STEPS:
        spark = services.spark_of(step)
        begun(services, run, step, spark)
        kill(services, what, services.task_of("stock", run, step), spark)
        recovered(services, run, step, what)
    with publish_waits(services, run):
        kill(services, what, services.task_of("stock", run, "publish"))
        if what not in TAKEN_UP:
            lost(services, run, "publish")
    recovered(services, run, "publish", what)
    check(services, sent, run, runs + 1)


def begun(services: Services, run: str, step: str, spark: psutil.Process) -> None:
    """Wait until a step writes into the lake; a gate does so when it has judged, so that one until it begins."""

    def files() -> set[str]:
        return {f"{folder}/{name}" for folder, _, names in os.walk(services.home / "lake") for name in names}

    before = files()

    def holds() -> bool:
        if step == "gate":
            return APPLICATION in services.log("stock", run, step)
        return bool(files() - before)

    until(lambda: holds() or not spark.is_running(), f"{step} is in its middle", every=0.05)


def kill(services: Services, what: str, task: psutil.Process, spark: psutil.Process | None = None) -> None:
    """Kill -9 of Spark's driver (of the task where there is none), of the task's own process, of the executor's worker
    above it, of the scheduler (which is started again), or of the scheduler and all that is below it."""
    match what:
        case "driver":
            (spark or task).kill()
        case "task":
            task.kill()
        case "worker":
            worker = task.parent()
            assert worker is not None
            worker.kill()
        case "scheduler":
            services.kill_scheduler()
        case "machine":
            services.kill_scheduler(below=True)


def recovered(services: Services, run: str, step: str, what: str) -> None:
    """See that a killed step is to be tried again, and clear it."""
    if what in TAKEN_UP:
        return
    lost(services, run, step)
    if step != BY_ITSELF:
        services.clear("stock", run, step)


def lost(services: Services, run: str, step: str) -> None:
    until(lambda: services.states("stock", run).get(step) not in (None, "running"), f"{step} is missed")
    assert services.states("stock", run)[step] == "up_for_retry", services.why("stock", run)


@contextlib.contextmanager
def publish_waits(services: Services, run: str) -> Iterator[None]:
    """Hold the table's lease until the block ends, which begins when the run's publish waits for it."""
    lake = Lake(Settings(home=services.home, lake=str(services.home / "lake"), catalog=None))
    with hold(lake, TABLE) as got:
        assert got
        until(lambda: f"waiting for another batch of {TABLE}" in services.log("stock", run, "publish"), "publish waits")
        yield


@pytest.mark.parametrize("point", ["before_commit", "after_commit"])
def test_publish_killed_around_its_commit_has_published_once(services: Services, sent: list[int], point: str) -> None:
    runs = len(services.runs("stock"))
    with fault(services, point):
        run = send(services, sent)
        until(lambda: services.states("stock", run).get("publish") == "up_for_retry", "publish is killed")
    services.clear("stock", run, "publish")
    check(services, sent, run, runs + 1)


@contextlib.contextmanager
def fault(services: Services, point: str) -> Iterator[None]:
    """Tasks that begin meanwhile are killed at a point."""
    environ: dict[str, Any] = services.airflow.environ
    environ["ONEFOLD_FAULT"] = point
    services.kill_scheduler(below=True)
    try:
        yield
    finally:
        del environ["ONEFOLD_FAULT"]
        services.kill_scheduler(below=True)
