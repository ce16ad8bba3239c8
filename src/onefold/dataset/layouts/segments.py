"""Layout segments: a broker's own log segments, from its disk or from tiered storage."""

from __future__ import annotations

import re
from typing import ClassVar

from onefold.dataset.layouts.layout import Layout

_NEXT_TO_SEGMENTS = re.compile(
    r"(?:^|/)(?:\d{20}(?:-[a-zA-Z0-9_-]{22})?\.(?:index|timeindex|txnindex|snapshot|indexes|rsm-manifest)"
    r"|leader-epoch-checkpoint|partition\.metadata)$"
)
"""What a broker keeps next to its segments, which hold all of it themselves."""


class SegmentsLayout(Layout):
    """On a broker's disk `orders-0/00000000000000000042.log`; in tiered storage with a topic's and a segment's id."""

    name = "segments"
    names = re.compile(
        r"(?:^|/)(?P<topic>[a-zA-Z0-9._-]{1,249}?)-(?:(?P<partition>\d+)|[a-zA-Z0-9_-]{22}/(?P<tiered>\d+))"
        r"/(?P<start>\d{20})(?:-[a-zA-Z0-9_-]{22})?\.log$"
    )
    shows_log = True
    refused_holes: ClassVar = {"transactional": "segments hold markers and aborted records themselves"}

    def position_of(self, name: str) -> tuple[str, int, int] | None:
        """Topic, partition and first offset of a segment, by its name."""
        match = self.names.search(name)
        return (match["topic"], int(match["partition"] or match["tiered"]), int(match["start"])) if match else None

    def is_ignored(self, name: str) -> bool:
        """Whether an object is neither a segment nor what a broker keeps next to it."""
        return super().is_ignored(name) and not _NEXT_TO_SEGMENTS.search(name)


SEGMENTS = SegmentsLayout()
