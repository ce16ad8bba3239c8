"""The fields of a dataset file are edited, and it is run again."""

from __future__ import annotations

import pytest

from onefold.generation import open_dataset
from tests.support.project import THINGS, Project, line

pytestmark = [pytest.mark.nightly, pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
FIELDS = '{id: string, n: long, price: "decimal(10,2)?", at: "timestamp?"}'


def edited(fields: str, more: str = "") -> str:
    assert FIELDS in THINGS
    return THINGS.replace(FIELDS, fields + more)


NOW = edited(
    '{id: string, n: long, cost: "decimal(12,2)?", at: "timestamp?", note: "string?"}', "\n  renamed: {cost: price}"
)


def test_every_command_goes_on_with_the_new_fields_and_a_narrower_file_is_refused(project: Project) -> None:
    early = {"id": "a", "n": 1, "price": "1.50", "note": "early"}
    project.put("things/0.jsonl", [line(0, early), line(1, {"id": "b", "n": 2})])
    assert project.onefold("run", "things").code == 0
    [first] = [row["batch"] for row in project.onefold("batches", "things", "--json").json]
    generation = open_dataset(project.lake, "things").generation

    project.write_dataset("things", NOW)
    assert project.onefold("show", "things", "--json").code == 0, "before the table has the fields"
    late = {"id": "c", "n": 3, "cost": "2.50", "note": "late"}
    project.put("things/1.jsonl", [line(2, late), line(3, {"id": "d", "n": 4, "note": 5}), line(0, early)])
    done = project.onefold("run", "things")
    assert done.code == 0, done.err
    assert open_dataset(project.lake, "things").generation == generation
    rows = [
        {"id": "a", "n": 1, "cost": "1.50", "at": None, "note": None},
        {"id": "b", "n": 2, "cost": None, "at": None, "note": None},
        {"id": "c", "n": 3, "cost": "2.50", "at": None, "note": "late"},
    ]
    assert sorted(project.onefold("show", "things", "--json").json, key=lambda row: str(row["id"])) == rows
    then = project.onefold("show", "things", "--at", first, "--json").json
    assert sorted(then, key=lambda row: str(row["id"])) == rows[:2]
    found = project.onefold("changes", "things", "--since", first, "--json").json
    assert [(row["change"], row["row"]) for row in found["rows"]] == [("inserted", rows[2])]
    explained = project.onefold("explain", "things", "--key", '{"id": "a"}', "--json").json
    assert [(row["verdict"], row["row"]["cost"]) for row in explained] == [("applied", "1.50"), ("duplicate", "1.50")]
    [refused] = project.onefold("quarantine", "things", "--json").json
    assert (refused["offset"], refused["reason"]) == (3, "wrong_type")
    proved = project.onefold("prove", "things")
    assert proved.code == 0, proved.err

    project.write_dataset("things", NOW.replace("n: long", "n: int"))
    narrower = project.onefold("run", "things")
    assert narrower.code == 2
    assert "things.yaml:11: n was long, and is int" in narrower.err
    assert "onefold rebuild things" in narrower.err

    project.write_dataset("things", NOW)
    assert project.onefold("rebuild", "things").code == 0
    assert open_dataset(project.lake, "things").generation != generation
    rows[0]["note"] = "early"
    assert sorted(project.onefold("show", "things", "--json").json, key=lambda row: str(row["id"])) == rows
