"""Raw log segments: every offset of the bytes is a row, markers and aborted records too, each with its fate.

Spark has no reader of Kafka's log, so this reader is Python: a task reads some chunks, of each only its own bytes of
the object, and gives Arrow columns. Transactions were resolved when the segments were landed (`onefold.landing`).
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from onefold.dataset.source import Origin
from onefold.errors import UnreadableObjectError
from onefold.formats.expansion import LIMITS, ExpansionLimits
from onefold.formats.structured_json import FormatError
from onefold.kafka.batch_records import HEADERS, parse
from onefold.kafka.segment_index import SegmentIndex
from onefold.kafka.transactions import OfProducer, Transactions
from onefold.records import envelope as E
from onefold.records.landed_objects import complaint
from onefold.records.layouts import LandedBatch, LayoutReader
from onefold.spark.python_tasks import map_in_python
from onefold.storage import S3Access, open_storage
from onefold.vocabulary import LogStatus

CUT = 64 << 10
"""Bytes of damage that are kept with the row that tells of it."""
PER_TASK = 64 << 20
"""Bytes that a task reads at most, about, one chunk after another: to begin a task costs Python a quarter of a
second."""
_CHUNKS = (
    "uri string, name string, cluster string, topic string, incarnation int, partition int, "
    "start long, end long, damage string, fates string"
)
_SCHEMA = (
    f"{E.TIMESTAMP} bigint, {E.CLUSTER} string, {E.TOPIC} string, {E.INCARNATION} int, {E.PARTITION} int, "
    f"{E.OFFSET} bigint, {E.KEY_BYTES} binary, {E.VALUE_BYTES} binary, {E.HEADERS} {E.HEADERS_TYPE}, "
    f"{E.OBJECT} string, {E.LINE} int, {E.UNREADABLE} string, "
    + ", ".join(f"{name} {kind}" for name, kind in E.OF_THE_LOG.items())
)


@dataclass(frozen=True, slots=True)
class PlacedSegment:
    """A landed segment: what the export called it, where it lies, what its headers say."""

    name: str
    uri: str
    index: SegmentIndex


def read_segments(
    session: SparkSession,
    segments: list[PlacedSegment],
    transactions: list[Transactions],
    origin: Origin,
    access: S3Access | None = None,
    limits: ExpansionLimits = LIMITS,
) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of landed log segments.

    One row a record or marker, and one for each damage: `_unreadable` says what and where, its first bytes are the
    value, and it has no offset, for none of those that it names was read.
    """
    chunks = [row for segment in segments for row in chunks_of(segment, transactions, origin)]
    tasks = tasks_for([end - start for *_, start, end, _, _ in chunks], session.sparkContext.defaultParallelism)
    rows = session.createDataFrame(session.sparkContext.parallelize(chunks, tasks), _CHUNKS)
    return map_in_python(rows, partial(read_chunks, access=access, limits=limits), _SCHEMA).select(*E.ENVELOPE)


def tasks_for(sizes: list[int], cores: int) -> int:
    """How many tasks read chunks of some bytes: one a core, or more where each would read more than `PER_TASK`."""
    return max(1, min(len(sizes), max(cores, ceil(sum(sizes) / PER_TASK))))


def chunks_of(segment: PlacedSegment, transactions: list[Transactions], origin: Origin) -> Iterator[tuple[Any, ...]]:
    """A row (`_CHUNKS`) for each part of a segment that a task reads; a chunk takes along the fates that meet it."""
    index = segment.index
    of = [each for each in transactions if (each.topic_partition.topic, each.topic_partition.partition)
          == (index.topic, index.partition)]  # fmt: skip
    where = (segment.uri, segment.name, origin.cluster, index.topic, origin.incarnation, index.partition)
    for chunk in index.chunks:
        fates = {
            kind: [span for each in of for span in spans(each) if span[1] < chunk.last and span[2] > chunk.first]
            for kind, spans in ((LogStatus.ABORTED, _aborted), (LogStatus.OPEN, _open))
        }
        yield (*where, chunk.start, chunk.end, None, json.dumps(fates))
    for damage in index.damage:
        claimed = f", by its header offsets {damage.claimed[0]} to {damage.claimed[1]}" if damage.claimed else ""
        said = f"{damage.what}; bytes {damage.start:,} to {damage.end:,} of {segment.name}{claimed}"
        yield (*where, damage.start, min(damage.end, damage.start + CUT), said, None)


def _aborted(transactions: Transactions) -> list[OfProducer]:
    return transactions.aborted


def _open(transactions: Transactions) -> list[OfProducer]:
    return transactions.open


def read_chunks(
    batches: Iterable[pa.RecordBatch], access: S3Access | None = None, limits: ExpansionLimits = LIMITS
) -> Iterator[pa.RecordBatch]:
    """The envelope's rows of chunks (`_CHUNKS`); runs in Spark's Python workers. A record batch beyond the limits ends
    the job with its segment's name (`complaint`)."""
    for batch in batches:
        for chunk in batch.to_pylist():
            folder, _, key = chunk["uri"].rpartition("/")
            data = open_storage(folder, access).read_range(key, chunk["start"], chunk["end"])
            try:
                yield from _rows(chunk, data, limits)
            except FormatError as error:
                raise RuntimeError(complaint(chunk["name"], str(error))) from error


def _rows(chunk: dict[str, Any], data: bytes, limits: ExpansionLimits) -> Iterator[pa.RecordBatch]:
    if chunk["damage"] is not None:
        yield _damaged(chunk, data)
        return
    fates = {kind: _by_producer(spans) for kind, spans in json.loads(chunk["fates"]).items()}
    for parsed in parse(data, limits):
        columns = {name: parsed.column(name) for name in parsed.schema.names}
        given = {
            E.TIMESTAMP: columns["timestamp"],
            E.OFFSET: columns["offset"],
            E.KEY_BYTES: columns["key"],
            E.VALUE_BYTES: columns["value"],
            E.HEADERS: columns["headers"],
            E.UNREADABLE: columns["unreadable"],
            E.PRODUCER_ID: columns["producer_id"],
            E.PRODUCER_EPOCH: columns["producer_epoch"],
            E.SEQUENCE: columns["sequence"],
            E.FATE: _fates(columns, fates, parsed.num_rows),
        }
        yield _envelope(chunk, given, parsed.num_rows)


def _damaged(chunk: dict[str, Any], data: bytes) -> pa.RecordBatch:
    given = {E.VALUE_BYTES: pa.array([data], pa.binary()), E.UNREADABLE: pa.array([chunk["damage"]])}
    return _envelope(chunk, given, 1)


_NULLS = {
    E.TIMESTAMP: pa.int64(), E.OFFSET: pa.int64(), E.KEY_BYTES: pa.binary(), E.LINE: pa.int32(),
    E.PRODUCER_ID: pa.int64(), E.PRODUCER_EPOCH: pa.int32(), E.SEQUENCE: pa.int32(), E.FATE: pa.string(),
}  # fmt: skip


def _envelope(chunk: dict[str, Any], given: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
    def same(value: Any, kind: pa.DataType) -> pa.Array:
        return pa.repeat(pa.scalar(value, kind), rows)

    columns = {
        **{name: pa.nulls(rows, kind) for name, kind in _NULLS.items()},
        E.HEADERS: pa.array([[]] * rows, HEADERS) if E.HEADERS not in given else None,
        E.CLUSTER: same(chunk["cluster"], pa.string()),
        E.TOPIC: same(chunk["topic"], pa.string()),
        E.INCARNATION: same(chunk["incarnation"], pa.int32()),
        E.PARTITION: same(chunk["partition"], pa.int32()),
        E.OBJECT: same(chunk["name"], pa.string()),
        **given,
    }
    return pa.RecordBatch.from_arrays([columns[name] for name in E.ENVELOPE], names=list(E.ENVELOPE))


def _by_producer(spans: list[OfProducer]) -> dict[int, tuple[list[int], list[int]]]:
    """Starts and ends, in order, by producer id."""
    bounds: dict[int, tuple[list[int], list[int]]] = {}
    for producer, start, end in sorted(spans):
        starts, ends = bounds.setdefault(producer, ([], []))
        starts.append(start)
        ends.append(end)
    return bounds


def _fates(columns: dict[str, pa.Array], fates: dict[str, dict[int, Any]], rows: int) -> pa.Array:
    """Markers are control; of a transaction's records the fate of their batch, which belongs to one transaction."""
    control = columns["control"].to_numpy(zero_copy_only=False)
    transactional = columns["transactional"].to_numpy(zero_copy_only=False) & ~control
    if not control.any() and not (transactional.any() and any(fates.values())):
        return pa.nulls(rows, pa.string())
    names = np.full(rows, None, dtype=object)
    names[control] = LogStatus.CONTROL
    if transactional.any():
        bases = columns["base"].to_numpy()
        producers = columns["producer_id"].fill_null(-1).to_numpy()
        starts = np.flatnonzero(transactional & np.concatenate(([True], bases[1:] != bases[:-1])))
        ends = np.searchsorted(bases, bases[starts], side="right")  # bases go up within a segment
        for start, end in zip(starts, ends, strict=True):
            names[start:end] = _fate(fates, int(producers[start]), int(bases[start]))
    return pa.array(names, pa.string())


def _fate(fates: dict[str, dict[int, Any]], producer: int, base: int) -> str | None:
    for kind, spans in fates.items():
        starts, ends = spans.get(producer, ((), ()))
        at = bisect_right(starts, base) - 1
        if at >= 0 and base < ends[at]:
            return kind
    return None


def _placed(batch: LandedBatch) -> list[PlacedSegment]:
    """The landed segments of a batch with their indexes; an index that is gone is made again.

    Raises:
        UnreadableObjectError: the headers of a segment count more records than the settings allow.
    """
    from onefold.landing.log_segments import write_index  # workers import this module, and do without

    source, lake = batch.manifest.source, batch.lake
    placed = [PlacedSegment(object_.name, uri, write_index(lake, source, object_)) for object_, uri in batch.values]
    for segment in placed:
        try:
            lake.settings.expansion_limits.check_records(segment.index.records)
        except FormatError as error:
            raise UnreadableObjectError(batch.manifest.batch, segment.name, str(error)) from error
    return placed


def _read(batch: LandedBatch) -> DataFrame:
    transactions, access = batch.manifest.transactions, batch.lake.access
    limits = batch.lake.settings.expansion_limits
    return read_segments(batch.session, _placed(batch), transactions, batch.origin, access, limits)


def _count(batch: LandedBatch) -> int:
    return sum(placed.index.records for placed in _placed(batch))


READER = LayoutReader(_read, _count)
