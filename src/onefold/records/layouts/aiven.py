"""Aiven's S3 sink, JSON lines: each line carries its offset, the object's name topic and partition."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset.layouts.aiven import Encoding
from onefold.dataset.source import Origin
from onefold.formats.aiven import Line, read_line
from onefold.formats.expansion import LIMITS, ExpansionLimits
from onefold.formats.text import MOST_BYTES
from onefold.kafka.batch_records import HEADERS
from onefold.landing.manifest import LandedObject
from onefold.records import envelope as E
from onefold.records.landed_objects import count_lines
from onefold.records.layouts import LandedBatch, LayoutReader
from onefold.records.text_lines import ReadLines, TextObject, read_text
from onefold.storage import S3Access

_READ = (
    "object string, line binary, offset long, timestamp long, key binary, value binary, "
    f"headers {E.HEADERS_TYPE}, problem string"
)

Landed = tuple[LandedObject, str]
"""(landed object, URI)"""


def read_aiven(
    session: SparkSession,
    objects: list[Landed],
    origin: Origin,
    encoding: Encoding,
    access: S3Access | None = None,
    limits: ExpansionLimits = LIMITS,
) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of an export by Aiven's sink.

    A line that is no record is a row with `_unreadable` and the line's bytes. Objects of any size are split, but for
    packed ones.
    """
    names = F.broadcast(
        session.createDataFrame(
            [(object_.name, object_.topic, object_.partition) for object_, _ in objects],
            "object string, topic string, part int",
        )
    )
    texts = [TextObject(object_.name, uri, object_.size) for object_, uri in objects]
    rows = read_text(session, texts, _reader(encoding), _READ, access, limits).join(names, "object")
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
        F.col("object").alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.col("problem").alias(E.UNREADABLE),
        *E.not_shown(),
    )


def _reader(encoding: Encoding) -> ReadLines:
    def read(name: str, data: bytes) -> pa.RecordBatch:
        lines = data.split(b"\n")
        found = [_read_line(line, encoding) for line in lines]
        bad = [line if record.problem else None for line, record in zip(lines, found, strict=True)]
        columns = {
            "object": pa.repeat(pa.scalar(name, pa.string()), len(lines)),
            "line": pa.array(bad, pa.binary()),
            "offset": pa.array([record.offset for record in found], pa.int64()),
            "timestamp": pa.array([record.timestamp for record in found], pa.int64()),
            "key": pa.array([record.key for record in found], pa.binary()),
            "value": pa.array([record.value for record in found], pa.binary()),
            "headers": pa.array([_pairs(record) for record in found], HEADERS),
            "problem": pa.array([record.problem for record in found], pa.string()),
        }
        return pa.RecordBatch.from_pydict(columns)

    return read


def _read_line(line: bytes, encoding: Encoding) -> Line:
    if len(line) > MOST_BYTES:
        return Line(problem=f"the line has more than {MOST_BYTES:,} bytes")
    return read_line(line, encoding)


def _pairs(record: Line) -> list[dict[str, str | bytes | None]] | None:
    return None if record.problem else [{"key": key, "value": value} for key, value in record.headers]


def _read(batch: LandedBatch) -> DataFrame:
    limits = batch.lake.settings.expansion_limits
    return read_aiven(batch.session, batch.objects, batch.origin, batch.options.encoding, batch.lake.access, limits)


def _count(batch: LandedBatch) -> int:
    return count_lines(batch.session, [uri for _, uri in batch.values])


READER = LayoutReader(_read, _count)
