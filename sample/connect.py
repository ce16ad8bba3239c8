"""Rewrite the recorded `payments.entries` into the layout of Confluent's Kafka Connect S3 sink.

`python -m sample.connect` reads `recorded/payments.entries.jsonl` and writes `exports/connect/`
next to this file. No connector ran: the layout follows its source
(confluentinc/kafka-connect-storage-cloud): `TopicPartitionWriter` for names,
`ByteArrayRecordWriterProvider` for values, `RecordViews` and `JsonRecordWriterProvider` for keys
and headers. `README.md` has the settings of such a connector.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from itertools import groupby
from pathlib import Path

from sample import kcat, payments
from sample.kcat import Record

HERE = Path(__file__).parent
FLUSH_SIZE = 25
OVERLAP = 12
# A scheduled rotation closes the open objects here (the sink uses its clock, we use timestamps).
ROTATION = int(payments.CLOSING_DAY.timestamp()) * 1000


def rewrite(recorded: Path, folder: Path) -> None:
    """Write the export of one recorded topic into `folder`, and replace its content."""
    shutil.rmtree(folder, ignore_errors=True)
    written = sorted(kcat.read(recorded), key=lambda each: (each.partition, each.offset))
    for _, of_partition in groupby(written, key=lambda each: each.partition):
        for name, objects in folders(list(of_partition)).items():
            for records in objects:
                write_object(folder / name, records)


def folders(records: Sequence[Record]) -> dict[str, list[Sequence[Record]]]:
    """The objects of one partition, by export folder.

    `2-more` repeats an object: in partition 0 with the same name and bytes (a worker that died
    before it committed its offsets), in the others from another start (a worker that had lost them).
    """
    kept = [each for each in records if each.key is not None]  # the sink cannot store a null key
    closing = next(index for index, each in enumerate(kept) if each.ts >= ROTATION)
    usual = flushed(kept[:closing])
    shift = 0 if records[0].partition == 0 else OVERLAP
    start = FLUSH_SIZE + shift
    return {
        "1-first": usual[:2],
        "2-more": [kept[start : start + FLUSH_SIZE], usual[2], *usual[4:]],
        "3-late": usual[3:4],
        "4-conflict": flushed(kept[closing:]),
    }


def flushed(records: Sequence[Record]) -> list[Sequence[Record]]:
    """Records as objects of `flush.size`; the last is closed by a scheduled rotation."""
    return [records[at : at + FLUSH_SIZE] for at in range(0, len(records), FLUSH_SIZE)]


def write_object(folder: Path, records: Sequence[Record]) -> None:
    """One object with its two companions, named by the offset of its first record."""
    first = records[0]
    place = folder / "topics" / first.topic / f"partition={first.partition}"
    name = f"{first.topic}+{first.partition}+{first.offset:010}"
    place.mkdir(parents=True, exist_ok=True)
    (place / f"{name}.json").write_bytes(_lines(each.value or b"" for each in records))
    (place / f"{name}.keys.json").write_bytes(_lines(_key(each) for each in records))
    (place / f"{name}.headers.json").write_bytes(_lines(_headers(each) for each in records))


def _lines(lines: Iterable[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in lines)


def _key(record: Record) -> bytes:
    """A string key is a JSON string."""
    return _json((record.key or b"").decode())


def _headers(record: Record) -> bytes:
    """Headers are an object with one array: JsonFormat puts the header view into an envelope."""
    pairs = [{"key": name, "value": (value or b"").decode()} for name, value in record.headers]
    return _json({"headers": pairs})


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def main() -> int:
    """Rewrite the sample's own recording."""
    rewrite(HERE / "recorded" / f"{payments.ENTRIES}.jsonl", HERE / "exports" / "connect")
    return 0


if __name__ == "__main__":
    sys.exit(main())
