"""Parquet exports with Kafka's own columns, as Spark's source and most landers write them: positions are exact.

The dataset file says which column is what (`source.exports.columns`). Files may differ in their schemas: the
footers are read first, and files of one kind together, with exactly the types that they have.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from onefold.dataset.layouts.parquet import Columns
from onefold.dataset.source import Origin
from onefold.dataset.types import FieldType
from onefold.errors import ExportColumnError, UnreadableObjectError
from onefold.formats.expansion import ExpansionLimits
from onefold.formats.kafka_columns import ColumnError, column_types
from onefold.formats.parquet import check_expansion, open_parquet, plain_values, shape_of, with_enums
from onefold.formats.structured_json import FormatError, Shape, encoded, writer
from onefold.landing.manifest import LandedObject, Manifest
from onefold.records import envelope as E
from onefold.records.landed_objects import literal, object_name
from onefold.records.layouts import LandedBatch, LayoutReader
from onefold.spark.python_tasks import map_in_python
from onefold.storage.objects import Seekable, Storage

_AT_ONCE = 8
"""Footers that are read at the same time."""
_NO_POSITION = "topic, partition or offset is null, or no number that Kafka has"


@dataclass(frozen=True, slots=True)
class Footer:
    """What a file says of itself."""

    object_: LandedObject
    schema: pa.Schema
    columns: Any
    """Parquet's own schema, with what Arrow does not tell."""
    rows: int


def read_footers(storage: Storage, manifest: Manifest, limits: ExpansionLimits | None = None) -> list[Footer]:
    """The footers of a batch's objects.

    Raises:
        UnreadableObjectError: an object is no Parquet file, has lost its end, or exceeds a limit.
    """

    def read(object_: LandedObject) -> Footer:
        try:
            file = open_parquet(pa.PythonFile(Seekable(storage, object_.key, object_.size), mode="r"))
            if limits:
                check_expansion(file.metadata, limits)
        except FormatError as error:
            raise UnreadableObjectError(manifest.batch, object_.name, str(error)) from error
        return Footer(object_, file.schema_arrow, file.schema, file.metadata.num_rows)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(read, manifest.of_role("values")))


def read_parquet_exports(
    session: SparkSession,
    storage: Storage,
    footers: list[Footer],
    columns: Columns,
    origin: Origin,
    fields: Mapping[str, FieldType],
) -> DataFrame:
    """The envelope (`onefold.records.envelope`) of Parquet objects; `fields` are what the dataset declares.

    A row without a position is a row with `_unreadable`. Objects of any size are split.

    Raises:
        ExportColumnError: an object lacks a mapped column, or has it with a type that cannot be read.
    """
    alike: dict[tuple[str, ...], list[Footer]] = {}
    for footer in footers:
        alike.setdefault(tuple(str(kind) for kind in _kinds(footer, columns).values()), []).append(footer)
    read = [_read_alike(session, storage, some, columns, origin, dict(fields)) for some in alike.values()]
    return reduce(DataFrame.unionByName, read) if read else session.createDataFrame([], _schema())


def _schema() -> str:
    kinds = {E.TIMESTAMP: "long", E.PARTITION: "int", E.INCARNATION: "int", E.OFFSET: "long", E.LINE: "int"}
    kinds |= {E.KEY_BYTES: "binary", E.VALUE_BYTES: "binary", E.HEADERS: E.HEADERS_TYPE} | E.OF_THE_LOG
    return ", ".join(f"{name} {kinds.get(name, 'string')}" for name in E.ENVELOPE)


def _kinds(footer: Footer, columns: Columns) -> dict[str, pa.DataType | None]:
    """The types of the mapped columns, by what they are; None: not there, and not asked for.

    Raises:
        ExportColumnError: a needed column is not there, twice there, or of a type that cannot be read.
    """
    try:
        types = column_types(footer.schema, columns)
    except ColumnError as error:
        raise ExportColumnError(footer.object_.name, error.column, error.problem) from error
    if types["timestamp"] is not None and _is_int96(footer, str(columns.timestamp)):
        types["timestamp"] = pa.timestamp("us", "UTC")  # what Spark makes of it
    return types


def _is_int96(footer: Footer, name: str) -> bool:
    columns = (footer.columns.column(number) for number in range(len(footer.columns)))
    return any(column.path == name and column.physical_type == "INT96" for column in columns)


def _read_alike(
    session: SparkSession,
    storage: Storage,
    alike: list[Footer],
    columns: Columns,
    origin: Origin,
    fields: dict[str, FieldType],
) -> DataFrame:
    """The envelope of files whose mapped columns have the same types."""
    kinds = _kinds(alike[0], columns)
    value = kinds["value"]
    structured = value is not None and pa.types.is_struct(value)
    kept = _readable_part(alike[0], columns, value, fields) if structured else None
    schema = T.StructType(
        [
            T.StructField(name, kept[0] if kept and role == "value" else _spark_type(role, kind))
            for role, name in columns.model_dump().items()
            if (kind := kinds[role]) is not None
        ]
    )
    objects = [(footer.object_.name, storage.uri_of(footer.object_.key)) for footer in alike]
    files = session.read.schema(schema).parquet(*literal(uri for _, uri in objects))
    rows = files.select(
        object_name(F.col("_metadata.file_path"), objects).alias("object"),
        *(_given(role, columns, kind).alias(role) for role, kind in kinds.items()),
    )
    if kept:
        rows = _with_text(rows, kept[1], kept[2], fields)
    return _envelope(rows, origin)


def _given(role: str, columns: Columns, kind: pa.DataType | None) -> Column:
    """The column as the envelope has it; null where there is none."""
    name = getattr(columns, role)
    if kind is None:
        return F.array().cast(E.HEADERS_TYPE) if role == "headers" else F.lit(None).cast(_ABSENT[role])
    column = F.col(f"`{name.replace('`', '``')}`")
    match role:
        case "topic":
            return column.cast("string")
        case "partition":
            return column.try_cast("int")
        case "timestamp":
            return _millis(column, kind)
        case "headers":
            pairs = F.map_entries(column) if pa.types.is_map(kind) else column
            return F.coalesce(F.transform(pairs, _pair), F.array().cast(E.HEADERS_TYPE))
        case "offset":
            return column.cast("long")
        case _:
            return column


_ABSENT = {"timestamp": "long", "key": "binary"}


def _millis(column: Column, kind: pa.DataType) -> Column:
    if not pa.types.is_timestamp(kind):
        millis = column
    elif kind.unit == "ns":  # in whole numbers, for a double does not hold them; `div` cuts towards 1970
        millis = F.when(column >= 0, F.call_function("div", column, F.lit(1_000_000)))
    else:
        millis = F.unix_millis(column.cast("timestamp"))
    return F.when(millis >= 0, millis.cast("long"))


def _pair(header: Column) -> Column:
    return F.struct(header["key"].cast("string").alias("key"), header["value"].cast("binary").alias("value"))


def _spark_type(role: str, kind: pa.DataType) -> T.DataType:
    """As Spark reads the column, so that no bit of it changes."""
    if role == "headers":
        if pa.types.is_map(kind):
            return T.MapType(T.StringType(), T.BinaryType())
        return T.ArrayType(T.StructType([T.StructField("key", T.StringType()), T.StructField("value", T.BinaryType())]))
    if role == "topic":
        return T.StringType()
    if role in ("key", "value"):
        return T.BinaryType()
    return _plain_type(kind)


def _plain_type(kind: pa.DataType) -> T.DataType:
    types = pa.types
    if types.is_timestamp(kind) and kind.unit == "ns":
        return T.LongType()  # Spark has no nanoseconds, but reads their number
    if types.is_unsigned_integer(kind):
        return T.LongType() if kind == pa.uint32() else T.IntegerType()
    if types.is_struct(kind):
        return T.StructType([T.StructField(field.name, _plain_type(field.type)) for field in kind])
    if types.is_list(kind) or types.is_large_list(kind):
        return T.ArrayType(_plain_type(kind.value_type))
    if types.is_map(kind):
        return T.MapType(_plain_type(kind.key_type), _plain_type(kind.item_type))
    if types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    return from_arrow_type(kind, prefer_timestamp_ntz=True)


def _readable_part(
    footer: Footer, columns: Columns, value: pa.DataType, fields: Mapping[str, FieldType]
) -> tuple[T.StructType, pa.DataType, Shape]:
    """Of a struct of values, the fields that can be read: as Spark has them, as the file has them, and their shapes.

    Raises:
        ExportColumnError: a declared field is none of them.
    """
    shapes = dict(_value_shape(footer, columns, value).fields)
    spark, arrow, shaped = [], [], []
    for field in value:
        try:
            kind = _plain_type(field.type)
            writer(shapes[field.name], at=field.name)
        except (TypeError, FormatError, NotImplementedError) as error:
            if field.name in fields:
                raise ExportColumnError(footer.object_.name, f"{columns.value}.{field.name}", str(error)) from error
            continue
        except Exception as error:
            if type(error).__name__ not in ("UnsupportedOperationException", "PySparkTypeError"):
                raise
            if field.name in fields:
                raise ExportColumnError(footer.object_.name, f"{columns.value}.{field.name}", str(error)) from error
            continue
        spark.append(T.StructField(field.name, kind))
        arrow.append(field)
        shaped.append((field.name, shapes[field.name]))
    return T.StructType(spark), pa.struct(arrow), Shape("struct", fields=tuple(shaped))


def _value_shape(footer: Footer, columns: Columns, value: pa.DataType) -> Shape:
    whole = Shape("struct", fields=((columns.value, shape_of(value)),))
    return with_enums(whole, footer.columns).fields[0][1]


def _with_text(rows: DataFrame, kind: pa.DataType, shape: Shape, fields: dict[str, FieldType]) -> DataFrame:
    """Rows whose struct of a value is its JSON text."""
    write = shape, FieldType("struct", fields=tuple(fields.items()))
    schema = T.StructType(
        [T.StructField("value", T.BinaryType()) if field.name == "value" else field for field in rows.schema.fields]
    )

    def read(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        text = writer(*write)
        for batch in batches:
            number = batch.schema.get_field_index("value")
            values = plain_values(batch.column(number).cast(kind))
            lines = [None if value is None else encoded(text(value)) for value in values]
            yield batch.set_column(number, "value", pa.array(lines, pa.binary()))

    return map_in_python(rows, read, schema)


def _envelope(rows: DataFrame, origin: Origin) -> DataFrame:
    good = F.col("topic").isNotNull() & F.col("partition").isNotNull() & (F.col("offset") >= 0)
    good = F.coalesce(good & (F.col("partition") >= 0), F.lit(False))
    return rows.select(
        F.col("timestamp").alias(E.TIMESTAMP),
        F.lit(origin.cluster).alias(E.CLUSTER),
        F.when(good, F.col("topic")).alias(E.TOPIC),
        F.lit(origin.incarnation).alias(E.INCARNATION),
        F.when(good, F.col("partition")).alias(E.PARTITION),
        F.when(good, F.col("offset")).alias(E.OFFSET),
        F.col("key").alias(E.KEY_BYTES),
        F.col("value").alias(E.VALUE_BYTES),
        F.col("headers").alias(E.HEADERS),
        F.col("object").alias(E.OBJECT),
        F.lit(None).cast("int").alias(E.LINE),
        F.when(~good, _NO_POSITION).alias(E.UNREADABLE),
        *E.not_shown(),
    )


def _read(batch: LandedBatch) -> DataFrame:
    storage, fields = batch.lake.storage, batch.dataset.read_fields
    footers = read_footers(storage, batch.manifest, batch.lake.settings.expansion_limits)
    return read_parquet_exports(batch.session, storage, footers, batch.options.columns, batch.origin, fields)


def _count(batch: LandedBatch) -> int:
    return sum(footer.rows for footer in read_footers(batch.lake.storage, batch.manifest))


READER = LayoutReader(_read, _count)
