"""Looks: what runs have seen of a live source, kept also where nothing was new.

What was in a log when a run looked lies before every cut from that instant on, whatever its timestamp says. What was
seen and is gone is a loss, also in partitions that were empty and in topics that were deleted.
"""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.lake import Lake


class Look(BaseModel):
    """Where the logs of a source began and ended at an instant, and what earlier looks knew of those that are gone."""

    model_config = ConfigDict(frozen=True)

    at: datetime
    starts: dict[str, int] = Field(description="TopicPartition.key to where its log, or its landing, first began")
    ends: dict[str, int] = Field(description="Its last stable offset; of a log that is gone the last that was seen")
    gone: dict[str, datetime] = Field(default={}, description="When a log was seen last that is not there any more")

    def same_as(self, other: Look) -> bool:
        """Whether both saw the same."""
        return (self.starts, self.ends, self.gone) == (other.starts, other.ends, other.gone)

    def then(self, at: datetime, starts: dict[str, int], ends: dict[str, int]) -> Look:
        """The next look, at logs that begin and end there now."""
        gone = {key: self.gone.get(key, self.at) for key in self.starts if key not in ends}
        known = {key: min(start, self.starts.get(key, start)) for key, start in starts.items()}
        return Look(at=at, starts=self.starts | known, ends=self.ends | ends, gone=gone)


NOTHING = Look(at=datetime.min.replace(tzinfo=UTC), starts={}, ends={})
"""What is known of a source that no run has looked at."""


def newest_look(lake: Lake, source: str, until: datetime | None = None) -> Look | None:
    """The newest look at a source, of those at or before an instant; None where there is none."""
    prefix = lake_keys.looks(source)
    limit = lake_keys.look(source, until) if until else None
    names = (info.key for info in lake.storage.list(prefix))
    newest = max((name for name in names if limit is None or name <= limit), default=None)
    return lake.get(newest, Look) if newest else None


def keep_look(lake: Lake, source: str, before: Look, look: Look) -> Look:
    """Keep a look, unless the newest look before it saw the same; the look that is kept."""
    if look.same_as(before):
        return before
    lake.put_first(lake_keys.look(source, look.at), look)
    return look
