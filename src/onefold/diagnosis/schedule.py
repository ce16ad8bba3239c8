"""How long a record may wait in the log until a schedule has it landed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

from croniter import croniter

from onefold.dataset import Dataset

_FROM = datetime(2024, 1, 1, tzinfo=UTC)
_UNTIL = datetime(2033, 1, 1, tzinfo=UTC)
"""Nine years, so that a schedule of 29 February has its gap."""
_DAY = timedelta(days=1)


@cache
def longest_interval(cron: str) -> timedelta:
    """The longest time between two instants of a schedule of five cron fields.

    The instants of a day are the same on each day that has any, so the longest gap lies within one such day or
    between two that follow each other.
    """
    minute, hour, *dates = cron.split()
    within = _instants(f"{minute} {hour} * * *", _FROM, _FROM + _DAY)
    gaps = [late - early for early, late in pairwise(within)]
    between = [late - early for early, late in pairwise(_instants(" ".join(["0", "0", *dates]), _FROM, _UNTIL))]
    overnight = max(between, default=_UNTIL - _FROM) - (within[-1] - within[0])
    return max([*gaps, overnight])


def _instants(cron: str, start: datetime, end: datetime) -> list[datetime]:
    steps, found = croniter(cron, start - timedelta(seconds=1)), []
    while (at := steps.get_next(datetime)) < end:
        found.append(at)
    return found


def longest_wait(dataset: Dataset) -> timedelta | None:
    """How long the oldest record of an interval waits at most: the interval, and `settle`. None: no schedule."""
    schedule = dataset.schedule
    if schedule is None:
        return None
    hourly = schedule.cron.split()[1] == "*"  # it goes on by the hour while clocks are put back
    more = timedelta(0) if hourly else _put_back(schedule.timezone)
    return longest_interval(schedule.cron) + more + schedule.settle


@cache
def _put_back(timezone: str) -> timedelta:
    """By how much a zone's clock is put back within a year: the longest day is as much longer."""
    zone, first = ZoneInfo(timezone), datetime(2026, 1, 1, tzinfo=UTC)
    offsets = [(first + number * _DAY).astimezone(zone).utcoffset() or timedelta(0) for number in range(366)]
    return max(offsets) - min(offsets)
