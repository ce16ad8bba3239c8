"""Every kind of failure is planted and seen to block: `main` stays as it was, and the reason is named."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onefold import lake_keys
from onefold.errors import DataLossError
from onefold.iceberg.commits import MAIN
from onefold.iceberg.state_table import find_state
from onefold.operations.run import BatchRun
from onefold.publish import publish_batch
from onefold.quality.documents import CheckResult, GateResult
from onefold.report.ledger import batches_of, rows_of, verdicts_of
from onefold.tables.names import verdict_table
from onefold.upsert.documents import Upserted
from tests.support.project import THINGS, Project, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
Never: Any = None
"""A launcher that must not be needed."""
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all: a red batch leaves nothing behind that the next would meet."""
    return Project(tmp_path_factory.mktemp("reds"))


@pytest.fixture
def begun(project: Project, session: SparkSession) -> Project:
    """The project with one published batch, ids a and b, and the dataset file as it was then."""
    project.write_dataset("things", THINGS)
    if find_state(project.lake, project.dataset()) is None:
        project.put("things/0.jsonl", [thing(0, "a", 1), thing(1, "b", 2)])
        [first] = project.run(session)
        assert first.published
    return project


def check_of(project: Project, batch: str, check: str) -> CheckResult:
    """The newest gate's result of a check."""
    dataset = project.dataset()
    latest = project.lake.get(lake_keys.latest(dataset, batch), Upserted)
    assert latest is not None
    gate = project.lake.get(lake_keys.attempt(dataset, batch, latest.attempt, "gate"), GateResult)
    assert gate is not None
    [found] = [result for result in gate.checks if result.id.partition("(")[0] == check]
    return found


def red_run(project: Project, session: SparkSession, lines: list[bytes]) -> BatchRun:
    """Run a second batch that must end red with readers seeing none of it."""
    before, main = rows_of(project.lake, project.dataset()), main_of(project)
    project.put(f"things/{next(NUMBERS)}.jsonl", lines)
    [ended] = project.run(session)
    assert ended.published is None
    assert ended.red is not None
    assert main_of(project) == main, "main is untouched"
    assert rows_of(project.lake, project.dataset()) == before
    last = batches_of(project.lake, project.dataset())[-1]
    assert (last["batch"], last["gate"], last["published"]) == (ended.batch, "red", False)
    assert Path(ended.report).is_file()
    assert project.run(session) == [], "a red batch is decided by a person, not by running again"
    return ended


def main_of(project: Project) -> int | None:
    state = find_state(project.lake, project.dataset())
    return state.table.refs()[MAIN].snapshot_id if state else None


def limits(project: Project, **quality: Any) -> None:
    """Set the dataset's quality, which is no meaning."""
    given = ", ".join(f"{name}: {value}" for name, value in quality.items())
    text = THINGS.split("quality:")[0] + f"quality: {{{given}}}\n"
    project.write_dataset("things", text)


OPEN = {"max_duplicate_rate": 1.0, "max_rejected_rate": 1.0, "max_conflicts": 1000, "min_records": 1}


@pytest.mark.by_day("conflict-stored", why="tests/unit/test_checks.py has each limit")
@pytest.mark.parametrize(
    ("quality", "lines", "name", "found", "wanted"),
    [
        ({"max_conflicts": 0}, [thing(10, "a", 99)], "conflicts", "1", "at most 0"),
        ({"max_conflicts": 0}, [thing(10, "c", 1), thing(11, "c", 2)], "conflicts", "1", "at most 0"),
        ({"max_rejected_rate": 0.3}, [thing(10, "c"), line(11, "{}")], "rejected_rate", "0.5", "at most 0.3"),
        ({"max_duplicate_rate": 0.3}, [thing(10, "c"), thing(11, "c")], "duplicate_rate", "0.5", "at most 0.3"),
    ],
    ids=["conflict-stored", "conflict-in-batch", "rejected", "duplicate"],
)
def test_a_limit_that_is_exceeded_blocks(
    begun: Project,
    session: SparkSession,
    quality: dict[str, Any],
    lines: list[bytes],
    name: str,
    found: str,
    wanted: str,
) -> None:
    limits(begun, **OPEN | quality)
    ended = red_run(begun, session, lines)
    assert ended.red is not None
    assert (ended.red.exit_code, len(ended.red.failed)) == (3, 1)
    check = check_of(begun, ended.batch, name)
    assert (check.status, check.observed, check.expected, check.waivable) == ("failed", found, wanted, True)
    assert name in str(ended.red)


@pytest.mark.nightly(reason="tests/unit/test_checks.py has each limit")
def test_below_min_records_a_rate_only_warns(begun: Project, session: SparkSession) -> None:
    limits(begun, **OPEN | {"max_rejected_rate": 0.0, "min_records": 3})
    begun.put("things/few.jsonl", [thing(1000, "few"), line(1001, "{}")])
    [ended] = begun.run(session)
    assert ended.published
    check = check_of(begun, ended.batch, "rejected_rate")
    assert (check.status, check.severity, check.red) == ("failed", "warning", False)


def test_an_unexplained_hole_is_data_loss(begun: Project, session: SparkSession) -> None:
    ended = red_run(begun, session, [thing(10, "c"), thing(13, "d")])
    assert isinstance(ended.red, DataLossError)
    assert ended.red.exit_code == 4
    check = check_of(begun, ended.batch, "unexplained_offsets")
    assert (check.observed, check.law, check.waivable) == ("2", "L2", False)
    assert check.first == ["things, partition 0: [11, 13)"]
    dataset, attempt = begun.dataset(), begun.lake.get(lake_keys.latest(begun.dataset(), ended.batch), Upserted)
    assert attempt is not None
    with pytest.raises(DataLossError):  # the step alone says the same
        publish_batch(begun.lake, dataset, ended.batch, attempt.attempt, Never)


def test_two_contents_at_one_position_block_and_cannot_be_waived(begun: Project, session: SparkSession) -> None:
    ended = red_run(begun, session, [thing(10, "c", 1), thing(10, "c", 2)])
    check = check_of(begun, ended.batch, "consistent_positions")
    assert (check.status, check.waivable) == ("failed", False)
    rows = verdicts_of(begun.lake, begun.dataset(), ended.batch)[0]
    assert [row["reason"] for row in rows].count("inconsistent_position") == 1
    # Nothing is rejected, and the bytes of the content that was beaten are there still.
    beaten = session.table(verdict_table(begun.dataset())).where("reason = 'inconsistent_position'")
    [kept] = beaten.selectExpr("CAST(raw_value AS STRING)").collect()
    assert json.loads(kept[0])["n"] in (1, 2)


SUITE = "expectations:\n  - type: {type}\n    kwargs: {kwargs}\n    meta: {{severity: {severity}}}\n"


def suite(project: Project, type_: str, kwargs: str, severity: str = "blocking") -> None:
    text = SUITE.format(type=type_, kwargs=kwargs, severity=severity)
    (project.home / "expectations" / "things.yaml").write_text(text)
    limits(project, **OPEN, suite="things.yaml")


def test_the_users_own_check_blocks_with_examples(begun: Project, session: SparkSession) -> None:
    suite(begun, "expect_column_values_to_be_between", "{column: n, max_value: 10}")
    ended = red_run(begun, session, [thing(10, "c", 11)])
    check = check_of(begun, ended.batch, "expect_column_values_to_be_between")
    rows = len(list(rows_of(begun.lake, begun.dataset())))  # the first suite sees all of them
    assert (check.by, check.status, check.detail) == ("suite", "failed", "11")
    assert check.observed == f"1 of {rows + 1} unexpected"


def test_s7_a_condition_on_rows_is_read_as_a_filter_is(begun: Project, session: SparkSession) -> None:
    """Of ids a and b, and three that arrive, two meet it."""
    suite(
        begun, "expect_column_values_to_be_between", "{column: n, max_value: 10, row_condition: \"id in ('c', 'd')\"}"
    )
    ended = red_run(begun, session, [thing(30, "c", 11), thing(31, "d", 1), thing(32, "e", 12)])
    check = check_of(begun, ended.batch, "expect_column_values_to_be_between")
    assert (check.status, check.observed, check.detail) == ("failed", "1 of 2 unexpected", "11")
    assert "over all 2 rows" in str(ended.red)


@pytest.mark.nightly(reason="a check of the user blocks by day, and tests/unit/test_report_page.py has warnings")
def test_the_users_warning_does_not_block(begun: Project, session: SparkSession) -> None:
    suite(begun, "expect_column_values_to_be_between", "{column: n, max_value: 10}", "warning")
    begun.put("things/warned.jsonl", [thing(2000, "warned", 11)])
    [ended] = begun.run(session)
    assert ended.published
    assert check_of(begun, ended.batch, "expect_column_values_to_be_between").status == "failed"


ERRING = """\
expectations:
  - {type: expect_column_values_to_be_splendid, kwargs: {column: n}}
  - {type: expect_column_values_to_not_be_null, kwargs: {column: nn}, meta: {severity: warning}}
  - {type: expect_column_values_to_be_between, kwargs: {colum: n}, meta: {severity: warning}}
  - {type: expect_column_values_to_be_in_set, kwargs: {column: n, value_set: [0, 1, 2, 11]}}
"""
"""An unknown type, an unknown column, an unknown argument, and one that passes."""


def test_a_check_that_errors_blocks_whatever_its_severity(begun: Project, session: SparkSession) -> None:
    (begun.home / "expectations" / "things.yaml").write_text(ERRING)
    limits(begun, **OPEN, suite="things.yaml")
    ended = red_run(begun, session, [thing(10, "c", 11)])
    for name in ("be_splendid", "not_be_null", "be_between"):
        check = check_of(begun, ended.batch, f"expect_column_values_to_{name}")
        assert (check.status, check.red, check.detail != "") == ("errored", True, True)
    assert check_of(begun, ended.batch, "expect_column_values_to_be_in_set").status == "passed"
