"""JSON lines as `kcat -J` prints them: one object a record, with its own offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset.source import Origin
from onefold.formats.kcat import read_line
from onefold.kafka.batch_records import HEADERS
from onefold.records import envelope as E
from onefold.records.landed_objects import check_packed, count_lines, literal, object_name
from onefold.records.layouts import LandedBatch, LayoutReader

_READ = (
    "path string, topic string, part int, offset long, timestamp long, key binary, value binary, "
    f"headers {E.HEADERS_TYPE}, problem string"
)


def read_kcat(session: SparkSession, objects: list[tuple[str, str]], origin: Origin) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of kcat's JSON lines; `objects` are (name, URI).

    A line that is not exactly one JSON object with topic, partition and offset is a row with `_unreadable`
    and the line's bytes. So is a line with `payload_error` or `key_error`, which kcat prints next to a null where it
    could not decode a payload or key (kcat's json.c): such a null is no tombstone. Objects of any size are split.
    """
    lines = session.read.option("lineSep", "\n").text(literal(uri for _, uri in objects))
    read = lines.select(F.col("_metadata.file_path").alias("path"), F.col("value").cast("binary").alias("line"))
    rows = read.mapInArrow(_read_lines, _READ)
    return rows.select(
        F.col("timestamp").alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.col("topic").alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.col("part").alias(E.PARTITION),
        F.col("offset").alias(E.OFFSET),
        F.col("key").alias(E.KEY_BYTES),
        F.col("value").alias(E.VALUE_BYTES),
        F.col("headers").alias(E.HEADERS),
        object_name(F.col("path"), objects).alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.col("problem").alias(E.UNREADABLE),
        *E.not_shown(),
    )


def _read_lines(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        lines = batch.column("line").to_pylist()
        read = [read_line(line) for line in lines]
        values = [line if record.problem else record.value for line, record in zip(lines, read, strict=True)]
        columns = {
            "path": batch.column("path"),
            "topic": pa.array([record.topic for record in read], pa.string()),
            "part": pa.array([record.partition for record in read], pa.int32()),
            "offset": pa.array([record.offset for record in read], pa.int64()),
            "timestamp": pa.array([record.timestamp for record in read], pa.int64()),
            "key": pa.array([record.key for record in read], pa.binary()),
            "value": pa.array(values, pa.binary()),
            "headers": pa.array([record.headers for record in read], HEADERS),
            "problem": pa.array([record.problem for record in read], pa.string()),
        }
        yield pa.RecordBatch.from_pydict(columns)


def _read(batch: LandedBatch) -> DataFrame:
    check_packed(batch)
    return read_kcat(batch.session, batch.uris, batch.origin)


def _count(batch: LandedBatch) -> int:
    return count_lines(batch.session, [uri for _, uri in batch.values])


READER = LayoutReader(_read, _count)
