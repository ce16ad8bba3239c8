"""Write a landed object again without the payload of some records: one function a layout.

A record keeps its position and its timestamp; key, value and headers are null. A layout without a row in `REWRITERS`
cannot be erased from.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from onefold.dataset.layouts.kafka import KAFKA
from onefold.dataset.layouts.kcat import KCAT
from onefold.dataset.source import Origin
from onefold.lake import Lake
from onefold.landing.manifest import LandedObject, Manifest
from onefold.offsets import Range, TopicPartition, meet
from onefold.storage.objects import Seekable

Positions = Mapping[str, list[Range]]
"""Offsets by TopicPartition.key."""
_WHERE = ("cluster", "topic", "incarnation", "partition", "offset")
_PAYLOAD = ("key", "value", "headers")
_DEPTH = 5_000


def _rewrite_parquet(lake: Lake, manifest: Manifest, object_: LandedObject, positions: Positions, to: Path) -> int:
    """Rewrite an object of a landed topic."""
    del manifest
    with pq.ParquetFile(cast("Any", Seekable(lake.storage, object_.key, object_.size))) as file:
        groups = range(file.num_row_groups)
        if not sum(_count(_held(file.read_row_group(n, [*_WHERE, *_PAYLOAD]), positions)) for n in groups):
            return 0
        options = {"compression": "zstd", "use_dictionary": list(_WHERE[:4]), "write_statistics": list(_WHERE)}
        found = 0
        with pq.ParquetWriter(to, file.schema_arrow, **options) as writer:
            for number in groups:
                table = file.read_row_group(number)
                held = _held(table, positions)
                found += _count(held)
                for name in _PAYLOAD:
                    place = table.schema.get_field_index(name)
                    kept = pc.if_else(held, pa.scalar(None, table.schema.field(place).type), table[name])
                    table = table.set_column(place, table.schema.field(place), kept)
                writer.write_table(table)
    return found


def _held(table: pa.Table, positions: Positions) -> pa.Array:
    """Which rows are of some positions and have any payload."""
    meant = pa.array([False] * len(table), pa.bool_())
    for key, ranges in positions.items():
        where = TopicPartition.of(key)
        here = pc.and_(pc.equal(table["topic"], where.topic), pc.equal(table["partition"], where.partition))
        here = pc.and_(here, pc.equal(table["cluster"], where.cluster))
        here = pc.and_(here, pc.equal(table["incarnation"], where.incarnation))
        for start, end in ranges:
            offset = table["offset"]
            meant = pc.or_(meant, pc.and_(here, pc.and_(pc.greater_equal(offset, start), pc.less(offset, end))))
    some = pa.array([False] * len(table), pa.bool_())
    for name in _PAYLOAD:
        some = pc.or_(some, pc.is_valid(table[name]))
    return pc.and_(meant, some)


def _count(rows: pa.Array) -> int:
    return int(pc.sum(rows).as_py() or 0)


def _rewrite_lines(lake: Lake, manifest: Manifest, object_: LandedObject, positions: Positions, to: Path) -> int:
    """Rewrite an object of kcat's lines."""
    origin = manifest.origin
    assert origin, "an export's landing has an origin"
    packed, found = object_.key.endswith(".gz"), 0
    with _deep(), _lines(lake, object_.key, packed) as lines:
        if all(_without_payload(line, positions, origin) is None for line in lines):
            return 0
    with _deep(), _lines(lake, object_.key, packed) as lines, to.open("wb") as raw:
        out = cast("BinaryIO", gzip.GzipFile(filename="", fileobj=raw, mode="wb", mtime=0)) if packed else raw
        for line in lines:
            less = _without_payload(line, positions, origin)
            found += less is not None
            out.write(line if less is None else less)
        if packed:
            out.close()
    return found


@contextmanager
def _deep() -> Iterator[None]:
    """What Spark reads as a record, which nests up to 1,000 levels, is read here too, wherever this is called."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _DEPTH))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextmanager
def _lines(lake: Lake, key: str, packed: bool) -> Iterator[Iterator[bytes]]:
    with lake.storage.open(key) as stream:
        yield iter(cast("BinaryIO", gzip.GzipFile(fileobj=stream)) if packed else stream)


def _without_payload(line: bytes, positions: Positions, origin: Origin) -> bytes | None:
    """A line of `kcat -J` with key, payload and headers null; None: it is not meant, or has none."""
    try:
        record = json.loads(line.decode(errors="replace"))  # other bytes leave the place readable
        where = TopicPartition(
            cluster=origin.cluster,
            topic=record["topic"],
            incarnation=origin.incarnation,
            partition=record["partition"],
        )
        offset = int(record["offset"])
    except (ValueError, TypeError, KeyError, RecursionError):  # no record, so at no position
        return None
    if not meet([(offset, offset + 1)], positions.get(where.key, [])):
        return None
    if record.get("key") is None and record.get("payload") is None and not record.get("headers"):
        return None
    less = {**record, "headers": [], "key": None, "payload": None}
    return json.dumps(less, separators=(",", ":")).encode() + (b"\n" if line.endswith(b"\n") else b"")


REWRITERS: dict[str, Callable[[Lake, Manifest, LandedObject, Positions, Path], int]] = {
    KAFKA.name: _rewrite_parquet,
    KCAT.name: _rewrite_lines,
}
"""By layout: writes an object of a landing to a file, without the payload of some positions. Returns of how many
records the object held payload; 0: none, and nothing was written."""
