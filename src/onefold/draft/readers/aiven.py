"""Objects of layout aiven: lines with their offset."""

from __future__ import annotations

from onefold.dataset.layouts.aiven import AIVEN, Encoding
from onefold.draft.readers.lines import read_lines
from onefold.draft.readers.reader import Companions, DraftReader, Reading
from onefold.formats.aiven import read_line
from onefold.formats.text import binary_pairs, text_of
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage


def _read(store: Storage, object_: ObjectInfo, companions: Companions) -> Reading:
    del companions
    position = AIVEN.position_of(object_.key)
    assert position
    topic, partition, _ = position

    def record_of(line: bytes) -> Record | None:
        found = read_line(line, Encoding())
        if found.problem is not None or found.offset is None:
            return None
        headers = tuple((name, text_of(value)) for name, value in found.headers)
        binary = binary_pairs(found.headers)
        return Record(topic, partition, found.offset, found.timestamp, found.key, found.value, headers, binary)

    return read_lines(store, object_, record_of)


def _begins(object_: ObjectInfo, line: bytes) -> bool:
    return AIVEN.role_of(object_.key) is not None and (not line or read_line(line, Encoding()).problem is None)


READER = DraftReader(
    objects="JSON lines of Aiven's S3 sink, called <topic>-<partition>-<offset>.gz",
    reason="lines with their offset, in objects called <topic>-<partition>-<offset>",
    rank=40,
    read=_read,
    begins=_begins,
)
