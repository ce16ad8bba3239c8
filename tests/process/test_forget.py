"""`onefold forget` as a process: what it refuses and shows, and that a killed one is ended once by any run (L5)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from onefold.report.decisions import decisions_of
from onefold.report.ledger import rows_of
from tests.support.project import Project, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
KEY = '{"id": "ann"}'


def ids(project: Project) -> list[str]:
    return sorted(row["id"] for row in rows_of(project.lake, project.dataset()))


@pytest.mark.nightly(reason="by day releases and skips are killed there")
def test_killed_before_its_commit_the_next_run_ends_it_once(project: Project, session: SparkSession) -> None:
    project.put("things/0.jsonl", [thing(0, "ann"), thing(1, "bob")])
    assert [run.red for run in project.run(session)] == [None]
    refused = project.onefold("forget", "things", "--reason", "asked to")
    assert (refused.code, "say which keys" in refused.err) == (2, True)
    shown = project.onefold("forget", "things", "--key", KEY, "--reason", "asked to", "--dry-run", "--json")
    assert (shown.code, [row["state"] for row in shown.json]) == (0, ["not recorded"])
    assert "1 key (1 live)" in " ".join(shown.err.split())

    killed = project.process("forget", "things", "--key", KEY, "--reason", "asked to", fault="before_commit")
    assert killed.code == -signal.SIGKILL, killed
    assert ids(project) == ["ann", "bob"]
    [ended] = [run for run in project.run(session) if run.batch.startswith("forget_")]
    assert (ended.red, ids(project)) == (None, ["bob"])
    nothing = project.onefold("forget", "things", "--key", KEY, "--reason", "asked to")
    assert (nothing.code, "there is nothing to forget" in " ".join(nothing.err.split())) == (0, True)
    [decision] = decisions_of(project.lake, project.dataset())
    assert (decision["decision"], decision["state"]) == ("forget", "published")
