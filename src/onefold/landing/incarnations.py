"""Incarnations: a topic that was deleted and created again is another topic, though its name is the same."""

from __future__ import annotations

from datetime import UTC, datetime

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.lake import Lake


class Incarnation(BaseModel):
    """The n-th topic of a name on a cluster."""

    model_config = ConfigDict(frozen=True)

    topic_id: str = Field(description="As the cluster made it")
    seen: datetime


def incarnation_of(lake: Lake, cluster: str, topic: str, topic_id: str, *, dry_run: bool = False) -> int:
    """The number of a topic id among those seen under its name, from 1; a new id is written down (put-if-absent)."""
    number = 1
    while True:
        key = lake_keys.incarnation(cluster, topic, number)
        seen = lake.get(key, Incarnation)
        if seen is None and not dry_run:
            seen = lake.put_first(key, Incarnation(topic_id=topic_id, seen=datetime.now(UTC)))
        if seen is None or seen.topic_id == topic_id:
            return number
        number += 1
