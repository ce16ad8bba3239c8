"""The instants of a schedule in a time zone: what they bound, also over the days on which clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest
from pydantic import ValidationError

from onefold.dataset.schedule import Schedule

HOUR = timedelta(hours=1)


def instants(cron: str, timezone: str, after: str, number: int) -> list[datetime]:
    schedule = Schedule(cron=cron, timezone=timezone, start=datetime(2026, 1, 1))  # noqa: DTZ001
    return list(islice(schedule.instants(datetime.fromisoformat(after)), number))


def lengths(found: list[datetime]) -> list[float]:
    return [(late - early) / HOUR for early, late in pairwise(found)]


def test_a_local_day_has_23_hours_when_clocks_are_put_forward_and_25_when_they_are_put_back() -> None:
    spring = instants("0 0 * * *", "Europe/Berlin", "2026-03-27T12:00Z", 4)
    autumn = instants("0 0 * * *", "Europe/Berlin", "2026-10-23T12:00Z", 4)

    assert [f"{at:%m-%dT%H:%MZ}" for at in spring] == ["03-27T23:00Z", "03-28T23:00Z", "03-29T22:00Z", "03-30T22:00Z"]
    assert lengths(spring) == [24, 23, 24]
    assert [f"{at:%m-%dT%H:%MZ}" for at in autumn] == ["10-23T22:00Z", "10-24T22:00Z", "10-25T23:00Z", "10-26T23:00Z"]
    assert lengths(autumn) == [24, 25, 24]


def test_every_hour_is_every_hour_whatever_the_clock_shows() -> None:
    assert lengths(instants("0 * * * *", "Europe/Berlin", "2026-03-28T22:00Z", 6)) == [1] * 5
    assert lengths(instants("0 * * * *", "Europe/Berlin", "2026-10-24T22:00Z", 6)) == [1] * 5


def test_a_time_that_the_clock_leaves_out_is_behind_the_jump_and_one_shown_twice_is_the_second() -> None:
    [_, jump, after] = instants("30 2 * * *", "Europe/Berlin", "2026-03-27T12:00Z", 3)
    [_, twice, next_one] = instants("30 2 * * *", "Europe/Berlin", "2026-10-23T12:00Z", 3)

    assert (jump, after - jump) == (datetime(2026, 3, 29, 1, 30, tzinfo=UTC), 23 * HOUR)
    assert (twice, next_one - twice) == (datetime(2026, 10, 25, 1, 30, tzinfo=UTC), 24 * HOUR)


@pytest.mark.parametrize("shift", [timedelta(0), timedelta(minutes=1)])
@pytest.mark.parametrize(
    ("cron", "timezone", "at"),
    [
        ("30 2 * * *", "Europe/Berlin", datetime(2026, 3, 29, 1, 30, tzinfo=UTC)),
        ("0 0 * * *", "America/Santiago", datetime(2026, 9, 6, 4, 0, tzinfo=UTC)),
        ("0 0 1 * *", "Asia/Kathmandu", datetime(2026, 3, 31, 18, 15, tzinfo=UTC)),
        ("0 9 * * *", "Pacific/Apia", datetime(2011, 12, 30, 19, 0, tzinfo=UTC)),
    ],
)
def test_an_instant_is_known_as_one_and_a_minute_later_is_none(
    cron: str, timezone: str, at: datetime, shift: timedelta
) -> None:
    schedule = Schedule(cron=cron, timezone=timezone, start=at)
    assert (schedule.next_from(at + shift) == at + shift) is (shift == timedelta(0))


def test_a_start_without_a_zone_is_on_the_schedules_clock() -> None:
    given = {"cron": "0 0 * * *", "timezone": "Europe/Berlin"}
    midnight = datetime(2025, 12, 31, 23, 0, tzinfo=UTC)

    assert Schedule.model_validate(given | {"start": datetime(2026, 1, 1)}).start == midnight  # noqa: DTZ001
    assert Schedule.model_validate(given | {"start": midnight.date().replace(2026, 1, 1)}).start == midnight
    assert Schedule.model_validate(given | {"start": "2026-01-01T00:00:00Z"}).start == midnight + HOUR
    for last in ("9999-12-31T23:59:59", "9999-12-31T23:59:59-05:00", "0001-01-01"):
        with pytest.raises(ValidationError, match="no instant of the years 2 to 9899"):
            Schedule.model_validate(given | {"start": last})
    with pytest.raises(ValidationError, match="no time zone"):
        Schedule.model_validate(given | {"start": "2026-01-01", "timezone": "Berlin/Europe"})
