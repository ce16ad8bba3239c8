"""A finding: how bad, where, what was found, why it matters, what to set; and time spans as text."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from onefold.instants import span_text
from onefold.report.causes import Change

Severity = Literal["error", "warning", "info", "unknown"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "info", "unknown")
"""Worst first. error: it happens in ordinary operation, or has happened; warning: it takes one more mishap;
info: good to know; unknown: it could not be looked at."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a rule found."""

    severity: Severity
    where: str
    """Topic, broker, group or file."""
    found: str
    """The setting and its value, or what is to be seen."""
    why: str
    """One sentence."""
    change: Change | None = None
    action: str = ""
    """What to do, where no setting mends it."""


def millis(span: timedelta) -> str:
    """A span as Kafka's settings have it."""
    return str(span // timedelta(milliseconds=1))


def setting(name: str, value: str, span: timedelta | None = None) -> str:
    """`name=value`, with a span in words behind it."""
    return f"{name}={value}" + (f" ({span_text(span)})" if span else "")


def lasting(name: str, span: timedelta) -> Change:
    """A setting in milliseconds, to be a span."""
    return Change(name, millis(span), span_text(span))


def days(span: timedelta) -> timedelta:
    """A span rounded up to whole days."""
    return timedelta(days=-(-span // timedelta(days=1)))
