"""The intervals between two instants: one, or those of the dataset's schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise

from croniter import croniter

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.landing.plan import Interval


def intervals_between(dataset: Dataset, start: datetime | None, end: datetime | None) -> list[Interval | None]:
    """Half-open UTC intervals from `start` to `end`; a backfill, where the dataset has a schedule.

    Raises:
        UsageError: an end is missing, they are in the wrong order, or not on the schedule's instants.
    """
    if start is None or end is None:
        raise UsageError("--from and --to go together")
    low, high = (at if at.tzinfo else at.replace(tzinfo=UTC) for at in (start, end))
    if low >= high:
        raise UsageError("--from must be before --to")
    if dataset.schedule is None:
        return [Interval(start=low, end=high)]
    cron = dataset.schedule.cron
    for at in (low, high):
        if not croniter.match(cron, at):
            raise UsageError(f"{at:%Y-%m-%dT%H:%M} is no instant of the schedule {cron!r}")
    instants = [low]
    steps = croniter(cron, low)
    while instants[-1] < high:
        instants.append(steps.get_next(datetime))
    return [Interval(start=one, end=other) for one, other in pairwise(instants)]
