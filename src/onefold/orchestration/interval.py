"""Which interval a run is for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from onefold.landing.plan import Interval


def interval_of(context: Mapping[str, Any]) -> Interval | None:
    """The run's data interval, or None: everything new.

    Runs that an asset or a person starts without a date have none, and those of a DAG without a schedule have
    an empty interval. A run over an export folder is for that folder, whatever its date.
    """
    start, end = context.get("data_interval_start"), context.get("data_interval_end")
    if context["params"].get("export") or not start or not end or start >= end:
        return None
    return Interval(start=_plain(start), end=_plain(end))


def _plain(at: datetime) -> datetime:
    """Airflow's are pendulum's, whose differences cannot be divided by a timedelta."""
    return datetime.fromisoformat(at.isoformat()).astimezone(UTC)
