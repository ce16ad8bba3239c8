"""Which decided conflicts are in force: of the chain, pinned for a rebuild, of keys that were forgotten. No Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from onefold.decisions import (
    DecidedConflict,
    DecidedConflicts,
    Discard,
    LostContent,
    Mark,
    Release,
    Undone,
    Waiver,
    record,
)
from onefold.decisions.conflicts import (
    conflicts_in_force,
    conflicts_named,
    lost_contents,
    pin_conflicts,
    put_conflicts,
)
from onefold.errors import LandedBytesMissingError
from onefold.lake import Lake

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
X, Y = (DecidedConflict(key=key, version=None, winner="aa", losers=["bb", "cc"]) for key in ("01", "02"))


def decided(*conflicts: DecidedConflict, attempt: str = "cafe", marks: tuple[str, ...] = ()) -> DecidedConflicts:
    return DecidedConflicts(batch="b", attempt=attempt, released=NOON, marks=list(marks), conflicts=list(conflicts))


def release(check: str = "conflicts", number: int = 1, at: datetime = NOON) -> Release:
    waivers = [Waiver(check=check, value="1", digest="0a")]
    given = {"by": "mia", "reason": "known", "at": at, "attempt": "cafe", "waivers": waivers}
    return Release(dataset="d", batch="b", number=number, **given)


@pytest.mark.parametrize(
    ("check", "accepts"),
    [("conflicts", True), ("conflicts, reused identities included", True), ("duplicate_rate", False)],
)
def test_a_release_decides_conflicts_where_it_waives_them(check: str, accepts: bool) -> None:
    assert release(check).accepts_conflicts is accepts


def test_what_a_commit_record_names_is_in_force(lake: Lake) -> None:
    put_conflicts(lake, "d", decided(X))
    put_conflicts(lake, "d", decided(Y, attempt="beef"))
    assert conflicts_in_force(lake, "d", {}) == []
    assert conflicts_in_force(lake, "d", {"cafe": "b"}) == conflicts_named(lake, "d", {"cafe": "b"}) == [decided(X)]
    with pytest.raises(LandedBytesMissingError, match="what was decided of conflicts is gone"):
        conflicts_named(lake, "d", {"gone": "b"})


def test_what_is_pinned_counts_as_long_as_its_release_does_and_its_batch_is_folded(lake: Lake) -> None:
    put_conflicts(lake, "d", decided(X))
    pin_conflicts(lake, "d", {"cafe": "b"})
    pin_conflicts(lake, "d", {"cafe": "b"})
    assert conflicts_in_force(lake, "d", {}) == [], "there is no release"
    record(lake, release())
    assert conflicts_in_force(lake, "d", {}) == conflicts_in_force(lake, "d", {"cafe": "b"}) == [decided(X)]
    assert conflicts_in_force(lake, "d", {}, left_out=["b"]) == []
    record(lake, release(number=2, at=NOON + timedelta(hours=1)))
    assert conflicts_in_force(lake, "d", {}) == [decided(X)], "a release of what else is red takes nothing back"
    given = {"dataset": "d", "batch": "b", "by": "mia", "reason": "no", "at": NOON}
    record(lake, Undone(number=3, to="a", **given))
    assert conflicts_in_force(lake, "d", {}) == [], "a rollback has undone the batch"
    record(lake, release(number=4))
    assert conflicts_in_force(lake, "d", {}) == [decided(X)], "the rollback moved nothing, and the release is back"
    record(lake, Discard(number=5, **given))
    record(lake, release(number=6, at=NOON + timedelta(hours=2)))
    assert conflicts_in_force(lake, "d", {}) == [], "another release was found right since"
    assert conflicts_in_force(lake, "d", {"cafe": "b"}) == [decided(X)], "the chain names it"


def test_nothing_is_decided_for_a_key_that_was_forgotten_since() -> None:
    marks = {
        name: Mark(batch=name, attempt="a", keys=[key], partitions={}, lines={})
        for name, key in (("f", "01"), ("g", "02"))
    }
    lost = [LostContent(key, None, content) for key in ("01", "02") for content in ("bb", "cc")]
    assert lost_contents([decided(X, Y)], {}) == lost
    assert lost_contents([decided(X, Y)], marks) == []
    assert lost_contents([decided(X, Y, marks=("f",))], marks) == lost[:2], "decided of the key as it came back"
