"""Airflow's four services, driven as a client does: schedule, backfill, clear, kill, and the pages in a browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from playwright.sync_api import Locator

from onefold.orchestration.api import Api
from onefold.orchestration.services import USER, Airflow, free_port, running
from sample.broker import Broker
from tests.dags.browser import visitor
from tests.jvm import short_lived

PROJECT = Path(__file__).parents[2]
pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.timeout(1800)]

DAY = timedelta(days=1)
DAYS = 3
TASKS = ("plan", "land", "dedup", "upsert", "gate", "publish", "report")
TOPIC = "services-views"
VIEWS = """\
name: page_views
source: {kafka: {topics: [services-views]}}
schedule: {cron: "0 0 * * *", start: START, settle: 1s}
value: {fields: {view_id: string, user_id: long}}
identity: {message_id: view_id}
apply: {mode: append}
quality: {max_duplicate_rate: 1.0}
target: {table: web.page_views, buckets: 2}
"""
PAGES = """\
name: pages
source: {kafka: {topics: [services-views]}}
value: {fields: {view_id: string, v: long, page: string}}
apply: {mode: upsert, key: [view_id], version: {from: v}}
quality: {max_duplicate_rate: 1.0}
target: {table: web.pages, buckets: 2}
"""
"""Two records of one version with two pages: its gate is red."""
END_SECONDS = 900
EXAMPLE = "views_by_user"
"""The shipped DAG that runs behind page_views."""


@dataclass(frozen=True, slots=True)
class Services:
    """A whole Airflow over a project of the test's own, and the broker it reads."""

    airflow: Airflow
    broker: Broker
    first: datetime
    """The start of the first day with records, in UTC; the last of `DAYS` is yesterday."""

    def day(self, number: int) -> str:
        return (self.first + number * DAY).isoformat()

    def told(self, *words: str) -> Any:
        """What a command of Onefold says with `--json`."""
        command = [sys.executable, "-c", "from onefold.cli import main; main()", *words, "--json"]
        done = subprocess.run(command, env=self.airflow.environ, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    def rows(self) -> Counter[str]:
        return Counter(row["view_id"] for row in self.told("show", "page_views"))

    def batches(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.told("batches", "page_views")
        return found

    def post(self, place: str, **body: Any) -> Any:
        answer = self.airflow.api.client.post(f"/api/v2/{place}", json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def get(self, place: str, **params: Any) -> Any:
        answer = self.airflow.api.client.get(f"/api/v2/{place}", params=params)
        assert answer.is_success, answer.text
        return answer.json()

    def runs(self, dag: str) -> dict[str, dict[str, Any]]:
        return {one["dag_run_id"]: one for one in self.get(f"dags/{dag}/dagRuns", limit=100)["dag_runs"]}

    def ended(self, dag: str, run: str) -> str:
        """The state of a run once it has ended."""
        until(lambda: (self.airflow.api.run(dag, run) or {}).get("state") in ("success", "failed"), f"{dag} {run}")
        return str(self.runs(dag)[run]["state"])

    def states(self, dag: str, run: str) -> dict[str, str]:
        return {one["task_id"]: one["state"] for one in self.airflow.api.tasks(dag, run)}

    def why(self, dag: str, run: str) -> str:
        """The ends of a run's logs, for whoever reads that a test failed."""
        logs = (self.airflow.home / "logs" / f"dag_id={dag}" / f"run_id={run}").rglob("*.log")
        return "\n".join(f"{log.parent.name}: {log.read_text(errors='replace')[-1500:]}" for log in sorted(logs))


def until(holds: Callable[[], Any], what: str) -> None:
    """Wait for something that comes about elsewhere."""
    deadline = time.monotonic() + END_SECONDS
    while not holds():
        assert time.monotonic() < deadline, f"not after {END_SECONDS} s: {what}"
        time.sleep(0.5)


def id_of(day: int, number: int) -> str:
    return f"{day}-{number}"


def view(one: str) -> dict[str, Any]:
    return {"view_id": one, "user_id": int(one[-1]) % 3, "v": 1, "page": "a"}


def produce(broker: Broker, records: list[tuple[datetime, dict[str, Any]]]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap})
    for at, value in records:
        producer.produce(TOPIC, json.dumps(value), partition=0, timestamp=int(at.timestamp() * 1000))
    assert producer.flush(30) == 0


def days(first: datetime) -> list[tuple[datetime, dict[str, Any]]]:
    """Ten ids a day, some of them twice; two of a day come again on the next, and one has another page."""
    found: list[tuple[datetime, dict[str, Any]]] = []
    for day in range(DAYS):
        at = first + day * DAY + timedelta(hours=9)
        again = [id_of(day, 0), id_of(day, 1), *(id_of(day - 1, number) for number in range(2) if day)]
        found += [(at, view(one)) for one in [*(id_of(day, n) for n in range(10)), *again]]
    return [*found, (found[-1][0], view(id_of(1, 0)) | {"page": "b"})]


def bundle(folder: str) -> dict[str, Any]:
    kind = "airflow.dag_processing.bundles.local.LocalDagBundle"
    return {"name": folder.replace("/", "-"), "classpath": kind, "kwargs": {"path": str(PROJECT / folder)}}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, broker: Broker) -> Iterator[Services]:
    home = tmp_path_factory.mktemp("services")
    first = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - DAYS * DAY
    (home / "datasets").mkdir()
    (home / "datasets" / "page_views.yaml").write_text(VIEWS.replace("START", f"{first:%Y-%m-%d}"))
    (home / "datasets" / "pages.yaml").write_text(PAGES)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    topic = NewTopic(TOPIC, 1, 1, config={"retention.ms": "-1"})
    admin.create_topics([topic])[TOPIC].result(30)
    produce(broker, days(first))
    connection = {"conn_type": "kafka", "extra": {"bootstrap.servers": broker.bootstrap}}
    own = {
        "ONEFOLD_HOME": str(home),
        "ONEFOLD_LAKE": str(home / "lake"),
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "True",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
        "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
        "AIRFLOW_CONN_KAFKA_DEFAULT": json.dumps(connection),
        "AIRFLOW__DAG_PROCESSOR__DAG_BUNDLE_CONFIG_LIST": json.dumps([bundle("dags"), bundle("sample/dags")]),
    }
    airflow = Airflow(PROJECT, home / "airflow", free_port(0), {"reader": "viewer"}, short_lived() | own)
    with running(airflow, ("page_views", "pages", EXAMPLE), print):
        yield Services(airflow, broker, first)


@pytest.mark.nightly
def test_backfills_backwards_beside_the_schedule_publish_each_interval_once(services: Services) -> None:
    asked = {"dag_id": "page_views", "from_date": services.day(0), "to_date": services.day(DAYS - 2)}
    dry = services.post("backfills/dry_run", **asked)["backfills"]
    assert [datetime.fromisoformat(one["logical_date"]).day for one in dry] == [
        (services.first + number * DAY).day for number in range(DAYS - 1)
    ]
    assert services.runs("page_views") == {}, "a dry run starts nothing"

    services.airflow.api.unpause(EXAMPLE)
    services.airflow.api.unpause("page_views")
    services.post("backfills", **asked, run_backwards=True, max_active_runs=2)
    until(lambda: len(services.runs("page_views")) == DAYS, "a run a day")
    kinds = Counter(one["run_type"] for one in services.runs("page_views").values())
    assert kinds == {"backfill": DAYS - 1, "scheduled": 1}
    for run in services.runs("page_views"):
        assert services.ended("page_views", run) == "success", services.why("page_views", run)

    assert services.rows() == Counter(id_of(day, number) for day in range(DAYS) for number in range(10))
    assert [one["published"] for one in services.batches()] == [True] * DAYS
    events = services.get("assets/events", limit=100)["asset_events"]
    assert sorted(one["extra"]["batch"] for one in events) == sorted(one["batch"] for one in services.batches())
    assert {one["source_task_id"] for one in events} == {"publish"}


@pytest.mark.nightly
def test_the_shipped_dag_behind_it_reads_each_published_row_once(services: Services) -> None:
    wanted = Counter(str(view(one)["user_id"]) for one in services.rows())
    until(lambda: sum(views_read(services).values()) >= sum(wanted.values()), "the rows are read")
    assert views_read(services) == wanted
    runs = services.runs(EXAMPLE)
    assert {one["run_type"] for one in runs.values()} == {"asset_triggered"}
    for run in runs:
        assert services.ended(EXAMPLE, run) == "success", services.why(EXAMPLE, run)


def views_read(services: Services) -> Counter[str]:
    found: Counter[str] = Counter()
    for run in services.runs(EXAMPLE):
        if services.states(EXAMPLE, run) == {"count": "success"}:
            found.update(services.airflow.api.returned(EXAMPLE, run, "count")["views"])
    return found


@pytest.mark.nightly
@pytest.mark.parametrize("task", TASKS)
def test_any_task_may_be_cleared_and_the_table_stays_what_it_is(services: Services, task: str) -> None:
    cleared(services, task)


@pytest.mark.nightly
@pytest.mark.parametrize("tasks", [("plan", "gate"), ("upsert", "publish"), ("plan", "report"), TASKS], ids="+".join)
def test_any_tasks_may_be_cleared_together(services: Services, tasks: tuple[str, ...]) -> None:
    cleared(services, *tasks)


def cleared(services: Services, *tasks: str) -> None:
    """Clear tasks of the scheduled run: it ends as before, and nothing of the table changes."""
    (run,) = [name for name, one in services.runs("page_views").items() if one["run_type"] == "scheduled"]
    rows, batches = services.rows(), services.batches()
    services.post(
        "dags/page_views/clearTaskInstances", dag_run_id=run, task_ids=list(tasks), only_failed=False, dry_run=False
    )
    assert services.ended("page_views", run) == "success", services.why("page_views", run)
    assert services.states("page_views", run) == dict.fromkeys(TASKS, "success")
    assert (services.rows(), services.batches()) == (rows, batches)


@pytest.mark.nightly
def test_a_run_survives_the_kill_of_its_spark_and_of_the_scheduler(services: Services) -> None:
    before = services.rows()
    produce(services.broker, [(datetime.now(UTC), view(f"new-{number % 5}")) for number in range(8)])
    run = services.airflow.api.trigger("page_views", {})["dag_run_id"]

    os.kill(_spark_of(services, "dedup"), signal.SIGKILL)
    until(lambda: services.states("page_views", run)["dedup"] == "up_for_retry", "dedup is tried again")
    scheduler = services.airflow.processes["scheduler"]
    _spark_of(services, "upsert")
    scheduler.kill()
    scheduler.wait()
    services.airflow.start("scheduler")

    assert services.ended("page_views", run) == "success", services.why("page_views", run)
    assert services.rows() == before + Counter(f"new-{number}" for number in range(5))


def _spark_of(services: Services, step: str) -> int:
    """The process of the JVM that runs a step, once it is there."""
    found: list[int] = []

    def there() -> list[int]:
        below = psutil.Process(services.airflow.processes["scheduler"].pid).children(recursive=True)
        for one in below:
            try:
                if one.name() == "java" and any(f"spark_jobs/{step}" in word for word in one.cmdline()):
                    found.append(one.pid)
            except psutil.NoSuchProcess:
                continue
        return found

    until(there, f"the JVM of {step}")
    return found[0]


@pytest.fixture(scope="module")
def red(services: Services) -> str:
    """A run whose gate is red."""
    services.airflow.api.unpause("pages")
    run = services.airflow.api.trigger("pages", {})["dag_run_id"]
    assert services.ended("pages", run) == "failed", services.why("pages", run)
    assert services.states("pages", run)["gate"] == "failed"
    return str(run)


@pytest.mark.parametrize("user", [USER, "reader"])
def test_the_report_of_a_red_gate_is_two_clicks_from_its_dag(services: Services, red: str, user: str) -> None:
    with visitor(services.airflow.api.url) as somebody:
        somebody.log_in(user, services.airflow.passwords[user])
        somebody.page.goto(f"{somebody.url}/dags/pages")
        somebody.page.locator(f"a[href='/dags/pages/runs/{red}']").first.click()
        somebody.page.get_by_role("link", name="Report", exact=True).click()
        report = somebody.shown("runs/")
        report.get_by_text("conflicts").first.wait_for()
        assert "onefold release pages" in report.locator("body").inner_text()
        somebody.take("run-report")
        assert somebody.hosts == {urlsplit(somebody.url).netloc}, "no other host is asked"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_menus_page_shows_every_dataset_and_leads_to_each(services: Services, red: str, scheme: str) -> None:
    with visitor(services.airflow.api.url, color_scheme=scheme) as somebody:
        somebody.log_in("reader", services.airflow.passwords["reader"])
        somebody.page.get_by_role("link", name="Data quality").click()
        overview = somebody.shown()
        overview.get_by_role("link", name="pages", exact=True).wait_for()
        assert overview.get_by_role("link", name="page_views", exact=True).count() == 1
        assert luminance(overview.locator("body")) == (1 if scheme == "light" else 0)
        somebody.take(f"overview-{scheme}")
        overview.get_by_role("link", name="pages", exact=True).click()
        dataset = somebody.shown()
        dataset.get_by_text("web.pages").first.wait_for()
        somebody.take(f"dataset-{scheme}")
        ours = [said for said in somebody.complaints if "Content Security Policy" in said or "onefold" in said]
        assert ours == []


def luminance(body: Locator) -> int:
    """1 for a light background, 0 for a dark one."""
    red, green, blue = map(int, re.findall(r"\d+", body.evaluate("one => getComputedStyle(one).backgroundColor"))[:3])
    return round((red + green + blue) / (3 * 255))


def test_nobody_sees_anything_without_a_login_and_a_reader_starts_nothing(services: Services, red: str) -> None:
    with visitor(services.airflow.api.url) as nobody:
        answer = nobody.page.goto(f"{nobody.url}/onefold/reports/pages/x")
        assert answer
        assert answer.status == 401
        assert "pages" not in nobody.page.content()
        nobody.page.goto(f"{nobody.url}/dags/pages")
        nobody.page.locator("input[name=password]").wait_for()
    reader = Api(services.airflow.api.url)
    reader.log_in("reader", services.airflow.passwords["reader"])
    asked = reader.client.post("/api/v2/dags/pages/dagRuns", json={"logical_date": None, "conf": {}})
    assert asked.status_code == 403
    assert list(services.runs("pages")) == [red]
    reader.close()
