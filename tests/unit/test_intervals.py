"""`--from` and `--to` are half-open intervals in UTC, those of the schedule where there is one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone

import pytest

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.operations.intervals import intervals_between

MakeDataset = Callable[..., Dataset]
DAY = datetime(2026, 3, 1, tzinfo=UTC)


def at(hour: int, minute: int = 0) -> datetime:
    return DAY.replace(hour=hour, minute=minute)


def scheduled(dataset: MakeDataset, cron: str) -> Dataset:
    return dataset(schedule={"cron": cron, "start": DAY})


def test_without_a_schedule_it_is_one_interval(dataset: MakeDataset) -> None:
    [interval] = intervals_between(dataset(), at(1), at(5, 7))
    assert interval is not None
    assert (interval.start, interval.end) == (at(1), at(5, 7))


def test_with_a_schedule_neighbours_share_their_instants(dataset: MakeDataset) -> None:
    found = intervals_between(scheduled(dataset, "0 */2 * * *"), at(2), at(8))
    assert [(interval.start, interval.end) for interval in found if interval] == [
        (at(2), at(4)),
        (at(4), at(6)),
        (at(6), at(8)),
    ]


def test_an_instant_without_a_zone_is_utc(dataset: MakeDataset) -> None:
    naive = [when.replace(tzinfo=None) for when in (at(1), at(2))]
    assert intervals_between(dataset(), *naive) == intervals_between(dataset(), at(1), at(2))


@pytest.mark.parametrize("cron", [None, "0 * * * *"])
def test_an_instant_of_another_zone_is_written_in_utc(dataset: MakeDataset, cron: str | None) -> None:
    abroad = timezone(timedelta(hours=2))
    made = scheduled(dataset, cron) if cron else dataset()
    [interval] = intervals_between(made, at(3).replace(tzinfo=abroad), at(4).replace(tzinfo=abroad))
    assert interval is not None
    assert interval.model_dump_json() == '{"start":"2026-03-01T01:00:00Z","end":"2026-03-01T02:00:00Z"}'


@pytest.mark.parametrize(
    ("start", "end", "said"),
    [
        (at(1), None, "go together"),
        (None, at(1), "go together"),
        (at(2), at(1), "before"),
        (at(1), at(1), "before"),
        (at(1, 30), at(3), "2026-03-01T01:30 is no instant of the schedule"),
        (at(1).replace(year=9999), at(2).replace(year=9999), "--from: 9999-03-01T01:00:00.00:00 is no instant"),
        (at(1), at(3, 30), "2026-03-01T03:30 is no instant of the schedule"),
    ],
)
def test_what_is_no_interval_is_said(
    dataset: MakeDataset, start: datetime | None, end: datetime | None, said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        intervals_between(scheduled(dataset, "0 * * * *"), start, end)
