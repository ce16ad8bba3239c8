"""How old the newest record is, at the live edge."""

from __future__ import annotations

from onefold.quality.checks.check import Measurement
from onefold.quality.checks.facts import BranchFacts


def age(facts: BranchFacts) -> Measurement | None:
    """Seconds between the end of an interval that has just ended and its newest record. It applies at the live edge."""
    end, limit, newest = facts.interval_end, facts.dataset.quality.freshness, facts.upserted.newest
    if end is None or limit is None or newest is None or facts.judged - end > 2 * limit:
        return None
    return Measurement(max(0.0, end.timestamp() - newest / 1000), limit.total_seconds())
