"""What the gate leaves: the results of its checks, and its judgement. Imports no engine."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import AuditRedError, DataLossError, GateRedError, StepMissingError, take_out_by
from onefold.lake import Lake
from onefold.quality.checks import BLOCKING, BranchFacts, Check, figure, id_of

AUDIT = "audit"
"""What a published batch was judged again, next to its gate's result."""


class CheckResult(BaseModel):
    """What a check asked and found."""

    model_config = ConfigDict(frozen=True)

    id: str = Field(description="Of `quality.checks`; of a check of the dataset's suite what it expects")
    title: str = Field(description="What was asked, in words")
    by: str = Field(description="great_expectations, spark or suite")
    law: str = Field(default="", description="The law that it guards")
    severity: str = BLOCKING
    status: str = Field(description="passed, failed, errored or not_applicable")
    observed: str = ""
    expected: str = ""
    detail: str = ""
    rows: int | None = Field(default=None, description="How many rows a check of the dataset's suite looked at")
    over: str = Field(default="", description="Which rows these were: changed (the batch wrote them) or table")
    first: list[str] = Field(default=[], description="The first keys, or ranges of offsets, that it counts")
    waivable: bool = True
    digest: str = Field(
        default="",
        description="Of the identities and contents that a red check's value is made of; empty: it is a measurement",
    )
    not_waived: str = Field(default="", description="Why a recorded waiver of this value does not hold")
    way_out: str = Field(default="", description="What the dataset file can say so that it is not red again")
    waived: str = Field(default="", description="The decision that lets it be red, with this value")

    @model_validator(mode="before")
    @classmethod
    def _with_id(cls, data: Any) -> Any:
        """Earlier documents have a title only, as `name`."""
        if not isinstance(data, dict) or "id" in data:
            return data
        title = str(data.get("title", data.get("name", "")))
        return {**{key: value for key, value in data.items() if key != "name"}, "title": title, "id": id_of(title)}

    @property
    def red(self) -> bool:
        """Whether it stops the batch. A check that could not be made always does."""
        return self.status == "errored" or (self.status == "failed" and self.severity == BLOCKING and not self.waived)

    @property
    def warns(self) -> bool:
        """Whether it failed and stops nothing, by its severity and not by a decision."""
        return self.status == "failed" and not self.red and not self.waived

    @property
    def value(self) -> str:
        """What it found, as a waiver names it."""
        return self.observed or self.detail

    @property
    def looked_at(self) -> str:
        """Which rows a check of the dataset's suite looked at, and how many; empty for other checks."""
        if self.rows is None:
            return ""
        rows = f"{self.rows:,} {'row' if self.rows == 1 else 'rows'}"
        return f"over the {rows} that the batch wrote" if self.over == "changed" else f"over all {rows} of the table"

    @property
    def suffix(self) -> str:
        """The id, as it follows a sentence about the check; nothing where the id is the title."""
        return f" [{self.id}]" if self.id != self.title else ""


def apply_check(check: Check, facts: BranchFacts) -> CheckResult | None:
    """The result of a check that measures facts; None where it does not apply."""
    measurement = check.measure(facts) if check.measure else None
    if measurement is None:
        return None
    return CheckResult(
        id=check.id,
        title=measurement.title or check.title,
        by="spark",
        law=check.law,
        severity=measurement.severity or check.severity,
        status="passed" if measurement.passed else "failed",
        observed=figure(measurement.observed),
        expected=measurement.limit,
        first=[] if measurement.passed else list(measurement.first),
        waivable=check.waivable,
        way_out=measurement.way_out,
    )


class ReaderChanges(BaseModel):
    """Rows that a batch changes for readers: a row that is deleted or hidden is none of theirs."""

    model_config = ConfigDict(frozen=True)

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def rows(self) -> int:
        """All of them."""
        return self.inserted + self.updated + self.deleted


class Audited(BaseModel):
    """What the gate's judgement and the report of its batch both say."""

    model_config = ConfigDict(frozen=True)

    checks: list[CheckResult] = []
    examples: dict[str, list[dict[str, Any]]] = {}
    readers: ReaderChanges | None = Field(
        default=None, description="Rows as readers see them; None: not judged yet, or an earlier release did not count"
    )


class GateResult(Audited):
    """The gate's judgement of an attempt: of exactly this branch, head, base and staging."""

    model_config = ConfigDict(frozen=True)

    batch: str
    attempt: str
    branch: str
    head: int
    base: int
    staging: str
    code: str
    green: bool
    decided: int = Field(default=0, description="Decisions on the batch that it obeyed")
    loss: bool = Field(default=False, description="A red check says that records are missing: exit code 4")
    skippable: bool = Field(
        default=True, description="It has records of its own: it is no replay, and does not only carry out a decision"
    )
    contradicted: list[str] = Field(
        default=[], description="Published batches that have other contents at positions of this batch; the first ones"
    )
    facts: dict[str, Any] = {}
    passed: list[str] = Field(
        default=[], description="Expectations of the suite, by digest, that all rows of the branch have passed"
    )
    judged: datetime

    def failures(self) -> tuple[str, ...]:
        """The red checks as short sentences."""
        return tuple(_sentence(check) for check in self.checks if check.red)

    def warnings(self) -> tuple[str, ...]:
        """The checks that failed and stop nothing, as short sentences; not those that were waived."""
        return tuple(_sentence(check) for check in self.checks if check.warns)

    def error(self, dataset: str, report: str) -> GateRedError:
        """What a red gate raises; `report`: where the batch's report lies."""
        kind = DataLossError if self.loss else GateRedError
        ways = tuple(check.way_out for check in self.checks if check.red and check.way_out)
        corrected = take_out_by(dataset, self.contradicted) if self.contradicted else ""
        return kind(dataset, self.batch, self.failures(), report, self.decisions, ways, corrected)

    @property
    def decisions(self) -> tuple[str, ...]:
        """What can be decided of it while it is red: a release where every red check may be waived."""
        releasable = all(check.waivable and check.status != "errored" for check in self.checks if check.red)
        return (*(["release"] if releasable else []), "discard", *(["skip"] if self.skippable else []))

    def audit_error(self, dataset: str, report: str) -> AuditRedError:
        """The same of a published batch."""
        return AuditRedError(dataset, self.batch, self.failures(), report)


def gate_of(lake: Lake, dataset: Dataset, batch: str, attempt: str) -> GateResult:
    """The judgement of an attempt.

    Raises:
        StepMissingError: it was not judged.
    """
    result = lake.get(lake_keys.attempt(dataset, batch, attempt, "gate"), GateResult)
    if result is None:
        raise StepMissingError(batch, "this step", "a gate")
    return result


def _sentence(check: CheckResult) -> str:
    if check.status == "errored":
        return f"{check.title} could not be made: {check.detail}{check.suffix}"
    wanted = f", wanted {check.expected}" if check.expected else ""
    over = f" {check.looked_at}" if check.looked_at else ""
    first = f" (first: {', '.join(check.first)})" if check.first else ""
    why = f"; {check.not_waived}" if check.not_waived else ""
    return f"{check.title}: found {check.value}{over}{first}{wanted}{why}{check.suffix}"
