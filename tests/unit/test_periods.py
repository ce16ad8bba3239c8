"""The condition that leads a look-up to the files of a batch's periods."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from onefold.dataset import Dataset
from onefold.upsert.state import in_periods


def hourly(dataset: Callable[..., Dataset]) -> Dataset:
    return dataset(
        value={"fields": {"id": "string", "at": "timestamp"}},
        identity={"business_key": ["id"], "within": "hour(at)"},
    )


def test_few_periods_are_named_and_one_is_not_a_literal_in_the_place_of_its_column(
    dataset: Callable[..., Dataset],
) -> None:
    made = hourly(dataset)
    assert in_periods(made, []) == "false"
    assert in_periods(made, ["2026-01-01 00:00:00"]) == (
        "_within BETWEEN TIMESTAMP '2026-01-01 00:00:00' AND TIMESTAMP '2026-01-01 00:00:00'"
    )
    assert in_periods(made, ["2026-01-01 00:00:00", "2026-01-01 01:00:00"], "t") == (
        "t._within IN (TIMESTAMP '2026-01-01 00:00:00', TIMESTAMP '2026-01-01 01:00:00')"
    )


def test_many_periods_are_read_by_their_first_and_last_and_years_beyond_9999_by_name(
    dataset: Callable[..., Dataset],
) -> None:
    hours = [
        f"{datetime(2026, 1, 1, tzinfo=UTC) + timedelta(hours=number):%Y-%m-%d %H:%M:%S}" for number in range(1001)
    ]
    first, last = f"TIMESTAMP '{hours[0]}'", f"TIMESTAMP '{hours[-1]}'"
    assert in_periods(hourly(dataset), hours) == f"(_within BETWEEN {first} AND {last})"
    beyond = ["+10000-01-01 04:00:00", "-0044-03-15 00:00:00"]
    named = " OR ".join(f"_within = TIMESTAMP '{instant}'" for instant in beyond)
    found = in_periods(hourly(dataset), [beyond[0], *hours, beyond[1]])
    assert found == f"(_within BETWEEN {first} AND {last} OR {named})"
