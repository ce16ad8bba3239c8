"""Objects of layout parquet: Kafka's own columns, with their usual names."""

from __future__ import annotations

from onefold.draft.readers.reader import Companions, DraftReader, Reading
from onefold.formats.kafka_columns import Row, rows_from_end
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage
from onefold.storage.objects import Seekable


def _read(store: Storage, object_: ObjectInfo, companions: Companions) -> Reading:
    del companions
    return Reading(map(_record_of, rows_from_end(Seekable(store, object_.key, object_.size))), from_end=True)


def _record_of(row: Row) -> Record | None:
    """A row's record; None: its position is none that Kafka has."""
    topic, partition, offset = row.topic, row.partition, row.offset
    if topic is None or partition is None or offset is None or not (0 <= partition < 2**31 and offset >= 0):
        return None
    timestamp = row.timestamp if row.timestamp is not None and row.timestamp >= 0 else None
    return Record(topic, partition, offset, timestamp, row.key, row.value, row.headers, row.binary_headers)


READER = DraftReader(
    objects="Parquet with Kafka's own columns",
    reason="rows with topic, partition and offset",
    rank=20,
    read=_read,
)
