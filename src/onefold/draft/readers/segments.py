"""A sample of raw log segments: committed records from a segment's end, and the offsets that hold something else."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from onefold.dataset.layouts.segments import SEGMENTS
from onefold.draft.readers.reader import Companions, DraftReader, Reading
from onefold.draft.sample import Item
from onefold.formats.text import binary_pairs, text_of
from onefold.kafka.batch_records import parse
from onefold.kafka.record import Record
from onefold.kafka.segment_index import Marker, Scan, scan
from onefold.kafka.transactions import END, Knowledge, resolve
from onefold.offsets import Range, minus
from onefold.storage import ObjectInfo, Storage

SCANNED = 256 << 20
"""Bytes of a segment that are looked through: where a batch begins is known only from those before."""


def of_segment(store: Storage, object_: ObjectInfo) -> Iterator[Item]:
    """What the first `SCANNED` bytes of a segment hold: None for what is damaged, then, the last first, records and
    the positions of what is none.

    A marker is no record, nor is what belongs to a transaction that was aborted, or whose end is not in the segment.
    """
    place = SEGMENTS.position_of(object_.key)
    assert place
    topic, partition, start = place
    seen = scan(partial(store.read_range, object_.key), min(object_.size, SCANNED), start)
    committed = _committed(seen)
    yield from (None for _ in seen.damage)
    for chunk in reversed(seen.chunks):
        for rows in reversed(list(parse(store.read_range(object_.key, chunk.start, chunk.end)))):
            for row in reversed(rows.to_pylist()):
                offset, producer = row["offset"], row["producer_id"]
                ended = any(low <= offset < high for low, high in committed.get(producer, []))
                if row["unreadable"] is not None:
                    yield None
                elif row["control"] or (row["transactional"] and not ended):
                    yield topic, partition, offset
                else:
                    pairs = [(pair["key"], pair["value"]) for pair in row["headers"]]
                    headers = tuple((name, text_of(value)) for name, value in pairs)
                    stamp, binary = row["timestamp"], binary_pairs(pairs)
                    yield Record(topic, partition, offset, stamp, row["key"], row["value"], headers, binary)


def _committed(seen: Scan) -> dict[int, list[Range]]:
    """By producer id, as far as the segment alone tells."""
    markers: dict[int, list[Marker]] = {}
    for marker in seen.markers:
        markers.setdefault(marker[0], []).append(marker)
    return resolve(seen.spans, Knowledge(markers, minus([(0, END)], seen.runs))).committed


def _read(store: Storage, object_: ObjectInfo, companions: Companions) -> Reading:
    del companions
    left_out = f"behind its first {SCANNED:,} bytes it was not read, where its newest records are"
    return Reading(of_segment(store, object_), from_end=True, left_out=left_out if object_.size > SCANNED else "")


READER = DraftReader(
    objects="a broker's log segments, called <topic>-<partition>/<first offset>.log",
    reason="a broker's log segments, called <topic>-<partition>/<first offset>.log",
    rank=30,
    read=_read,
    joins=False,  # a segment that is missing is no compaction
)
