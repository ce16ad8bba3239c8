"""Whatever number a producer writes as a timestamp, there is an instant to show for it."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onefold.instants import EPOCH, instant, millis_from, rows_of, stamped

FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)
MILLIS, MICROS, NANOS = 1_767_225_600_123, 1_767_225_600_123_456, 1_767_225_600_123_456_789


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (MILLIS, datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=UTC)),
        (0, EPOCH),
        (-1, EPOCH - timedelta(milliseconds=1)),
        (253_402_300_799_999, LAST),
        (253_402_300_800_000, LAST),
        (MICROS, LAST),
        (NANOS, LAST),
        (-62_135_596_800_000, FIRST),
        (-62_135_596_800_001, FIRST),
        (-(1 << 63), FIRST),
    ],
)
def test_a_number_beyond_the_years_is_the_nearest_instant(number: int, shown: datetime) -> None:
    assert instant(number) == shown
    assert stamped(number) == (shown if number >= 0 else None)


@given(st.datetimes(timezones=st.just(UTC)).map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)))
def test_an_instant_of_whole_milliseconds_is_its_number_and_back(at: datetime) -> None:
    assert instant(millis_from(at)) == at
    if at < LAST:
        assert millis_from(at + timedelta(microseconds=1)) == millis_from(at) + 1


def test_rows_show_years_that_python_does_not_have() -> None:
    day = pa.array([100_000_000, 20_454, None], pa.int32()).cast(pa.date32())
    table = pa.table(
        {
            "zoned": pa.array([NANOS, MICROS, None], pa.timestamp("us", "UTC")),
            "bare": pa.array([-NANOS, MICROS, None], pa.timestamp("us")),
            "day": day,
            "n": [1, 2, None],
        }
    )
    first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
    here = EPOCH + timedelta(microseconds=MICROS)
    wanted = [
        {"zoned": last, "bare": first.replace(tzinfo=None), "day": date.max, "n": 1},
        {"zoned": here, "bare": here.replace(tzinfo=None), "day": date(2026, 1, 1), "n": 2},
        {"zoned": None, "bare": None, "day": None, "n": None},
    ]
    assert rows_of(table) == wanted
    assert [row for batch in table.to_batches() for row in rows_of(batch)] == wanted
