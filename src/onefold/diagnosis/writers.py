"""What the newest record batches of a topic show of those who write it: evidence, no judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from onefold.diagnosis.facts import Facts
from onefold.kafka.condition import RecordBatch


@dataclass(frozen=True, slots=True)
class Writers:
    """The newest record batches of one topic; markers are not counted."""

    topic: str
    partitions: int
    batches: int
    records: int
    without_id: int
    """Batches whose producer has no id: it is not idempotent."""
    transactional: int
    """Batches of transactions."""
    producers: int
    """Producer ids."""
    epochs: int
    """Producer ids with their epochs."""
    codecs: Mapping[str, int]
    """Batches by compression."""
    append_time: int
    """Batches that the broker's clock has stamped."""
    since: datetime | None
    """The timestamp of the oldest of them."""


def writers_of(facts: Facts) -> tuple[Writers, ...]:
    """A topic each, by name."""
    topics: dict[str, list[RecordBatch]] = {}
    for batch in facts.written:
        topics.setdefault(batch.topic, []).append(batch)
    return tuple(_writers(topic, of) for topic, of in sorted(topics.items()))


def _writers(topic: str, of: list[RecordBatch]) -> Writers:
    sessions = {(batch.producer, batch.epoch) for batch in of if batch.producer >= 0}
    return Writers(
        topic=topic,
        partitions=len({batch.partition for batch in of}),
        batches=len(of),
        records=sum(batch.records for batch in of),
        without_id=sum(batch.producer < 0 for batch in of),
        transactional=sum(batch.transactional for batch in of),
        producers=len({producer for producer, _ in sessions}),
        epochs=len(sessions),
        codecs=dict(sorted(Counter(batch.codec for batch in of).items())),
        append_time=sum(batch.append_time for batch in of),
        since=min((batch.newest for batch in of if batch.newest), default=None),
    )
