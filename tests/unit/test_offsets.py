"""The algebra of offset ranges against Python's sets, and the laws of coverage."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from onefold.offsets import Coverage, Present, Range, TopicPartition, meet, merged, minus, newest_of, size

RANGES = st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), max_size=6)
KINDS = ("aborted", "compacted", "transactional")


def offsets(ranges: list[Range]) -> set[int]:
    """The offsets one by one."""
    return {offset for start, end in ranges for offset in range(start, end)}


def canonical(ranges: list[Range]) -> bool:
    """Sorted, none empty, none touching the next."""
    ends = [edge for range_ in ranges for edge in range_]
    return all(low < high for low, high in pairwise(ends))


@given(RANGES)
def test_merged_is_the_union_in_canonical_form(ranges: list[Range]) -> None:
    out = merged(ranges)
    assert offsets(out) == offsets(ranges)
    assert canonical(out)
    assert size(out) == len(offsets(ranges))


@given(RANGES, RANGES)
def test_minus_is_the_difference(ranges: list[Range], taken: list[Range]) -> None:
    out = minus(ranges, taken)
    assert offsets(out) == offsets(ranges) - offsets(taken)
    assert canonical(out)


@given(RANGES, RANGES)
def test_meet_is_the_intersection(ranges: list[Range], others: list[Range]) -> None:
    out = meet(ranges, others)
    assert offsets(out) == offsets(ranges) & offsets(others)
    assert canonical(out)


def some_present(kinds: tuple[str, ...]) -> st.SearchStrategy[Present]:
    """A partition's coverage: of an offset one thing is known, or nothing."""

    def build(flags: list[int]) -> Present:
        names = dict(enumerate(kinds, 3))
        held, left = (merged((at, at + 1) for at, flag in enumerate(flags) if flag == number) for number in (1, 2))
        holes = [
            (start, end, kind)
            for number, kind in names.items()
            for start, end in merged((at, at + 1) for at, flag in enumerate(flags) if flag == number)
        ]
        return Present(present=held, holes=sorted(holes), uncovered=left)

    return st.lists(st.integers(0, len(kinds) + 2), max_size=10).map(build)


PRESENTS = some_present(KINDS)
LINES = frozenset(range(5))


def some_coverage(partitions: dict[str, Present], used: dict[str, set[int]]) -> Coverage:
    """Of each object, these lines are used and the others refused."""
    left = {digest: merged((line, line + 1) for line in LINES - lines) for digest, lines in used.items()}
    refused = {digest: ranges for digest, ranges in left.items() if ranges}
    return Coverage(partitions=partitions, objects=dict.fromkeys(sorted(used), 5), refused=refused)


COVERAGES = st.builds(
    some_coverage,
    partitions=st.dictionaries(st.sampled_from(["c/t/1/0", "c/t/1/1", "c/t/2/0"]), PRESENTS, max_size=3),
    used=st.dictionaries(st.sampled_from(["d1", "d2", "d3"]), st.sets(st.sampled_from(sorted(LINES))), max_size=3),
)


def by_offset(present: Present) -> dict[int, str]:
    """What each offset is."""
    holes = {offset: kind for start, end, kind in present.holes for offset in range(start, end)}
    landed = dict.fromkeys(offsets(present.uncovered), "uncovered") | dict.fromkeys(offsets(present.present), "present")
    return holes | landed


@given(PRESENTS, PRESENTS)
def test_an_offset_is_landed_or_a_hole_and_landed_wins(first: Present, other: Present) -> None:
    both = first.with_(other)
    assert by_offset(both).keys() == by_offset(first).keys() | by_offset(other).keys()
    assert offsets(both.present) == offsets(first.present) | offsets(other.present)
    holes = [(start, end) for start, end, _ in both.holes]
    assert offsets(both.landed) == offsets(first.landed) | offsets(other.landed)
    assert not offsets(both.uncovered) & offsets(both.present)
    assert not offsets(holes) & offsets(both.landed)
    assert size(holes) == len(offsets(holes)), "no offset is two holes"
    assert offsets(both.covered) == by_offset(both).keys() - offsets(both.uncovered)
    for offset, kind in by_offset(both).items():
        assert kind in {by_offset(first).get(offset), by_offset(other).get(offset)}


@given(COVERAGES, COVERAGES)
def test_coverage_is_commutative(first: Coverage, other: Coverage) -> None:
    assert meaning(first.with_(other)) == meaning(other.with_(first))


@given(COVERAGES, COVERAGES, COVERAGES)
def test_coverage_is_associative(first: Coverage, other: Coverage, third: Coverage) -> None:
    assert meaning(first.with_(other).with_(third)) == meaning(first.with_(other.with_(third)))


@given(COVERAGES, COVERAGES)
def test_coverage_is_idempotent(first: Coverage, other: Coverage) -> None:
    assert meaning(first.with_(first)) == meaning(first)
    assert meaning(first.with_(other).with_(other)) == meaning(first.with_(other))
    assert first.with_(other).with_(other) == first.with_(other), "byte for byte: commit records are compared"


def meaning(coverage: Coverage) -> tuple[dict[str, dict[int, str]], dict[str, set[int]]]:
    return {key: by_offset(present) for key, present in coverage.partitions.items()}, used_lines(coverage)


def used_lines(coverage: Coverage) -> dict[str, set[int]]:
    return {digest: set(LINES) - offsets(coverage.refused.get(digest, [])) for digest in coverage.objects}


@given(COVERAGES, COVERAGES)
def test_a_line_of_an_object_is_covered_where_either_covers_it(first: Coverage, other: Coverage) -> None:
    mine, theirs = used_lines(first), used_lines(other)
    wanted = {digest: mine.get(digest, set()) | theirs.get(digest, set()) for digest in mine.keys() | theirs.keys()}
    assert used_lines(first.with_(other)) == wanted


@given(COVERAGES)
def test_a_coverage_is_read_back_from_its_json(coverage: Coverage) -> None:
    assert Coverage.model_validate_json(coverage.model_dump_json()) == coverage


def test_a_partition_is_read_back_from_its_key() -> None:
    partition = TopicPartition(cluster="prod", topic="payments.entries", incarnation=2, partition=17)
    assert partition.key == "prod/payments.entries/2/17"
    assert TopicPartition.of(partition.key) == partition
    odd = partition.model_copy(update={"topic": "a/b//3/"})  # no broker has it, but a line of an export may say it
    assert TopicPartition.of(odd.key) == odd


@given(st.dictionaries(st.integers(0, 9), st.tuples(st.integers(0, 24), st.integers(0, 24)).map(sorted).map(tuple)))
def test_what_a_short_log_does_not_give_of_the_newest_the_others_do(logs: dict[int, Range]) -> None:
    full = {name for name, (start, end) in logs.items() if end > start}
    there = sum(logs[name][1] - logs[name][0] for name in full)
    for count in (len(full), 17, 1000):
        found = newest_of(logs, count)
        assert all(start >= logs[name][0] and end == logs[name][1] for name, (start, end) in found.items())
        assert set(found) == full, "each has a say"
        assert size(found.values()) == min(there, max(count, len(full)))


def test_one_long_log_among_empty_ones_gives_all() -> None:
    assert newest_of({0: (0, 0), 1: (5, 205), 2: (7, 7)}, 100) == {1: (105, 205)}
