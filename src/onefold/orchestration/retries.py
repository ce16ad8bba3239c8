"""Which failures Airflow tries again: by cause, never by count alone."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from onefold.errors import NotSettledError, TerminalError, TransientError, UnknownOutcomeError
from onefold.orchestration.notify import tell_failure
from onefold.orchestration.priority import weight_rule
from onefold.settings import Settings


def task_defaults(settings: Settings, owner: str, settle: timedelta = timedelta(0)) -> dict[str, Any]:
    """What every task of a DAG gets: its owner, how long a try may take, when it is tried again, who is notified."""
    return {
        "owner": owner,
        "weight_rule": weight_rule(),
        "on_failure_callback": [tell_failure] if settings.notify else [],
        "execution_timeout": settings.task_timeout,
        "retries": 2,
        "retry_delay": timedelta(minutes=1),
        "retry_exponential_backoff": True,
        "retry_policy": by_cause(settle),
    }


def by_cause(settle: timedelta) -> ExceptionRetryPolicy:
    """Terminal errors fail at once; transient ones and any other exception use up the task's retries.

    A run whose interval is not settled (a backfill's, or without the plugin: `onefold.orchestration.timetable`) is
    tried again when it is.
    """
    return ExceptionRetryPolicy(
        rules=[
            RetryRule(
                NotSettledError,
                RetryAction.RETRY,
                retry_delay=settle + timedelta(seconds=10),
                reason="the interval can be read when it is settled",
            ),
            RetryRule(TerminalError, RetryAction.FAIL, reason="trying again changes nothing"),
            RetryRule(TransientError, RetryAction.RETRY, reason="trying again may help"),
            RetryRule(UnknownOutcomeError, RetryAction.RETRY, reason="the step looks first, then acts"),
        ]
    )
