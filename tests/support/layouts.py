"""One log, written the way each layout of exports has it. A record is (partition, offset, key, headers, value)."""

from __future__ import annotations

import base64
import gzip
import io
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from onefold.dataset import Dataset
from sample import kcat

SCHEMA = {
    "type": "record",
    "name": "Entry",
    "fields": [
        {"name": "id", "type": "string"},
        {"name": "credit", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}]},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "ms", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
    ],
}
HEADERS = {"type": "array", "items": {"type": "record", "name": "Header", "fields": [
    {"name": "key", "type": "string"}, {"name": "value", "type": "string"},
]}}  # fmt: skip
ARROW = pa.struct(
    [
        ("id", pa.string()),
        ("credit", pa.decimal128(18, 2)),
        ("at", pa.timestamp("ms", "UTC")),
        ("ms", pa.timestamp("ms", "UTC")),
    ]
)
FIELDS = {"id": "string", "credit": "decimal(18,2)?", "at": "timestamp?", "ms": "long?"}
START = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Sent:
    """A record; `at` is its second behind `START`."""

    partition: int
    offset: int
    id: str
    credit: str | None = None
    at: int = 0
    message: str = "m"
    topic: str = "t"

    @property
    def instant(self) -> datetime:
        """When it was sent."""
        return datetime.fromtimestamp(START.timestamp() + self.at + 0.123, UTC)

    @property
    def plain(self) -> dict[str, Any]:
        """The value, as Avro's and Parquet's writers take it."""
        credit = None if self.credit is None else Decimal(self.credit)
        return {"id": self.id, "credit": credit, "at": self.instant, "ms": self.instant}

    @property
    def json(self) -> bytes:
        """The value, as a producer of JSON writes it."""
        ms = round(self.instant.timestamp() * 1000)
        return json.dumps({"id": self.id, "credit": self.credit, "at": self.instant.isoformat(), "ms": ms}).encode()

    @property
    def headers(self) -> list[dict[str, str]]:
        """Its only header."""
        return [{"key": "m", "value": self.message}]


def shown(log: Iterable[Sent]) -> list[dict[str, Any]]:
    """The rows of records as `show` prints them, of equal ids the first one."""
    once: dict[str, Sent] = {}
    for record in sorted(log, key=lambda record: (record.instant, record.partition, record.offset)):
        once.setdefault(record.id, record)
    return [
        {
            "id": key,
            "credit": record.credit,
            "at": record.instant.isoformat(timespec="microseconds"),
            "ms": round(record.instant.timestamp() * 1000),
        }
        for key, record in sorted(once.items())
    ]


def dataset_of(make: Callable[..., Dataset], layout: str, name: str = "entries", **exports: Any) -> Dataset:
    """Append by id, of an export of one layout."""
    given = {"path": "exports", "layout": layout, "origin": {"cluster": "c"}, "holes": "none"} | exports
    identity = {"message_id": "header.m", "business_key": ["id"]}
    return make(name, source={"exports": given}, value={"fields": FIELDS}, identity=identity)


def avro(schema: Any, records: Sequence[Any], **options: Any) -> bytes:
    """A container file."""
    file = io.BytesIO()
    fastavro.writer(file, schema, records, **{"codec": "snappy"} | options)
    return file.getvalue()


def parquet(rows: pa.Table, **options: Any) -> bytes:
    """A Parquet file."""
    file = io.BytesIO()
    pq.write_table(rows, file, **options)
    return file.getvalue()


def write_parquet(folder: Path, rows: list[tuple[int, bytes, bytes]]) -> None:
    """An export of a topic `t`: offset, key and value of its records."""
    folder.mkdir()
    table = pa.table(
        {
            "topic": pa.array(["t"] * len(rows)),
            "partition": pa.array([0] * len(rows), pa.int32()),
            "offset": pa.array([offset for offset, *_ in rows], pa.int64()),
            "timestamp": pa.array([1_772_323_200_000 + offset for offset, *_ in rows], pa.timestamp("ms", "UTC")),
            "key": pa.array([key for _, key, _ in rows], pa.binary()),
            "value": pa.array([value for *_, value in rows], pa.binary()),
        }
    )
    pq.write_table(table, folder / "part-0.parquet")


def lines(some: Iterable[bytes]) -> bytes:
    """Lines with their ends."""
    return b"".join(line + b"\n" for line in some)


def in_avro(some: Sequence[Sent]) -> dict[str, bytes]:
    """What the sink writes with `AvroFormat`, by role and ending."""
    return {
        ".avro": avro(SCHEMA, [record.plain for record in some]),
        ".keys.avro": avro("string", [record.id for record in some]),
        ".headers.avro": avro(HEADERS, [record.headers for record in some]),
    }


def in_parquet(some: Sequence[Sent]) -> dict[str, bytes]:
    """What the sink writes with `ParquetFormat` and its usual compression."""
    values = pa.array([record.plain for record in some], ARROW)
    return {
        ".snappy.parquet": parquet(pa.Table.from_struct_array(values), row_group_size=3),
        ".keys.snappy.parquet": parquet(pa.table({"key": [record.id for record in some]})),
        ".headers.snappy.parquet": parquet(pa.table({"headers": [record.headers for record in some]})),
    }


def in_json(some: Sequence[Sent]) -> dict[str, bytes]:
    """What the sink writes with `JsonFormat`."""
    return {
        ".json": lines(record.json for record in some),
        ".keys.json": lines(json.dumps(record.id).encode() for record in some),
        ".headers.json": lines(json.dumps({"headers": record.headers}).encode() for record in some),
    }


def in_gzip(some: Sequence[Sent]) -> dict[str, bytes]:
    """With `s3.compression.type=gzip`."""
    return {f"{ending}.gz": gzip.compress(data) for ending, data in in_json(some).items()}


def mixed(some: Sequence[Sent]) -> dict[str, bytes]:
    """Values in Parquet, keys in JSON, headers in packed JSON: the sink has a format for each."""
    values, text = in_parquet(some), in_json(some)
    return {
        ".snappy.parquet": values[".snappy.parquet"],
        ".keys.json": text[".keys.json"],
        ".headers.json.gz": gzip.compress(text[".headers.json"]),
    }


CONNECT = {"json": in_json, "json.gz": in_gzip, "avro": in_avro, "parquet": in_parquet, "mixed": mixed}


def put_connect(folder: Path, some: Sequence[Sent], kind: str) -> str:
    """One object of the Connect sink with its companions; its name without an ending."""
    first = some[0]
    name = f"topics/{first.topic}/partition={first.partition}/{first.topic}+{first.partition}+{first.offset:010d}"
    for ending, data in CONNECT[kind](some).items():
        put(folder, f"{name}{ending}", data)
    return name


def aiven_line(record: Sent, kind: str) -> bytes:
    """A line of Aiven's sink: the value as text, as JSON, or in base64."""
    value: Any = {
        "text": record.json.decode(),
        "json": json.loads(record.json),
        "base64": base64.b64encode(record.json).decode(),
    }[kind]
    at = record.instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"key": record.id, "value": value, "offset": record.offset, "timestamp": at, "headers": record.headers}
    return json.dumps(line).encode()


def aiven(kind: str = "text") -> Callable[[Path, Sequence[Sent]], str]:
    """Writes one object of Aiven's sink; its name."""

    def write(folder: Path, some: Sequence[Sent]) -> str:
        name = f"{some[0].topic}-{some[0].partition}-{some[0].offset}.gz"
        return put(folder, name, gzip.compress(lines(aiven_line(record, kind) for record in some)))

    return write


PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def kafka_table(some: Sequence[Sent], **differs: pa.Array) -> pa.Table:
    """The columns of Spark's Kafka source."""
    headers = [[("key", "m"), ("value", record.message.encode())] for record in some]
    columns = {
        "key": pa.array([record.id.encode() for record in some], pa.binary()),
        "value": pa.array([record.json for record in some], pa.binary()),
        "topic": pa.array([record.topic for record in some], pa.string()),
        "partition": pa.array([record.partition for record in some], pa.int32()),
        "offset": pa.array([record.offset for record in some], pa.int64()),
        "timestamp": pa.array([record.instant for record in some], pa.timestamp("us", "UTC")),
        "headers": pa.array([[dict(pairs)] for pairs in headers], PAIRS),
    }
    return pa.table({name: column for name, column in (columns | differs).items() if column is not None})


def generic(folder: Path, some: Sequence[Sent], name: str | None = None, **differs: Any) -> str:
    """One Parquet object with Kafka's columns; its name."""
    return put(
        folder, name or f"part-{some[0].partition}-{some[0].offset}.parquet", parquet(kafka_table(some, **differs))
    )


def put(folder: Path, name: str, data: bytes) -> str:
    """A file of an export."""
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return name


@dataclass(frozen=True)
class Layout:
    """How a log becomes an export of one layout, and what its dataset file says."""

    name: str
    write: Callable[[Path, Sequence[Sent]], str]
    exports: dict[str, Any] = field(default_factory=dict)
    exact: bool = True


def kcat_lines(folder: Path, some: Sequence[Sent]) -> str:
    """What one call of kcat prints; its name."""
    records = (
        kcat.Record(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            ts=round(record.instant.timestamp() * 1000),
            broker=1,
            headers=(("m", record.message.encode()),),
            key=record.id.encode(),
            value=record.json,
        )
        for record in some
    )
    return put(folder, f"{some[0].topic}-{some[0].partition}-{some[0].offset}.jsonl", b"".join(map(kcat.line, records)))


def _structured(folder: Path, some: Sequence[Sent]) -> str:
    return generic(folder, some, value=pa.array([record.plain for record in some], ARROW))


def _renamed(folder: Path, some: Sequence[Sent]) -> str:
    rows = kafka_table(
        some,
        partition=pa.array([record.partition for record in some], pa.int64()),
        timestamp=pa.array([round(record.instant.timestamp() * 1000) for record in some], pa.int64()),
        value=pa.array([record.json.decode() for record in some], pa.large_string()),
        key=pa.array([record.id for record in some]).dictionary_encode(),
        headers=pa.array([[("m", record.message)] for record in some], pa.map_(pa.string(), pa.string())),
    )
    names = [f"kafka.{name}" for name in rows.column_names]
    return put(folder, f"x-{some[0].offset}.parquet", parquet(rows.rename_columns(names), compression="zstd"))


def _nanos(folder: Path, some: Sequence[Sent]) -> str:
    at = pa.array([record.instant for record in some], pa.timestamp("us")).cast(pa.timestamp("ns"))
    return generic(folder, some, timestamp=at, other=at)


def _int96(folder: Path, some: Sequence[Sent]) -> str:
    data = parquet(kafka_table(some), use_deprecated_int96_timestamps=True)
    return put(folder, f"part-{some[0].partition}-{some[0].offset}.snappy.parquet", data)


ROLES = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
EXACT = {
    "kcat": Layout("kcat", kcat_lines),
    "aiven, text": Layout("aiven", aiven("text")),
    "aiven, json": Layout("aiven", aiven("json")),
    "aiven, base64": Layout("aiven", aiven("base64"), {"encoding": {"value": "base64"}}),
    "parquet": Layout("parquet", generic),
    "parquet, structs": Layout("parquet", _structured),
    "parquet, other names and types": Layout(
        "parquet", _renamed, {"columns": {role: f"kafka.{role}" for role in ROLES}}
    ),
    "parquet, nanoseconds": Layout("parquet", _nanos),
    "parquet, INT96": Layout("parquet", _int96),
}
INEXACT = {
    f"connect, {kind}": Layout(
        "connect",
        lambda folder, some, kind=kind: put_connect(folder, some, kind),
        exact=False,  # type: ignore[misc]
    )
    for kind in CONNECT
}
LAYOUTS = EXACT | INEXACT
