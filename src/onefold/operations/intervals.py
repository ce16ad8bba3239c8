"""The intervals between two instants: one, or those of the dataset's schedule."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise, takewhile

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.instants import in_utc
from onefold.landing.plan import Interval


def intervals_between(dataset: Dataset, start: datetime | None, end: datetime | None) -> list[Interval | None]:
    """Half-open UTC intervals from `start` to `end`; a backfill, where the dataset has a schedule.

    Raises:
        UsageError: an end is missing, they are in the wrong order, not on the schedule's instants, or no instants.
    """
    if start is None or end is None:
        raise UsageError("--from and --to go together")
    low, high = _in_utc("--from", start), _in_utc("--to", end)
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
    return [Interval(start=begins, end=ends) for begins, ends in pairwise(instants)]


def _in_utc(option: str, at: datetime) -> datetime:
    try:
        return in_utc(at)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from None
