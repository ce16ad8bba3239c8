"""The newest record batches of a log, by their headers: who wrote them, and how. Nothing is decompressed.

It costs no more on a long log than on a short log: a few fetches from each of a few partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from onefold.instants import stamped
from onefold.kafka.condition import NewestBatches, PartitionCondition, RecordBatch, TopicCondition
from onefold.kafka.connection import ClientSettings
from onefold.kafka.record_batches import SIZE, Header, header_at

if TYPE_CHECKING:
    from onefold.kafka.raw_log import RawLog

PARTITIONS = 10
"""Of how many partitions the newest batches are looked at: those with the most records."""
OFFSETS = 500
"""How far back from the end of a partition."""
FETCH, FETCHES = 256 << 10, 4
"""Bytes of a fetch, and how many a partition is worth."""
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SOME = "only {} of {} partitions were looked at"
"""What is said where not all partitions were."""


def newest_of_topics(settings: ClientSettings, topics: Sequence[TopicCondition]) -> NewestBatches:
    """Those of live topics, uncommitted ones too; and the first of an open transaction, however far back it is."""
    from onefold.kafka.raw_log import NoEvidenceError, RawLog

    there = [
        (topic.name, partition)
        for topic in topics
        for partition in topic.partitions
        if partition.has_leader and partition.end > partition.start
    ]
    chosen = sorted(there, key=lambda entry: (entry[1].start - entry[1].end, entry[0], entry[1].number))[:PARTITIONS]
    found: list[RecordBatch] = []
    unseen = SOME.format(len(chosen), len(there)) if len(chosen) < len(there) else ""
    with RawLog(settings) as log:
        for topic, partition in chosen:
            try:
                found += _newest(log, topic, partition)
            except NoEvidenceError as error:
                unseen = f"{topic}, partition {partition.number}: {error}"
    return NewestBatches(tuple(found), unseen)


def _newest(log: RawLog, topic: str, of: PartitionCondition) -> Iterator[RecordBatch]:
    """Raises `NoEvidenceError`."""
    at = max(of.start, of.end - OFFSETS)
    if of.stable < min(at, of.end):
        first = headers_of(log.fetch(topic, of.number, of.stable, SIZE, committed=False).records)
        yield from (described(topic, of.number, header) for header in list(first)[:1])
    for _ in range(FETCHES):
        if at >= of.end:
            return
        headers = list(headers_of(log.fetch(topic, of.number, at, FETCH, committed=False).records))
        if not headers or headers[-1].end <= at:
            return
        yield from (described(topic, of.number, header) for header in headers)
        at = headers[-1].end


def headers_of(data: bytes) -> Iterator[Header]:
    """The headers of whole batches that lie one behind the other; the last may be torn."""
    at = 0
    while at + SIZE <= len(data):
        header = header_at(data, at)
        if header.length <= 0 or at + header.size > len(data):
            return
        # A message of format version 0 or 1 has no more in common with a batch than its offset, length and version.
        yield header if header.magic >= 2 else _old(header)
        at += header.size


def _old(header: Header) -> Header:
    none = {"attributes": 0, "last_delta": 0, "max_timestamp": -1, "producer": -1, "epoch": -1, "sequence": -1}
    return header._replace(records=1, **none)


def described(topic: str, partition: int, header: Header) -> RecordBatch:
    """What the header of a record batch says."""
    stamp, codec = header.max_timestamp, header.attributes & 7
    return RecordBatch(
        topic,
        partition,
        header.base,
        header.producer,
        header.epoch,
        header.sequence,
        header.transactional,
        header.control,
        header.records,
        CODECS[codec] if codec < len(CODECS) else str(codec),
        header.append_time,
        stamped(stamp),
    )
