"""`onefold erase` as a process: what it shows and refuses, and that a killed one is ended by the same command (L6)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from onefold.report.decisions import decisions_of
from onefold.report.ledger import rows_of
from tests.support.project import THINGS, Project, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
WORDS = ("erase", "things", "--key", '{"id": "annelise"}', "--reason", "request 4711", "--who", "mia")


def landed(project: Project) -> list[str]:
    """The landed objects that hold the person's name."""
    found = (info.key for info in project.lake.storage.list("sources/") if "/landed/" in info.key)
    return [key for key in found if b"annelise" in (project.lake.storage.read(key) or b"")]


@pytest.mark.nightly(reason="by day an erasure is killed at each point in one process")
def test_killed_with_both_objects_there_the_same_command_ends_it(project: Project, session: SparkSession) -> None:
    project.write_dataset(
        "others", THINGS.replace("name: things", "name: others").replace("shop.things", "shop.others")
    )
    project.put("things/0.jsonl", [thing(0, "annelise"), thing(1, "bob")])
    assert [run.red for run in project.run(session)] == [None]
    assert [run.red for run in project.run(session, "others")] == [None]
    shown = project.onefold(*WORDS, "--dry-run", "--json")
    assert (shown.code, shown.json["rows"], shown.json["records"], shown.json["others"]) == (
        0, {"live": 1}, 1, ["others"],
    )  # fmt: skip
    assert list(shown.json["objects"]) == landed(project)
    refused = project.onefold(*WORDS)
    assert (refused.code, "say --yes" in " ".join(refused.err.split())) == (2, True)
    assert decisions_of(project.lake, project.dataset()) == []

    killed = project.process(*WORDS, "--yes", fault="before_old_objects")
    assert killed.code == -signal.SIGKILL, killed
    assert len(landed(project)) == 1
    assert [row["id"] for row in rows_of(project.lake, project.dataset())] == ["bob"]
    ended = project.onefold(*WORDS, "--yes", "--json")
    assert (ended.code, ended.json["records"], ended.json["who"]["name"]) == (0, 1, "mia"), ended
    assert "onefold erase others" in " ".join(ended.err.split())
    assert landed(project) == []
    states = {row["decision"]: row["state"] for row in decisions_of(project.lake, project.dataset())}
    assert states == {"erase": "done", "forget": "published"}
    absent = project.onefold("erase", "things", "--key", '{"id": "absent"}', "--reason", "request 1", "--yes")
    assert (absent.code, "there is nothing to erase" in " ".join(absent.err.split())) == (0, True)
