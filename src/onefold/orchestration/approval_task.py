"""A task that asks a human, and keeps the answer where no user of Airflow can write it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Context

from onefold.decisions.approvals import answer, ask
from onefold.decisions.who import Decider
from onefold.lake import Lake


@dataclass(frozen=True, slots=True)
class Question:
    """What an approver is asked."""

    lake: Lake
    subject: str
    body: str
    asked: dict[str, dict[str, Any]]
    """By dataset: what is done once it is approved, as JSON values"""


class RecordedApproval(ApprovalOperator):
    """Asks for approval; rejected, or without an answer in time, the tasks after it are skipped.

    Who has answered comes with the task's own resumption, in which Airflow's API server puts the user whom it has
    authenticated. It is written into the lake at once. The task's XCom says the same and nothing reads it.
    """

    def __init__(self, *, response_timeout: timedelta, **kwargs: Any) -> None:
        asks: dict[str, Any] = {"subject": "Approve?", "defaults": self.REJECT, "response_timeout": response_timeout}
        super().__init__(**asks, **kwargs)

    def question(self, context: Context) -> Question:
        """What is asked: computed here, not taken from an XCom of a task before."""
        raise NotImplementedError

    def place(self, context: Context) -> tuple[Lake, list[str]]:
        """The lake, and the datasets that may have been asked about."""
        raise NotImplementedError

    def execute(self, context: Context) -> None:
        """Write down what is asked, then wait."""
        asks = self.question(context)
        self.subject, self.body = asks.subject, asks.body
        self.log.info("%s\n%s", asks.subject, asks.body)
        for dataset, asked in asks.asked.items():
            ask(asks.lake, dataset, run_of(context), asked)
        super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        """Keep the answer, then go on or skip what follows."""
        if "error" not in event:
            user = event["responded_by_user"]
            who = Decider.of_airflow(str(user["id"]), user["name"]) if user else None
            approved = list(event["chosen_options"]) == [self.APPROVE]
            lake, datasets = self.place(context)
            for dataset in datasets:
                answer(lake, dataset, run_of(context), who, approved=approved)
        return super().execute_complete(context, event)


def run_of(context: Context) -> str:
    """A DAG run, in one word."""
    run = context["dag_run"]
    return f"{run.dag_id}/{run.run_id}"
