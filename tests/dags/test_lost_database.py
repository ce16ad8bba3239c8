"""Airflow's own database is lost: services with an empty one over the same lake publish nothing twice."""

from __future__ import annotations

import shutil
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest

from sample.broker import Broker
from tests.support.airflow_services import DAY, create_topic, midnight, produce, started, until

pytestmark = [pytest.mark.airflow, pytest.mark.kafka, pytest.mark.nightly, pytest.mark.timeout(1800)]

DAYS = 2
TOPIC = "lost-views"
VIEWS = """\
name: views
source: {kafka: {topics: [lost-views]}}
schedule: {cron: "0 0 * * *", start: START, settle: 1s}
value: {fields: {view_id: string}}
identity: {message_id: view_id}
apply: {mode: append}
quality: {max_duplicate_rate: 1.0}
target: {table: web.views, buckets: 2}
"""


def test_an_airflow_that_has_lost_its_database_publishes_nothing_twice(tmp_path: Path, broker: Broker) -> None:
    first = midnight(DAYS)
    create_topic(broker, TOPIC)
    sent = [
        (first + day * DAY + timedelta(hours=9), {"view_id": f"{day}-{n % 3}"}) for day in range(DAYS) for n in range(4)
    ]
    produce(broker, TOPIC, sent)
    # The newest day is the schedule's.
    asked = {"dag_id": "views", "from_date": first.isoformat(), "to_date": (first + (DAYS - 2) * DAY).isoformat()}

    with started(tmp_path, broker, first, {"views": VIEWS}) as services:
        services.airflow.api.unpause("views")
        services.post("backfills", **asked)
        until(lambda: len(services.runs("views")) == DAYS, "a run a day")
        assert {services.ended("views", run) for run in services.runs("views")} == {"success"}
        rows, batches, home = services.run_json("show", "views"), services.batches("views"), services.airflow.home
    assert Counter(row["view_id"] for row in rows) == Counter({value["view_id"] for _, value in sent})

    for file in home.glob("airflow.db*"):
        file.unlink()
    shutil.rmtree(home / "logs")
    with started(tmp_path, broker, first, {"views": VIEWS}) as services_again:
        assert services_again.runs("views") == {}
        assert services_again.get("dags/views")["is_paused"]
        services_again.airflow.api.unpause("views")
        services_again.post("backfills", **asked)
        until(lambda: len(services_again.runs("views")) == DAYS, "a run a day")
        assert {services_again.ended("views", run) for run in services_again.runs("views")} == {"success"}

        assert (services_again.run_json("show", "views"), services_again.batches("views")) == (rows, batches)
        events = services_again.get("assets/events", limit=100)["asset_events"]
        assert [event["extra"]["already"] for event in events] == [True] * DAYS

        produce(broker, TOPIC, [(midnight(0), {"view_id": "later"})] * 2)
        run = services_again.airflow.api.trigger("views", {})["dag_run_id"]
        assert services_again.ended("views", run) == "success", services_again.why("views", run)
        assert [row["view_id"] for row in services_again.run_json("show", "views") if row not in rows] == ["later"]
