"""DAGs run for real: `dag.test()` and spark-submit on the sample, in a lake of the test's own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import httpx
import pytest

from onefold.orchestration.services import free_port
from tests.support.airflow_process import SPARK_HERE

PROJECT = Path(__file__).parents[2]
DONE = dict.fromkeys(("plan", "land", "dedup", "upsert", "gate", "publish", "report"), "success")

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1800), pytest.mark.usefixtures("airflow_database")]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project whose datasets read folders of the test's own."""
    shutil.copytree(PROJECT / "expectations", tmp_path / "expectations")
    # The last folder's conflict needs all folders before it; its status makes it red by the suite alone.
    suite = tmp_path / "expectations" / "accounts.yaml"
    suite.write_text(suite.read_text().replace(", seized]", "]"))
    (tmp_path / "datasets").mkdir()
    for name, layout in (("accounts", "kcat"), ("account_entries", "connect")):
        text = (PROJECT / "datasets" / f"{name}.yaml").read_text()
        (tmp_path / "datasets" / f"{name}.yaml").write_text(text.replace("sample/exports", "new"))
        shutil.copytree(PROJECT / "sample/exports" / layout / "1-first", tmp_path / "new" / layout / "1-first")
    return tmp_path


@pytest.fixture
def run(probe: Any, home: Path) -> Callable[..., Any]:
    """Runs a DAG once over `home`."""

    def once(dag: str, *words: str, **environ: str | None) -> Any:
        return probe("run", dag, *(words or ["{}"]), ONEFOLD_HOME=str(home), ONEFOLD_LAKE=str(home / "lake"), **environ)

    return once


@pytest.fixture
def run_all(probe: Any, home: Path) -> Callable[..., Any]:
    """Runs a DAG over `home` once for each configuration, in one process."""

    def all_of(dag: str, *confs: str, **environ: str | None) -> Any:
        return probe("runs", dag, *confs, ONEFOLD_HOME=str(home), ONEFOLD_LAKE=str(home / "lake"), **environ)

    return all_of


def notifier(file: Path) -> dict[str, str]:
    """A notifier that writes to a file."""
    words = {"subject": "{{ onefold.subject }}", "body": "{{ onefold.html }}"}
    return {"class": "tests.support.airflow_notifier.FileNotifier", "path": str(file), **words}


@pytest.fixture
def lineage(tmp_path: Path) -> tuple[dict[str, str], Callable[[str, str], dict[str, Any]]]:
    """Airflow's settings for OpenLineage events in a file, and the last event of a task and type."""
    log = tmp_path / "lineage.jsonl"
    transport = {"type": "file", "log_file_path": str(log), "append": True}

    def last(task: str, kind: str) -> dict[str, Any]:
        events = [json.loads(line) for line in log.read_text().splitlines()]
        found = [event for event in events if (event["job"]["name"], event["eventType"]) == (task, kind)]
        return dict(found[-1])

    return {"AIRFLOW__OPENLINEAGE__TRANSPORT": json.dumps(transport)}, last


def known_to_the_history_server(events: Path) -> set[str]:
    """The applications of which Spark's history server has a page, by its own API."""
    port = free_port(0)
    options = f"-Dspark.history.fs.logDirectory={events.as_uri()} -Dspark.history.ui.port={port}"
    spark = find_spec("pyspark")
    assert spark
    assert spark.origin
    environ = os.environ | {"SPARK_HOME": str(Path(spark.origin).parent), "SPARK_HISTORY_OPTS": options}
    command = [Path(sys.executable).with_name("spark-class"), "org.apache.spark.deploy.history.HistoryServer"]
    with subprocess.Popen(command, env=environ) as server:
        try:
            retrying = httpx.HTTPTransport(retries=8)
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", transport=retrying, timeout=60) as client:
                found = {application["id"] for application in client.get("/api/v1/applications").json()}
                assert all(
                    client.get(f"/history/{application}/", follow_redirects=True).is_success for application in found
                )
                return found
        finally:
            server.terminate()


@pytest.mark.nightly(reason="tests/process/test_runs.py has a dry run that writes nothing")
def test_a_dry_run_says_what_it_would_read_and_writes_nothing(run: Callable[..., Any], home: Path) -> None:
    dry = run("accounts", '{"dry_run": true}')
    assert (dry["state"], set(dry["tasks"].values())) == ("success", {"skipped"}), dry["log"][-5000:]
    assert 'accounts: would read {"batch": "export_' in dry["log"].replace('\\"', '"')
    assert "--reprocess-behavior completed --dag-run-conf '{\"dry_run\": false}'" in dry["log"].replace('\\"', '"')
    assert not (home / "lake/sources").exists()


def test_spark_steps_are_submitted_and_the_history_server_has_their_pages(run: Callable[..., Any], home: Path) -> None:
    events = home / "events"
    events.mkdir()
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    found = run("accounts", ONEFOLD_SPARK_CONF=json.dumps(logged))

    assert (found["state"], found["tasks"]) == ("success", DONE), found["log"][-5000:]
    started = re.findall(r"Spark application (local-\d+)(?!, its page)\b", found["log"])
    assert len(set(started)) == 3, "dedup, upsert, gate"
    assert known_to_the_history_server(events) == set(started)


def test_a_dateless_run_publishes_all_that_is_new_and_a_red_one_touches_nothing(
    run_all: Callable[..., Any],
    home: Path,
    lineage: tuple[dict[str, str], Callable[[str, str], dict[str, Any]]],
) -> None:
    emitting, event_of = lineage
    conflict = f'{{"export": "{PROJECT}/sample/exports/kcat/5-conflict"}}'
    found = run_all("accounts", "{}", "{}", conflict, **emitting, **SPARK_HERE)
    first, nothing, red = found["runs"]

    assert (first["state"], first["tasks"]) == ("success", DONE), found["log"][-5000:]
    (event,) = first["events"]
    assert (event["asset"], event["task"]) == ("payments.accounts", "publish")
    assert event["extra"]["batch"].startswith("export_")
    assert event["extra"]["snapshot"] == first["main"]
    assert event["extra"]["counts"]["applied"]
    assert event["extra"]["already"] is False
    assert Path(event["extra"]["report"]).is_file()
    published = event_of("accounts.publish", "COMPLETE")  # nothing was published later
    (source,), (table,) = published["inputs"], published["outputs"]
    assert (source["namespace"], source["name"]) == ("file", str(home / "new/kcat"))
    assert table["facets"]["symlinks"]["identifiers"][0]["name"] == "payments.accounts"
    assert table["facets"]["version"]["datasetVersion"] == str(first["main"])
    assert "account_id" in [field["name"] for field in table["facets"]["schema"]["fields"]]
    applied = event["extra"]["counts"]["applied"]
    rows = table["outputFacets"]["outputStatistics"]["rowCount"]
    assert rows == applied["insert"], "what is deleted before readers saw it is no row of theirs"

    assert nothing["state"] == "success"
    assert set(nothing["tasks"].values()) == {"skipped"}
    assert (nothing["events"], nothing["main"]) == ([], first["main"])

    assert red["state"] == "failed"
    assert red["tasks"] == DONE | {"gate": "failed", "publish": "upstream_failed"}, found["log"][-5000:]
    assert "GateRedError" in found["log"]
    assert (red["events"], red["main"]) == ([], first["main"])
    assert len(list((home / "lake/reports/accounts").glob("*.html"))) == 2, "the red batch has a report too"
    (judged,) = event_of("accounts.gate", "FAIL")["inputs"]
    assert judged["name"] == table["name"]
    checks = judged["inputFacets"]["dataQualityAssertions"]["assertions"]
    failed = {check["assertion"].split("(")[0] for check in checks if not check["success"]}
    assert failed == {"expect_column_values_to_be_in_set", "coverage_gaps"}, "exports 2 to 4 were never read"
    assert len(checks) > 5, "those that passed are reported, too"


@pytest.mark.nightly(reason="an export is given by day, too, and tests/process/test_runs.py repeats a batch")
def test_an_export_given_is_read_and_reading_it_again_publishes_nothing_twice(run_all: Callable[..., Any]) -> None:
    conf = f'{{"export": "{PROJECT}/sample/exports/connect/1-first"}}'
    both = run_all("account_entries", conf, conf, **SPARK_HERE)
    first, again = both["runs"]

    assert (first["state"], first["tasks"]) == ("success", DONE), both["log"][-5000:]
    assert (again["state"], again["tasks"]) == ("success", DONE), both["log"][-5000:]
    assert first["main"] == again["main"]
    assert [event["extra"]["already"] for event in first["events"] + again["events"]] == [False, True]


@pytest.mark.nightly(reason="test_s3_connection has a missing connection by day, and test_telling a task that failed")
def test_a_missing_spark_connection_is_named_before_anything_starts_and_not_tried_again(
    run: Callable[..., Any], home: Path
) -> None:
    messages = home / "messages.jsonl"
    notify = json.dumps({"away": {"class": "tests.support.airflow_notifier.Gone"}, "file": notifier(messages)})
    found = run("accounts", AIRFLOW_CONN_SPARK_DEFAULT=None, ONEFOLD_NOTIFY=notify)

    assert found["state"] == "failed"
    assert found["tasks"]["dedup"] == "failed"
    assert "there is no Airflow connection 'spark_default'" in found["log"]
    assert "Spark-Submit cmd" not in found["log"]
    (said,) = [json.loads(line) for line in messages.read_text().splitlines()]
    failure = (said["task"], said["subject"])
    assert failure == ("dedup", "accounts: task dedup failed"), "one that fails keeps no other from telling"
    assert "there is no Airflow connection &#x27;spark_default&#x27;" in said["body"]


@pytest.mark.nightly(reason="test_submission has lost processes by day")
def test_a_spark_process_that_was_killed_is_lost_and_may_be_tried_again(run: Callable[..., Any]) -> None:
    found = run("accounts", "{}", "0", ONEFOLD_FAULT="after_dedup")

    assert found["tasks"]["dedup"] == "failed"
    assert "SparkLostError" in found["log"]
    assert "trying again may help" in found["log"]
    assert "Its last lines:" in found["log"]
    assert "AirflowException: Cannot execute: " in found["log"], "the provider's own error, as its cause"


@pytest.mark.nightly(reason="test_submission has processes that are lost by day, and test_decide sends figures")
def test_a_killed_task_leaves_no_spark_behind_its_next_try_ends_right_and_figures_are_sent(
    probe: Any, home: Path, statsd: Any
) -> None:
    metrics, received = statsd
    where = {"ONEFOLD_HOME": str(home), "ONEFOLD_LAKE": str(home / "lake"), **metrics}
    found = probe("killed", "accounts", "{}", **where)

    assert found["ended"] >= 2, "the JVM and the driver that it has started"
    assert found["left"] == []
    assert found["states"] == ["success", "success", "up_for_retry", "success", "success"], found["log"][-5000:]
    lines = sum(len(file.read_text().splitlines()) for file in (home / "new/kcat/1-first").iterdir())
    assert found["staged"] == lines
    gauges = received()
    assert (gauges["accounts.landed"], gauges["accounts.red"]) == (lines, 0)
    assert "accounts.age" not in gauges, "it is not published"


@pytest.mark.nightly(reason="tests/spark/test_freshness.py judges freshness by day, and test_telling sends messages")
def test_a_run_that_is_not_done_when_freshness_has_passed_is_reported_as_stale(probe: Any, home: Path) -> None:
    file, messages = home / "datasets" / "accounts.yaml", home / "messages.jsonl"
    schedule = '{cron: "0 0 * * *", timezone: Europe/Berlin, start: 2026-03-01}'
    text = file.read_text().replace("quality: {", "quality: {freshness: 26h, ")
    file.write_text(f"{text}schedule: {schedule}\n")

    notify = json.dumps({"file": notifier(messages)})
    where = {"ONEFOLD_HOME": str(home), "ONEFOLD_LAKE": str(home / "lake"), "ONEFOLD_NOTIFY": notify}
    start, end = "2026-03-01T23:00:00+00:00", "2026-03-02T23:00:00+00:00"
    past = probe("stale", "accounts", "2026-02-28T23:00:00+00:00", start, "backfill", **where)
    found = probe("stale", "accounts", start, end, "scheduled", **where)

    assert (past["code"], found["code"]) == (0, 0), "a backfill sends no message: its deadline has passed before"
    assert found["at"] == "2026-03-03T01:00:00+00:00", "26 hours after the interval's start"
    (said,) = [json.loads(line) for line in messages.read_text().splitlines()]
    assert said["subject"] == "accounts: the data are stale"
    assert "The interval from 2026-03-01T23:00:00Z to 2026-03-02T23:00:00Z is not published" in said["body"]
    assert "/onefold/datasets/accounts" in said["body"]
