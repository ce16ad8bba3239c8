"""What Airflow makes of the DAGs folder."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

PROJECT = Path(__file__).parents[2]
NAMES = sorted(file.stem for file in (PROJECT / "datasets").glob("*.yaml"))
OWNERS = {"accounts": "payments", "account_entries": "payments", "orders": "shop", "page_views": "web"}
OWN = ["onefold_decide", "onefold_housekeeping"]
TASKS = ["plan", "land", "dedup", "upsert", "gate", "publish", "report"]


def test_parsing_imports_no_engine_and_takes_less_than_a_second(probe: Any) -> None:
    found = probe("parsing")

    assert found["heavy"] == []
    assert found["seconds"] < 1
    assert found["dags"] == NAMES


def test_every_dataset_file_is_a_dag_beside_onefolds_own_and_nothing_is_an_import_error(probe: Any) -> None:
    found = probe("bag")

    assert sorted(found["dags"]) == sorted([*NAMES, *OWN])
    assert found["errors"] == {}


def test_every_dag_keeps_the_policy(probe: Any) -> None:
    for name, dag in probe("bag")["dags"].items():
        assert dag["owner"] == OWNERS.get(name, "onefold")
        assert {"onefold", OWNERS.get(name, "onefold")} <= set(dag["tags"])
        assert f"### {name}\n" in dag["doc"]
        assert dag["description"]
        assert dag["catchup"] is False
        assert dag["described"] == dag["params"]
        assert dag["timetable"] in ("NullTimetable", "CronDataIntervalTimetable", "CronTriggerTimetable")
        assert set(dag["retries"].values()) == {2}
        assert sorted(dag["by_cause"]) == sorted(dag["tasks"])


def test_every_dataset_dag_has_the_same_tasks_and_one_asset(probe: Any) -> None:
    dags = probe("bag")["dags"]

    for name in NAMES:
        dag = dags[name]
        assert dag["max_active_runs"] == 1
        assert dag["params"] == ["export", "dry_run"]
        assert dag["tasks"] == TASKS
        assert dag["edges"] == sorted(f"{one}>{two}" for one, two in pairwise(TASKS))
        assert list(dag["outlets"]) == ["publish"]
        assert dag["teardowns"] == ["report"], "a report never decides the outcome of a run"


def test_a_decision_is_triggered_with_known_datasets_and_decisions_and_approved_before_it_is_made(probe: Any) -> None:
    dag = probe("bag")["dags"]["onefold_decide"]

    assert dag["timetable"] == "NullTimetable"
    assert dag["params"] == ["dataset", "batch", "decision", "waivers", "reason"]
    assert dag["enums"]["dataset"] == NAMES
    assert dag["enums"]["decision"] == ["release", "discard", "skip", "replay"]
    tasks = ["look_up", "approve", "decide", "dedup", "upsert", "gate", "publish", "report"]
    assert dag["edges"] == sorted(f"{one}>{two}" for one, two in pairwise(tasks))
    assert dag["outlets"] == {"publish": ["onefold_decided"]}
    assert dag["teardowns"] == ["report"]
    assert (dag["approval"]["defaults"], dag["approval"]["seconds"]) == (["Reject"], 24 * 60 * 60)


def test_housekeeping_is_daily_and_one_task_at_a_time(probe: Any) -> None:
    dag = probe("bag")["dags"]["onefold_housekeeping"]

    assert dag["timetable"] == "CronTriggerTimetable"
    assert (dag["max_active_runs"], dag["max_active_tasks"]) == (1, 1)
    assert sorted(dag["tasks"]) == sorted(
        f"{name}.{task}" for name in NAMES for task in ("maintain", "doctor", "stuck")
    )


def test_a_schedule_is_an_explicit_interval_timetable_from_the_start_given(probe: Any, datasets: Path) -> None:
    file = datasets / "accounts.yaml"
    file.write_text(file.read_text() + 'schedule: {cron: "0 * * * *", start: 2026-03-01}\n')

    dag = probe("bag", ONEFOLD_DATASETS=str(datasets))["dags"]["accounts"]

    assert dag["timetable"] == "CronDataIntervalTimetable"
    assert dag["start"] == "2026-03-01T00:00:00+00:00"
    assert "`0 * * * *` UTC" in dag["doc"]


def test_invalid_dataset_files_are_one_import_error_and_the_other_dags_stand(probe: Any, datasets: Path) -> None:
    good = (datasets / "accounts.yaml").read_text()
    broken, late = good.replace("name: accounts", "name: broken"), good.replace("name: accounts", "name: late")
    (datasets / "broken.yaml").write_text(broken.replace("owner: payments", "ownr: payments"))
    (datasets / "late.yaml").write_text(late + 'schedule: {cron: "99 * * * *", start: 2026-01-01}\n')

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


def test_a_folder_without_dataset_files_is_an_import_error(probe: Any, tmp_path: Path) -> None:
    found = probe("bag", ONEFOLD_DATASETS=str(tmp_path))

    assert found["dags"] == {}
    assert "no dataset files in" in "".join(found["errors"].values())


def test_terminal_errors_fail_at_once_and_all_others_are_tried_again(probe: Any) -> None:
    decisions = probe("retries")

    assert decisions["GateRedError"] == decisions["DataLossError"] == decisions["UsageError"] == "fail"
    assert decisions["LakeUnavailableError"] == decisions["ContentionError"] == "retry"
    assert decisions["SparkLostError"] == decisions["CommitOutcomeUnknownError"] == "retry"
    assert decisions["ValueError"] == "default"
    assert (decisions["NotSettledError"], decisions["seconds to settle"]) == ("retry", 610)


def test_only_somebody_who_said_approve_has_approved(probe: Any) -> None:
    found = probe("approvals")

    assert (found["approved"], found["nameless"]) == ("ada", "7")
    assert (found["rejected"], found["timed out"], found["marked as successful"]) == (None, None, None)


def test_only_a_dated_run_of_a_schedule_has_an_interval(probe: Any) -> None:
    found = probe("intervals")

    assert found["dated"] == "20260101T050000Z-20260101T060000Z"
    assert (found["dateless"], found["empty"], found["export"]) == (None, None, None)
