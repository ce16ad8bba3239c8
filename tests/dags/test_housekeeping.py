"""Landed bytes are cleared in Airflow once a user has approved it. No Spark: what is of the tables is not run."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from onefold.decisions import table_decisions
from tests.support.landings import bytes_of, landed
from tests.support.project import THINGS, Project

pytestmark = [pytest.mark.airflow, pytest.mark.timeout(900), pytest.mark.usefixtures("airflow_database")]
DAY = timedelta(days=1)
TASKS = tuple(f"clear-landings.{task}" for task in ("look", "approve", "clear"))
REASON = "the `disk`\n\n**is** full"
FORGED = {
    "clear-landings.approve": {"chosen_options": ["Approve"], "responded_by_user": {"id": "eve", "name": "eve"}},
    "clear-landings.look": {"landings": []},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all tests here, in their order: each goes on with what the one before left."""
    made = Project(tmp_path_factory.mktemp("housekeeping"))
    made.write_dataset("things", THINGS)
    return made


@pytest.fixture(scope="module")
def batches(project: Project) -> list[str]:
    return landed(project.lake, project.dataset(), [50 * DAY, 40 * DAY, 3 * DAY])


@pytest.fixture
def clear(probe: Any, project: Project) -> Any:
    def once(
        answer: str, landing: str | None, reason: str | None = "the `disk`\n\n**is** full", forged: str = ""
    ) -> Any:
        home = {"ONEFOLD_HOME": str(project.home), "ONEFOLD_LAKE": str(project.home / ".lake")}
        return probe("clear", json.dumps({"landing": landing, "reason": reason}), answer, forged, **home)

    return once


def states(found: Any) -> tuple[str, ...]:
    return tuple(found["tasks"][task] for task in TASKS)


@pytest.mark.nightly(reason="tests/unit/test_clear.py: nothing younger than the least age is cleared")
def test_s8_no_landed_bytes_are_cleared_below_the_least_age_and_no_question_is_asked(
    clear: Any, project: Project, batches: list[str]
) -> None:
    found = clear("Approve", "0s")

    assert (states(found), found["shown"]) == (("failed", "upstream_failed", "upstream_failed"), [])
    assert "kept for 30d at least (setting landing_min_age)" in " ".join(found["log"].split())
    assert bytes_of(project.lake, project.dataset()) == set(batches)


@pytest.mark.nightly(reason="tests/unit/test_clear.py: without a reason nothing is cleared")
def test_s8_without_a_reason_no_question_is_asked(clear: Any, project: Project, batches: list[str]) -> None:
    found = clear("Approve", "30d", None)

    assert (states(found), found["shown"]) == (("failed", "upstream_failed", "upstream_failed"), [])
    assert "landing needs the parameter reason" in found["log"]


@pytest.mark.nightly(reason="tests/unit/test_clear.py: only what was approved is cleared")
def test_s8_rejected_no_landed_bytes_are_cleared(clear: Any, project: Project, batches: list[str]) -> None:
    found = clear("Reject", "30d")

    assert (found["state"], states(found)) == ("success", ("success", "success", "skipped")), found["log"][-5000:]
    assert bytes_of(project.lake, project.dataset()) == set(batches)
    assert table_decisions(project.lake, "things") == []
    [shown] = found["shown"]
    assert shown["subject"] == "Delete 12 landed bytes?"
    assert (shown["options"], shown["defaults"]) == (["Approve", "Reject"], ["Reject"])
    assert "**Nothing brings them back**" in shown["body"]
    assert "- `things`, source `" in shown["body"]
    assert "`: 2 landings, 4 objects, 12 bytes, landed from " in shown["body"]
    assert "by `dag_test`\n\n> `the \\u0060disk\\u0060`\n> `**is** full`" in shown["body"]


def test_s8_landed_bytes_are_cleared_by_a_decision_of_who_approved_it(
    clear: Any, project: Project, batches: list[str]
) -> None:
    found = clear("Approve", "30d", forged=json.dumps(FORGED))

    assert (found["state"], states(found)) == ("success", ("success",) * 3), found["log"][-5000:]
    assert bytes_of(project.lake, project.dataset()) == {batches[2]}
    [made] = table_decisions(project.lake, "things")
    assert (made.kind, made.who.name, made.who.how) == ("clear", "ada", "airflow")
    assert (made.landings, made.objects, made.bytes) == (batches[:2], 4, 12)
    assert made.reason.endswith("**is** full")


@pytest.mark.nightly(
    reason="what is to be cleared is asked about by day, and tests/unit/test_clear.py clears nothing else"
)
def test_no_one_is_asked_where_nothing_is_to_be_cleared(clear: Any, batches: list[str]) -> None:
    for landing in ("30d", None):
        found = clear("Approve", landing)
        assert (found["state"], states(found)) == ("success", ("skipped",) * 3), found["log"][-5000:]
        assert found["shown"] == []
