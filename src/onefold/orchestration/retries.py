"""Which failures Airflow tries again: by cause, never by count alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from onefold.dataset.schedule import PATIENCE, Schedule
from onefold.errors import HeldBackError, NotSettledError, TerminalError, TransientError, UnknownOutcomeError
from onefold.orchestration.notify import tell_failure
from onefold.orchestration.priority import weight_rule
from onefold.settings import Settings


def task_defaults(settings: Settings, owner: str, schedule: Schedule | None = None) -> dict[str, Any]:
    """What every task of a DAG gets: its owner, how long a try may take, when it is tried again, who is notified."""
    return {
        "owner": owner,
        "weight_rule": weight_rule(),
        "on_failure_callback": [tell_failure] if settings.notify else [],
        "execution_timeout": settings.task_timeout,
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        "retry_exponential_backoff": True,
        "retry_policy": by_cause(schedule.settle, schedule.patience) if schedule else by_cause(timedelta(0)),
    }


def by_cause(settle: timedelta, patience: timedelta = PATIENCE) -> ExceptionRetryPolicy:
    """Terminal errors fail at once; transient ones and any other exception use up the task's retries.

    A run whose interval is not settled (a backfill's, or without the plugin: `onefold.orchestration.timetable`) is
    tried again when it is. A run that waits for an open transaction is tried again twice within its `patience`, and
    then goes on without it.
    """
    return ExceptionRetryPolicy(
        rules=[
            RetryRule(
                NotSettledError,
                RetryAction.RETRY,
                retry_delay=settle + timedelta(seconds=10),
                reason="the interval can be read when it is settled",
            ),
            RetryRule(
                HeldBackError,
                RetryAction.RETRY,
                retry_delay=patience / 2 + timedelta(seconds=10),
                reason="the interval can be read when an open transaction has ended, or was waited for long enough",
            ),
            RetryRule(TerminalError, RetryAction.FAIL, reason="trying again changes nothing"),
            RetryRule(TransientError, RetryAction.RETRY, reason="trying again may help"),
            RetryRule(UnknownOutcomeError, RetryAction.RETRY, reason="the step looks first, then acts"),
        ]
    )
