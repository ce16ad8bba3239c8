"""Aiven's S3 sink, JSON lines: each line carries its offset, the object's name topic and partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset.layouts.aiven import Encoding
from onefold.dataset.source import Origin
from onefold.formats.aiven import Line, read_line
from onefold.formats.text import MOST_BYTES
from onefold.kafka.batch_records import HEADERS
from onefold.landing.manifest import LandedObject
from onefold.records import envelope as E
from onefold.records.landed_objects import check_packed, count_lines, literal
from onefold.records.layouts import LandedBatch, LayoutReader

_READ = (
    "file string, line binary, offset long, timestamp long, key binary, value binary, "
    f"headers {E.HEADERS_TYPE}, problem string"
)


def read_aiven(
    session: SparkSession, objects: list[tuple[LandedObject, str]], origin: Origin, encoding: Encoding
) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of an export by Aiven's sink; `objects` are (landed object, URI).

    A line that is no record is a row with `_unreadable` and the line's bytes. Objects of any size are split, but for
    packed objects. Lines are read in Python: a value that is JSON must stay the text that it is, which Spark's parser
    does not keep.
    """
    lines = session.read.option("lineSep", "\n").text(literal(uri for _, uri in objects))
    file = F.substring_index("_metadata.file_path", "/", -1)
    read = lines.select(file.alias("file"), F.col("value").cast("binary").alias("line"))
    names = F.broadcast(
        session.createDataFrame(
            [(uri.rsplit("/", 1)[-1], object_.name, object_.topic, object_.partition) for object_, uri in objects],
            "file string, name string, topic string, part int",
        )
    )
    rows = read.mapInArrow(_reader(encoding), _READ).join(names, "file")
    placed = F.col("offset").isNotNull()
    return rows.select(
        F.col("timestamp").alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.when(placed, F.col("topic")).alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.when(placed, F.col("part")).alias(E.PARTITION),
        F.col("offset").alias(E.OFFSET),
        F.col("key").alias(E.KEY_BYTES),
        F.when(F.col("problem").isNull(), F.col("value")).otherwise(F.col("line")).alias(E.VALUE_BYTES),
        F.col("headers").alias(E.HEADERS),
        F.col("name").alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.col("problem").alias(E.UNREADABLE),
        *E.not_shown(),
    )


def _reader(encoding: Encoding) -> Any:
    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lines = batch.column("line").to_pylist()
            read = [_read_line(line, encoding) for line in lines]
            pairs = zip(lines, read, strict=True)
            bad = pa.array([line if record.problem else None for line, record in pairs], pa.binary())
            columns = {
                "file": batch.column("file"),
                "line": bad,
                "offset": pa.array([record.offset for record in read], pa.int64()),
                "timestamp": pa.array([record.timestamp for record in read], pa.int64()),
                "key": pa.array([record.key for record in read], pa.binary()),
                "value": pa.array([record.value for record in read], pa.binary()),
                "headers": pa.array([_pairs(record) for record in read], HEADERS),
                "problem": pa.array([record.problem for record in read], pa.string()),
            }
            yield pa.RecordBatch.from_pydict(columns)

    return read


def _read_line(line: bytes, encoding: Encoding) -> Line:
    if len(line) > MOST_BYTES:
        return Line(problem=f"the line has more than {MOST_BYTES:,} bytes")
    return read_line(line, encoding)


def _pairs(record: Line) -> list[dict[str, str | bytes | None]] | None:
    return None if record.problem else [{"key": key, "value": value} for key, value in record.headers]


def _read(batch: LandedBatch) -> DataFrame:
    check_packed(batch)
    return read_aiven(batch.session, batch.objects, batch.origin, batch.options.encoding)


def _count(batch: LandedBatch) -> int:
    return count_lines(batch.session, [uri for _, uri in batch.values])


READER = LayoutReader(_read, _count)
