"""What was asked in a run of Airflow, and the answer: `datasets/<dataset>/approvals/<run>.json`.

The task that asks writes both, the answer as Airflow's API server has handed it on. Later tasks obey this document: a
user who may edit a run writes its XComs, and not the lake.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.decisions.who import Decider
from onefold.errors import UsageError
from onefold.lake import Lake


class Approval(BaseModel):
    """A question, and who has answered it how."""

    model_config = ConfigDict(frozen=True)

    run: str = Field(description="The DAG run that asks")
    asked: dict[str, Any] = Field(description="What is to be done, as it was shown to the approver")
    approved: bool = False
    who: Decider | None = Field(default=None, description="Who has answered; None: no answer yet, or none in time")
    at: datetime | None = None


def ask(lake: Lake, dataset: str, run: str, asked: dict[str, Any]) -> None:
    """Keep what is asked; an earlier answer in the same run counts no more."""
    lake.put(lake_keys.approval(dataset, run), Approval(run=run, asked=asked))


def answer(lake: Lake, dataset: str, run: str, who: Decider | None, *, approved: bool) -> None:
    """Keep the answer to what was asked; of a dataset that was not asked about there is none to keep."""
    key = lake_keys.approval(dataset, run)
    if question := lake.get(key, Approval):
        given = {"who": who, "approved": approved, "at": datetime.now(UTC)}
        lake.put(key, question.model_copy(update=given))


def was_asked(lake: Lake, dataset: str, run: str) -> bool:
    """Whether a run has asked about a dataset."""
    return lake.storage.stat(lake_keys.approval(dataset, run)) is not None


def approval_of(lake: Lake, dataset: str, run: str) -> tuple[dict[str, Any], Decider]:
    """What was approved in a run, and by whom.

    Raises:
        UsageError: it was not approved. A task that was marked as successful has no answer.
    """
    found = lake.get(lake_keys.approval(dataset, run), Approval)
    if found is None or not found.approved or found.who is None:
        raise UsageError(
            f"{dataset}: it was not approved in the run {run}: the lake has no answer of a user. Nothing was decided. "
            "Clear the task `approve`, and answer it."
        )
    return found.asked, found.who
