"""Which rows a dataset's own suite looks at: all of them until all have passed, and then what a batch writes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.operations.decide import release, skip
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.quality.documents import CheckResult, gate_of
from onefold.upsert.documents import upserted_of
from tests.support.pipeline import Sent, accounts, export, run

NOT_NEGATIVE = "- {type: expect_column_values_to_be_between, kwargs: {column: credit, min_value: 0}}"
AT_MOST_99 = "- {type: expect_column_values_to_be_between, kwargs: {column: credit, max_value: 99}}"
OWNERS_UNIQUE = "- {type: expect_column_values_to_be_unique, kwargs: {column: owner}, meta: {severity: warning}}"
AT_MOST_3_ROWS = "- {type: expect_table_row_count_to_be_between, kwargs: {max_value: 3}, meta: {severity: warning}}"
ONLY_NEW = "- {type: expect_column_values_to_be_between, kwargs: {column: credit, min_value: 0}, meta: {over: changed}}"


class Asked:
    """Batches of accounts, each judged under the suite that is written before it."""

    def __init__(self, session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], folder: Path) -> None:
        self.session, self.lake, self.folder, self.offset = session, lake, folder, 0
        self.made = accounts(dataset, quality={"suite": "accounts.yaml"})
        self.suite = lake.settings.expectations_folder / "accounts.yaml"
        self.suite.parent.mkdir(parents=True)

    def run(self, *rows: tuple[str, int, int, str], under: str = "") -> BatchRun:
        """A batch of records (key, version, credit, owner)."""
        self.suite.write_text(f"expectations:\n  {under}\n" if under else "expectations: []\n")
        sent = []
        for key, version, credit, owner in rows:
            value = {"owner": owner, "credit": credit}
            sent.append(Sent(0, self.offset, self.offset, key, version, f"m{self.offset}", value))
            self.offset += 1
        return run(self.session, self.lake, self.made, export(self.folder / f"in-{self.offset}", sent))

    def again(self, batch: str) -> BatchRun:
        """The batch once more, as it was decided."""
        return run_batch(
            self.lake, self.made, find_plan(self.lake, self.made, batch), InSession(self.lake, self.session)
        )

    def checks(self, ended: BatchRun) -> list[CheckResult]:
        """The results of the suite."""
        attempt = upserted_of(self.lake, self.made, ended.batch).attempt
        return [check for check in gate_of(self.lake, self.made, ended.batch, attempt).checks if check.by == "suite"]

    def looked_at(self, ended: BatchRun) -> tuple[str, str, str]:
        """Of the only check: its status, what it found, and the rows that it looked at."""
        [check] = self.checks(ended)
        return check.status, check.observed, check.looked_at


@pytest.fixture
def asked(session: SparkSession, lake: Lake, dataset: Callable[..., Dataset], tmp_path: Path) -> Asked:
    return Asked(session, lake, dataset, tmp_path)


def test_a_new_expectation_looks_at_the_whole_table_until_all_rows_have_passed(asked: Asked) -> None:
    """Only the older row is bad, and the batch that meets the new expectation is red."""
    assert asked.run(("a", 1, -5, "o"), ("b", 1, 1, "p")).published
    red = asked.run(("c", 1, 3, "q"), under=NOT_NEGATIVE)
    assert red.red
    assert asked.looked_at(red) == ("failed", "1 of 3 unexpected", "over all 3 rows of the table")
    assert "found 1 of 3 unexpected over all 3 rows of the table" in str(red.red)
    assert "with meta: {over: changed} it looks only at what a batch writes" in str(red.red)
    mended = asked.run(("a", 2, 5, "o"), under=NOT_NEGATIVE)
    assert asked.looked_at(mended) == ("passed", "0 of 2 unexpected", "over all 2 rows of the table")
    assert asked.again(red.batch).published
    later = asked.run(("d", 1, 4, "r"), ("b", 2, 2, "p"), under=NOT_NEGATIVE)
    assert asked.looked_at(later) == ("passed", "0 of 2 unexpected", "over the 2 rows that the batch wrote")


@pytest.mark.nightly(reason="a new expectation looks at the whole table by day")
def test_an_expectation_that_is_changed_looks_at_the_whole_table_again(asked: Asked) -> None:
    assert asked.run(("a", 1, 100, "o"), under=NOT_NEGATIVE).published
    assert asked.looked_at(asked.run(("b", 1, 1, "p"), under=NOT_NEGATIVE))[2] == "over the 1 row that the batch wrote"
    red = asked.run(("c", 1, 1, "q"), under=AT_MOST_99)
    assert asked.looked_at(red) == ("failed", "1 of 3 unexpected", "over all 3 rows of the table")


@pytest.mark.nightly(reason="a new expectation looks at the whole table by day")
def test_an_expectation_that_was_waived_looks_at_the_whole_table_again(asked: Asked) -> None:
    red = asked.run(("a", 1, -5, "o"), ("b", 1, 1, "p"), under=NOT_NEGATIVE)
    [check] = asked.checks(red)
    release(asked.lake, asked.made, red.batch, [f"{check.id}={check.value}"], "ann", "known")
    assert asked.again(red.batch).published
    red = asked.run(("c", 1, 3, "q"), under=NOT_NEGATIVE)
    assert asked.looked_at(red) == ("failed", "1 of 3 unexpected", "over all 3 rows of the table")


@pytest.mark.nightly(reason="a new expectation looks at the whole table by day")
def test_an_expectation_that_was_left_out_for_a_batch_looks_at_the_whole_table_again(asked: Asked) -> None:
    assert asked.run(("a", 1, 1, "o"), under=NOT_NEGATIVE).published
    assert asked.run(("b", 1, -1, "p")).published
    red = asked.run(("c", 1, 1, "q"), under=NOT_NEGATIVE)
    assert asked.looked_at(red) == ("failed", "1 of 3 unexpected", "over all 3 rows of the table")


@pytest.mark.nightly(reason="a suite over skipped batches combines two features")
def test_a_skipped_batch_leaves_what_all_rows_have_passed(asked: Asked) -> None:
    assert asked.run(("a", 1, 1, "o"), under=NOT_NEGATIVE).published
    red = asked.run(("b", 1, -1, "p"), under=NOT_NEGATIVE)
    skip(asked.lake, asked.made, red.batch, "ann", "wrong")
    assert asked.again(red.batch).published
    after = asked.run(("c", 1, 1, "q"), under=NOT_NEGATIVE)
    assert asked.looked_at(after) == ("passed", "0 of 1 unexpected", "over the 1 row that the batch wrote")


@pytest.mark.nightly(reason="a new expectation looks at the whole table by day")
def test_what_is_about_the_whole_table_looks_at_it_each_time(asked: Asked) -> None:
    """A repeated value is in two batches, and the rows are counted in all."""
    both = f"{OWNERS_UNIQUE}\n  {AT_MOST_3_ROWS}"
    asked.run(("a", 1, 1, "o"), ("b", 1, 1, "p"), under=both)
    asked.run(("c", 1, 1, "o"), under=both)
    last = asked.run(("d", 1, 1, "q"), under=both)
    found: list[Any] = [(check.status, check.observed, check.looked_at) for check in asked.checks(last)]
    whole = "over all 4 rows of the table"
    assert found == [("failed", "2 of 4 unexpected", whole), ("failed", "4", whole)]


@pytest.mark.nightly(reason="a suite that asks for all rows goes by day")
def test_a_suite_may_ask_for_what_a_batch_writes_only(asked: Asked) -> None:
    assert asked.run(("a", 1, -5, "o")).published
    done = asked.run(("b", 1, 1, "p"), under=ONLY_NEW)
    assert asked.looked_at(done) == ("passed", "0 of 1 unexpected", "over the 1 row that the batch wrote")
