"""JSON lines as `kcat -J` prints them: one object a record, with its own offset."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset.source import Origin
from onefold.formats.expansion import LIMITS, ExpansionLimits
from onefold.formats.kcat import read_lines
from onefold.kafka.batch_records import HEADERS
from onefold.records import envelope as E
from onefold.records.landed_objects import count_lines
from onefold.records.layouts import LandedBatch, LayoutReader
from onefold.records.text_lines import TextObject, read_text
from onefold.storage import S3Access

_KINDS: dict[str, Any] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.int64(),
    "key": pa.binary(),
    "value": pa.binary(),
    "headers": HEADERS,
    "problem": pa.string(),
}
_READ = (
    "object string, topic string, partition int, offset long, timestamp long, key binary, value binary, "
    f"headers {E.HEADERS_TYPE}, problem string"
)


def read_kcat(
    session: SparkSession,
    objects: list[TextObject],
    origin: Origin,
    access: S3Access | None = None,
    limits: ExpansionLimits = LIMITS,
) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of kcat's JSON lines.

    A line that is not exactly one JSON object with topic, partition and offset is a row with `_unreadable`
    and the line's bytes. So is a line with `payload_error` or `key_error`, which kcat prints next to a null where it
    could not decode a payload or key (kcat's json.c): such a null is no tombstone. Objects of any size are split, but
    for packed ones.
    """
    rows = read_text(session, objects, lines_to_rows, _READ, access, limits)
    return rows.select(
        F.col("timestamp").alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.col("topic").alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.col("partition").alias(E.PARTITION),
        F.col("offset").alias(E.OFFSET),
        F.col("key").alias(E.KEY_BYTES),
        F.col("value").alias(E.VALUE_BYTES),
        F.col("headers").alias(E.HEADERS),
        F.col("object").alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.col("problem").alias(E.UNREADABLE),
        *E.not_shown(),
    )


def lines_to_rows(name: str, lines: bytes) -> pa.RecordBatch:
    """A row (`_READ`) for each line of an object; of a line that cannot be read the value is the line."""
    found = read_lines(lines)
    columns = {"object": pa.repeat(pa.scalar(name, pa.string()), len(found.topic))}
    columns |= {column: pa.array(getattr(found, column), kind) for column, kind in _KINDS.items()}
    return pa.RecordBatch.from_pydict(columns)


def _read(batch: LandedBatch) -> DataFrame:
    objects = [TextObject(object_.name, uri, object_.size) for object_, uri in batch.objects]
    return read_kcat(batch.session, objects, batch.origin, batch.lake.access, batch.lake.settings.expansion_limits)


def _count(batch: LandedBatch) -> int:
    return count_lines(batch.session, [uri for _, uri in batch.values])


READER = LayoutReader(_read, _count)
