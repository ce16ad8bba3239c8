"""Cuts and plans of a live source: planned in any order, they leave no gap and no overlap."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold import lake_keys
from onefold.errors import StepMissingError, UsageError
from onefold.lake import Lake
from onefold.landing.cuts import Cut, OffsetRange, clamped, cut_at, known_before, ranges_between
from onefold.landing.edge import oldest_behind
from onefold.landing.looks import NOTHING, Look, keep_look, newest_look
from onefold.landing.plan import Interval, RangesPlan, plan_of, put_plan, taken_plans
from onefold.offsets import Coverage, Present, Range, TopicPartition
from onefold.settings import Settings

P0, P1 = "c/t/1/0", "c/t/1/1"
MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


def hour(number: int) -> datetime:
    return MIDNIGHT + timedelta(hours=number)


@dataclass
class Log:
    """A topic in memory: per partition the records' hours, in the order of their offsets."""

    hours: dict[str, list[int]]
    starts: dict[str, int] = field(default_factory=dict)
    now: datetime = MIDNIGHT + timedelta(days=1)
    asked: int = 0
    lake: Lake | None = None
    """Where its looks are kept; None: they are not."""

    def offsets_at(
        self, instant: datetime, floors: dict[str, int], firsts: dict[str, int]
    ) -> tuple[dict[str, int], dict[str, datetime]]:
        """Of what is there the first offset whose timestamp is at or after the instant and not ahead of the clock,
        else the end; of what is gone and was never below a cut, where it began."""
        self.asked += 1
        found = {}
        for partition, hours in self.hours.items():
            start = max(self.starts.get(partition, 0), floors.get(partition, 0))
            later = (at for at in range(start, len(hours)) if instant <= hour(hours[at]) <= self.now)
            found[partition] = next(later, len(hours))
            if firsts.get(partition, found[partition]) < found[partition] <= self.starts.get(partition, 0):
                found[partition] = firsts[partition]
        return found, {}

    def look(self) -> Look:
        """What is there now, after what was kept of earlier looks."""
        before = known_before(self.lake, "s") if self.lake else NOTHING
        starts = {partition: self.starts.get(partition, 0) for partition in self.hours}
        look = before.then(self.now, starts, {partition: len(hours) for partition, hours in self.hours.items()})
        return keep_look(self.lake, "s", before, look) if self.lake else look

    def happens(
        self,
        arrived: Sequence[tuple[str, int]] = (),
        expired: tuple[str, int] | None = None,
        truncated: tuple[str, int] | None = None,
        passed: int = 0,
    ) -> None:
        """Records arrive, retention takes what lies before an offset, a log loses its newest records, hours pass."""
        for partition, at in arrived:
            self.hours.setdefault(partition, []).append(at)
        if expired:
            partition, before = expired
            start, end = self.starts.get(partition, 0), len(self.hours.get(partition, []))
            self.starts[partition] = max(start, min(before, end))
        if truncated:
            partition, count = truncated
            hours = self.hours.get(partition, [])
            del hours[max(self.starts.get(partition, 0), len(hours) - count) :]
        self.now += timedelta(hours=passed, seconds=1)


def lake_at(folder: Path) -> Lake:
    return Lake(Settings(home=folder))


def test_a_cut_is_made_once_and_then_found(lake: Lake) -> None:
    log = Log({P0: [0, 0, 1, 1, 2]})
    first = cut_at(lake, "s", hour(1), log)
    assert first.offsets == {P0: 2}
    log.hours[P0] = []
    assert cut_at(lake, "s", hour(1), log) == first
    assert log.asked == 1


def test_the_slower_of_two_drivers_takes_the_cut_that_exists(lake: Lake) -> None:
    class Overtaken(Log):
        def offsets_at(
            self, instant: datetime, floors: dict[str, int], firsts: dict[str, int]
        ) -> tuple[dict[str, int], dict[str, datetime]]:
            cut_at(lake, "s", instant, Log({P0: [0, 0, 0]}))  # another driver, meanwhile
            return {P0: 1}, {}

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
    assert clamped(given_, before or {}, after) == wanted


def test_a_new_partition_begins_at_its_logs_start() -> None:
    start = Cut(instant=hour(0), offsets={P0: 3})
    end = Cut(instant=hour(1), offsets={P0: 3, P1: 8}, starts={P0: 0, P1: 2})
    ranges = {range_.topic_partition.key: (range_.start, range_.end) for range_ in ranges_between(start, end)}
    assert ranges == {P0: (3, 3), P1: (2, 8)}
    unknown_start = ranges_between(start, end.model_copy(update={"starts": {}}))
    assert [(range_.start, range_.end) for range_ in unknown_start] == [(3, 3), (0, 8)]


def test_what_expired_after_a_cut_knew_of_it_is_planned(lake: Lake) -> None:
    log = Log({P0: [0]})
    first = cut_at(lake, "s", hour(0), log)
    log.hours[P1] = [0, 0, 1, 1, 2, 2]
    third = cut_at(lake, "s", hour(3), log)
    log.happens(expired=(P1, 5))
    second = cut_at(lake, "s", hour(2), log)
    assert (second.offsets[P1], second.starts[P1]) == (5, 0)
    found = [
        {range_.topic_partition.key: (range_.start, range_.end) for range_ in ranges_between(start, end)}[P1]
        for start, end in pairwise([first, second, third])
    ]
    assert found == [(0, 5), (5, 6)], "a landing sees what is gone"


def test_a_range_never_runs_backwards() -> None:
    # Two drivers that did not see each other may have put crossed cuts: an overlap is harmless, a gap is not.
    start, end = Cut(instant=hour(0), offsets={P0: 9}), Cut(instant=hour(1), offsets={P0: 4})
    assert [(range_.start, range_.end) for range_ in ranges_between(start, end)] == [(9, 9)]


HOURS = 5
PARTITION = st.sampled_from([P0, P1])
STEP = st.fixed_dictionaries(
    {
        "arrived": st.lists(st.tuples(PARTITION, st.integers(0, HOURS + 3)), max_size=6),
        "expired": st.none() | st.tuples(PARTITION, st.integers(1, 8)),
        "truncated": st.none() | st.tuples(PARTITION, st.integers(1, 3)),
        "passed": st.integers(0, 3),
    }
)


@settings(max_examples=150)
@given(st.permutations(range(HOURS)), st.lists(STEP, min_size=HOURS, max_size=HOURS))
def test_plans_made_in_any_order_leave_no_gap_and_no_overlap(order: list[int], steps: list[dict[str, Any]]) -> None:
    """L1, for the plan: between plans records arrive, with timestamps that run backwards or lie ahead of the clock, in
    new partitions; retention takes the logs' starts and unclean elections their ends."""
    with tempfile.TemporaryDirectory() as folder:
        lake = lake_at(Path(folder))
        log = Log({}, now=hour(HOURS), lake=lake)
        ranges: dict[int, dict[str, tuple[int, int]]] = {}
        began: dict[str, int] = {}
        for number, step in zip(order, steps, strict=True):
            log.happens(**step)
            start, end = (cut_at(lake, "s", hour(at), log) for at in (number, number + 1))
            for partition, first in log.look().starts.items():
                began.setdefault(partition, first)
            found = ranges_between(start, end)
            ranges[number] = {range_.topic_partition.key: (range_.start, range_.end) for range_ in found}
        cuts = [cut_at(lake, "s", hour(at), log) for at in range(HOURS + 1)]
        for partition in log.hours:
            taken = [of_cut[partition] for _, of_cut in sorted(ranges.items()) if partition in of_cut]
            assert all(before[1] == after[0] for before, after in pairwise(taken)), (taken, cuts)
            if taken:
                known = cuts[0].offsets.get(partition)
                assert taken[0][0] == (min(began[partition], taken[0][1]) if known is None else known)
                assert taken[-1][1] == cuts[-1].offsets[partition]


def test_what_was_seen_before_an_instant_lies_before_its_cut_whatever_the_timestamps_say(lake: Lake) -> None:
    log = Log({P0: [0, 3, 1, 1]}, now=hour(2) - timedelta(seconds=9), lake=lake)  # the second one's clock is ahead
    log.look()
    log.happens(arrived=[(P0, 2), (P0, 3), (P0, 5)], passed=2)
    assert cut_at(lake, "s", hour(2), log).offsets == {P0: 4}, "all four were there at two o'clock"
    assert cut_at(lake, "s", hour(3), log).offsets == {P0: 5}
    assert cut_at(lake, "s", hour(1), log).offsets == {P0: 1}, "no run had looked by then"


def test_what_was_seen_and_has_expired_belongs_to_an_interval(lake: Lake) -> None:
    """No cut is known before: what is gone cannot be dated, and counts in the first interval that is planned."""
    log = Log({P0: [0] * 8}, lake=lake)
    last = cut_at(lake, "s", hour(11), log)
    assert (last.offsets, last.starts) == ({P0: 8}, {P0: 0})
    log.happens(expired=(P0, 8))
    first, second = (cut_at(lake, "s", hour(at), log) for at in (9, 10))
    found = [
        [(range_.start, range_.end) for range_ in ranges_between(*pair)] for pair in ((first, second), (second, last))
    ]
    assert found == [[(0, 8)], [(8, 8)]]


def test_a_log_that_is_gone_is_planned_up_to_where_it_was_seen_and_named_once(lake: Lake) -> None:
    log = Log({P0: [0, 0]}, now=hour(1) - timedelta(seconds=9), lake=lake)
    cuts = [cut_at(lake, "s", hour(at), log) for at in (0, 1)]
    log.happens(arrived=[(P0, 1)], passed=1)
    log.look()
    del log.hours[P0]
    log.happens(arrived=[(P1, 2)], passed=2)
    cuts += [cut_at(lake, "s", hour(at), log) for at in (2, 3, 4)]
    assert [cut.gone for cut in cuts] == [[], [], [P0], [P0], [P0]]
    found = [
        {range_.topic_partition.key: (range_.start, range_.end) for range_ in ranges_between(start, end)}
        for start, end in pairwise(cuts)
    ]
    assert found[1][P0] == (2, 3), "seen at two o'clock, and never read"
    assert found[2] == {P0: (3, 3), P1: (0, 1)}


def test_a_look_is_kept_only_where_something_has_changed(lake: Lake) -> None:
    log = Log({P0: [0]}, lake=lake)
    first = log.look()
    log.happens(passed=1)
    assert log.look() == first
    log.happens(arrived=[(P0, 1)], expired=(P0, 1), passed=1)
    second = log.look()
    assert (second.starts, second.ends) == ({P0: 0}, {P0: 2}), "where it began is not forgotten"
    assert newest_look(lake, "s") == second
    assert newest_look(lake, "s", first.at) == first
    assert newest_look(lake, "s", first.at - timedelta(seconds=1)) is None


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


def test_no_two_intervals_share_a_batch_id() -> None:
    halves = [hour(0), hour(0) + timedelta(milliseconds=500), hour(0) + timedelta(seconds=1)]
    assert len({Interval(start=start, end=end).name for start, end in combinations(halves, 2)}) == 3


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


def test_the_oldest_record_behind_a_cut_is_one_that_the_table_lacks(tmp_path: Path) -> None:
    """Of the partitions of which another batch has brought what comes after the cut, nothing is behind."""
    lake = Lake(Settings(home=tmp_path))
    plan = RangesPlan(source="s", interval=Interval(start=hour(1), end=hour(2)), ranges=[])
    behind = {P0: hour(0), P1: hour(1)}
    lake.put_first(
        lake_keys.cut("s", hour(2)), Cut(instant=hour(2), offsets={P0: 5, P1: 7}, starts={}, held_back=behind)
    )

    def find_oldest(held_back: dict[str, datetime], **covered: list[Range]) -> datetime | None:
        partitions = {{"p0": P0, "p1": P1}[name]: Present(present=ranges) for name, ranges in covered.items()}
        return oldest_behind(lake, plan.model_copy(update={"held_back": held_back}), Coverage(partitions=partitions))

    assert find_oldest(behind) == hour(0)
    assert find_oldest(behind, p0=[(0, 5)]) == hour(0)
    assert find_oldest(behind, p0=[(0, 6)]) == hour(1)
    assert find_oldest(behind, p0=[(0, 6)], p1=[(7, 8)]) is None
    assert find_oldest({}) is None
