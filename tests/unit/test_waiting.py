"""A run that finds nothing new names the batches that wait for an operator. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from onefold import lake_keys
from onefold.cli.batches import ended_in_json
from onefold.decisions import Skip, record
from onefold.errors import GateRedError, UnreadableObjectError
from onefold.landing.land import land_batch, plan_batch
from onefold.operations.run import BatchRun
from onefold.quality.documents import CheckResult, GateResult
from onefold.upsert.documents import Upserted
from tests.support.project import Project, thing

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
RED = CheckResult(
    id="duplicate_rate", title="duplicate rate", by="spark", status="failed", observed="0.5", expected="at most 0.4"
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def red_batch(project: Project) -> str:
    """A landed batch, with the documents that a red gate leaves."""
    project.put("things/0.jsonl", [thing(0, "a"), thing(1, "a")])
    dataset, lake = project.dataset(), project.lake
    batch = plan_batch(lake, dataset).batch
    land_batch(lake, dataset, batch)
    lake.put(lake_keys.latest(dataset, batch), Upserted(batch=batch, attempt="cafe"))
    result = GateResult(
        batch=batch, attempt="cafe", branch="b", head=2, base=1, staging="s", code="c", green=False, checks=[RED],
        judged=NOON,
    )  # fmt: skip
    lake.put(lake_keys.attempt(dataset, batch, "cafe", "gate"), result)
    return batch


def test_nothing_new_and_a_red_batch(project: Project) -> None:
    batch = red_batch(project)
    said = f"things: batch {batch} is red and undecided since 2026-03-09 12:00 UTC: duplicate rate: found 0.5"
    for words in (("run", "things"), ("run", "things", "--dry-run")):
        done = project.onefold(*words)
        text = " ".join(done.err.split())
        assert (done.code, said in text, f"onefold release things {batch}" in text) == (0, True, True), done
    assert "things: nothing new" in project.onefold("run", "things").err
    [row] = project.onefold("run", "things", "--json").json
    assert (row["batch"], row["state"], row["attempt"], row["verdicts"]) == (batch, "red", None, {})
    assert row["why"] == ["duplicate rate: found 0.5, wanted at most 0.4 [duplicate_rate]"]
    assert f"onefold release things {batch}" in row["do"]
    assert row["since"] == "2026-03-09T12:00:00+00:00"
    assert row["report"].endswith(f"{batch}.html")


def test_strict_ends_with_3_until_it_is_decided(project: Project) -> None:
    assert project.onefold("validate", "things").code == 0
    batch = red_batch(project)
    strict = project.onefold("run", "things", "--strict")
    assert (strict.code, f"batches wait for an operator ({batch})" in strict.err) == (3, True), strict
    of_interval = ("run", "things", "--from", "2020-01-01", "--to", "2020-01-02")
    assert project.onefold(*of_interval).code == 0
    assert project.onefold(*of_interval, "--strict").code == 3
    record(project.lake, Skip(dataset="things", batch=batch, number=1, by="mia", reason="known", at=NOON))
    after = project.onefold(*of_interval, "--strict")
    assert (after.code, batch in after.err) == (0, False), after


def test_what_is_red_in_this_run_has_why_and_what_to_do() -> None:
    error = GateRedError("things", "b1", ("conflicts: found 1",), "r.html", ("release",), ("declare tie: last",))
    row = ended_in_json(BatchRun("b1", None, error, "r.html"))
    assert (row["state"], row["why"], row["since"]) == ("red", ["conflicts: found 1"], None)
    assert row["do"].startswith("In the dataset file: declare tie: last. ")
    failed = ended_in_json(BatchRun("b2", None, None, "r.html", UnreadableObjectError("b2", "o", "is cut")))
    assert (failed["state"], failed["do"]) == ("failed", "")
    assert "is cut" in failed["why"][0]
