"""The intervals of a dataset's schedule, each run once it is settled."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow._shared.timezones.timezone import coerce_datetime, utcnow
from airflow.plugins_manager import get_timetables_plugins
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable
from airflow.timetables.interval import CronDataIntervalTimetable

if TYPE_CHECKING:
    from pendulum import DateTime
    from pendulum.tz.timezone import FixedTimezone, Timezone

    from onefold.dataset.schedule import Schedule


class SettledTimetable(CronDataIntervalTimetable):
    """Airflow's cron intervals, each run `settle` after its end: before, it cannot be read.

    Airflow knows it by `plugins/onefold_plugin.py`.
    """

    def __init__(self, cron: str, timezone: str | Timezone | FixedTimezone, settle: timedelta) -> None:
        super().__init__(cron, timezone)
        self._settle = settle

    def serialize(self) -> dict[str, Any]:
        """As the database has it."""
        return {**super().serialize(), "settle": self._settle.total_seconds()}

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Timetable:
        """What `serialize` gave."""
        plain = CronDataIntervalTimetable.deserialize(data)
        assert isinstance(plain, CronDataIntervalTimetable)
        return cls(plain._expression, plain._timezone, timedelta(seconds=data["settle"]))

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        """The next interval, and when it is settled."""
        info = super().next_dagrun_info(
            last_automated_data_interval=last_automated_data_interval, restriction=restriction
        )
        return info and DagRunInfo(run_after=info.run_after + self._settle, data_interval=info.data_interval)

    def _skip_to_latest(self, earliest: DateTime | None) -> DateTime:
        """Without catchup: the start of the newest interval that is settled, so that none is passed over meanwhile."""
        settled = coerce_datetime(utcnow() - self._settle)
        begun = self._get_prev(settled)
        newest = begun if self._get_next(begun) == settled else self._get_prev(begun)
        return newest if earliest is None else max(newest, self._align_to_next(earliest))


def timetable_of(schedule: Schedule) -> CronDataIntervalTimetable:
    """Of a dataset's schedule; Airflow's own where the plugin is not there: a DAG with one not known is refused."""
    if schedule.settle and SettledTimetable in get_timetables_plugins().values():
        return SettledTimetable(schedule.cron, schedule.timezone, schedule.settle)
    return CronDataIntervalTimetable(schedule.cron, schedule.timezone)
