"""Decoding on one core: what Onefold reads of records in each format and layout, next to the library below it.

    python -m benchmarks.decoding [--rows 200000] [--rounds 5]

All formats have the same six fields, about 150 bytes of JSON a value; in Protobuf the amount and the time are text.
Onefold reads a format from bytes to Arrow columns of the declared types, with all checks, a message of Avro or Protobuf
by way of JSON, whose two parts are measured, too; and a layout to the bytes of key and value. The library decodes each
record, or each line without the value in it, into an object, unchecked.

No JVM takes part. The output has records per second of CPU time, medians of the rounds, and ratios.
"""

from __future__ import annotations

import argparse
import gc
import io
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import msgspec
import pyarrow as pa
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from rich.console import Console
from rich.progress import track
from rich.table import Table

from onefold.dataset import Dataset, load_dataset
from onefold.dataset.layouts.aiven import Encoding
from onefold.dataset.protobuf_schema import compile_texts
from onefold.formats.aiven import read_line
from onefold.kafka.batch_records import parse
from onefold.records.layouts.kcat import lines_to_rows
from onefold.values.columns import Fields, reader
from onefold.values.format import value_reader
from onefold.values.messages import MessageValues

BATCH = 10_000
"""Records that are handed on at once, as Spark does."""
FIELDS = {
    "id": "string",
    "account": "string",
    "seq": "long",
    "amount": "decimal(18,2)",
    "note": "string",
    "at": "timestamp",
}
NOTE = "lorem ipsum dolor sit amet consectetur adipiscing"
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "account", "type": "string"},
        {"name": "seq", "type": "long"},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}},
        {"name": "note", "type": "string"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    ],
}
PROTO = """syntax = "proto3"; package shop;
message Order { string id = 1; string account = 2; int64 seq = 3; string amount = 4; string note = 5; string at = 6; }
"""
Job = Callable[[], object]


def rows_of(count: int) -> Iterator[dict[str, Any]]:
    """The same records for every format, in plain JSON types."""
    for n in range(count):
        at = f"2026-01-01T{n % 24:02d}:{n % 60:02d}:00Z"
        amount = f"{n % 10007}.{n % 100:02d}"
        yield {"id": f"m-{n:010d}", "account": f"a-{n % 997}", "seq": n, "amount": amount, "note": NOTE, "at": at}


def in_json(row: dict[str, Any]) -> bytes:
    return json.dumps(row, separators=(",", ":")).encode()


def in_avro(row: dict[str, Any], schema: Any) -> bytes:
    data = io.BytesIO()
    at = 1_767_225_600_000_000 + row["seq"]
    fastavro.schemaless_writer(data, schema, row | {"amount": Decimal(row["amount"]), "at": at})
    return data.getvalue()


def message_class() -> Any:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_texts({"order.proto": PROTO}, "order.proto")).file:
        pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("shop.Order"))


def dataset(folder: Path, format_: str, **value: str) -> Dataset:
    """A dataset whose values are in a format."""
    given = {
        "name": format_,
        "source": {"exports": {"path": "export/", "layout": "parquet", "origin": {"cluster": "bench"}}},
        "value": {"format": format_, "fields": FIELDS, **value},
        "identity": {"message_id": "id"},
        "apply": {"mode": "append"},
        "target": {"table": f"bench.{format_}"},
    }
    file = folder / f"{format_}.yaml"
    file.write_text(json.dumps(given))
    return load_dataset(file)


def onefold(made: Dataset, values: list[bytes]) -> Job:
    """What Onefold does in Spark's Python workers to batches of values."""
    by_format = value_reader(made)
    to_json = by_format.decoder(made)() if isinstance(by_format, MessageValues) else None
    read = reader(Fields.of(made))

    def job() -> None:
        for start in range(0, len(values), BATCH):
            batch: Any = values[start : start + BATCH]
            found = read([to_json(value, None) for value in batch] if to_json else batch)
            assert not found.field("unusable").drop_null()

    return job


def parts(made: Dataset, values: list[bytes]) -> dict[str, Job]:
    """The two parts of what `onefold` does to messages."""
    by_format = value_reader(made)
    assert isinstance(by_format, MessageValues)
    to_json, read = by_format.decoder(made)(), reader(Fields.of(made))
    jsons = [to_json(value, None) for value in values]
    return {
        "onefold: message to JSON": each(lambda value: to_json(value, None), values),
        "onefold: that JSON to columns": lambda: [read(jsons[at : at + BATCH]) for at in range(0, len(jsons), BATCH)],
    }


def each(decode: Callable[[bytes], object], values: list[bytes]) -> Job:
    """A library, record by record."""

    def job() -> None:
        for value in values:
            decode(value)

    return job


def formats(folder: Path, count: int) -> dict[str, dict[str, Job]]:
    """The jobs of each format, Onefold's first."""
    schema, message = fastavro.parse_schema(AVRO), message_class()
    (folder / "order.avsc").write_text(json.dumps(AVRO))
    (folder / "order.proto").write_text(PROTO)
    rows = list(rows_of(count))
    jsons, avros = [in_json(row) for row in rows], [in_avro(row, schema) for row in rows]
    protos = [message(**row).SerializeToString() for row in rows]
    of_avro, of_protobuf = (
        dataset(folder, "avro", schema="order.avsc"),
        dataset(folder, "protobuf", schema="order.proto"),
    )
    typed = msgspec.defstruct("Order", [(name, int if name == "seq" else str) for name in FIELDS])
    return {
        "json": {
            "onefold": onefold(dataset(folder, "json"), jsons),
            "msgspec": each(msgspec.json.Decoder(typed).decode, jsons),
            "json.loads": each(json.loads, jsons),
        },
        "avro": {
            "onefold": onefold(of_avro, avros),
            **parts(of_avro, avros),
            "fastavro": each(lambda data: fastavro.schemaless_reader(io.BytesIO(data), schema, None), avros),
        },
        "protobuf": {
            "onefold": onefold(of_protobuf, protos),
            **parts(of_protobuf, protos),
            "protobuf (upb)": each(message.FromString, protos),
        },
    }


def layouts(count: int) -> dict[str, dict[str, Job]]:
    """The jobs of each layout that Python reads: from its bytes to the bytes of key and value."""
    values = [in_json(row).decode() for row in rows_of(count)]
    where = [{"offset": n, "ts": 1_767_225_600_000 + n} for n in range(count)]
    kcat = [
        json.dumps(
            {"topic": "t", "partition": 0, **at, "tstype": "create", "broker": 0, "key": None, "payload": value}
        ).encode()
        for at, value in zip(where, values, strict=True)
    ]
    aiven = [
        f'{{"key":"k","value":{value},"timestamp":"2026-01-01T00:00:00Z","offset":{n},"headers":[]}}'.encode()
        for n, value in enumerate(values)
    ]
    pieces = [b"\n".join(kcat[start : start + BATCH]) for start in range(0, count, BATCH)]
    segment = b"".join(_batch(base, values[base : base + 100]) for base in range(0, count, 100))
    return {
        "kcat": {
            "onefold": lambda: [lines_to_rows("o", piece) for piece in pieces],
            "msgspec": each(msgspec.json.decode, kcat),
        },
        "aiven": {
            "onefold": each(lambda line: read_line(line, Encoding()), aiven),
            "msgspec": each(msgspec.json.decode, aiven),
        },
        "segments": {
            "onefold": lambda: sum(batch.num_rows for batch in parse(segment)),
            "kafka-python": lambda: _iterate(segment),
        },
    }


def _batch(base: int, values: list[str]) -> bytes:
    made = DefaultRecordBatchBuilder(2, 0, False, 7, 0, base, 1 << 30)
    for number, value in enumerate(values):
        made.append(number, 1_772_000_000_000 + number, b"k", value.encode(), [])
    return base.to_bytes(8, "big") + bytes(made.build()[8:])


def _iterate(segment: bytes) -> int:
    batches, count = MemoryRecords(segment), 0
    while batches.has_next():
        for record in batches.next_batch():
            count += len(record.value) > 0
    return count


def measured(jobs: dict[str, dict[str, Job]], rounds: int) -> dict[str, dict[str, float]]:
    """The CPU seconds of each job, medians; the jobs take turns."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for _ in track(range(rounds), description="rounds"):
        for group, of_group in jobs.items():
            for name, job in of_group.items():
                gc.collect()
                begin = time.process_time()
                job()
                seconds.setdefault((group, name), []).append(time.process_time() - begin)
    return {
        group: {name: statistics.median(seconds[group, name]) for name in of_group} for group, of_group in jobs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    pa.set_cpu_count(1)
    console = Console()
    with tempfile.TemporaryDirectory() as folder:
        for title, jobs in (("formats", formats(Path(folder), args.rows)), ("layouts", layouts(args.rows))):
            table = Table(title=f"{title}, {args.rows:,} records", title_justify="left")
            for name in (title.removesuffix("s"), "by", "records per second and core", "time against Onefold's"):
                table.add_column(name, justify="right" if "reco" in name or "time" in name else "left")
            for group, found in measured(jobs, args.rounds).items():
                for name, seconds in found.items():
                    table.add_row(group, name, f"{args.rows / seconds:,.0f}", f"{seconds / found['onefold']:.2f}")
            console.print(table)


if __name__ == "__main__":
    main()
