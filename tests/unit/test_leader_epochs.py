"""Whether a log was cut below what was landed of it, as its leader epochs tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from onefold.landing.leader_epochs import Marks, marked, replaced, suspected


def test_only_a_log_that_has_had_another_leader_is_asked_about() -> None:
    marks: dict[str, Marks] = {"same": {3: 10}, "other": {3: 10}, "gone": {1: 5}}
    assert suspected(marks, {"same": 3, "other": 4, "new": 1}) == {"other": {3: 10}}


def test_a_later_mark_tells_for_an_earlier_one_that_is_not_higher() -> None:
    assert marked({}, 0, 5, []) == {0: 5}
    assert marked({0: 5}, 0, 3, []) == {0: 5}
    assert marked({0: 5}, 2, 9, []) == {2: 9}
    assert marked({2: 9}, 3, 4, []) == {2: 9, 3: 4}  # a backfill of old offsets


def test_an_unknown_epoch_is_no_cut() -> None:
    assert replaced({1: 10}, 4, lambda _: None) == []
    assert replaced({1: 10}, 1, lambda _: 0) == []


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(1, 3)),
        st.tuples(st.just("land"), st.integers(0, 3)),
        st.tuples(st.just("elect"), st.integers(0, 4)),
    ),
    max_size=25,
)


@given(EVENTS)
def test_a_cut_names_what_was_landed_and_is_gone_from_the_log(events: list[tuple[str, int]]) -> None:
    """A log in memory: each record knows itself. What landings read is compared with what the log holds then."""
    log: list[object] = []
    begins = {0: 0}  # epoch to its first offset
    epoch, marks, end = 0, Marks(), 0
    landed: dict[int, object] = {}
    gone: set[int] = set()
    for what, number in events:
        if what == "write":
            log += [object() for _ in range(number)]
        elif what == "elect":  # unclean, if it loses some of the tail
            del log[max(0, len(log) - number) :]
            begins = {number: start for number, start in begins.items() if start < len(log) or number == 0}
            epoch += 1
            begins[epoch] = len(log)
        elif len(log) > end:  # land what is new, all but a few
            new = range(end, max(end + 1, len(log) - number))
            cuts = replaced(marks, epoch, lambda asked, at=dict(begins), log=tuple(log): _end(at, asked, len(log)))  # type: ignore[misc]
            changed = {at for at, record in landed.items() if at >= len(log) or log[at] is not record}
            named = {at for low, high in cuts for at in range(low, high)}
            # A cut deeper than one before it names again what is gone since that one; no cut is named without its own.
            assert changed <= named <= changed | gone
            assert bool(named) == bool(changed)
            gone |= changed
            marks = marked(marks, epoch, new.stop, cuts)
            landed = {at: record for at, record in landed.items() if at not in changed} | {at: log[at] for at in new}
            end = new.stop


def _end(begins: dict[int, int], epoch: int, length: int) -> int:
    """Where the log's part of an epoch, or of the last one before it, ends."""
    later = [start for number, start in begins.items() if number > epoch]
    return min(later, default=length)
