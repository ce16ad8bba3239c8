"""Run Great Expectations on data frames. A check that cannot be made is errored, not failed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
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
from onefold.dataset.masks import HIDDEN, KEY_DIGEST, Mask, Masks, bounded, masks_of, strictest
from onefold.quality.checks import CHECKS
from onefold.quality.documents import CheckResult
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import RowState

EXAMPLES = 5
FEW = 1_000
"""Rows that are judged without Spark."""
CONDITION = "row_condition"
"""The argument that says which rows an expectation looks at. Great Expectations makes SQL of it, and never gets it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an expectation found."""

    status: str
    observed: str
    detail: str = ""


def expect(
    frame: DataFrame | pd.DataFrame, wanted: list[tuple[str, dict[str, Any]]], masks: Masks | None = None
) -> list[Outcome]:
    """Validate `frame` against (type, kwargs) pairs, in order; values are shown as `masks` has it.

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
    results = (
        _validate(context, frame, suite, masks or Masks()) if any(isinstance(place, int) for place in places) else {}
    )
    missing = Outcome("errored", "", "no result")
    return [place if isinstance(place, Outcome) else results.get(place, missing) for place in places]


def check_rows(dataset: Dataset, changed: DataFrame, expected_rows: int) -> dict[str, list[CheckResult]]:
    """What the checks that expect something of rows find, by the check's id.

    `changed` is `branch_rows.changed_rows`: of its live rows these checks see the key's columns and digest.
    `expected_rows` says how many there should be: few are fetched by one Spark job, which takes less than the
    job for each check that Great Expectations starts otherwise.
    """
    digests = F.hex(C.KEY).alias(KEY_DIGEST)
    rows: DataFrame | pd.DataFrame
    rows = changed.where(F.col(S.STATE) == RowState.LIVE).select(digests, *dataset.row_key_columns)
    if expected_rows <= FEW and len(fetched := rows.limit(FEW + 1).collect()) <= FEW:
        rows = pd.DataFrame([tuple(row) for row in fetched], columns=rows.columns, dtype=object)
    expected = [
        (check, expectation) for check in CHECKS.values() if check.expect for expectation in check.expect(dataset)
    ]
    pairs = [(expectation.type, expectation.kwargs) for _, expectation in expected]
    results: dict[str, list[CheckResult]] = {}
    for (check, expectation), outcome in zip(expected, expect(rows, pairs, masks_of(dataset)), strict=True):
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


def _validate(context: Any, frame: Any, suite: gx.ExpectationSuite, masks: Masks) -> dict[int, Outcome]:
    if isinstance(frame, DataFrame):
        source = context.data_sources.add_spark("spark", persist=False)
    else:
        source = context.data_sources.add_pandas("pandas")
    asset = source.add_dataframe_asset("rows")
    batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": frame})
    try:
        found = batch.validate(suite, result_format={"result_format": "BASIC", "partial_unexpected_count": EXAMPLES})
    except Exception as error:  # the whole run could not be made: every check of it errored
        said = f"{type(error).__name__}: {HIDDEN}" if masks.columns else _first_line(error)
        return {number: Outcome("errored", "", said) for number in range(len(suite.expectations))}
    return {result.expectation_config.meta["n"]: _outcome(result, masks, frame.columns) for result in found.results}


def _mask_of(result: Any, masks: Masks, columns: Iterable[str]) -> Mask | None:
    """The mask of what was found.

    Spark takes a column's name in capital letters and in back-quotes, too. So only a check that names its columns as
    the table has them, none of them masked, shows values; of any other they may be those of any column.
    """
    config = result.expectation_config
    if not masks.columns or config.type.startswith("expect_table_"):  # counts, and names of columns
        return None
    given = [value for name, value in config.kwargs.items() if name.startswith("column")]
    names = {str(name) for value in given for name in (value if isinstance(value, list) else [value])}
    if not names or not names <= {*columns}:
        return masks.strictest
    said = json.dumps([config.kwargs, config.meta["rows"]], default=str, ensure_ascii=False)
    named = (name for name in masks.columns if re.search(rf"\b{re.escape(name)}\b", said, re.IGNORECASE))
    return strictest(masks.columns[name] for name in named)


def _outcome(result: Any, masks: Masks, columns: Iterable[str]) -> Outcome:
    mask = _mask_of(result, masks, columns)
    raised = _exception(result.exception_info)
    if raised:
        return Outcome("errored", "", HIDDEN if mask else raised)
    details = result.result or {}
    observed = details.get("observed_value")
    if observed is not None:
        observed = masks.show(observed, mask)
    if observed is None and "unexpected_count" in details:
        observed = f"{details['unexpected_count']} of {details.get('element_count', '?')} unexpected"
    examples = details.get("partial_unexpected_list") or []
    shown = ", ".join(str(masks.show(value if mask else str(value), mask)) for value in examples[:EXAMPLES])
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
