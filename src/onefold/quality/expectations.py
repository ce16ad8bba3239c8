"""Run Great Expectations on data frames. A check that cannot be made is errored, not failed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")

import great_expectations as gx
import pandas as pd
from great_expectations.data_context.types.base import ProgressBarsConfig
from great_expectations.expectations.expectation_configuration import ExpectationConfiguration
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.masks import HIDDEN, bounded, digest
from onefold.quality.checks import CHECKS
from onefold.quality.documents import CheckResult
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import RowState

EXAMPLES = 5
CONDITION = "row_condition"
"""The argument that says which rows an expectation looks at. Great Expectations makes SQL of it, and never gets it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an expectation found."""

    status: str
    observed: str
    detail: str = ""


def expect(
    frame: DataFrame | pd.DataFrame, wanted: list[tuple[str, dict[str, Any]]], masked: Collection[str] = ()
) -> list[Outcome]:
    """Validate `frame` against (type, kwargs) pairs, in order; the values of `masked` columns are shown as digests.

    All rows of `frame` meet the `row_condition` of each pair.

    `errored` is neither passed nor failed: the check could not be made.
    """
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    suite = gx.ExpectationSuite(name="gate")
    places: list[int | Outcome] = []
    for type_, kwargs in wanted:
        condition, arguments = kwargs.get(CONDITION, ""), {k: v for k, v in kwargs.items() if k != CONDITION}
        try:
            suite.add_expectation_configuration(
                ExpectationConfiguration(type=type_, kwargs=arguments, meta={"n": len(places), "rows": condition})
            )
            places.append(len(places))
        except Exception as error:  # an unknown type or arguments that it does not take
            places.append(Outcome("errored", "", _first_line(error)))
    results = _validate(context, frame, suite, masked) if any(isinstance(place, int) for place in places) else {}
    missing = Outcome("errored", "", "no result")
    return [place if isinstance(place, Outcome) else results.get(place, missing) for place in places]


def check_rows(dataset: Dataset, changed: DataFrame) -> dict[str, list[CheckResult]]:
    """What the checks that expect something of rows find, by the check's id.

    `changed` is `branch_facts.changed_rows`: of its live rows these checks see the key's columns and digest.
    """
    digests = F.hex(C.KEY).alias("key_digest")
    rows = changed.where(F.col(S.STATE) == RowState.LIVE).select(digests, *dataset.row_key_columns)
    expected = [
        (check, expectation) for check in CHECKS.values() if check.expect for expectation in check.expect(dataset)
    ]
    pairs = [(expectation.type, expectation.kwargs) for _, expectation in expected]
    results: dict[str, list[CheckResult]] = {}
    for (check, expectation), outcome in zip(expected, expect(rows, pairs, dataset.masked), strict=True):
        result = result_of(
            outcome,
            id=check.id_for(expectation.columns),
            title=check.title_for(expectation.columns),
            by="great_expectations",
            law=check.law,
            severity=check.severity,
            waivable=check.waivable,
        )
        results.setdefault(check.id, []).append(result)
    return results


def result_of(outcome: Outcome, **check: Any) -> CheckResult:
    """An outcome as the result of a check."""
    return CheckResult(status=outcome.status, observed=outcome.observed, detail=outcome.detail, **check)


def _validate(context: Any, frame: Any, suite: gx.ExpectationSuite, masked: Collection[str]) -> dict[int, Outcome]:
    if isinstance(frame, DataFrame):
        source = context.data_sources.add_spark("spark", persist=False)
    else:
        source = context.data_sources.add_pandas("pandas")
    asset = source.add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    try:
        found = batch.validate(suite, result_format={"result_format": "BASIC", "partial_unexpected_count": EXAMPLES})
    except Exception as error:  # the whole run could not be made: every check of it errored
        said = f"{type(error).__name__}: {HIDDEN}" if masked else _first_line(error)
        return {number: Outcome("errored", "", said) for number in range(len(suite.expectations))}
    return {result.expectation_config.meta["n"]: _outcome(result, masked) for result in found.results}


def _hides(result: Any, masked: Collection[str]) -> bool:
    """Whether what was found may be a value of a masked column: the check names one, or it names no column."""
    kwargs = result.expectation_config.kwargs
    if not masked or result.expectation_config.type.startswith("expect_table_"):  # counts, and names of columns
        return False
    said = json.dumps([kwargs, result.expectation_config.meta["rows"]], default=str, ensure_ascii=False)
    named = any(re.search(rf"\b{re.escape(name)}\b", said) for name in masked)
    return named or not any(name.startswith("column") for name in kwargs)


def _outcome(result: Any, masked: Collection[str]) -> Outcome:
    hidden = _hides(result, masked)
    raised = _exception(result.exception_info)
    if raised:
        return Outcome("errored", "", HIDDEN if hidden else raised)
    details = result.result or {}
    observed = details.get("observed_value")
    if hidden and observed is not None:
        observed = digest(observed)
    if observed is None and "unexpected_count" in details:
        observed = f"{details['unexpected_count']} of {details.get('element_count', '?')} unexpected"
    examples = details.get("partial_unexpected_list") or []
    shown = ", ".join(digest(value) if hidden else bounded(str(value)) for value in examples[:EXAMPLES])
    return Outcome("passed" if result.success else "failed", "" if observed is None else bounded(str(observed)), shown)


def _exception(info: Any) -> str:
    """The message of a check that raised; GX nests it by metric, or not."""
    if not isinstance(info, dict):
        return ""
    if "raised_exception" in info:
        return _first_line(info.get("exception_message")) if info["raised_exception"] else ""
    return next((found for nested in info.values() if (found := _exception(nested))), "")


def _first_line(error: Any) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else type(error).__name__
