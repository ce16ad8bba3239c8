"""Which failures Airflow tries again: by cause, never by count alone."""

from __future__ import annotations

from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule

from onefold.errors import TerminalError, TransientError, UnknownOutcomeError

BY_CAUSE = ExceptionRetryPolicy(
    rules=[
        RetryRule(TerminalError, RetryAction.FAIL, reason="trying again changes nothing"),
        RetryRule(TransientError, RetryAction.RETRY, reason="trying again may help"),
        RetryRule(UnknownOutcomeError, RetryAction.RETRY, reason="the step looks first, then acts"),
    ]
)
"""Terminal errors fail at once; transient ones and any other exception use up the task's retries."""
