"""How old the newest record is that the table has, at the live edge; and whether timestamps can be right."""

from __future__ import annotations

from datetime import datetime, timedelta

from onefold.quality.checks.check import Measurement
from onefold.quality.checks.facts import BranchFacts


def seconds_old(
    edge: datetime, now: datetime, limit: timedelta, newest: int | None, oldest_behind: datetime | None
) -> float | None:
    """How old a table is at the live edge: seconds between `edge`, the instant up to which its source was read, and the
    newest record that is applied, superseded or held (milliseconds since 1970), or the oldest record that is held back
    behind the edge, if that is older. None: it is not the live edge at `now`, or there is no such record."""
    stamps = [] if newest is None else [newest / 1000]
    if oldest_behind is not None:
        stamps.append(oldest_behind.timestamp())
    if not stamps or now - edge > 2 * limit:
        return None
    return max(0.0, edge.timestamp() - min(stamps))


def age(facts: BranchFacts) -> Measurement | None:
    """`seconds_old` of the branch: the newest record may be of the batch, or of what the table has. It applies at the
    live edge."""
    limit = facts.dataset.quality.freshness
    if facts.edge is None or limit is None:
        return None
    stamps = [stamp for stamp in (facts.upserted.newest_used, facts.newest_before) if stamp is not None]
    newest = max(stamps, default=None)
    seconds = seconds_old(facts.edge, facts.judged, limit, newest, facts.oldest_behind)
    if seconds is None:
        return None
    way_out = (
        "look for a producer or an export that stopped, or for a filter that leaves out what is new: only records that "
        "are applied, superseded or held make a table fresh. quality.freshness is the limit"
    )
    if facts.oldest_behind is not None:
        way_out += (
            f". Records since {facts.oldest_behind:%Y-%m-%dT%H:%M:%SZ} are held back behind the interval's end, by an "
            "open transaction or a clock that runs ahead (check held_back)"
        )
    return Measurement(seconds, limit.total_seconds(), way_out=way_out)


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
