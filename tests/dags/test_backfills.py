"""Backfills in every form, by the API and the command, on an Airflow whose database is Postgres: the rows are those of
one run in order."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient

from sample.broker import Broker
from tests.support.airflow_services import DAY, TASKS, Services, create_topic, midnight, produce, started, until
from tests.support.oracle import Decoded, Rules, live
from tests.support.postgres import Postgres

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(3600)]

DAYS = 4
"""With records; the last is yesterday, whose run the schedule makes."""
RED = 1
"""The day with two contents of one version."""
NOON = timedelta(hours=12)
DATASET = """\
name: NAME
source: {kafka: {topics: [backfills-TOPIC]}}
schedule: {cron: "0 HOUR * * *", start: START, settle: 1s}
value: {fields: {order_id: string, v: long, page: string}}
apply: {mode: upsert, key: [order_id], version: {from: v}}
quality: {max_duplicate_rate: 1.0, max_conflicts: CONFLICTS}
target: {table: shop.NAME, buckets: 2}
"""
Record = tuple[datetime, dict[str, Any]]


def day_of(first: datetime, day: int) -> list[Record]:
    """Six versions of six orders in the morning, some older than those of days before; in the afternoon two of them
    again, and two of the day before. One day alone has a seventh, whose page is another one in the afternoon."""

    def order(day: int, number: int, at: datetime) -> Record:
        v = (day * 7 + number * 5) % 13
        return at, {"order_id": f"o-{number}", "v": v, "page": f"{number}-{v}"}

    morning, afternoon = (first + day * DAY + timedelta(hours=hour) for hour in (9, 15))
    found = [order(day, number, morning) for number in range(6)]
    found += [order(ordered, number, afternoon) for ordered in (day, day - 1) if ordered >= 0 for number in range(2)]
    if day == RED:
        found += [(at, {"order_id": "o-red", "v": 1, "page": f"{at.hour}"}) for at in (morning, afternoon)]
    return found


def rows_of(records: Iterable[Record]) -> dict[str, tuple[int, str]]:
    """The rows of records, by the oracle."""
    decoded = [
        Decoded(
            position=("c", "t", 1, 0, offset),
            timestamp=int(at.timestamp()),
            key=value["order_id"],
            version=value["v"],
            content=value["page"],
        )
        for offset, (at, value) in enumerate(records)
    ]
    return {key: (record.version, record.content) for key, record in live(decoded, Rules("upsert")).items()}


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory, broker: Broker, postgres: Postgres) -> Iterator[Services]:
    first = midnight(DAYS)
    for topic in ("asked", "orders", "lost"):
        create_topic(broker, f"backfills-{topic}")
        produce(broker, f"backfills-{topic}", [record for day in range(DAYS) for record in day_of(first, day)])
    datasets = {name: written(name, name) for name in ("asked", "orders", "lost")}
    datasets |= {"by_noon": written("by_noon", "orders", hour=12), "orders": written("orders", "orders", conflicts=0)}
    home, database = tmp_path_factory.mktemp("backfills"), postgres.database("airflow_backfills")
    with started(home, broker, first - DAY, datasets, database=database) as services:
        yield services


def written(name: str, topic: str, *, hour: int = 0, conflicts: int = 1) -> str:
    more = {"NAME": name, "TOPIC": topic, "HOUR": str(hour), "CONFLICTS": str(conflicts)}
    return re.sub("|".join(more), lambda found: more[found[0]], DATASET)


def instant(services: Services, day: int) -> datetime:
    """When a day with records begins."""
    return services.first + (day + 1) * DAY


def records(services: Services, days: Iterable[int] = range(DAYS)) -> list[Record]:
    return [record for day in days for record in day_of(instant(services, 0), day)]


def rows(services: Services, dataset: str) -> dict[str, tuple[int, str]]:
    return {row["order_id"]: (row["v"], row["page"]) for row in services.run_json("show", dataset)}


def unpause(services: Services, dataset: str) -> None:
    """Let a dataset's DAG run, and return when the schedule's run of the last day has begun."""
    services.airflow.api.unpause(dataset)
    until(lambda: services.runs(dataset), f"the schedule's run of {dataset}")


def describe_backfill(services: Services, dataset: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    """What is asked of Airflow: a backfill of the days `[start, end)`."""
    dates = {"from_date": instant(services, start).isoformat(), "to_date": instant(services, end - 1).isoformat()}
    return {"dag_id": dataset, **dates, **more}


def dry(services: Services, body: dict[str, Any]) -> list[int]:
    """The days that a backfill would run, in its order, as Airflow lists them."""
    runs = services.post("backfills/dry_run", **body)["backfills"]
    return [(datetime.fromisoformat(run["logical_date"]) - instant(services, 0)).days for run in runs]


def backfill(services: Services, body: dict[str, Any]) -> None:
    """Ask for a backfill, and return when its runs have ended."""
    services.post("backfills", **body)
    settled(services, body["dag_id"])


def settled(services: Services, dataset: str) -> None:
    """Wait until every run of a dataset has ended, the schedule's too."""

    def over() -> bool:
        backfills = services.get("backfills", dag_id=dataset)["backfills"]
        return all(listed["completed_at"] for listed in backfills) and not set(outcomes(services, dataset).values()) & {
            "queued",
            "running",
        }

    until(over, f"the runs of {dataset} have ended")


def outcomes(services: Services, dataset: str) -> dict[int, str]:
    """The state of each day's run."""
    return {day_in(services, run): run["state"] for run in services.runs(dataset).values()}


def day_in(services: Services, run: dict[str, Any]) -> int:
    return (datetime.fromisoformat(run["data_interval_start"]) - instant(services, 0)).days


def run_of(services: Services, dataset: str, day: int) -> str:
    (found,) = [name for name, entry in services.runs(dataset).items() if day_in(services, entry) == day]
    return found


def at_once(services: Services, dataset: str) -> int:
    """How many runs were under way at one moment."""
    times = [(run["start_date"], run["end_date"]) for run in services.runs(dataset).values()]
    return max(sum(start <= at < end for start, end in times) for at, _ in times)


def test_a_dry_run_says_what_each_interval_would_read_and_a_later_backfill_reads_that(services: Services) -> None:
    unpause(services, "asked")
    body = describe_backfill(services, "asked", 0, 2)
    assert dry(services, body) == [0, 1]
    backfill(services, body | {"dag_run_conf": {"dry_run": True}})
    plans = {}
    for day in range(2):
        run = run_of(services, "asked", day)
        assert services.states("asked", run) == dict.fromkeys(TASKS, "skipped")
        logs = services.get(f"dags/asked/dagRuns/{run}/taskInstances/plan/logs/1")["content"]
        (line,) = [entry["event"] for entry in logs if "would read" in entry["event"]]
        plans[day] = json.loads(line.partition("would read ")[2])
        assert plans[day]["offsets"] == len(records(services, [day]))
        end = instant(services, day + 1)
        assert [datetime.fromisoformat(plans[day]["interval"][name]) for name in ("start", "end")] == [end - DAY, end]
    assert rows(services, "asked") == rows_of(records(services, [DAYS - 1])), "the schedule's, and no more"

    assert dry(services, body) == [], "to Airflow these runs have succeeded"
    again = {"reprocess_behavior": "completed", "dag_run_conf": {"dry_run": False}, "run_backwards": True}
    assert dry(services, body | again) == [1, 0]
    backfill(services, body | again)
    assert rows(services, "asked") == rows_of(records(services, [0, 1, DAYS - 1]))
    published = {batch["batch"] for batch in services.batches("asked") if batch["published"]}
    assert published >= {plan["batch"] for plan in plans.values()}


def test_backfills_of_missing_failed_and_all_days_run_next_to_the_schedule_in_both_directions(
    services: Services,
) -> None:
    unpause(services, "orders")
    dates = ["--from-date", instant(services, 0).isoformat(), "--to-date", instant(services, 1).isoformat()]
    services.ran("-m", "airflow", "backfill", "create", "--dag-id", "orders", *dates, "--max-active-runs", "2")
    settled(services, "orders")
    assert outcomes(services, "orders") == {0: "success", RED: "failed", DAYS - 1: "success"}
    assert services.states("orders", run_of(services, "orders", RED))["gate"] == "failed"
    assert at_once(services, "orders") >= 2
    assert rows(services, "orders") == rows_of(records(services, [0, DAYS - 1]))

    every = describe_backfill(services, "orders", 0, DAYS, run_backwards=True)
    assert dry(services, every) == [2]
    backfill(services, every)
    assert rows(services, "orders") == rows_of(records(services, [0, 2, DAYS - 1]))

    failed = every | {"reprocess_behavior": "failed"}
    assert dry(services, failed) == [RED]
    (services.home / "datasets" / "orders.yaml").write_text(
        written("orders", "orders").replace("START", f"{services.first:%Y-%m-%d}")
    )
    backfill(services, failed)
    assert outcomes(services, "orders") == dict.fromkeys(range(DAYS), "success")
    assert rows(services, "orders") == rows_of(records(services))

    batches = services.batches("orders")
    assert [batch["published"] for batch in batches] == [True] * DAYS
    everything = every | {"reprocess_behavior": "completed", "max_active_runs": DAYS}
    assert dry(services, everything) == [3, 2, 1, 0]
    backfill(services, everything)
    assert at_once(services, "orders") == DAYS
    assert outcomes(services, "orders") == dict.fromkeys(range(DAYS), "success")
    assert (rows(services, "orders"), services.batches("orders")) == (rows_of(records(services)), batches)


def test_what_kafka_has_deleted_since_is_read_from_the_landing_by_intervals_that_were_never_cut(
    services: Services,
) -> None:
    delete(services.broker, "backfills-orders", len(records(services)))
    unpause(services, "by_noon")
    [scheduled] = services.runs("by_noon").values()  # up to the last noon, which may be yesterday's or today's
    before = datetime.fromisoformat(scheduled["data_interval_start"]) - DAY
    dates = {"from_date": (instant(services, 0) - NOON).isoformat(), "to_date": before.isoformat()}
    backfill(services, {"dag_id": "by_noon", **dates, "run_backwards": True, "max_active_runs": 3})
    assert set(outcomes(services, "by_noon").values()) == {"success"}
    ends = [datetime.fromisoformat(run["data_interval_end"]) for run in services.runs("by_noon").values()]
    assert rows(services, "by_noon") == rows_of(record for record in records(services) if record[0] < max(ends))


def delete(broker: Broker, topic: str, end: int) -> None:
    """Delete a topic's records before an offset."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 0, end)]).values():
        done.result(30)


def test_days_that_kafka_deleted_after_they_were_seen_and_before_they_were_landed_are_red(services: Services) -> None:
    unpause(services, "lost")
    backfill(services, describe_backfill(services, "lost", 1, 2))
    landed = rows_of(records(services, [1, DAYS - 1]))
    assert rows(services, "lost") == landed
    delete(services.broker, "backfills-lost", len(records(services, range(DAYS - 1))))

    backfill(services, describe_backfill(services, "lost", 0, 3, max_active_runs=1))
    assert outcomes(services, "lost") == {0: "failed", 1: "success", 2: "failed", DAYS - 1: "success"}
    for day in (0, 2):  # the first lies before all that was landed, but the schedule's run has seen that it was there
        red = run_of(services, "lost", day)
        assert services.states("lost", red)["gate"] == "failed"
        gone = f"offsets gone before they were landed: found {len(records(services, [day]))}, wanted at most 0"
        assert gone in services.log("lost", red, "gate")
    assert rows(services, "lost") == landed
