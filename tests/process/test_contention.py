"""Several processes on one table, each with many batches: one row a key, each batch once, and no process starves.

`ONEFOLD_TEST_BATCHES` sets how many batches there are (a night: 200); each is run by two processes.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.report.ledger import records_of, rows_of, verdicts_of
from onefold.settings import Settings
from tests.support.jvm import short_lived
from tests.support.project import ACCOUNTS, PROJECT, Project, account

if TYPE_CHECKING:
    from tests.support.postgres import Postgres

pytestmark = [pytest.mark.process, pytest.mark.timeout(7200)]
BATCHES = int(os.environ.get("ONEFOLD_TEST_BATCHES", "2"))
STEP, LENGTH = 4, 6
"""Each batch starts so many offsets behind the one before, and has so many: neighbours overlap."""
KEYS = 7
Update = tuple[int, str, dict[str, int] | None]


def update(offset: int) -> Update:
    """What the log holds at an offset: few keys, so that each batch meets the others; now and then a delete."""
    return offset, f"k{offset * 5 % KEYS}", None if offset % 6 == 5 else {"n": offset}


def write_exports(project: Project, batches: int) -> list[str]:
    project.write_dataset("accounts", ACCOUNTS)
    folders = []
    for number in range(batches):
        offsets = range(number * STEP, number * STEP + LENGTH)
        folder = project.put(f"accounts/{number}/0.jsonl", [account(*update(offset)) for offset in offsets])
        folders.append(str(folder))
    return folders


def start(project: Project, catalog: str, folders: list[str]) -> subprocess.Popen[str]:
    own = {"ONEFOLD_HOME": str(project.home), "ONEFOLD_JARS": str(PROJECT / ".jars"), "ONEFOLD_CATALOG": catalog}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.support.arrivals", *(f"accounts={folder}" for folder in folders)],
        cwd=PROJECT,
        env=os.environ | short_lived() | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    out, err = process.communicate()
    assert process.returncode == 0, err[-3000:]
    return [json.loads(line) for line in out.splitlines()]


def check_many(project: Project, catalog: str, batches: int, processes: int) -> None:
    """Pairs of processes share the batches out, and the two of a pair go through theirs from either end."""
    folders, pairs = write_exports(project, batches), processes // 2
    orders = [folders[number % pairs :: pairs][:: 1 if number < pairs else -1] for number in range(processes)]
    running = [start(project, catalog, order) for order in orders]
    ends = [finish(process) for process in running]
    assert [len(end) for end in ends] == [len(order) for order in orders]
    assert [batch["red"] for end in ends for batch in end if batch["red"]] == []

    lake = Lake(Settings(home=project.home, catalog=catalog))
    dataset = project.dataset("accounts")
    newest: dict[str, Update] = {}
    for offset in range((batches - 1) * STEP + LENGTH):
        newest[update(offset)[1]] = update(offset)
    wanted = {key: value["n"] for key, (_, _, value) in newest.items() if value}
    assert sorted((row["id"], row["n"]) for row in rows_of(lake, dataset)) == sorted(wanted.items())

    published = [record.batch for record in records_of(lake, dataset)]
    assert len(published) == len(set(published)) == batches, "each is in the chain once"
    first = [batch["batch"] for end in ends for batch in end if not batch["already"]]
    assert sorted(first) == sorted(published), "of the two that ran a batch one published it, the other found it"
    judged = sorted(row["offset"] for batch in published for row in verdicts_of(lake, dataset, batch)[0])
    assert judged == sorted(at for number in range(batches) for at in range(number * STEP, number * STEP + LENGTH))
    table = StateTable(lake, dataset)
    assert (table.branches(), table.main.record) == ({}, records_of(lake, dataset)[0].name), "no branch is left"


@pytest.mark.by_day("2", why="with four processes some only wait longer")
@pytest.mark.parametrize("processes", [2, 4])
def test_several_processes_on_a_catalog_in_a_file(tmp_path: Path, processes: int) -> None:
    project = Project(tmp_path)
    check_many(project, f"sqlite:///{tmp_path / 'catalog.db'}", BATCHES, processes)


@pytest.mark.nightly
def test_two_processes_on_a_catalog_on_postgres(tmp_path: Path, postgres: Postgres) -> None:
    check_many(Project(tmp_path), postgres.database("contention"), BATCHES, 2)


@pytest.mark.nightly
def test_four_processes_on_a_rest_catalog(tmp_path: Path, rest_catalog: str) -> None:
    check_many(Project(tmp_path), rest_catalog, BATCHES, 4)
