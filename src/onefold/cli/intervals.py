"""The intervals between two instants: one, or those of the dataset's schedule."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise, takewhile

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
    for at in (low, high):
        if (instant := dataset.schedule.next_from(at)) != at:
            raise UsageError(
                f"{at:%Y-%m-%dT%H:%M} is no instant of the schedule {dataset.schedule.words}; the next one is "
                f"{instant:%Y-%m-%dT%H:%MZ}"
            )
    instants = [low, *takewhile(lambda at: at <= high, dataset.schedule.instants(low))]
    return [Interval(start=one, end=other) for one, other in pairwise(instants)]
