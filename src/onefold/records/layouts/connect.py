"""Objects of Kafka Connect's S3 sink: values in one object, keys and headers in companions next to it.

An object's name holds topic, partition and the first offset: `<topic>+<partition>+<start>.json`, with
companions `….keys.json` and `….headers.json`. A record's offset is inferred as start + line - 1, which is
wrong behind a hole: positions of this layout are inexact. Records without a value may lie apart, as keys in a folder
`tombstone`.

Objects are read one by one in Python, each by its own schema: the only place where a record's number in its object is
known for sure. Spark splits Avro files and does not count in them; lines of a whole text cost memory by the square.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset.layouts.connect import CONNECT, is_tombstones
from onefold.dataset.source import Origin
from onefold.dataset.types import FieldType
from onefold.errors import ObjectTooLargeError
from onefold.formats.avro import count_avro
from onefold.formats.connect import LARGEST, headers_of, keys_of, pairs_of, values_of
from onefold.formats.expansion import LIMITS, ExpansionLimits
from onefold.formats.structured_json import FormatError
from onefold.kafka.batch_records import HEADERS
from onefold.landing.manifest import LandedObject
from onefold.records import envelope as E
from onefold.records.landed_objects import complaint, count_lines, count_rows, literal
from onefold.records.layouts import LandedBatch, LayoutReader
from onefold.spark.python_tasks import map_in_python

_BATCH = 4 << 20
"""Bytes of values, keys and headers that are handed on at once."""
_ROWS = 10_000
"""Records that are handed on at once."""
_READ = (
    "name string, topic string, part int, start long, index long, value binary, key binary, "
    f"headers {E.HEADERS_TYPE}, fits boolean"
)

Landed = tuple[LandedObject, str]
"""(landed object, URI)"""


def read_connect(
    session: SparkSession,
    objects: list[Landed],
    origin: Origin,
    fields: Mapping[str, FieldType] | None = None,
    limits: ExpansionLimits = LIMITS,
) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of a Connect export; `fields` are what the dataset declares.

    Where a companion has not one line a value, every record of that object is `_unreadable`.

    Raises:
        ObjectTooLargeError: an object is larger than `LARGEST`.
    """
    for object_, _ in objects:
        if object_.size > LARGEST:
            raise ObjectTooLargeError(object_.name, object_.size, LARGEST)
    read = map_in_python(_whole(session, objects), _reader(dict(fields or {}), limits), _READ)
    return _envelope(read, origin)


def _envelope(rows: DataFrame, origin: Origin) -> DataFrame:
    """From rows as `_READ`."""
    return rows.select(
        F.lit(None).cast("long").alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.col("topic").alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.col("part").alias(E.PARTITION),
        (F.col("start") + F.col("index")).alias(E.OFFSET),
        F.col("key").alias(E.KEY_BYTES),
        F.col("value").alias(E.VALUE_BYTES),
        F.col("headers").alias(E.HEADERS),
        F.col("name").alias(E.OBJECT),
        (F.col("index") + 1).cast("int").alias(E.LINE),
        F.when(~F.col("fits"), F.lit("keys or headers do not have one line a value")).alias(E.UNREADABLE),
        *E.not_shown(),
    )


def _whole(session: SparkSession, objects: list[Landed]) -> DataFrame:
    """A row an object of values: its names and bytes, and those of its companions."""
    group_of = CONNECT.group_of
    others = [(object_, uri) for object_, uri in objects if object_.role != "values"]
    companions = {(group_of(object_.name), object_.role): (object_.name, _file(uri)) for object_, uri in others}
    rows = []
    for object_, uri in objects:
        if object_.role == "values":
            group = group_of(object_.name)
            files = (companions.get((group, role), (None, None)) for role in ("keys", "headers"))
            rows.append((object_.name, _file(uri), object_.topic, object_.partition, object_.start, *chain(*files)))
    columns = "name string, values_file string, topic string, part int, start long"
    columns += ", keys_name string, keys_file string, headers_name string, headers_file string"
    whole = F.broadcast(session.createDataFrame(rows, columns))
    for role in ("values", "keys", "headers"):
        some = [(object_, uri) for object_, uri in objects if object_.role == role]
        if some:
            whole = _contents(session, some, role).join(whole, f"{role}_file", "inner" if role == "values" else "right")
        else:
            whole = whole.withColumn(f"{role}_data", F.lit(None).cast("binary"))
    columns_read = (
        "name",
        "topic",
        "part",
        "start",
        "keys_name",
        "headers_name",
        "values_data",
        "keys_data",
        "headers_data",
    )
    return whole.select(*columns_read)


def _contents(session: SparkSession, objects: list[Landed], role: str) -> DataFrame:
    """Whole objects: `<role>_file`, `<role>_data`."""
    # Spark reads no empty files: what lost all its bytes would go missing without a word.
    empty = [(_file(uri), bytearray()) for object_, uri in objects if not object_.size]
    contents = session.createDataFrame(empty, f"{role}_file string, {role}_data binary")
    full = [uri for object_, uri in objects if object_.size]
    if not full:
        return contents
    files = session.read.format("binaryFile").load(literal(full))
    read = files.select(F.substring_index("path", "/", -1), "content")
    return contents.union(read) if empty else read.toDF(*contents.columns)


def _file(uri: str) -> str:
    return uri.rsplit("/", 1)[-1]


def _reader(fields: dict[str, FieldType], limits: ExpansionLimits) -> Any:
    """What reads whole objects in Spark's tasks: rows of objects in, batches of their records out."""

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for row in range(batch.num_rows):
                yield from _records({name: batch.column(name)[row] for name in batch.schema.names}, fields, limits)

    return read


def _records(
    scalars: dict[str, Any], fields: Mapping[str, FieldType], limits: ExpansionLimits
) -> Iterator[pa.RecordBatch]:
    """The records of an object, from its row of `_whole`; a damaged object ends the job with its name (`complaint`)."""
    same = {name: scalars[name].as_py() for name in ("name", "topic", "part", "start")}
    reading = same["name"]
    try:
        companions: dict[str, Iterator[bytes | None]] = {"keys": iter(()), "headers": iter(())}
        values: Iterator[bytes | None]
        if is_tombstones(reading):
            count, companions["keys"] = keys_of(reading, _bytes_of(scalars["values_data"]), limits)
            values = repeat(None, count)
        else:
            count, values = values_of(reading, _bytes_of(scalars["values_data"]), fields, limits)
        counts: set[int] = {count}
        for role, of in (("keys", keys_of), ("headers", headers_of)):
            if scalars[f"{role}_data"].is_valid:
                reading = scalars[f"{role}_name"].as_py()
                companion_count, companions[role] = of(reading, _bytes_of(scalars[f"{role}_data"]), limits)
                counts.add(companion_count)
        same["fits"] = len(counts) == 1
        reading = same["name"]
        held: list[tuple[int, Any, Any, Any]] = []
        size = done = 0
        for value in values:
            key, headers = next(companions["keys"], None), next(companions["headers"], None)
            held.append((done, value, key, headers))
            size += len(value or b"") + len(key or b"") + len(headers or b"")
            done += 1
            if size >= _BATCH or len(held) >= _ROWS:
                yield _batch(same, held)
                held, size = [], 0
        _check_count(done, count)
        if held:
            yield _batch(same, held)
    except FormatError as error:
        raise RuntimeError(complaint(reading, str(error))) from error


def _check_count(done: int, count: int) -> None:
    if done != count:
        raise FormatError(f"it holds {done:,} records, and says {count:,}")


def _batch(same: dict[str, Any], held: list[tuple[int, Any, Any, Any]]) -> pa.RecordBatch:
    index, value, key, headers = zip(*held, strict=True)
    count = len(held)
    kinds = {"name": pa.string(), "topic": pa.string(), "part": pa.int32(), "start": pa.int64(), "fits": pa.bool_()}
    columns = {name: pa.repeat(pa.scalar(same[name], kind), count) for name, kind in kinds.items()}
    columns |= {"index": pa.array(index, pa.int64())}
    columns |= {name: pa.array(given, pa.binary()) for name, given in (("value", value), ("key", key))}
    columns["headers"] = pa.array([_pairs(text) for text in headers], HEADERS)
    order = ("name", "topic", "part", "start", "index", "value", "key", "headers", "fits")
    return pa.RecordBatch.from_arrays([columns[name] for name in order], names=list(order))


def _pairs(text: bytes | None) -> list[dict[str, str | bytes | None]] | None:
    pairs = pairs_of(text)
    return None if pairs is None else [{"key": name, "value": value} for name, value in pairs]


def _bytes_of(scalar: Any) -> memoryview:
    return memoryview(scalar.as_buffer())


def count_packed_avro(session: SparkSession, objects: list[Landed]) -> int:
    """The records that the blocks of Avro objects say they hold; nothing is decoded."""
    names = {_file(uri): object_.name for object_, uri in objects}

    def count(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file, data in zip(batch.column("values_file"), batch.column("values_data"), strict=True):
                try:
                    yield pa.RecordBatch.from_pydict({"records": pa.array([count_avro(_bytes_of(data))], pa.int64())})
                except FormatError as error:
                    raise RuntimeError(complaint(names[file.as_py()], str(error))) from error

    counted = map_in_python(_contents(session, objects, "values"), count, "records long")
    row = counted.agg(F.sum("records")).first()
    return int(row[0] or 0) if row else 0


def _read(batch: LandedBatch) -> DataFrame:
    limits = batch.lake.settings.expansion_limits
    return read_connect(batch.session, batch.objects, batch.origin, batch.dataset.read_fields, limits)


def _count(batch: LandedBatch) -> int:
    """Each object is counted as its format allows."""
    avro = [(object_, uri) for object_, uri in batch.values if object_.name.endswith(".avro")]
    rows = [uri for object_, uri in batch.values if object_.name.endswith(".parquet")]
    lines = [uri for object_, uri in batch.values if not object_.name.endswith((".avro", ".parquet"))]
    counted = count_rows(batch.session, rows) + count_lines(batch.session, lines)
    return counted + (count_packed_avro(batch.session, avro) if avro else 0)


READER = LayoutReader(_read, _count)
