"""How old the newest record is, at the live edge; and whether its timestamp can be right."""

from __future__ import annotations

from onefold.quality.checks.check import Measurement
from onefold.quality.checks.facts import BranchFacts


def age(facts: BranchFacts) -> Measurement | None:
    """Seconds between the end of an interval that has just ended and its newest record. It applies at the live edge."""
    end, limit, newest = facts.interval_end, facts.dataset.quality.freshness, facts.upserted.newest
    if end is None or limit is None or newest is None or facts.judged - end > 2 * limit:
        return None
    return Measurement(max(0.0, end.timestamp() - newest / 1000), limit.total_seconds())


def ahead(facts: BranchFacts) -> Measurement | None:
    """Seconds by which the newest log timestamp is ahead of the clock, where versions are compared with it or made of
    it."""
    limit, newest = facts.dataset.max_ahead, facts.upserted.newest
    if limit is None or newest is None:
        return None
    return Measurement(
        max(0.0, newest / 1000 - facts.judged.timestamp()),
        limit.total_seconds(),
        first=facts.ahead,
        way_out="a clock was wrong: the producer's, or with message.timestamp.type=LogAppendTime the broker's. A "
        "version from such a timestamp stays the greatest of its key, and one that is compared with it is not limited: "
        "correct the clock, and skip the batch, or waive the check if the rows are right",
    )
