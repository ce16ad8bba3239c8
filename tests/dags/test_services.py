"""Airflow's four services, driven as a client does: schedule, backfill, clear, kill, and the pages in a browser."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Locator

from onefold.orchestration.api import Api
from onefold.orchestration.services import USER
from sample.broker import Broker
from tests.support.airflow_services import DAY, TASKS, Services, create_topic, midnight, produce, started, until
from tests.support.browser import visitor

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.timeout(1800)]

DAYS = 3
VIEWS = """\
name: page_views
source: {kafka: {topics: [TOPIC]}}
schedule: {cron: "0 0 * * *", start: START, settle: 1s}
value: {fields: {view_id: string, user_id: long}}
identity: {message_id: view_id}
apply: {mode: append}
quality: {max_duplicate_rate: 1.0}
target: {table: web.page_views, buckets: 2}
"""
PAGES = """\
name: pages
source: {kafka: {topics: [TOPIC]}}
value: {fields: {view_id: string, v: long, page: string}}
apply: {mode: upsert, key: [view_id], version: {from: v}}
quality: {max_duplicate_rate: 1.0}
target: {table: web.pages, buckets: 2}
"""
"""Two records of one version with two pages: its gate is red."""
EXAMPLE = "views_by_user"
"""The shipped DAG that runs behind page_views."""


def id_of(day: int, number: int) -> str:
    return f"{day}-{number}"


def view(view_id: str) -> dict[str, Any]:
    return {"view_id": view_id, "user_id": int(view_id[-1]) % 3, "v": 1, "page": "a"}


def days(first: datetime) -> list[tuple[datetime, dict[str, Any]]]:
    """Ten ids a day, some of them twice; two of a day are sent again on the next, and one has another page."""
    found: list[tuple[datetime, dict[str, Any]]] = []
    for day in range(DAYS):
        at = first + day * DAY + timedelta(hours=9)
        again = [id_of(day, 0), id_of(day, 1), *(id_of(day - 1, number) for number in range(2) if day)]
        found += [(at, view(view_id)) for view_id in [*(id_of(day, n) for n in range(10)), *again]]
    return [*found, (found[-1][0], view(id_of(1, 0)) | {"page": "b"})]


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgres", marks=pytest.mark.nightly)])
def metadata(request: pytest.FixtureRequest) -> str:
    """What Airflow's own database is."""
    return str(request.param)


@pytest.fixture(scope="module")
def topic(metadata: str, broker: Broker) -> str:
    name = f"services-views-{metadata}"
    create_topic(broker, name)
    return name


@pytest.fixture(scope="module")
def services(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, broker: Broker, metadata: str, topic: str
) -> Iterator[Services]:
    first = midnight(DAYS)
    produce(broker, topic, days(first))
    datasets = {name: text.replace("TOPIC", topic) for name, text in {"page_views": VIEWS, "pages": PAGES}.items()}
    more: dict[str, Any] = {"dags": [EXAMPLE], "roles": {"reader": "viewer"}}
    if metadata == "postgres":
        more["database"] = request.getfixturevalue("postgres").database("airflow_services")
    with started(tmp_path_factory.mktemp("services"), broker, first, datasets, **more) as services:
        yield services


def rows(services: Services) -> Counter[str]:
    return Counter(row["view_id"] for row in services.run_json("show", "page_views"))


@pytest.mark.nightly
def test_backfills_backwards_next_to_the_schedule_publish_each_interval_once(services: Services) -> None:
    asked = {"dag_id": "page_views", "from_date": services.day(0), "to_date": services.day(DAYS - 2)}
    dry = services.post("backfills/dry_run", **asked)["backfills"]
    assert [datetime.fromisoformat(run["logical_date"]).day for run in dry] == [
        (services.first + number * DAY).day for number in range(DAYS - 1)
    ]
    assert services.runs("page_views") == {}, "a dry run starts nothing"

    services.airflow.api.unpause(EXAMPLE)
    services.airflow.api.unpause("page_views")
    services.post("backfills", **asked, run_backwards=True, max_active_runs=2)
    until(lambda: len(services.runs("page_views")) == DAYS, "a run a day")
    kinds = Counter(run["run_type"] for run in services.runs("page_views").values())
    assert kinds == {"backfill": DAYS - 1, "scheduled": 1}
    for run, details in services.runs("page_views").items():
        assert services.ended("page_views", run) == "success", services.why("page_views", run)
        end, after = (datetime.fromisoformat(details[name]) for name in ("data_interval_end", "run_after"))
        assert after - end == timedelta(seconds=1), "it waits until its interval is settled"

    assert rows(services) == Counter(id_of(day, number) for day in range(DAYS) for number in range(10))
    assert [batch["published"] for batch in services.batches("page_views")] == [True] * DAYS
    events = services.get("assets/events", limit=100)["asset_events"]
    published = sorted(batch["batch"] for batch in services.batches("page_views"))
    assert sorted(event["extra"]["batch"] for event in events) == published
    assert {event["source_task_id"] for event in events} == {"publish"}


@pytest.mark.nightly
def test_the_shipped_dag_behind_it_reads_each_published_row_once(services: Services) -> None:
    wanted = Counter(str(view(view_id)["user_id"]) for view_id in rows(services))
    until(lambda: sum(views_read(services).values()) >= sum(wanted.values()), "the rows are read")
    assert views_read(services) == wanted
    runs = services.runs(EXAMPLE)
    assert {run["run_type"] for run in runs.values()} == {"asset_triggered"}
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
    (run,) = [name for name, details in services.runs("page_views").items() if details["run_type"] == "scheduled"]
    before, batches = rows(services), services.batches("page_views")
    services.clear("page_views", run, *tasks)
    assert services.ended("page_views", run) == "success", services.why("page_views", run)
    assert services.states("page_views", run) == dict.fromkeys(TASKS, "success")
    assert (rows(services), services.batches("page_views")) == (before, batches)


@pytest.mark.nightly
def test_a_run_survives_the_kill_of_its_spark_and_of_the_scheduler(services: Services, topic: str) -> None:
    before = rows(services)
    new = [(datetime.now(UTC), view(f"new-{number % 5}")) for number in range(8)]
    produce(services.broker, topic, new)
    run = services.airflow.api.trigger("page_views", {})["dag_run_id"]

    services.spark_of("dedup").kill()
    until(lambda: services.states("page_views", run)["dedup"] == "up_for_retry", "dedup is tried again")
    services.spark_of("upsert")
    services.kill_scheduler()

    assert services.ended("page_views", run) == "success", services.why("page_views", run)
    assert rows(services) == before + Counter(f"new-{number}" for number in range(5))


@pytest.fixture(scope="module")
def red(services: Services) -> str:
    """A run whose gate is red."""
    services.airflow.api.unpause("pages")
    run = services.airflow.api.trigger("pages", {})["dag_run_id"]
    assert services.ended("pages", run) == "failed", services.why("pages", run)
    assert services.states("pages", run)["gate"] == "failed"
    return str(run)


@pytest.mark.nightly(
    reason="test_decide opens the link of a report by day, and tests/unit/test_report_page.py reads the page"
)
@pytest.mark.parametrize("user", [USER, "reader"])
def test_the_report_of_a_red_gate_is_two_clicks_from_its_dag(services: Services, red: str, user: str) -> None:
    with visitor(services.airflow.api.url) as guest:
        guest.log_in(user, services.airflow.passwords[user])
        guest.page.goto(f"{guest.url}/dags/pages")
        guest.page.locator(f"a[href='/dags/pages/runs/{red}']").first.click()
        guest.page.get_by_role("link", name="Report", exact=True).click()
        report = guest.find_frame("runs/")
        report.get_by_text("conflicts").first.wait_for()
        assert "onefold release pages" in report.locator("body").inner_text()
        guest.take("run-report")
        assert guest.hosts == {urlsplit(guest.url).netloc}, "no other host is asked"


@pytest.mark.nightly(reason="tests/unit/test_quality_pages.py reads the page by day")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_menus_page_shows_every_dataset_and_leads_to_each(services: Services, red: str, scheme: str) -> None:
    with visitor(services.airflow.api.url, color_scheme=scheme) as guest:
        guest.log_in("reader", services.airflow.passwords["reader"])
        guest.page.get_by_role("link", name="Data quality").click()
        overview = guest.find_frame()
        overview.get_by_role("link", name="pages", exact=True).wait_for()
        assert overview.get_by_role("link", name="page_views", exact=True).count() == 1
        assert luminance(overview.locator("body")) == (1 if scheme == "light" else 0)
        guest.take(f"overview-{scheme}")
        overview.get_by_role("link", name="pages", exact=True).click()
        dataset = guest.find_frame()
        dataset.get_by_text("web.pages").first.wait_for()
        guest.take(f"dataset-{scheme}")
        ours = [said for said in guest.complaints if "Content Security Policy" in said or "onefold" in said]
        assert ours == []


def luminance(body: Locator) -> int:
    """1 for a light background, 0 for a dark one."""
    red, green, blue = map(int, re.findall(r"\d+", body.evaluate("one => getComputedStyle(one).backgroundColor"))[:3])
    return round((red + green + blue) / (3 * 255))


@pytest.mark.nightly(reason="test_runs has the reports behind the login by day")
def test_nothing_is_visible_without_a_login_and_a_reader_starts_nothing(services: Services, red: str) -> None:
    with visitor(services.airflow.api.url) as stranger:
        answer = stranger.page.goto(f"{stranger.url}/onefold/reports/pages/x")
        assert answer
        assert answer.status == 401
        assert "pages" not in stranger.page.content()
        stranger.page.goto(f"{stranger.url}/dags/pages")
        stranger.page.locator("input[name=password]").wait_for()
    reader = Api(services.airflow.api.url)
    reader.log_in("reader", services.airflow.passwords["reader"])
    asked = reader.client.post("/api/v2/dags/pages/dagRuns", json={"logical_date": None, "conf": {}})
    assert asked.status_code == 403
    assert list(services.runs("pages")) == [red]
    reader.close()
