"""The checks of a dataset's own suite, over the branch's rows as readers would see them.

A row-by-row expectation looks at the whole table until all rows have passed it, and then only at what a batch writes.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.expressions import Expression
from onefold.dataset.masks import masks_of
from onefold.iceberg.commits import ROOT
from onefold.lake import Lake
from onefold.quality.branch_rows import live_rows, written_rows
from onefold.quality.documents import CheckResult, GateResult
from onefold.quality.evidence import digest_of_rows
from onefold.quality.expectations import CONDITION, Outcome, expect, result_of
from onefold.quality.suites import Expectation, condition_of
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.values.expressions import compile_expression
from onefold.vocabulary import RowState

_OLDER_ROWS = (
    "rows of earlier batches count, too, until all rows have passed: correct them at the source, or say in the suite "
    "what they may be (mostly: 0.99, or meta: {severity: warning}); with meta: {over: changed} it looks only at what a "
    "batch writes"
)


@dataclass(frozen=True, slots=True)
class SuiteResult:
    """What a suite found, and the digests of the expectations that all rows of the branch have passed."""

    checks: Sequence[CheckResult] = ()
    passed: Collection[str] = ()


def passed_before(lake: Lake, dataset: Dataset, upserted: Upserted) -> Collection[str]:
    """The expectations that all rows of an attempt's base have passed, by digest: what the gate of the base's commit
    record found. None where that is not known."""
    if upserted.base_record == ROOT:
        return ()
    record = lake.get(lake_keys.record(dataset, upserted.base_record), CommitRecord)
    gate = lake.get(lake_keys.attempt(dataset, record.batch, record.attempt, "gate"), GateResult) if record else None
    return gate.passed if gate else ()


def check_suite(
    session: SparkSession,
    dataset: Dataset,
    upserted: Upserted,
    expectations: Sequence[Expectation],
    passed: Collection[str],
) -> SuiteResult:
    """What the suite finds in the rows that the batch wrote, or in all. A check's id and title are what it expects.

    `passed`: `passed_before`.
    """
    checks: list[CheckResult] = []
    passed_now: list[str] = []
    for over in ("changed", "table"):
        suite = [expectation for expectation in expectations if expectation.over(passed) == over]
        found = _look(session, dataset, upserted, suite, over) if suite else []
        checks += found
        for expectation, check in zip(suite, found, strict=True):
            if expectation.by_row and check.status == "passed":
                passed_now.append(expectation.digest)
    return SuiteResult(checks, passed_now)


def _look(
    session: SparkSession,
    dataset: Dataset,
    upserted: Upserted,
    suite: Sequence[Expectation],
    over: Literal["changed", "table"],
) -> list[CheckResult]:
    """What expectations find in the live rows that the batch wrote (`changed`), or in all of the branch."""
    of_batch = over == "changed"
    rows = written_rows(session, dataset, upserted) if of_batch else read_state(session, dataset, upserted.head)
    contents = rows.where(F.col(S.STATE) == RowState.LIVE).select(C.KEY, C.HASH)
    rows = live_rows(rows, dataset)
    rows = rows.persist() if of_batch else rows
    try:
        outcomes: dict[int, tuple[Outcome, int]] = {}
        for numbers in _by_condition(suite):
            those = rows_meeting(rows, condition_of(suite[numbers[0]], dataset))
            pairs = [(suite[number].type, suite[number].kwargs) for number in numbers]
            count = those.count()
            outcomes |= {
                number: (outcome, count)
                for number, outcome in zip(numbers, expect(those, pairs, masks_of(dataset)), strict=True)
            }
    finally:
        rows.unpersist()
    # Which rows an expectation refused it does not say: a waiver is of all that it looked at.
    digest = digest_of_rows(contents) if any(outcome.status == "failed" for outcome, _ in outcomes.values()) else ""
    results = []
    for number, expectation in enumerate(suite):
        outcome, count = outcomes[number]
        arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in expectation.kwargs.items())
        name, severity = f"{expectation.type}({arguments})", expectation.meta.severity
        of_older = expectation.by_row and not of_batch and upserted.base_record != ROOT
        way_out = _OLDER_ROWS if of_older and outcome.status == "failed" else ""
        of_rows = {"rows": count, "over": over, "way_out": way_out}
        of_rows |= {"digest": digest} if outcome.status == "failed" else {}
        results.append(result_of(outcome, id=name, title=name, by="suite", severity=severity, **of_rows))
    return results


def rows_meeting(rows: DataFrame, condition: Expression | None) -> DataFrame:
    """The rows for which a condition over published columns is true; of what cannot be read it is not."""
    if condition is None:
        return rows
    compiled = compile_expression(condition)
    return rows.where(compiled.value & ~compiled.failed)


def _by_condition(suite: Sequence[Expectation]) -> list[list[int]]:
    """The numbers of expectations that look at the same rows."""
    groups: dict[str | None, list[int]] = {}
    for number, expectation in enumerate(suite):
        groups.setdefault(expectation.kwargs.get(CONDITION), []).append(number)
    return list(groups.values())
