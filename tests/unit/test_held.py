"""Of a version that a held record waits for: which record has it, and what became of that."""

from __future__ import annotations

from typing import Any

from onefold.report.held import seen_in, seen_in_words

MISSING = [(2, 3), (5, 7)]


def row(offset: int, version: str | None, verdict: str, reason: str, **more: Any) -> dict[str, Any]:
    """A verdict of batch b1 that is published, unless said."""
    place = {"cluster": "c", "topic": "t", "incarnation": 1, "partition": 0, "offset": offset}
    given = {"version": version, "verdict": verdict, "reason": reason, "detail": None, "batch": "b1", "published": True}
    return place | given | more


def describe_seen(*rows: dict[str, Any]) -> list[str]:
    return [seen_in_words(found) for found in seen_in(rows, MISSING)]


def test_records_with_a_missing_version_are_named_and_no_others() -> None:
    assert describe_seen(
        row(0, "1", "applied", "insert"),
        row(1, "6", "rejected", "wrong_type"),
        row(2, "2", "filtered", "filter"),
        row(3, "4", "held", "version_gap"),
        row(4, "7", "skipped", "decision"),
        row(5, "5", "skipped", "decision"),
    ) == [
        "version 2 is at t-0@2: filtered/filter",
        "version 5 is at t-0@5: skipped/decision",
        "version 6 is at t-0@1: rejected/wrong_type",
    ]


def test_what_was_taken_out_and_has_no_version_may_be_it_and_comes_last() -> None:
    assert describe_seen(
        row(0, None, "rejected", "undecodable"),
        row(1, None, "rejected", "forgotten"),
        row(2, None, "control", "tombstone"),
        row(3, "2", "rejected", "missing_field"),
    ) == [
        "version 2 is at t-0@3: rejected/missing_field",
        "a version that cannot be read is at t-0@0: rejected/undecodable",
    ]
    assert seen_in([row(0, None, "rejected", "undecodable")], []) == [], "nothing is missing"


def test_the_last_verdict_of_a_record_that_was_judged_again_counts() -> None:
    """A rejected record that a replay has applied is no missing version; one that was received again is the first."""
    assert describe_seen(row(0, None, "rejected", "unknown_schema"), row(0, "1", "applied", "insert", batch="b2")) == []
    assert describe_seen(row(0, "2", "rejected", "wrong_type"), row(0, "2", "duplicate", "position", batch="b2")) == [
        "version 2 is at t-0@0: rejected/wrong_type"
    ]


def test_a_version_in_a_red_batch_is_named_with_the_batch() -> None:
    waiting = row(0, "2", "applied", "update", batch="b2", published=False)
    assert describe_seen(waiting) == ["version 2 is at t-0@0: applied/update in batch b2, which is not published"]
    rejected = row(0, "2", "rejected", "wrong_type")
    assert describe_seen(rejected, waiting) == ["version 2 is at t-0@0: rejected/wrong_type"], (
        "the published verdict counts"
    )


def test_a_record_without_a_position_is_named_by_its_verdict() -> None:
    nowhere = {"topic": None, "partition": None, "offset": None}
    assert describe_seen(row(0, "2", "rejected", "wrong_type") | nowhere) == [
        "version 2 is at no known position: rejected/wrong_type"
    ]
