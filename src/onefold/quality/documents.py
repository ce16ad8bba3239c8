"""What the gate leaves: its checks and its judgement. Knows neither pyspark nor Great Expectations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import AuditRedError, DataLossError, GateRedError, StepMissingError
from onefold.lake import Lake

BLOCKING, WARNING = "blocking", "warning"
AUDIT = "audit"
"""What a published batch was judged again, beside its gate's result."""


class Check(BaseModel):
    """One check: what was asked, what was found."""

    model_config = ConfigDict(frozen=True)

    name: str
    by: str = Field(description="great_expectations, spark or suite")
    law: str = Field(default="", description="The law that it guards")
    severity: str = BLOCKING
    status: str = Field(description="passed, failed, errored or not_applicable")
    observed: str = ""
    expected: str = ""
    detail: str = ""
    first: list[str] = Field(default=[], description="The first keys, or ranges of offsets, that it speaks of")
    waivable: bool = True
    way_out: str = Field(default="", description="What the dataset file can say so that it is not red again")
    waived: str = Field(default="", description="The decision that lets it be red, with this value")

    @property
    def red(self) -> bool:
        """Whether it stops the batch. A check that could not be made always does."""
        return self.status == "errored" or (self.status == "failed" and self.severity == BLOCKING and not self.waived)

    @property
    def value(self) -> str:
        """What it found, as a waiver names it."""
        return self.observed or self.detail


class GateResult(BaseModel):
    """The gate's judgement of one attempt. It speaks of exactly this branch, head, base and staging."""

    model_config = ConfigDict(frozen=True)

    batch: str
    attempt: str
    branch: str
    head: int
    base: int
    staging: str
    code: str
    green: bool
    checks: list[Check]
    decided: int = Field(default=0, description="Decisions on the batch that it obeyed")
    loss: bool = Field(default=False, description="Unexplained holes: exit code 4")
    skippable: bool = Field(default=True, description="Not a replay, nor a person's word alone: it has own records")
    facts: dict[str, Any] = {}
    examples: dict[str, list[dict[str, Any]]] = {}
    judged: datetime

    def failures(self) -> tuple[str, ...]:
        """The red checks as short sentences."""
        return tuple(_sentence(check) for check in self.checks if check.red)

    def error(self, dataset: str, report: str) -> GateRedError:
        """What a red gate raises; `report`: where the batch's report lies."""
        kind = DataLossError if self.loss else GateRedError
        ways = tuple(check.way_out for check in self.checks if check.red and check.way_out)
        return kind(dataset, self.batch, self.failures(), report, self.skippable, ways)

    def audit_error(self, dataset: str, report: str) -> AuditRedError:
        """The same of a published batch."""
        return AuditRedError(dataset, self.batch, self.failures(), report)


def gate_of(lake: Lake, dataset: Dataset, batch: str, attempt: str) -> GateResult:
    """What was judged of an attempt.

    Raises:
        StepMissingError: nothing was.
    """
    result = lake.get(lake_keys.attempt(dataset, batch, attempt, "gate"), GateResult)
    if result is None:
        raise StepMissingError(batch, "this step", "a gate")
    return result


def _sentence(check: Check) -> str:
    if check.status == "errored":
        return f"{check.name} could not be made: {check.detail}"
    wanted = f", wanted {check.expected}" if check.expected else ""
    first = f" (first: {', '.join(check.first)})" if check.first else ""
    return f"{check.name}: found {check.value}{first}{wanted}"
