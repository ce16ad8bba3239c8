"""DAGs run for real: `dag.test()` and spark-submit on the sample, in a lake of the test's own."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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


def test_a_dateless_run_publishes_all_that_is_new_and_a_red_one_touches_nothing(
    run: Callable[..., Any], home: Path
) -> None:
    dry = run("accounts", '{"dry_run": true}')
    assert (dry["state"], set(dry["tasks"].values())) == ("success", {"skipped"}), dry["log"][-5000:]
    assert 'accounts: would read {"batch": "export_' in dry["log"].replace('\\"', '"')
    assert not (home / "lake/sources").exists(), "a dry run writes nothing"

    first = run("accounts")

    assert (first["state"], first["tasks"]) == ("success", DONE), first["log"][-5000:]
    (event,) = first["events"]
    assert (event["asset"], event["task"]) == ("payments.accounts", "publish")
    assert event["extra"]["batch"].startswith("export_")
    assert event["extra"]["snapshot"] == first["main"]
    assert event["extra"]["counts"]["applied"]
    assert event["extra"]["already"] is False
    assert Path(event["extra"]["report"]).is_file()

    nothing = run("accounts")
    assert nothing["state"] == "success"
    assert set(nothing["tasks"].values()) == {"skipped"}
    assert (nothing["events"], nothing["main"]) == ([], first["main"])

    red = run("accounts", f'{{"export": "{PROJECT}/sample/exports/kcat/5-conflict"}}')
    assert red["state"] == "failed"
    assert red["tasks"] == DONE | {"gate": "failed", "publish": "upstream_failed"}, red["log"][-5000:]
    assert "GateRedError" in red["log"]
    assert (red["events"], red["main"]) == ([], first["main"])
    assert len(list((home / "lake/reports/accounts").glob("*.html"))) == 2, "the red batch has a report too"


def test_an_export_given_is_read_and_reading_it_again_publishes_nothing_twice(run: Callable[..., Any]) -> None:
    conf = f'{{"export": "{PROJECT}/sample/exports/connect/1-first"}}'
    first = run("account_entries", conf)
    again = run("account_entries", conf)

    assert (first["state"], first["tasks"]) == ("success", DONE), first["log"][-5000:]
    assert (again["state"], again["tasks"]) == ("success", DONE), again["log"][-5000:]
    assert first["main"] == again["main"]
    assert [one["extra"]["already"] for one in first["events"] + again["events"]] == [False, True]


def test_a_missing_spark_connection_is_named_before_anything_starts_and_not_tried_again(
    run: Callable[..., Any],
) -> None:
    found = run("accounts", AIRFLOW_CONN_SPARK_DEFAULT=None)

    assert found["state"] == "failed"
    assert found["tasks"]["dedup"] == "failed"
    assert "there is no Airflow connection 'spark_default'" in found["log"]
    assert "Spark-Submit cmd" not in found["log"]


def test_a_spark_process_that_was_killed_is_lost_and_may_be_tried_again(run: Callable[..., Any]) -> None:
    found = run("accounts", "{}", "0", ONEFOLD_FAULT="after_dedup")

    assert found["tasks"]["dedup"] == "failed"
    assert "SparkLostError" in found["log"]
    assert "trying again may help" in found["log"]


def test_the_reports_are_behind_the_login(probe: Any) -> None:
    paths = ("", "?q=a&page=2", "datasets/accounts", "datasets/none", "reports/accounts/none", "runs/accounts/none")
    found = probe("pages", *(f"/onefold/{path}" for path in paths))

    assert set(found["anonymous"].values()) == {401}
    assert list(found["admin"].values()) == [200, 200, 200, 403, 404, 200]
    assert found["views"] == ["Data quality", "Report"]
