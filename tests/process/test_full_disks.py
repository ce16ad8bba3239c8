"""A disk that is full behind the landing: a sentence, readers see what they saw, and the rerun ends right (L5, L6)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from onefold.errors import LakeUnavailableError, OnefoldError
from onefold.iceberg.state_table import StateTable
from onefold.lake import new_attempt
from onefold.landing.land import land_batch, plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.publish import publish_batch
from onefold.report.ledger import records_of, rows_of
from onefold.upsert.documents import upserted_of
from tests.support.disk import ROOM, Disk
from tests.support.project import ACCOUNTS, Project, account

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.nightly, pytest.mark.process, pytest.mark.spark]
FULL = re.compile(r"No space left on device|disk is full", re.IGNORECASE)
LEFT = [0, *(4 << exponent for exponent in range(12, 20, 2))]
"""Bytes that there is room for when a step is tried: none, then 16 KiB, 64 KiB … 1 MiB."""


@pytest.fixture
def project(small_disk: Disk) -> Project:
    """A project on a disk of its own, with a published batch and one that waits."""
    small_disk.resize(ROOM)
    made = Project(small_disk.place / "home")
    made.write_dataset("accounts", ACCOUNTS)
    return made


def put(project: Project, first: int) -> None:
    """New records of ten keys, one of them a delete."""
    lines = [account(first + key, f"k-{key}", None if key == first // 10 else {"n": first}) for key in range(10)]
    project.put(f"accounts/{first}.jsonl", lines)


def rows(project: Project) -> dict[str, int]:
    return {row["id"]: row["n"] for row in rows_of(project.lake, project.dataset("accounts"))}


def error_of(run: Callable[[], object]) -> OnefoldError | None:
    try:
        run()
    except OnefoldError as error:
        return error
    return None


def test_each_step_fails_with_a_sentence_on_a_full_disk_and_ends_right_with_room(
    project: Project, session: SparkSession, small_disk: Disk
) -> None:
    put(project, 0)
    assert [run.red for run in project.run(session, "accounts")] == [None]
    lake, dataset, spark = project.lake, project.dataset("accounts"), InSession(project.lake, session)
    was, main = rows(project), StateTable(lake, dataset).main
    put(project, 10)
    plan = plan_batch(lake, dataset)
    batch = plan.batch
    land_batch(lake, dataset, batch)

    def attempt() -> str:
        return upserted_of(lake, dataset, batch).attempt

    steps: dict[str, Callable[[], object]] = {
        "dedup": lambda: spark.run("dedup", dataset, batch),
        "upsert": lambda: spark.run("upsert", dataset, batch, new_attempt()),
        "gate": lambda: spark.run("gate", dataset, batch, attempt()),
        "publish": lambda: publish_batch(lake, dataset, batch, attempt(), spark),
    }
    with small_disk.filled(0), pytest.raises(LakeUnavailableError, match=FULL):
        StateTable(lake, dataset).cut_branch("attempt_0", main.snapshot)
    for name, run in steps.items():
        failed = 0
        for left in LEFT:
            assert (rows(project), StateTable(lake, dataset).main) == (was, main), name
            with small_disk.filled(left):
                error = error_of(run)
            if error is None:
                break
            assert FULL.search(str(error)), error
            assert (error.exit_code, "\n" in str(error)) == (1, False), error
            failed += 1
        assert failed, name
    assert rows(project) == {f"k-{key}": 10 for key in range(10) if key != 1}
    assert next(record.batch for record in records_of(lake, dataset)) == batch
    again = run_batch(lake, dataset, plan, spark).published
    assert again
    assert again.already


def test_a_run_on_a_full_disk_is_one_sentence_and_the_next_one_goes_on(project: Project, small_disk: Disk) -> None:
    put(project, 0)
    land_batch(project.lake, project.dataset("accounts"), plan_batch(project.lake, project.dataset("accounts")).batch)
    with small_disk.filled(64 << 10):
        failed = project.onefold("run", "accounts")
    assert (failed.code, failed.out) == (1, "")
    assert FULL.search(failed.err), failed.err
    assert "Traceback" not in failed.err
    done = project.onefold("run", "accounts")
    assert done.code == 0, done.err
    assert rows(project) == {f"k-{key}": 0 for key in range(1, 10)}
