"""When a dataset runs: a cron in a time zone, and the instants between which its intervals lie."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from croniter import croniter
from pydantic import Field, ValidationInfo, field_validator

from onefold.dataset.base import Model
from onefold.instants import Duration, in_utc

_BEFORE = timedelta(hours=25)
"""No zone has put its clock further forward at once (Samoa: a day): an instant is found by walking from there."""
PATIENCE = timedelta(minutes=20)
"""Brokers end a transaction after 15 minutes at the latest, unless transaction.max.timeout.ms says otherwise."""


class Schedule(Model):
    """When Airflow runs it."""

    cron: str = Field(description="Five cron fields")
    timezone: str = Field(default="UTC", description="Whose clock cron is read by, such as Europe/Berlin")
    start: datetime = Field(description="The first interval's start; without a zone of its own, in timezone")
    settle: Duration = Field(
        default=timedelta(minutes=10),
        description="How long an object must be unchanged, or an interval over, before it is read",
    )

    patience: Duration = Field(
        default=PATIENCE,
        description="How long an interval waits for an open transaction, from the transaction's begin or the settled "
        "end of the interval on, whichever is later",
    )

    @field_validator("cron")
    @classmethod
    def _readable_cron(cls, cron: str) -> str:
        if len(cron.split()) != 5 or not croniter.is_valid(cron):
            raise ValueError(f"{cron!r} is no schedule of five cron fields, such as '0 * * * *'")
        return cron

    @field_validator("timezone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        try:
            ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise ValueError(f"{name!r} is no time zone, such as UTC or Europe/Berlin") from None
        return name

    @field_validator("start")
    @classmethod
    def _instant(cls, start: datetime, given: ValidationInfo) -> datetime:
        in_utc(start)
        return start if start.tzinfo else _on_the_clock(start, ZoneInfo(given.data.get("timezone", "UTC")))

    @property
    def words(self) -> str:
        """The cron and whose clock it is read by."""
        return f"{self.cron!r} ({self.timezone})"

    def instants(self, after: datetime) -> Iterator[datetime]:
        """The instants behind an instant, in UTC: neighbours bound an interval, as Airflow's cron timetable has them.

        Where clocks are put forward an instant that they leave out lies behind the jump; where they are put back, an
        instant that they show twice is the second. A cron of every hour goes on by the hour through both.
        """
        zone, at = ZoneInfo(self.timezone), after.astimezone(UTC)
        while True:
            shown = at.astimezone(zone).replace(tzinfo=None)
            steps = croniter(self.cron, shown)
            step = steps.get_next(datetime)
            at = at + (step - shown) if steps.expanded[1] == ["*"] else _on_the_clock(step, zone)
            yield at

    def next_from(self, at: datetime) -> datetime:
        """The first instant that is not before `at`."""
        return next(instant for instant in self.instants(at - _BEFORE) if instant >= at)


def _on_the_clock(shown: datetime, zone: ZoneInfo) -> datetime:
    """The instant at which a zone's clock shows a time: the second of two, and behind the jump if there is none."""
    late = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if late.astimezone(zone).replace(tzinfo=None) == shown:
        return late
    return shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
