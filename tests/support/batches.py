"""Record batches and segments made by hand, with kafka-python's builder: no broker."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatchBuilder

from onefold.kafka.record_batches import HEADER, Header, header_at

Record = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
AT = 1_700_000_000_000
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def batch(
    base: int,
    records: Iterable[Record],
    *,
    codec: str = "none",
    producer: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    at: int = AT,
) -> bytes:
    """A batch as the broker appends it: at its base offset."""
    made = DefaultRecordBatchBuilder(2, CODECS[codec], transactional, producer, epoch, sequence, 1 << 30)
    for number, (key, value, headers) in enumerate(records):
        made.append(number, at + number, key, value, headers)
    return placed(made.build(), base)


def values(base: int, *texts: str, **more: object) -> bytes:
    """A batch of records without keys."""
    return batch(base, [(None, text.encode(), []) for text in texts], **more)  # type: ignore[arg-type]


def marker(base: int, producer: int, *, commit: bool, epoch: int = 0, coordinator: int = 0) -> bytes:
    """What the broker writes to end a transaction: a control batch of one record."""
    made = DefaultRecordBatchBuilder(2, 0, True, producer, epoch, -1, 1 << 30)
    made.append(0, AT, struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator), [])
    return altered(placed(made.build(), base), attributes=0x30)


def placed(data: bytes, base: int) -> bytes:
    return struct.pack(">q", base) + bytes(data[8:])


def altered(data: bytes, **fields: int) -> bytes:
    """A batch with other header fields, its checksum made right again."""
    header = header_at(data)._replace(**fields)
    changed = bytearray(HEADER.pack(*header) + data[HEADER.size :])
    struct.pack_into(">I", changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def emptied(data: bytes) -> bytes:
    """A batch of which compaction has left the header."""
    header: Header = header_at(data)
    return altered(data[: HEADER.size], length=HEADER.size - 12, records=0, last_delta=header.last_delta)


@dataclass(frozen=True, slots=True)
class Export:
    """A folder of segments as on a broker's disk."""

    folder: Path
    topic: str = "t"

    def write(self, start: int, *batches: bytes, partition: int = 0, replica: str = "") -> Path:
        """A segment with its companions, which a broker keeps next to it."""
        folder = self.folder / replica / f"{self.topic}-{partition}"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{start:020d}.log"
        path.write_bytes(b"".join(batches))
        for ending in ("index", "timeindex", "txnindex"):
            path.with_suffix(f".{ending}").write_bytes(b"\0" * 12)
        (folder / "leader-epoch-checkpoint").write_text("0\n1\n0 0\n")
        (folder / "partition.metadata").write_text("version: 0\n")
        return path
