"""Cuts and plans of a live source: planned in any order, they leave no gap and no overlap."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.errors import StepMissingError, UsageError
from onefold.lake import Lake
from onefold.landing.cuts import Cut, OffsetRange, clamped, cut_at, ranges_between
from onefold.landing.offsets import TopicPartition
from onefold.landing.plan import Interval, RangesPlan, plan_of, put_plan, taken_plans
from onefold.settings import Settings

P0, P1 = "c/t/1/0", "c/t/1/1"
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def hour(number: int) -> datetime:
    return MIDNIGHT + timedelta(hours=number)


@dataclass
class Log:
    """A topic in memory: per partition the records' hours, in the order of their offsets; it only grows."""

    hours: dict[str, list[int]]
    starts: dict[str, int] = field(default_factory=dict)
    asked: int = 0

    def offsets_at(self, instant: datetime, floors: dict[str, int]) -> dict[str, int]:
        """As a broker has it: the first offset whose timestamp is at or after the instant, else the end."""
        self.asked += 1
        found = {}
        for partition, hours in self.hours.items():
            later = (offset for offset, at in enumerate(hours) if hour(at) >= instant)
            found[partition] = next(later, len(hours))
        return found

    def log_starts(self) -> dict[str, int]:
        """The first offset that is still there."""
        return {partition: self.starts.get(partition, 0) for partition in self.hours}


def lake_at(folder: Path) -> Lake:
    return Lake(Settings(home=folder))


def test_a_cut_is_made_once_and_then_found(lake: Lake) -> None:
    log = Log({P0: [0, 0, 1, 1, 2]})
    first = cut_at(lake, "s", hour(1), log)
    assert first.offsets == {P0: 2}
    log.hours[P0] = []
    assert cut_at(lake, "s", hour(1), log) == first
    assert log.asked == 1


def test_the_slower_of_two_drivers_takes_the_cut_that_stands(lake: Lake) -> None:
    class Overtaken(Log):
        def offsets_at(self, instant: datetime, floors: dict[str, int]) -> dict[str, int]:
            cut_at(lake, "s", instant, Log({P0: [0, 0, 0]}))  # another driver, meanwhile
            return {P0: 1}

    assert cut_at(lake, "s", hour(1), Overtaken({})).offsets == {P0: 3}


def test_cuts_of_other_sources_are_no_neighbours(lake: Lake) -> None:
    cut_at(lake, "other", hour(2), Log({P0: []}))
    assert cut_at(lake, "s", hour(1), Log({P0: [0, 0, 3]})).offsets == {P0: 2}


@pytest.mark.parametrize(
    ("given_", "before", "after", "wanted"),
    [
        ({P0: 5}, None, None, {P0: 5}),
        ({P0: 5}, {P0: 7}, None, {P0: 7}),
        ({P0: 5}, None, {P0: 3}, {P0: 3}),
        ({P0: 5}, {P0: 4}, {P0: 9}, {P0: 5}),
        ({}, {P0: 4}, None, {P0: 4}),
        ({P0: 5, P1: 1}, {P0: 2}, None, {P0: 5, P1: 1}),
        # a partition that a later cut does not know begins behind that cut
        ({P0: 5, P1: 1}, None, {P0: 9}, {P0: 5}),
    ],
)
def test_a_cut_lies_between_its_neighbours(
    given_: dict[str, int], before: dict[str, int] | None, after: dict[str, int] | None, wanted: dict[str, int]
) -> None:
    earlier = Cut(instant=hour(0), offsets=before) if before else None
    later = Cut(instant=hour(9), offsets=after) if after else None
    assert clamped(given_, earlier, later) == wanted


def test_a_new_partition_begins_at_its_logs_start() -> None:
    start, end = Cut(instant=hour(0), offsets={P0: 3}), Cut(instant=hour(1), offsets={P0: 3, P1: 8})
    ranges = {one.topic_partition.key: (one.start, one.end) for one in ranges_between(start, end, {P0: 0, P1: 2})}
    assert ranges == {P0: (3, 3), P1: (2, 8)}
    unknown_start = ranges_between(start, end, {})
    assert [(one.start, one.end) for one in unknown_start] == [(3, 3), (0, 8)]


def test_a_range_never_runs_backwards() -> None:
    # Two drivers that did not see each other may have put crossed cuts: an overlap is harmless, a gap is not.
    start, end = Cut(instant=hour(0), offsets={P0: 9}), Cut(instant=hour(1), offsets={P0: 4})
    assert [(one.start, one.end) for one in ranges_between(start, end, {P0: 0})] == [(9, 9)]


HOURS = 5
ARRIVALS = st.lists(st.tuples(st.sampled_from([P0, P1]), st.integers(0, HOURS + 1)), max_size=6)


@settings(max_examples=150)
@given(st.permutations(range(HOURS)), st.lists(ARRIVALS, min_size=HOURS, max_size=HOURS))
def test_plans_made_in_any_order_leave_no_gap_and_no_overlap(
    order: list[int], arrivals: list[list[tuple[str, int]]]
) -> None:
    """L1, for the plan: records arrive between plans, with timestamps that run backwards, in new partitions."""
    with tempfile.TemporaryDirectory() as folder:
        lake, log = lake_at(Path(folder)), Log({})
        ranges: dict[int, dict[str, tuple[int, int]]] = {}
        for number, arrived in zip(order, arrivals, strict=True):
            for partition, at in arrived:
                log.hours.setdefault(partition, []).append(at)
            start, end = (cut_at(lake, "s", hour(at), log) for at in (number, number + 1))
            found = ranges_between(start, end, log.log_starts())
            ranges[number] = {one.topic_partition.key: (one.start, one.end) for one in found}
        cuts = [cut_at(lake, "s", hour(at), log) for at in range(HOURS + 1)]
        for partition in log.hours:
            taken = [one[partition] for _, one in sorted(ranges.items()) if partition in one]
            assert all(before[1] == after[0] for before, after in pairwise(taken)), (taken, cuts)
            if taken:
                known = cuts[0].offsets.get(partition)
                assert taken[0][0] == (0 if known is None else known)
                assert taken[-1][1] == cuts[-1].offsets[partition]


def ranges_plan(end: int = 9, interval: Interval | None = None) -> RangesPlan:
    where = TopicPartition(cluster="c", topic="t", incarnation=1, partition=0)
    named = interval or Interval(start=hour(0), end=hour(1))
    return RangesPlan(source="s", interval=named, ranges=[OffsetRange(topic_partition=where, start=3, end=end)])


def test_the_batch_id_is_the_interval_and_a_digest_of_the_ranges() -> None:
    assert ranges_plan().batch == f"20260301T000000Z-20260301T010000Z_{ranges_plan().digest}"
    assert ranges_plan().batch == ranges_plan().batch
    assert ranges_plan(10).digest != ranges_plan(9).digest
    later = ranges_plan(interval=Interval(start=hour(1), end=hour(2)))
    assert later.digest == ranges_plan().digest
    assert later.batch != ranges_plan().batch


def test_the_instants_zone_does_not_change_the_batch_id() -> None:
    start = datetime.fromisoformat("2026-03-01T02:00:00+02:00")
    other = Interval(start=start, end=start + timedelta(hours=1))
    assert other.name == Interval(start=hour(0), end=hour(1)).name


def test_a_plan_of_ranges_is_put_once_and_read_back(lake: Lake) -> None:
    first = put_plan(lake, ranges_plan(9))
    assert first == ranges_plan(9)
    assert put_plan(lake, ranges_plan(10)) == first, "the interval was planned already"
    assert plan_of(lake, "s", first.batch) == first
    with pytest.raises(StepMissingError):
        plan_of(lake, "s", ranges_plan(10).batch)


def test_ranges_are_empty_when_each_is() -> None:
    assert ranges_plan(3).empty
    assert not ranges_plan(4).empty
    assert RangesPlan(source="s", ranges=[]).empty


@pytest.mark.parametrize("batch", ["", "nonsense", "../../etc_x", "_x"])
def test_what_is_no_batch_id_is_said(lake: Lake, batch: str) -> None:
    with pytest.raises(UsageError, match="is no batch id"):
        plan_of(lake, "s", batch)


def test_no_plan_was_taken_up_in_an_empty_lake(lake: Lake) -> None:
    assert taken_plans(lake, "things") == []
