"""Records that wait for a version, and for how long.

A batch that accepts a gap or forgets keys is not judged by what it leaves waiting.
"""

from __future__ import annotations

from onefold.quality.checks.check import Measurement
from onefold.quality.checks.facts import BranchFacts


def age(facts: BranchFacts) -> Measurement | None:
    """Seconds between the oldest held record and the newest record of the batch."""
    limit, oldest, newest = facts.dataset.quality.max_held_age, facts.oldest_held, facts.upserted.newest
    if facts.bare or not limit or oldest is None or newest is None:
        return None
    return Measurement(max(0.0, (newest - oldest) / 1000), limit.total_seconds(), first=facts.first_held)


def count(facts: BranchFacts) -> Measurement | None:
    """Records that wait in the table."""
    limit = facts.dataset.quality.max_held
    if facts.bare or limit is None or facts.held is None:
        return None
    return Measurement(facts.held, limit, first=facts.first_held)


def limit_exceeded(facts: BranchFacts) -> bool:
    """Whether a check of this file fails: then the oldest held records are worth a query."""
    return any(measured is not None and not measured.passed for measured in (age(facts), count(facts)))
