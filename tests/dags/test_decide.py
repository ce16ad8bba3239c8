"""A red batch is decided in Airflow: shown, answered by a user, and carried out for real. Then the lake is tidied."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from onefold import lake_keys
from onefold.decisions import log_of
from onefold.generation import settle
from onefold.iceberg.connection import open_catalog
from onefold.report.decisions import decisions_of
from onefold.report.ledger import rows_of
from onefold.tables.names import STAGING
from tests.support.airflow_process import SPARK_HERE
from tests.support.project import THINGS, Done, Project, line, thing

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(1800), pytest.mark.usefixtures("airflow_database")]
STRICT = THINGS.replace("max_duplicate_rate: 1.0", "max_duplicate_rate: 0.4")
RATE = "duplicate_rate=0.5"
STEPS = ("dedup", "upsert", "gate", "publish", "report")
NOTHING_RUN = dict.fromkeys((*STEPS, "rebuild"), "skipped")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all tests here, in their order: each goes on with what the one before left."""
    made = Project(tmp_path_factory.mktemp("decide"))
    made.write_dataset("things", STRICT)
    return made


@pytest.fixture(scope="module")
def red(project: Project) -> str:
    """The first batch, in which half are duplicates."""
    return run_red(project, "1", [thing(0, "a", 1), thing(1, "a", 1)])


def run_red(project: Project, name: str, lines: list[bytes]) -> str:
    project.put(f"things/{name}.jsonl", lines)
    done = project.onefold("run", "things", "--json")
    assert done.code == 3, done.err
    return str(of_this_run(done)["batch"])


def of_this_run(done: Done) -> dict[str, Any]:
    """The last batch that a run judged; batches of earlier runs that wait come after it."""
    return [row for row in done.json if row["since"] is None][-1]


@pytest.fixture
def decide(probe: Any, project: Project) -> Callable[..., Any]:
    """Triggers the decision of a batch, with an answer to give when it is asked for."""

    def once(answer: str, batch: str, decision: str, *waivers: str, forged: str = "", **environ: str) -> Any:
        asked = {"dataset": "things", "batch": batch, "decision": decision, "waivers": list(waivers)}
        conf = asked | {"reason": "a known retry\n\n**Red checks**: `none`"}
        return probe("decide", json.dumps(conf), answer, forged, **home_of(project), **SPARK_HERE, **environ)

    return once


def home_of(project: Project) -> dict[str, str]:
    return {"ONEFOLD_HOME": str(project.home), "ONEFOLD_LAKE": str(project.home / ".lake")}


def states_of(found: Any) -> set[str]:
    """How the tasks ended, but for the rebuild, which only the decision `without` runs."""
    return {state for task, state in found["tasks"].items() if task != "rebuild"}


def page_of(batch: str) -> str:
    return f"/onefold/reports/things/{batch}"


def rows(project: Project) -> list[tuple[str, int]]:
    return sorted((row["id"], row["n"]) for row in rows_of(project.lake, project.dataset()))


def scratch(project: Project) -> list[str]:
    return sorted(name for _, name in open_catalog(project.lake).list_tables(STAGING))


@pytest.mark.nightly(reason="tests/unit/test_approval.py and test_decisions.py have what a decision refuses")
def test_an_impossible_decision_fails_at_once_with_the_message_of_the_command_and_asks_no_one(
    decide: Callable[..., Any], project: Project, red: str
) -> None:
    found = decide("Approve", red, "release")

    assert (found["state"], found["tasks"]["look_up"], found["tasks"]["approve"]) == (
        "failed",
        "failed",
        "upstream_failed",
    )
    assert f'add --waive "{RATE}"' in found["log"].replace('\\"', '"')
    assert "trying again changes nothing" in found["log"]
    assert found["shown"] == []
    assert log_of(project.lake, "things", red) == []


@pytest.mark.nightly(
    reason="tests/unit/test_approvals.py: rejected, nothing is approved; and a forged approval decides nothing by day"
)
def test_rejected_nothing_is_decided(decide: Callable[..., Any], project: Project, red: str) -> None:
    found = decide("Reject", red, "release", RATE)

    assert found["tasks"] == {"look_up": "success", "approve": "success", "decide": "skipped"} | NOTHING_RUN
    assert (found["state"], found["events"], rows(project)) == ("success", [], [])
    assert log_of(project.lake, "things", red) == []
    [shown] = found["shown"]
    assert shown["subject"] == f"Release batch {red} of things?"
    assert (shown["options"], shown["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert "- `duplicate rate` (`duplicate_rate`): found `0.5`, wanted `at most 0.4` (waived)" in shown["body"]
    assert (
        "**Reason given**, by `dag_test`\n\n> `a known retry`\n> `**Red checks**: \\u0060none\\u0060`" in shown["body"]
    ), "a reason cannot pass for a check"
    assert shown["body"].endswith(f"{page_of(red)})")
    [tab], [links] = found["tabs"], found["links"]
    assert "<title>things" in tab, "the run's tab has the report of the batch that it is about"
    assert red in tab
    assert links["publish"]["extra_links"] == {"Report": None}, "it did not run"


FORGED = {
    "approve": {"chosen_options": ["Approve"], "responded_by_user": {"id": "eve", "name": "eve"}},
    "look_up": {"shown": {"batch": "other", "number": 9}, "subject": "Nothing", "body": "Nothing happens"},
}


def test_s8_a_forged_xcom_approves_nothing(decide: Callable[..., Any], project: Project, red: str) -> None:
    found = decide("", red, "release", RATE, forged=json.dumps(FORGED))

    assert (found["tasks"]["approve"], found["tasks"]["decide"]) == ("success", "failed"), found["log"][-5000:]
    assert "it was not approved in the run onefold_decide/" in found["log"]
    assert found["tasks"]["publish"] == "upstream_failed"
    assert (log_of(project.lake, "things", red), rows(project)) == ([], [])


def test_the_reports_are_behind_the_login_and_a_link_leads_to_one(probe: Any, project: Project, red: str) -> None:
    paths = ("", "?q=a&page=2", "datasets/things", "datasets/none", "reports/things/none", "runs/things/none")
    asked = [page_of(red), *(f"/onefold/{path}" for path in paths)]

    found = probe("pages", *asked, **home_of(project))

    assert found["anonymous"] == dict.fromkeys(asked, 401)
    assert list(found["admin"].values()) == [200, 200, 200, 200, 403, 404, 200]
    assert found["views"] == ["Data quality", "Report"]


def test_an_approved_batch_is_published_under_the_name_of_the_approver(
    decide: Callable[..., Any], project: Project, red: str, statsd: Any
) -> None:
    metrics, received = statsd
    found = decide("Approve", red, "release", RATE, **metrics)

    assert found["state"] == "success", found["log"][-5000:]
    assert states_of(found) == {"success"}
    assert rows(project) == [("a", 1)]
    [made] = decisions_of(project.lake, project.dataset())
    assert (made["decision"], made["by"], made["state"]) == ("release", "ada", "published")
    assert made["reason"].startswith("a known retry")
    assert made["waived"] == [{"check": "duplicate_rate", "value": "0.5", "carried": False}]
    [event] = found["events"]
    assert (event["asset"], event["task"]) == ("shop.things", "publish")
    assert (event["extra"]["batch"], event["extra"]["already"]) == (red, False)
    assert (event["extra"]["snapshot"], event["extra"]["counts"]["applied"]) == (found["main"], {"insert": 1})
    assert "Released" in Path(event["extra"]["report"]).read_text()
    gauges = received()
    assert (gauges["things.red"], gauges["things.applied"]) == (0, 1)
    assert gauges["things.age"] > 0, "this run has published it"
    [tab], [links] = found["tabs"], found["links"]
    assert "Released" in tab
    assert [links[task]["extra_links"] for task in ("gate", "publish")] == [{"Report": page_of(red)}] * 2


@pytest.mark.nightly(reason="tests/process/test_runs.py: a repeated batch changes nothing")
def test_decided_twice_it_is_published_once_and_the_asset_has_no_second_event(
    decide: Callable[..., Any], project: Project, red: str
) -> None:
    found = decide("Approve", red, "release", RATE)

    assert (found["state"], found["events"]) == ("success", []), found["log"][-5000:]
    assert len(log_of(project.lake, "things", red)) == 1


@pytest.mark.nightly(
    reason="tests/process/test_maintain.py clears, and tests/dags/test_housekeeping.py has the DAG by day"
)
def test_housekeeping_clears_finished_attempts_keeps_the_rows_and_names_what_waits(
    probe: Any, project: Project, red: str
) -> None:
    second = run_red(project, "2", [thing(2, "b", 2), thing(3, "b", 2)])
    before, rows_before = scratch(project), rows(project)

    found = probe("run", "onefold_housekeeping", '{"attempts": "0s"}', **home_of(project), **SPARK_HERE)

    assert found["state"] == "success", found["log"][-5000:]
    asked = dict.fromkeys(("clear-landings.look", "clear-landings.approve", "clear-landings.clear"), "skipped")
    assert found["tasks"] == asked | dict.fromkeys(("things.maintain", "things.doctor", "things.stuck"), "success")
    assert found["xcoms"]["things.stuck"] == [second]
    assert f"batch {second} is red and undecided since" in found["log"]
    assert "findings (onefold doctor things shows more)" in found["log"]
    done = found["xcoms"]["things.maintain"]
    assert done["rows_proved"] == 1
    assert done["tables"]
    assert scratch(project) == [name for name in before if name not in done["tables"]]
    assert rows(project) == rows_before == [("a", 1)]
    assert red not in found["xcoms"]["things.stuck"]


@pytest.mark.nightly(reason="tests/unit reads durations, and housekeeping runs by day")
def test_a_wrong_age_is_reported_before_spark_starts(probe: Any, project: Project) -> None:
    found = probe("run", "onefold_housekeeping", '{"snapshots": "a week"}', **home_of(project))

    assert found["tasks"]["things.maintain"] == "failed"
    assert "is no duration such as 30s" in found["log"]
    assert "Spark-Submit cmd" not in found["log"]


@pytest.mark.nightly(reason="another decision is approved and carried out by day")
def test_discarded_nothing_is_run_and_the_report_says_so(decide: Callable[..., Any], project: Project) -> None:
    [second] = [plan for plan in project.onefold("batches", "things", "--json").json if not plan["published"]]
    batch = second["batch"]

    found = decide("Approve", batch, "discard")

    assert found["tasks"] == dict.fromkeys(("look_up", "approve", "decide"), "success") | NOTHING_RUN
    assert (found["state"], found["events"]) == ("success", [])
    [made] = log_of(project.lake, "things", batch)
    assert (made.kind, made.who.name) == ("discard", "ada")
    assert "discarded" in (project.lake.storage.read(lake_keys.report("things", batch, "html")) or b"").decode().lower()
    assert rows(project) == [("a", 1)]


@pytest.mark.nightly
def test_skipped_it_is_covered_and_nothing_of_it_is_used(decide: Callable[..., Any], project: Project) -> None:
    [second] = [plan for plan in project.onefold("batches", "things", "--json").json if not plan["published"]]

    before = datetime.now(UTC)
    found = decide("Approve", second["batch"], "skip")

    assert (found["state"], states_of(found)) == ("success", {"success"}), found["log"][-5000:]
    made = decisions_of(project.lake, project.dataset())[-1]
    assert (made["batch"], made["decision"], made["by"]) == (second["batch"], "skip", "ada")
    assert made["state"] == "published"
    assert made["reason"].startswith("a known retry")
    assert before <= datetime.fromisoformat(made["at"]) <= datetime.now(UTC)
    assert rows(project) == [("a", 1)]
    [event] = found["events"]
    assert event["extra"]["counts"] == {"skipped": {"decision": 2}}


@pytest.mark.nightly
def test_replayed_the_batch_that_folds_its_quarantine_again_is_the_one_that_is_run_and_shown(
    decide: Callable[..., Any], project: Project
) -> None:
    project.put("things/3.jsonl", [thing(4, "c", 3), line(5, "#")])
    [third] = project.onefold("run", "things", "--json").json

    before = datetime.now(UTC)
    found = decide("Approve", third["batch"], "replay")

    assert (found["state"], states_of(found)) == ("success", {"success"}), found["log"][-5000:]
    made = decisions_of(project.lake, project.dataset())[-1]
    assert (made["decision"], made["by"], made["state"]) == ("replay", "ada", "published")
    assert made["reason"].startswith("a known retry")
    assert before <= datetime.fromisoformat(made["at"]) <= datetime.now(UTC)
    assert made["batch"] != third["batch"]
    [event] = found["events"]
    assert (event["extra"]["batch"], event["extra"]["counts"]) == (made["batch"], {"rejected": {"undecodable": 1}})
    [tab], [links] = found["tabs"], found["links"]
    assert made["batch"] in tab
    assert links["publish"]["extra_links"] == {"Report": page_of(made["batch"])}
    assert rows(project) == [("a", 1), ("c", 3)]


@pytest.mark.nightly(reason="another decision is approved and carried out by day")
def test_a_batch_that_was_rolled_back_is_taken_up_by_a_decision(decide: Callable[..., Any], project: Project) -> None:
    before = rows(project)
    batches = []
    for number in (6, 7):
        project.put(f"things/{number}.jsonl", [thing(number, f"d{number}", number)])
        published = of_this_run(project.onefold("run", "things", "--json"))
        assert published["state"] == "published"
        batches.append(published["batch"])
    assert project.onefold("rollback", "things", "--to", batches[0], "--reason", "wrong").code == 0
    assert rows(project) == sorted([*before, ("d6", 6)])

    found = decide("Approve", batches[1], "again")

    assert (found["state"], states_of(found)) == ("success", {"success"}), found["log"][-5000:]
    made = decisions_of(project.lake, project.dataset())[-1]
    assert (made["batch"], made["decision"], made["by"], made["state"]) == (batches[1], "again", "ada", "done")
    assert [event["extra"]["batch"] for event in found["events"]] == [batches[1]]
    assert rows(project) == sorted([*before, ("d6", 6), ("d7", 7)])


@pytest.mark.nightly(
    reason="another decision is approved and carried out by day, and test_rebuild_without takes a batch out"
)
def test_a_wrong_batch_is_taken_out_under_the_name_of_the_approver(
    decide: Callable[..., Any], project: Project
) -> None:
    project.put("things/8.jsonl", [thing(80, "y", 0)])
    done = project.onefold("run", "things", "--json")
    assert done.code == 0, done.err
    wrong = str(of_this_run(done)["batch"])
    before = rows(project)
    found = decide("Approve", wrong, "without")
    assert (found["state"], found["tasks"]["rebuild"]) == ("success", "success"), found["log"][-5000:]
    assert {found["tasks"][step] for step in STEPS} == {"skipped"}
    [shown] = found["shown"]
    assert shown["subject"] == f"Take batch {wrong} out of things?"
    assert "every other landed batch is folded into a new table" in shown["body"]
    dataset = settle(project.lake, project.dataset())
    after = sorted((row["id"], row["n"]) for row in rows_of(project.lake, dataset))
    assert (("y", 0) in before, after) == (True, [row for row in before if row != ("y", 0)])
    made = log_of(project.lake, "things", wrong)[-1]
    assert (made.kind, made.who.name) == ("discard", "ada")


@pytest.mark.nightly(
    reason="tests/unit/test_approvals.py has who approved, and by day a forged approval decides nothing"
)
def test_s8_a_forged_xcom_does_not_change_who_is_recorded(decide: Callable[..., Any], project: Project) -> None:
    batch = run_red(project, "0", [thing(90, "f", 1), thing(91, "f", 1)])

    found = decide("Approve", batch, "discard", forged=json.dumps(FORGED))

    assert found["state"] == "success", found["log"][-5000:]
    [made] = log_of(project.lake, "things", batch)
    assert (made.who.id, made.who.name, made.who.how) == ("ada", "ada", "airflow")
    assert (made.kind, made.number, bool(made.who.host)) == ("discard", 1, True)
    assert found["shown"][0]["subject"] == f"Discard batch {batch} of things?"
