"""A decision that is killed anywhere, and made again, is on record once and carried out once (L1, L5)."""

from __future__ import annotations

import itertools
import signal
from typing import TYPE_CHECKING, Any

import pytest

from onefold import lake_keys
from onefold.decisions import Decider, log_of
from onefold.faults import DECISION_POINTS, DISCARD_POINTS
from onefold.landing.plan import find_plan
from onefold.operations import decide
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.report.ledger import batches_of, offsets_of, records_of, rows_of, verdicts_of
from tests.support.project import THINGS, Project, at_night, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
STRICT = THINGS.replace("max_duplicate_rate: 1.0", "max_duplicate_rate: 0.4")
RATE = "duplicate_rate=0.5"
POINTS = at_night(
    (
        *(("release", point) for point in (*DECISION_POINTS, "after_merge", "after_gate", "after_commit")),
        *(("skip", point) for point in (*DECISION_POINTS, "after_dedup", "before_commit", "after_publish")),
        *(("discard", point) for point in DISCARD_POINTS),
    ),
    (("release", "after_decision"), ("discard", "after_drop")),
)
"""The steps that carry a decision out are those of any batch, whose every point `test_crashes` passes."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all: each fault point has a red batch of its own."""
    made = Project(tmp_path_factory.mktemp("decisions"))
    made.write_dataset("things", STRICT)
    return made


NUMBERS = itertools.count(1)
RELEASED: list[str] = []
"""The ids of the batches that were released so far."""


def rows(project: Project) -> list[str]:
    found = [row["id"] for row in rows_of(project.lake, project.dataset())]
    return sorted(found, key=lambda id_: int(id_.removeprefix("id-")))


@pytest.mark.parametrize(("command", "point"), POINTS)
def test_killed_there_the_same_command_ends_it_once(
    project: Project, session: SparkSession, command: str, point: str
) -> None:
    number, lake, dataset = next(NUMBERS), project.lake, project.dataset()
    offset = 2 * number
    project.put(f"things/{number:02d}.jsonl", [thing(offset, f"id-{number}"), thing(offset + 1, f"id-{number}")])
    [ended] = [run for run in project.run(session) if run.red]
    batch = ended.batch
    words = [command, "things", batch, "--reason", "why not", "--who", "mia"]
    words += ["--waive", RATE] if command == "release" else []
    killed = project.process(*words, fault=point)
    assert killed.code == -signal.SIGKILL, killed
    assert len(log_of(lake, "things", batch)) == (point != "before_decision")

    if point in ("after_commit", "after_drop"):
        again = project.onefold(*words, "--json")
        assert again.code == 0, again
    else:
        made = _again(project, command, batch)
        assert made.who.name == "mia"
        if command != "discard":
            launcher = InSession(lake, session)
            assert run_batch(lake, dataset, find_plan(lake, dataset, batch), launcher).published
    assert len(log_of(lake, "things", batch)) == 1
    RELEASED.extend([f"id-{number}"] if command == "release" else [])
    assert rows(project) == RELEASED, "all of it, or nothing"
    [row] = [row for row in batches_of(lake, dataset) if row["batch"] == batch]
    assert row["decision"] == {
        "kind": command,
        "by": "mia",
        "who": Decider.asserted("mia").model_dump(),
        "reason": "why not",
    }
    published = [record.batch for record in records_of(lake, dataset)]
    assert published.count(batch) == (command != "discard")
    if command == "discard":
        assert (row["gate"], row["verdicts"]) == (None, {})
        assert not list(lake.storage.list(f"{lake_keys.of_batch(dataset, batch)}/"))
        decide.skip(lake, dataset, batch, Decider.asserted("noa"), "or the next run would take it up")
        return
    assert [row["offset"] for row in verdicts_of(lake, dataset, batch)[0]] == [offset, offset + 1]
    [there] = offsets_of(lake, dataset)
    assert there["covered"][-1][1] == offset + 2


def _again(project: Project, command: str, batch: str) -> Any:
    lake, dataset, who = project.lake, project.dataset(), Decider.asserted("mia")
    if command == "release":
        return decide.release(lake, dataset, batch, [RATE], who, "why not")
    return getattr(decide, command)(lake, dataset, batch, who, "why not")
