"""A run that is killed anywhere and started again ends as if nothing had happened (L1, L5, L6)."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from onefold.faults import RUN_POINTS
from onefold.iceberg.state_table import find_state
from onefold.report.ledger import batches_of, records_of, rows_of, verdicts_of
from tests.support.project import Project, at_night, line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
POINTS = at_night(RUN_POINTS, ("after_land", "amid_merge", "after_commit"))
BY_PROCESS = ("after_commit", "after_publish")
"""Fault points whose second run is a process too; the others' is a call, which costs a third."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all fault points: each kills a batch of its own."""
    return Project(tmp_path_factory.mktemp("crashes"))


def batch_of(number: int) -> list[tuple[int, str, int, int]]:
    """(offset, id, n, timestamp): a new id twice, and an earlier record of the batch before's id, which replaces it."""
    first, late = 10 * number, 1_000_000 - number
    return [
        (first, f"id-{number}", number, late),
        (first + 1, f"id-{number}", number, late + 5),
        (first + 2, f"id-{number - 1}", -number, late - 10),
    ]


def expected(last: int) -> dict[str, int]:
    """Append: of each id the record that is smallest in (timestamp, offset)."""
    smallest: dict[str, tuple[int, int, int]] = {}
    for number in range(last + 1):
        for offset, id_, n, at in batch_of(number):
            smallest[id_] = min(smallest.get(id_, (at, offset, n)), (at, offset, n))
    return {id_: n for id_, (_, _, n) in smallest.items()}


def put_batch(project: Project, number: int) -> None:
    lines = [line(offset, {"id": id_, "n": n}, ts=at) for offset, id_, n, at in batch_of(number)]
    project.put(f"things/{number:02d}.jsonl", lines)


@pytest.mark.parametrize("point", POINTS)
def test_killed_there_and_run_again_it_ends_as_undisturbed(project: Project, session: SparkSession, point: str) -> None:
    dataset, lake = project.dataset(), project.lake
    if not published_batches(project):
        put_batch(project, 0)
        assert [run.red for run in project.run(session)] == [None]
    number = len(published_batches(project))
    before = rows(project)
    put_batch(project, number)
    killed = project.process("run", "things", fault=point)
    assert killed.code == -signal.SIGKILL, killed
    moved = RUN_POINTS.index(point) >= RUN_POINTS.index("after_commit")
    assert rows(project) == (expected(number) if moved else before), "readers see all of it or nothing"
    if point in BY_PROCESS:
        again = project.process("run", "things")
        assert again.code == 0, again
    else:
        assert all(run.published and not run.red for run in project.run(session))
    assert rows(project) == expected(number)
    published = published_batches(project)
    assert len(published) == number + 1
    assert len(set(published)) == len(published), "each batch is in the chain once"
    newest = records_of(lake, dataset)[0]
    assert len(newest.coverage.partitions["c/things/1/0"].present) == number + 1
    given, is_published = verdicts_of(lake, dataset, newest.batch)
    assert is_published
    assert [row["offset"] for row in given] == [10 * number, 10 * number + 1, 10 * number + 2], "no verdict twice"
    assert [row["published"] for row in batches_of(lake, dataset)].count(True) == number + 1


def test_nothing_is_left_to_do_and_no_batch_was_lost(project: Project, session: SparkSession) -> None:
    assert project.run(session) == []
    assert rows(project) == expected(len(published_batches(project)) - 1)


def published_batches(project: Project) -> list[str]:
    """The batches in the chain from `main`, newest first."""
    state = find_state(project.lake, project.dataset())
    return [record.batch for record in records_of(project.lake, project.dataset())] if state else []


def rows(project: Project) -> dict[str, int]:
    """What readers see; a duplicate id would show."""
    found = rows_of(project.lake, project.dataset()) if find_state(project.lake, project.dataset()) else []
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["n"] for row in found}
