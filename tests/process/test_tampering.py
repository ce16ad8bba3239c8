"""A merge gone wrong, a stale gate, a foreign hand: what is not exactly what was judged is not published."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from onefold import lake_keys
from onefold.errors import ForeignCommitError, GateRedError, StaleGateError, StepMissingError
from onefold.iceberg.commits import MAIN
from onefold.iceberg.state_table import StateTable, find_state
from onefold.landing.land import land_batch, plan_batch
from onefold.operations import decide
from onefold.operations.in_process import InSession
from onefold.publish import publish_batch
from onefold.quality.documents import GateResult
from onefold.upsert.documents import Upserted
from tests.support.project import Project, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Never: Any = None
"""A launcher that must not be needed."""
NUMBERS = itertools.count(1)


def main_of(project: Project) -> int:
    state = StateTable(project.lake, project.dataset())
    return state.table.refs()[MAIN].snapshot_id


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all: nothing of these batches is ever published."""
    return Project(tmp_path_factory.mktemp("tampered"))


@pytest.fixture
def begun(project: Project, session: SparkSession) -> Project:
    """The project with one published batch: ids a and b."""
    if find_state(project.lake, project.dataset()) is None:
        project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2)])
        [first] = project.run(session)
        assert first.published
    return project


@pytest.fixture
def upserted(begun: Project, session: SparkSession) -> Upserted:
    """A second batch on its branch: id a is lowered by an earlier record, c is new."""
    number = next(NUMBERS)
    begun.put(f"things/{number}.jsonl", [thing(10, "a", 1, ts=1), thing(11, "c", 3), line(12, "no json")])
    dataset, here = begun.dataset(), InSession(begun.lake, session)
    batch = plan_batch(begun.lake, dataset).batch
    land_batch(begun.lake, dataset, batch)
    here.run("dedup", dataset, batch)
    done = here.run("upsert", dataset, batch, f"attempt{number}")
    assert done.changes == {"insert": 1, "update": 1}
    return done  # type: ignore[no-any-return]


Tamper = Callable[["SparkSession", str], None]


def _append_again(session: SparkSession, branch: str) -> None:
    session.table(branch).where("id = 'c'").writeTo(branch).append()


def _append_other(session: SparkSession, branch: str) -> None:
    session.table(branch).where("id = 'b'").writeTo(branch).append()


def _lose_insert(session: SparkSession, branch: str) -> None:
    session.sql(f"DELETE FROM {branch} WHERE id = 'c'")


def _go_back(session: SparkSession, branch: str) -> None:
    session.sql(f"UPDATE {branch} SET _order_timestamp = 9999999999999 WHERE id = 'a'")


def _lose_key(session: SparkSession, branch: str) -> None:
    session.sql(f"UPDATE {branch} SET id = NULL WHERE id = 'c'")


def _lose_bytes(session: SparkSession, branch: str) -> None:
    session.sql(f"DELETE FROM {branch} WHERE _state = 'quarantined'")


@pytest.mark.by_day("a key twice", why="each check is a unit test, too")
@pytest.mark.parametrize(
    ("tamper", "law", "waivable"),
    [
        (_lose_bytes, "L6", False),
        (_append_again, "L3", False),
        (_append_other, "L2", False),
        (_lose_insert, "L5", False),
        (_go_back, "L4", False),
        (_lose_key, "", True),
        (_lose_key, "L4", False),
    ],
    ids=[
        "a rejected record lost",
        "a key twice",
        "another key twice",
        "a row lost",
        "a row went back",
        "a null key",
        "and its law",
    ],
)
def test_a_merge_gone_wrong_is_red(
    begun: Project, session: SparkSession, upserted: Upserted, tamper: Tamper, law: str, waivable: bool
) -> None:
    dataset, lake = begun.dataset(), begun.lake
    state = StateTable(lake, dataset)
    setting = "spark.sql.iceberg.snapshot-property.onefold.record"
    session.conf.set(setting, upserted.attempt)
    try:
        tamper(session, f"onefold.{'.'.join(state.identifier)}.branch_{upserted.branch}")
    finally:
        session.conf.unset(setting)
    head = StateTable(lake, dataset).table.refs()[upserted.branch].snapshot_id
    merged = upserted.model_copy(update={"head": head})  # as if the merge itself had done it
    lake.put(lake_keys.attempt(dataset, upserted.batch, upserted.attempt, "upsert"), merged)
    with pytest.raises(GateRedError):
        InSession(lake, session).run("gate", dataset, upserted.batch, upserted.attempt)
    gate = lake.get(lake_keys.attempt(dataset, upserted.batch, upserted.attempt, "gate"), GateResult)
    assert gate is not None
    red = [check for check in gate.checks if check.red]
    assert (law, waivable) in {(check.law, check.waivable) for check in red}, red
    if law == "L3":
        assert {check.by for check in red if check.law == law} == {"spark", "great_expectations"}
    main = main_of(begun)
    with pytest.raises(GateRedError):
        publish_batch(lake, dataset, upserted.batch, upserted.attempt, Never)
    assert main_of(begun) == main


@pytest.mark.nightly(reason="crashes amid the merge go by day")
def test_a_branch_that_moved_behind_the_gate_is_not_published(
    begun: Project, session: SparkSession, upserted: Upserted
) -> None:
    dataset, lake = begun.dataset(), begun.lake
    assert InSession(lake, session).run("gate", dataset, upserted.batch, upserted.attempt).green
    state = StateTable(lake, dataset)
    _append_again(session, f"onefold.{'.'.join(state.identifier)}.branch_{upserted.branch}")
    main = main_of(begun)
    with pytest.raises(StaleGateError, match="the branch is not what the gate judged"):
        publish_batch(lake, dataset, upserted.batch, upserted.attempt, Never)
    assert main_of(begun) == main


@pytest.mark.nightly(reason="steps one by one go by day")
def test_a_gate_that_judged_something_else_is_stale(begun: Project, session: SparkSession, upserted: Upserted) -> None:
    dataset, lake, batch = begun.dataset(), begun.lake, upserted.batch
    with pytest.raises(StepMissingError, match="a gate"):
        publish_batch(lake, dataset, batch, upserted.attempt, Never)
    gate = InSession(lake, session).run("gate", dataset, batch, upserted.attempt)
    assert gate.green
    done, judged = (lake_keys.attempt(dataset, batch, upserted.attempt, step) for step in ("upsert", "gate"))
    for other in ({"staging": "onefold.onefold_staging.other"}, {"head": 1}, {"base": 1}, {"branch": "other"}):
        lake.put(done, upserted.model_copy(update=other))
        with pytest.raises(StaleGateError, match="judged another branch or staging"):
            publish_batch(lake, dataset, batch, upserted.attempt, Never)
    lake.put(done, upserted)
    lake.put(judged, gate.model_copy(update={"code": "0" * 12}))
    with pytest.raises(StaleGateError, match="staged by other code"):
        publish_batch(lake, dataset, batch, upserted.attempt, Never)


@pytest.mark.nightly(reason="tests/integration/test_catalog.py: main moves only from the base")
def test_a_foreign_commit_stops_everything(begun: Project, session: SparkSession, upserted: Upserted) -> None:
    dataset, lake = begun.dataset(), begun.lake
    InSession(lake, session).run("gate", dataset, upserted.batch, upserted.attempt)
    table = f"onefold.{'.'.join(StateTable(lake, dataset).identifier)}"
    session.table(table).where("id = 'b'").writeTo(table).append()
    main = main_of(begun)
    with pytest.raises(ForeignCommitError) as raised:
        publish_batch(lake, dataset, upserted.batch, upserted.attempt, Never)
    assert raised.value.exit_code == 3
    with pytest.raises(ForeignCommitError):
        begun.run(session)
    with pytest.raises(ForeignCommitError):  # it cannot be waived
        decide.release(lake, dataset, upserted.batch, [], "me", "please")
    assert main_of(begun) == main
