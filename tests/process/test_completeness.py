"""What never came, and what is left out, as `onefold run` and `onefold doctor` say it."""

from __future__ import annotations

import pytest

from tests.support.project import Project, thing

pytestmark = pytest.mark.spark


def test_run_and_doctor_name_objects_that_are_left_out(project: Project) -> None:
    """Without Spark: before anything is planned."""
    project.put("things/1.jsonl", [thing(0, "a")])
    project.put("things/orders.csv", [b"id,n\n"])
    project.put("things/README.md", [b"about\n"])
    names = "README.md, orders.csv"
    left_out = f"2 objects are not named as layout kcat has them and left out: {names}"
    would = project.onefold("run", "things", "--dry-run", "--json")
    assert (would.code, would.json[0]["notes"]) == (0, [left_out]), would
    done = project.onefold("doctor", "things", "--json")
    [finding] = [finding for finding in done.json["findings"] if finding["rule"] == "objects_left_out"]
    assert (finding["found"], finding["severity"]) == (left_out, "warning")


def test_run_and_doctor_say_what_the_gate_warns_of(project: Project) -> None:
    project.put("things/1.jsonl", [thing(0, "a"), thing(0, "b", partition=1)])
    first = project.onefold("run", "things")
    assert (first.code, "warning" in first.err) == (0, False), first
    project.put("things/3.jsonl", [thing(7, "c")])
    done = project.onefold("run", "things")
    assert done.code == 0, done
    said = [line for line in done.err.splitlines() if "warning: " in line]
    assert len(said) == 2, done.err
    assert "things, partition 0: [1, 7)" in done.err
    assert "things, partition 1" in done.err
    found = [finding["found"] for finding in project.onefold("doctor", "things", "--json").json["findings"]]
    assert any("things, partition 0: [1, 7)" in sentence for sentence in found)
