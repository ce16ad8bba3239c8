"""The checks of a dataset's own suite, over the branch's rows as readers would see them."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.quality.branch_facts import live_rows, written_rows
from onefold.quality.documents import CheckResult
from onefold.quality.expectations import expect, result_of
from onefold.quality.suites import Expectation
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state


def check_suite(
    session: SparkSession, dataset: Dataset, upserted: Upserted, expectations: Sequence[Expectation]
) -> list[CheckResult]:
    """What the suite finds in the rows that the batch wrote, or in all. A check's id and title are what it expects."""
    results: list[CheckResult] = []
    for over in ("changed", "table"):
        suite = [expectation for expectation in expectations if expectation.over == over]
        if not suite:
            continue
        of_batch = over == "changed"
        rows = written_rows(session, dataset, upserted) if of_batch else read_state(session, dataset, upserted.head)
        rows = live_rows(rows, dataset)
        try:
            pairs = [(expectation.type, expectation.kwargs) for expectation in suite]
            outcomes = expect(rows.persist() if of_batch else rows, pairs, dataset.masked)
        finally:
            rows.unpersist()
        for expectation, outcome in zip(suite, outcomes, strict=True):
            arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in expectation.kwargs.items())
            name, severity = f"{expectation.type}({arguments})", expectation.meta.severity
            expected = f"over {over} rows"
            results.append(result_of(outcome, id=name, title=name, by="suite", severity=severity, expected=expected))
    return results
