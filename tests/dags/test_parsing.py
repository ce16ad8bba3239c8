"""What Airflow makes of the DAGs folder."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from onefold.dataset import load_dataset
from tests.support.hostile_files import RIGHT, WRONG, WRONG_SUITES, write_files

PROJECT = Path(__file__).parents[2]
NAMES = sorted(file.stem for file in (PROJECT / "datasets").glob("*.yaml"))
OWNERS = {"accounts": "payments", "account_entries": "payments", "orders": "shop", "page_views": "web"}
OWN = ["onefold_decide", "onefold_housekeeping"]
TASKS = ["plan", "land", "dedup", "upsert", "gate", "publish", "report"]
BOUNDARIES = [
    ("0 0 * * *", "Europe/Berlin", "2026-03-27T00:00:00+00:00", [24, 23, 24]),
    ("0 0 * * *", "Europe/Berlin", "2026-10-23T00:00:00+00:00", [24, 25, 24]),
    ("0 * * * *", "Europe/Berlin", "2026-03-28T23:00:00+00:00", [1, 1, 1, 1]),
    ("0 * * * *", "Europe/Berlin", "2026-10-24T23:00:00+00:00", [1, 1, 1, 1]),
    ("30 2 * * *", "Europe/Berlin", "2026-03-27T00:00:00+00:00", [24, 24, 23]),
    ("30 2 * * *", "Europe/Berlin", "2026-10-23T00:00:00+00:00", [24, 25, 24]),
    ("0 */6 * * *", "Europe/Berlin", "2026-10-24T16:00:00+00:00", [6, 7, 6]),
    ("0 0 * * *", "America/Santiago", "2026-09-04T00:00:00+00:00", [24, 24, 23]),
    ("0 0 * * *", "UTC", "2026-03-28T00:00:00+00:00", [24, 24]),
]
OF_BOUNDARIES = json.dumps([(cron, timezone, start, len(hours)) for cron, timezone, start, hours in BOUNDARIES])
MINUTES = [f"2026-03-01T12:{minute:02}:07Z" for minute in (0, 0, 5, 10)]
SETTLED = ["settled", "*/5 * * * *", "UTC", "600", *MINUTES, "2026-03-01T12:31:00Z"]
ON_THE_EDGE = ["settled", "0 0 * * *", "Europe/Berlin", "600", "2026-03-30T22:10:00Z"]
ASKED = [
    ["bag"],
    ["addresses"],
    ["weights"],
    ["retries"],
    ["intervals"],
    ["boundaries", OF_BOUNDARIES],
    SETTLED,
    ON_THE_EDGE,
]
"""Functions of `tests.support.airflow_probe`, each with its words."""


def edges(tasks: list[str], reading: dict[str, str]) -> list[str]:
    """One behind the other, and each task behind those whose word it reads: `reading` names them by reader."""
    chain = {f"{task}>{next_task}" for task, next_task in pairwise(tasks)}
    return sorted(chain | {f"{said}>{reader}" for reader, words in reading.items() for said in words.split()})


@pytest.fixture(scope="module")
def asked(probe: Any) -> Callable[..., Any]:
    """What Airflow answers, in one process, to the questions of the tests that change no setting."""
    answers = probe("several", json.dumps(ASKED))["answers"]
    return lambda *call: answers[ASKED.index(list(call))]


@pytest.fixture(scope="module")
def bag(asked: Callable[..., Any]) -> Any:
    """What Airflow makes of the project's own folder of DAGs."""
    return asked("bag")


def test_parsing_imports_no_engine(probe: Any) -> None:
    found = probe("parsing")

    assert found["heavy"] == []
    assert found["dags"] == NAMES


def test_every_dataset_file_is_a_dag_next_to_onefolds_own_and_there_are_no_import_errors(bag: Any) -> None:
    found = bag

    assert sorted(found["dags"]) == sorted([*NAMES, *OWN])
    assert found["errors"] == {}


@pytest.mark.by_day("onefold_datasets", "onefold_decide", why="the other files differ in what they make of a dataset")
@pytest.mark.parametrize(
    "file", ["onefold_datasets", "onefold_invalid_datasets", "onefold_decide", "onefold_housekeeping"]
)
def test_each_of_200_dataset_files_is_a_dag_without_code_and_is_opened_once(
    probe: Any, datasets: Path, file: str
) -> None:
    given = (datasets / "accounts.yaml").read_text()
    for number in range(len(NAMES), 200):
        name = f"more_{number}"
        text = given.replace("name: accounts", f"name: {name}").replace("payments.accounts", f"payments.{name}")
        (datasets / f"{name}.yaml").write_text(text)

    found = probe("reading", file, ONEFOLD_DATASETS=str(datasets))

    assert sorted(found["opened"]) == sorted(path.name for path in datasets.iterdir())
    assert len(found["opened"]) == 200
    assert (found["asked"], found["heavy"]) == ([], [])
    assert len(found["dags"]) == (200 if file == "onefold_datasets" else 0)


def test_every_dag_keeps_the_policy(bag: Any) -> None:
    for name, dag in bag["dags"].items():
        assert dag["owner"] == OWNERS.get(name, "onefold")
        assert {"onefold", OWNERS.get(name, "onefold")} <= set(dag["tags"])
        assert f"### {name}\n" in dag["doc"]
        assert dag["description"]
        assert dag["catchup"] is False
        assert dag["described"] == dag["params"]
        assert dag["timetable"] in ("NullTimetable", "SettledTimetable", "CronTriggerTimetable")
        assert set(dag["retries"].values()) == {2}
        assert sorted(dag["by_cause"]) == sorted(dag["tasks"])
        assert dag["timeouts"] == [12 * 60 * 60]
        assert dag["weight_rules"] == ["BackfillLast"]


def test_every_dataset_dag_has_the_same_tasks_and_one_asset(bag: Any) -> None:
    dags = bag["dags"]

    for name in NAMES:
        dag = dags[name]
        assert dag["max_active_runs"] == 1
        live = load_dataset(PROJECT / "datasets" / f"{name}.yaml").source.kafka
        assert dag["params"] == (["dry_run"] if live else ["export", "dry_run"])
        assert dag["tasks"] == TASKS
        reading = dict.fromkeys(["land", "dedup", "upsert", "gate", "publish"], "plan")
        reading |= {"gate": "plan upsert", "publish": "plan upsert", "report": "plan publish"}
        assert dag["edges"] == edges(TASKS, reading), "cleared together, a reader waits for what it reads"
        assert list(dag["outlets"]) == ["publish"]
        assert dag["teardowns"] == ["report"], "a report never decides the outcome of a run"


def test_tasks_that_start_spark_are_in_the_pool_that_is_set_and_no_try_is_longer_than_is_set(probe: Any) -> None:
    dags = probe("bag", ONEFOLD_POOL="lake", ONEFOLD_TASK_TIMEOUT="90m")["dags"]

    def pooled(name: str) -> list[str]:
        return sorted(task for task, pool in dags[name]["pools"].items() if pool == "lake")

    assert pooled("accounts") == ["dedup", "gate", "publish", "upsert"]
    assert pooled("onefold_decide") == ["dedup", "gate", "publish", "rebuild", "upsert"]
    assert pooled("orders") == ["dedup", "gate", "land", "publish", "upsert"], "a live topic is landed by Spark"
    assert pooled("onefold_housekeeping") == sorted(f"{name}.maintain" for name in NAMES)
    assert {pool for dag in dags.values() for pool in dag["pools"].values()} == {"lake", "default_pool"}
    assert [dag["timeouts"] for dag in dags.values()] == [[90 * 60]] * len(dags)


@pytest.mark.nightly(reason="test_decide follows the links of a run's tasks by day")
def test_tasks_of_a_batch_that_start_spark_lead_to_its_report(probe: Any) -> None:
    dags, wanted = probe("bag")["dags"], ["Report"]

    def leading(name: str) -> list[str]:
        return sorted(task for task, links in dags[name]["links"].items() if links == wanted)

    assert leading("accounts") == leading("onefold_decide") == ["dedup", "gate", "publish", "upsert"]
    assert leading("orders") == ["dedup", "gate", "land", "publish", "upsert"]
    assert leading("onefold_housekeeping") == [], "its tasks are of whole tables"
    dags, wanted = probe("bag", ONEFOLD_SPARK_HISTORY="http://history:18080")["dags"], ["Report", "Spark"]
    assert leading("accounts") == leading("onefold_decide") == ["dedup", "gate", "publish", "upsert"]


def test_a_backfill_waits_behind_the_schedule_and_within_a_run_what_is_first_goes_first(
    asked: Callable[..., Any],
) -> None:
    found = asked("weights")

    assert found["scheduled"] == found["manual"]
    assert min(found["scheduled"].values()) > max(found["backfill"].values())
    for kind in ("scheduled", "backfill"):
        assert [found[kind][task] for task in TASKS[:-1]] == sorted(
            (found[kind][task] for task in TASKS[:-1]), reverse=True
        )


def test_a_dag_that_is_read_again_is_no_new_version(probe: Any, asked: Callable[..., Any]) -> None:
    notify = (
        '{"mail": {"class": "tests.support.airflow_notifier.FileNotifier", "path": "sent", "subject": "", "body": ""}}'
    )

    for found in (asked("addresses"), probe("addresses", ONEFOLD_NOTIFY=notify)):
        assert (found["dags"], found["addresses"]) == (len(NAMES) + 2, [])


@pytest.mark.nightly(reason="the weights that the plugin gives are asked by day")
def test_without_the_plugin_airflow_weighs_as_it_does_otherwise(probe: Any, tmp_path: Path) -> None:
    found = probe("bag", AIRFLOW__CORE__PLUGINS_FOLDER=str(tmp_path))

    assert found["errors"] == {}
    assert found["dags"]["accounts"]["weight_rules"] == ["downstream"]


def test_airflow_runs_the_intervals_that_a_backfill_by_command_reads_without_gap_or_overlap(
    asked: Callable[..., Any],
) -> None:
    found = asked("boundaries", OF_BOUNDARIES)["found"]

    for (*case, hours), boundaries in zip(BOUNDARIES, found, strict=True):
        intervals = [[datetime.fromisoformat(edge) for edge in interval] for interval in boundaries["airflow"]]
        assert [(end - start) / timedelta(hours=1) for start, end in intervals] == hours, case
        assert [end for _, end in intervals[:-1]] == [start for start, _ in intervals[1:]], case
        assert boundaries["ours"] == [boundaries["airflow"][0][0], *(end for _, end in boundaries["airflow"])], case


def test_a_decision_is_triggered_with_known_datasets_and_decisions_and_approved_before_it_is_made(bag: Any) -> None:
    dag = bag["dags"]["onefold_decide"]

    assert dag["timetable"] == "NullTimetable"
    assert dag["params"] == ["dataset", "batch", "decision", "waivers", "reason"]
    assert dag["enums"]["dataset"] == NAMES
    assert dag["enums"]["decision"] == ["release", "discard", "skip", "replay", "again", "without"]
    tasks = ["look_up", "approve", "decide", "dedup", "upsert", "gate", "publish", "report"]
    reading = {"approve": "look_up", "decide": "look_up approve", "dedup": "decide", "upsert": "decide"}
    reading |= {"gate": "decide upsert", "publish": "decide upsert", "report": "decide publish"}
    reading |= {"rebuild": "look_up approve"}
    assert dag["edges"] == edges(tasks, reading)
    assert dag["outlets"] == {"publish": ["onefold_decided"]}
    assert dag["teardowns"] == ["report"]
    assert (dag["approval"]["defaults"], dag["approval"]["seconds"]) == (["Reject"], 24 * 60 * 60)


def test_housekeeping_is_daily_and_one_task_at_a_time(bag: Any) -> None:
    dag = bag["dags"]["onefold_housekeeping"]

    assert dag["timetable"] == "CronTriggerTimetable"
    assert (dag["max_active_runs"], dag["max_active_tasks"]) == (1, 1)
    assert sorted(dag["tasks"]) == sorted(
        [f"{name}.{task}" for name in NAMES for task in ("maintain", "doctor", "stuck")]
        + [f"clear-landings.{task}" for task in ("look", "approve", "clear")]
    )
    assert {f"{name}.maintain>clear-landings.look" for name in NAMES} <= set(dag["edges"])
    assert {"clear-landings.look>clear-landings.approve", "clear-landings.approve>clear-landings.clear"} <= set(
        dag["edges"]
    )


def test_a_schedule_is_an_explicit_interval_timetable_from_the_start_given(probe: Any, datasets: Path) -> None:
    file = datasets / "accounts.yaml"
    schedule = '{cron: "0 0 * * *", timezone: Europe/Berlin, start: 2026-03-01}'
    file.write_text(file.read_text() + f"schedule: {schedule}\n")

    dag = probe("bag", ONEFOLD_DATASETS=str(datasets))["dags"]["accounts"]

    assert dag["timetable"] == "SettledTimetable"
    assert dag["start"] == "2026-02-28T23:00:00+00:00"
    assert "`0 0 * * *` Europe/Berlin, from 2026-03-01 00:00 on" in dag["doc"]


def test_a_run_waits_until_its_interval_is_settled_and_none_is_passed_over_meanwhile(
    asked: Callable[..., Any],
) -> None:
    assert asked(*SETTLED)["found"] == [
        ["01 11:45", "01 11:50", "01 12:00"],
        ["01 11:50", "01 11:55", "01 12:05"],
        ["01 11:55", "01 12:00", "01 12:10"],
        ["01 12:00", "01 12:05", "01 12:15"],
        ["01 12:15", "01 12:20", "01 12:30"],  # without catchup: the newest that is settled
    ]
    assert asked(*ON_THE_EDGE)["found"] == [["29 22:00", "30 22:00", "30 22:10"]]


def test_a_dag_says_what_is_read_what_is_one_message_and_what_the_gate_asks(probe: Any, datasets: Path) -> None:
    given = (datasets / "account_entries.yaml").read_text()
    text = given.split("\nidentity:")[0].replace("name: account_entries", "name: checked")
    rules = """
identity: {message_id: header.m, business_key: [transfer_id, account_id], within: day(booked_at)}
apply: {mode: append}
target: {table: payments.checked}
quality: {max_rejected_rate: 0.005, max_duplicate_rate: 0.3, freshness: 2h, loss: tolerated, suite: checked.yaml}
"""
    (datasets / "checked.yaml").write_text(text.replace("source:", "source:\n  filter: \"note = 'a|b'\"") + rules)

    found = probe("bag", ONEFOLD_DATASETS=str(datasets))

    assert found["errors"] == {}
    doc = found["dags"]["checked"]["doc"]
    assert "| reads | `sample/exports/connect/` (layout connect), only records with `note = 'a\\|b'` |\n" in doc
    same = "business_key: `transfer_id`, `account_id`, `day(booked_at)` (reasons named by position, message_id)"
    assert f"| same message | {same} |\n" in doc
    asked = "at most 0.5 % rejected, at most 0 conflicts, at most 30 % duplicates, newest record within 2:00:00"
    assert f"no version going down,\n{asked}, the suite `expectations/checked.yaml`.\n" in doc
    of_key = found["dags"]["accounts"]["doc"]
    assert "| same message | key_version (reasons named by position" in of_key
    assert "no record gone before it was landed" in of_key


def test_invalid_dataset_files_are_one_import_error_and_the_other_dags_stand(probe: Any, datasets: Path) -> None:
    good = (datasets / "accounts.yaml").read_text()
    broken, late = good.replace("name: accounts", "name: broken"), good.replace("name: accounts", "name: late")
    (datasets / "broken.yaml").write_text(broken.replace("owner: payments", "ownr: payments"))
    (datasets / "late.yaml").write_text(late + 'schedule: {cron: "99 * * * *", start: 2026-01-01}\n')
    constant = good.replace("name: accounts", "name: constant").replace("key: [", "key: [\"'eu'\", ")
    (datasets / "constant.yaml").write_text(constant)

    found = probe("bag", ONEFOLD_DATASETS=str(datasets))

    assert sorted(found["dags"]) == sorted([*NAMES, *OWN])
    assert found["dags"]["onefold_decide"]["enums"]["dataset"] == NAMES
    (file,) = found["errors"]
    assert Path(file).name == "onefold_invalid_datasets.py"
    lines = (datasets / "broken.yaml").read_text().splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if text.startswith("ownr"))
    assert f"broken.yaml:{line}: ownr: unknown key; did you mean 'owner'?" in found["errors"][file]
    assert "late.yaml:" in found["errors"][file]
    assert "schedule.cron" in found["errors"][file]
    assert "apply.key: \"'eu'\" is the same for every record" in found["errors"][file]


def test_a_folder_without_dataset_files_is_an_import_error(probe: Any, tmp_path: Path) -> None:
    found = probe("bag", ONEFOLD_DATASETS=str(tmp_path))

    assert found["dags"] == {}
    assert "no dataset files in" in "".join(found["errors"].values())


def test_terminal_errors_fail_at_once_and_all_others_are_tried_again(asked: Callable[..., Any]) -> None:
    decisions = asked("retries")

    assert decisions["GateRedError"] == decisions["DataLossError"] == decisions["UsageError"] == "fail"
    assert decisions["LakeUnavailableError"] == decisions["ContentionError"] == "retry"
    assert decisions["SparkLostError"] == decisions["CommitOutcomeUnknownError"] == "retry"
    assert decisions["ValueError"] == "default"
    assert (decisions["NotSettledError"], decisions["seconds to settle"]) == ("retry", 610)


def test_only_a_dated_run_of_a_schedule_has_an_interval(asked: Callable[..., Any]) -> None:
    found = asked("intervals")

    assert found["dated"] == "20260101T050000Z-20260101T060000Z"
    assert (found["dateless"], found["empty"], found["export"]) == (None, None, None)
    assert found["kinds"] == ["datetime"], "plain instants, which can be reckoned with"


@pytest.mark.nightly(reason="tests/unit/test_hostile_files.py judges each such file by day")
def test_s2_a_hostile_dataset_file_costs_no_other_its_dag(probe: Any, tmp_path: Path) -> None:
    write_files(tmp_path / "datasets", tmp_path / "expectations")

    found = probe(
        "bag", ONEFOLD_DATASETS=str(tmp_path / "datasets"), ONEFOLD_EXPECTATIONS=str(tmp_path / "expectations")
    )

    assert sorted(found["dags"]) == sorted([*RIGHT, *WRONG_SUITES, *OWN]), "a suite is read when its dataset runs"
    (error,) = found["errors"].values()
    for name, (_, problem) in WRONG.items():
        assert f"{name}.yaml" in error
        assert problem in error
