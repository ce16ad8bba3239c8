"""`validate --sample`: what would become of the newest records, before anything is written."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from onefold.dedup.sample import sample
from onefold.errors import NothingToReadError
from onefold.landing.exports import ExportSource
from tests.support.project import Project, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark]


def test_the_newest_records_are_judged_and_nothing_is_written(project: Project, session: SparkSession) -> None:
    project.put("things/old.jsonl", [thing(0, "old", 0)])
    os.utime(project.home / "exports/things/old.jsonl", (0, 0))
    filler = [thing(10 + number, f"id-{number}", number) for number in range(20)]
    project.put("things/new.jsonl", [*filler, thing(90, "id-3", 3), line(91, {"id": "x", "n": "7"}), line(92, "{}")])
    found = sample(session, project.lake, project.dataset(), 23)
    wrong = "things 0 91: n: wanted long, found string 7"
    assert found == [
        {"verdict": "applied", "reason": "first of its key", "records": 20, "example": "things 0 10"},
        {"verdict": "duplicate", "reason": "message_id", "records": 1, "example": "things 0 90"},
        {"verdict": "rejected", "reason": "missing_field", "records": 1, "example": "things 0 92: id is absent"},
        {"verdict": "rejected", "reason": "wrong_type", "records": 1, "example": wrong},
    ]
    assert list(project.lake.storage.list("sources")) == []
    assert [plan.name for plan in ExportSource(project.lake, project.dataset()).newest(1).objects] == ["new.jsonl"]
    assert len(ExportSource(project.lake, project.dataset()).newest(10_000).objects) == 2


def test_the_newest_records_of_a_large_object_are_judged_and_no_more_than_asked_for(
    project: Project, session: SparkSession
) -> None:
    ids = [thing(number, f"id-{number}", number) for number in range(20)]
    project.put("things/new.jsonl", [*ids[10:], *ids[:10]])
    (row,) = sample(session, project.lake, project.dataset(), 5)
    assert (row["records"], row["example"]) == (5, "things 0 15")


def test_lines_that_are_no_record_are_among_the_newest(project: Project, session: SparkSession) -> None:
    project.put("things/new.jsonl", [b"junk\n", *(thing(number, f"id-{number}", number) for number in range(20))])
    found = sample(session, project.lake, project.dataset(), 5)
    assert [(row["reason"], row["records"]) for row in found] == [("first of its key", 4), ("undecodable", 1)]


def test_companions_come_along(project: Project) -> None:
    connect = project.dataset().model_dump(by_alias=True)
    connect["source"]["exports"]["layout"] = "connect"
    for name in ("t+0+0.json", "t+0+0.keys.json", "t+0+0.headers.json", "t+0+5.json"):
        project.put(f"things/{name}", [b"{}" * 60])
    for name in ("t+0+5.json", "t+0+0.keys.json"):
        os.utime(project.home / "exports/things" / name, (0, 0))
    dataset = type(project.dataset()).model_validate(connect)
    plan = ExportSource(project.lake, dataset).newest(1)
    assert sorted(object_.name for object_ in plan.objects) == ["t+0+0.headers.json", "t+0+0.json", "t+0+0.keys.json"]


def test_an_empty_place_is_named(project: Project, session: SparkSession) -> None:
    with pytest.raises(NothingToReadError, match="does not exist or is empty"):
        sample(session, project.lake, project.dataset(), 5)
