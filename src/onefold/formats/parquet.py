"""Parquet files by pyarrow: their columns' shapes, and their rows as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from onefold.formats.expansion import ExpansionLimits
from onefold.formats.structured_json import FormatError, Shape, refused

_ROWS = 2_048
"""Rows that are held as Python's values at once."""
_UNITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}


def open_parquet(file: BinaryIO | pa.NativeFile) -> pq.ParquetFile:
    """A Parquet file whose footer can be read.

    Raises:
        FormatError: it is none, or has lost its end.
    """
    try:
        return pq.ParquetFile(file, pre_buffer=False)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"it is no Parquet file, or its footer is missing: {first_line(error)}") from error


def check_expansion(metadata: Any, limits: ExpansionLimits) -> None:
    """Refuse a file whose footer says that it holds more rows, or more bytes when it is unpacked.

    Raises:
        FormatError: it names the setting.
    """
    limits.check_records(metadata.num_rows)
    limits.check_unpacked(sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups)))


def read_parquet(data: memoryview, limits: ExpansionLimits | None = None) -> tuple[Shape, int, Iterator[Any]]:
    """The shape of a file's rows, how many its footer says, and the rows in their order.

    Raises:
        FormatError: it cannot be read, at once or while it is read.
    """
    file = open_parquet(pa.BufferReader(pa.py_buffer(data)))
    if limits:
        check_expansion(file.metadata, limits)
    names = file.schema_arrow.names
    if twice := {name for name in names if names.count(name) > 1}:
        raise FormatError(f"it has two columns called {min(twice)}")
    kind = pa.struct(list(file.schema_arrow))
    return with_enums(shape_of(kind), file.schema), file.metadata.num_rows, _rows(file, kind)


def _rows(file: pq.ParquetFile, kind: pa.DataType) -> Iterator[Any]:
    done = 0
    try:
        for batch in file.iter_batches(batch_size=_ROWS, use_threads=False):
            whole = pa.StructArray.from_arrays(batch.columns, fields=list(kind))
            yield from plain_values(whole)
            done += len(whole)
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"it cannot be read behind row {done:,}: {first_line(error)}") from error


def plain_values(values: pa.Array) -> list[Any]:
    """Values as Python has them; dates, times and timestamps are numbers, texts are bytes: nothing is rounded."""
    found: list[Any] = values.cast(_plain(values.type)).to_pylist()
    return found


def _plain(kind: pa.DataType) -> pa.DataType:
    types = pa.types
    if types.is_dictionary(kind):
        return _plain(kind.value_type)
    if types.is_timestamp(kind) or types.is_time64(kind) or types.is_duration(kind):
        return pa.int64()
    if types.is_time32(kind) or types.is_date32(kind):
        return pa.int32()
    if types.is_date64(kind):
        return pa.int64()
    if types.is_string(kind) or types.is_string_view(kind):
        return pa.binary()
    if types.is_large_string(kind):
        return pa.large_binary()
    if types.is_struct(kind):
        return pa.struct([kind.field(n).with_type(_plain(kind.field(n).type)) for n in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def shape_of(kind: pa.DataType) -> Shape:
    """The shape of a column's values."""
    types = pa.types
    if types.is_dictionary(kind):
        return shape_of(kind.value_type)
    if types.is_struct(kind):
        return Shape("struct", fields=tuple((field.name, shape_of(field.type)) for field in kind))
    if types.is_map(kind):
        text = shape_of(kind.key_type).name == "text"
        return Shape("map", item=shape_of(kind.item_type)) if text else refused("a map's keys must be texts")
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return Shape("list", item=shape_of(kind.value_type))
    if types.is_timestamp(kind):
        return Shape("timestamp", _UNITS[kind.unit], instant=kind.tz is not None)
    if types.is_time(kind):
        return Shape("time", _UNITS[kind.unit])
    for name, asked in _SCALARS.items():
        if any(question(kind) for question in asked):
            return Shape(name)
    return refused(f"the type {kind} cannot be read")


_SCALARS = {
    "null": (pa.types.is_null,),
    "boolean": (pa.types.is_boolean,),
    "whole": (pa.types.is_integer,),
    "float": (pa.types.is_float16, pa.types.is_float32),
    "double": (pa.types.is_float64,),
    "decimal": (pa.types.is_decimal,),
    "date": (pa.types.is_date32,),
    "text": (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    "binary": (
        pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view,
    ),
}  # fmt: skip


def with_enums(shape: Shape, schema: Any) -> Shape:
    """The shape, with the texts that Parquet calls ENUM and pyarrow hands on as bytes."""
    columns = [schema.column(number) for number in range(len(schema))]
    enums = {column.path for column in columns if column.logical_type.type == "ENUM"}
    return _with_enums(shape, enums, "") if enums else shape


def _with_enums(shape: Shape, enums: set[str], at: str) -> Shape:
    if shape.name == "binary" and at in enums:
        return Shape("text")
    if shape.name != "struct":
        inside = any(path.startswith(f"{at}.") for path in enums)
        return refused("an ENUM inside a list or a map cannot be read") if inside else shape
    fields = ((name, _with_enums(kind, enums, f"{at}.{name}".lstrip("."))) for name, kind in shape.fields)
    return Shape("struct", fields=tuple(fields))


def first_line(error: Exception) -> str:
    """What pyarrow says, without its stack."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
