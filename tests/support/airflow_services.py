"""A whole Airflow for tests: its four services over a project of the test's own, and a client of its REST API."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from onefold.orchestration.services import Airflow, free_port, running
from sample.broker import Broker
from tests.support.jvm import short_lived

PROJECT = Path(__file__).parents[2]
DAY = timedelta(days=1)
TASKS = ("plan", "land", "dedup", "upsert", "gate", "publish", "report")
END_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Services:
    """A whole Airflow over a project of the test's own, and the broker it reads."""

    airflow: Airflow
    broker: Broker
    home: Path
    first: datetime
    """The start of the first day with records, in UTC."""
    orphans: list[psutil.Process] = field(default_factory=list)
    """What a killed scheduler has left; `started` ends them."""

    def day(self, number: int) -> str:
        return (self.first + number * DAY).isoformat()

    def run_json(self, *words: str) -> Any:
        """The output of a command of Onefold with `--json`."""
        return json.loads(self.ran("-c", "from onefold.cli import main; main()", *words, "--json"))

    def ran(self, *words: str) -> str:
        """What a Python program says, with the services' own settings."""
        command = [sys.executable, *words]
        done = subprocess.run(command, env=self.airflow.environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout

    def batches(self, dataset: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.run_json("batches", dataset)
        return found

    def post(self, place: str, **body: Any) -> Any:
        client = self.airflow.api.client
        answer = client.post(f"/api/v2/{place}", json=body)
        deadline = time.monotonic() + 60
        while answer.status_code == 503 and time.monotonic() < deadline:  # SQLite is locked: nothing was done
            time.sleep(0.5)
            answer = client.post(f"/api/v2/{place}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, place: str, **params: Any) -> Any:
        answer = self.airflow.api.client.get(f"/api/v2/{place}", params=params)
        assert answer.is_success, answer.text
        return answer.json()

    def clear(self, dag: str, run: str, *tasks: str) -> None:
        body = {"dag_run_id": run, "task_ids": list(tasks), "only_failed": False, "dry_run": False}
        self.post(f"dags/{dag}/clearTaskInstances", **body)

    def runs(self, dag: str) -> dict[str, dict[str, Any]]:
        return {run["dag_run_id"]: run for run in self.get(f"dags/{dag}/dagRuns", limit=100)["dag_runs"]}

    def ended(self, dag: str, run: str) -> str:
        """The state of a run once it has ended."""
        until(lambda: (self.airflow.api.run(dag, run) or {}).get("state") in ("success", "failed"), f"{dag} {run}")
        return str(self.runs(dag)[run]["state"])

    def states(self, dag: str, run: str) -> dict[str, str]:
        return {task["task_id"]: task["state"] for task in self.airflow.api.tasks(dag, run)}

    def why(self, dag: str, run: str) -> str:
        """The ends of a run's logs, for the reader of a failed test."""
        return "\n".join(f"{log.parent.name}: {text[-1500:]}" for log, text in self._logs(dag, run))

    def log(self, dag: str, run: str, task: str) -> str:
        """What all tries of a task have said so far."""
        return "".join(text for log, text in self._logs(dag, run) if log.parent.name == f"task_id={task}")

    def _logs(self, dag: str, run: str) -> list[tuple[Path, str]]:
        logs = (self.airflow.home / "logs" / f"dag_id={dag}" / f"run_id={run}").rglob("*.log")
        return [(log, log.read_text(errors="replace")) for log in sorted(logs)]

    def kill_scheduler(self, *, below: bool = False) -> None:
        """Kill the scheduler, and start another. The tasks of the first go on, or are killed with all that is below."""
        scheduler = self.airflow.processes["scheduler"]
        children = psutil.Process(scheduler.pid).children(recursive=True)
        self.orphans.extend(children)
        scheduler.kill()
        for child in children if below else ():
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()
        scheduler.wait()
        self.airflow.start("scheduler")

    def spark_of(self, step: str) -> psutil.Process:
        """The JVM that runs a step, once it is there; one that only finds out how to start it is not meant."""

        def holds(process: psutil.Process, words: str) -> bool:
            return process.name() == "java" and f"spark_jobs/{step}.py" in words and "spark.launcher.Main" not in words

        return self._below(holds, step)

    def task_of(self, dag: str, run: str, task: str) -> psutil.Process:
        """The process of a task that runs; above it is the executor's worker."""
        known = self.get(f"dags/{dag}/dagRuns/{run}/taskInstances/{task}")["id"]
        return self._below(lambda _, words: words == f"airflow worker -- {known}", task)

    def _below(self, holds: Callable[[psutil.Process, str], bool], what: str) -> psutil.Process:
        """A process that descends from the scheduler, once it is there."""
        found: list[psutil.Process] = []

        def find_processes() -> list[psutil.Process]:
            for process in psutil.Process(self.airflow.processes["scheduler"].pid).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if holds(process, " ".join(process.cmdline()).strip()):
                        found.append(process)
            return found

        until(find_processes, f"the process of {what}")
        return found[0]


def until(holds: Callable[[], Any], what: str, every: float = 0.5) -> None:
    """Wait for something that comes about elsewhere."""
    deadline = time.monotonic() + END_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not after {END_SECONDS} s: {what}"
        time.sleep(every)


def midnight(days_ago: int) -> datetime:
    """When a day began, in UTC."""
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - days_ago * DAY


def create_topic(broker: Broker, topic: str) -> None:
    """A topic of one partition that keeps records of days ago."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(topic, 1, 1, config={"retention.ms": "-1"})])[topic].result(30)


def produce(broker: Broker, topic: str, records: Iterable[tuple[datetime, dict[str, Any]]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for at, value in records:
        producer.produce(topic, json.dumps(value), partition=0, timestamp=int(at.timestamp() * 1000))
    assert producer.flush(30) == 0


@contextlib.contextmanager
def started(
    home: Path,
    broker: Broker,
    first: datetime,
    datasets: Mapping[str, str],
    *,
    database: str | None = None,
    dags: Iterable[str] = (),
    roles: Mapping[str, str] | None = None,
    more: Mapping[str, str] | None = None,
) -> Iterator[Services]:
    """The services over dataset files given by name, until they are stopped.

    START in them is the `first` day. `database` is Airflow's own, SQLite where none is given; `dags` are waited
    for, too, next to the datasets'.
    """
    (home / "datasets").mkdir(exist_ok=True)
    for name, text in datasets.items():
        (home / "datasets" / f"{name}.yaml").write_text(text.replace("START", f"{first:%Y-%m-%d}"))
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap}}
    own = {
        "ONEFOLD_HOME": str(home),
        "ONEFOLD_LAKE": str(home / "lake"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([_bundle("dags"), _bundle("sample/dags")]),
    }
    if database:
        own["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"] = database
    airflow = Airflow(PROJECT, home / "airflow", free_port(0), roles or {}, short_lived() | own | dict(more or {}))
    services = Services(airflow, broker, home, first)
    try:
        with running(airflow, (*datasets, *dags), print):
            assert (airflow.home / "airflow.db").exists() is (database is None)
            yield services
    finally:
        for orphan in services.orphans:
            with contextlib.suppress(psutil.NoSuchProcess):
                orphan.kill()


def _bundle(folder: str) -> dict[str, Any]:
    kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": folder.replace("/", "-"), "classpath": kind, "kwargs": {"path": str(PROJECT / folder)}}
