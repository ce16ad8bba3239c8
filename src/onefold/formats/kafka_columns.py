"""Parquet with Kafka's own columns: which types they may have, and rows for those who read them without Spark."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from onefold.dataset.layouts.parquet import Columns
from onefold.formats.parquet import first_line, open_parquet, plain_values, shape_of
from onefold.formats.structured_json import FormatError, Shape, encoder, writer
from onefold.formats.text import binary_pairs, text_of

_ROWS = 1_000
_HELD = 64 << 20
"""Bytes of a row group that are held at once."""


class ColumnError(FormatError):
    """A column is not there, there twice, or of a type that cannot be read."""

    def __init__(self, column: str, problem: str) -> None:
        super().__init__(f"column {column!r}: {problem}")
        self.column, self.problem = column, problem


@dataclass(frozen=True, slots=True)
class Row:
    """One row. `timestamp` in milliseconds since 1970."""

    topic: str | None
    partition: int | None
    offset: int | None
    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, str | None], ...]
    binary_headers: tuple[tuple[str, bytes], ...] = ()
    """Those whose bytes are no text."""


def column_types(schema: pa.Schema, columns: Columns) -> dict[str, pa.DataType | None]:
    """The types of the mapped columns, by what they are; None: not there, and not asked for.

    Raises:
        ColumnError: a needed column is not there, twice there, or of a type that cannot be read.
    """
    types: dict[str, pa.DataType | None] = {}
    for role, name in columns.model_dump().items():
        count = schema.names.count(name) if name else 0
        if name and count != 1 and (count or columns.required(role)):
            known = ", ".join(schema.names[:20])
            problem = "is there twice" if count else f"the {role} is not there (there are {known})"
            raise ColumnError(name, problem)
        types[role] = kind = schema.field(name).type if count else None
        if kind is not None and not _fits(role, kind):
            raise ColumnError(str(name), f"the {role} cannot be read from the type {kind}")
    return types


def _fits(role: str, kind: pa.DataType) -> bool:
    types = pa.types
    match role:
        case "topic":
            return _is_bytes(kind)
        case "partition" | "offset":
            return bool(types.is_integer(kind)) and kind != pa.uint64()
        case "timestamp":
            return bool(types.is_timestamp(kind) or (types.is_integer(kind) and kind != pa.uint64()))
        case "key":
            return _is_bytes(kind)
        case "value":
            return _is_bytes(kind) or bool(types.is_struct(kind))
        case _:
            if types.is_map(kind):
                return _is_bytes(kind.key_type) and _is_bytes(kind.item_type)
            pair = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None
            named = pair is not None and types.is_struct(pair) and {field.name for field in pair} == {"key", "value"}
            return pair is not None and named and all(_is_bytes(field.type) for field in pair)


def _is_bytes(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        return _is_bytes(kind.value_type)
    return shape_of(kind).name in ("text", "binary")


def rows_from_end(file: io.RawIOBase) -> Iterator[Row]:
    """The rows of a file as they are asked for, the last first, row group by row group.

    Raises:
        ColumnError: it has not Kafka's columns, or has them with types that cannot be read.
        FormatError: it is no Parquet file, a part of it is damaged, or a row group is too large to be held: its last
            rows were given then.
    """
    opened = open_parquet(pa.PythonFile(file, mode="r"))
    names = Columns().model_dump()
    types = column_types(opened.schema_arrow, Columns())
    mapped = {role: names[role] for role, kind in types.items() if kind is not None}
    for group in reversed(range(opened.num_row_groups)):
        held, left_out = _end_of(opened, group, list(mapped.values()))
        while held:
            yield from _rows(held.pop(), mapped, group)
        if left_out:
            raise FormatError(f"the first {left_out:,} rows of its row group {group} are more than can be held at once")


def _end_of(opened: pq.ParquetFile, group: int, names: list[str]) -> tuple[deque[pa.RecordBatch], int]:
    """The last batches of a row group that can be held, and how many rows of it are before them."""
    held, size, left_out = deque[pa.RecordBatch](), 0, 0
    try:
        for batch in opened.iter_batches(batch_size=_ROWS, row_groups=[group], columns=names, use_threads=False):
            held.append(batch)
            size += batch.nbytes
            while size > _HELD and len(held) > 1:
                size -= held[0].nbytes
                left_out += held.popleft().num_rows
    except (pa.ArrowException, OSError) as error:
        raise FormatError(f"its row group {group} cannot be read: {first_line(error)}") from error
    return held, left_out


def _rows(batch: pa.RecordBatch, names: Mapping[str, str], group: int) -> Iterator[Row]:
    """The rows of a batch, the last first."""
    try:
        columns = {role: _read(role, batch.column(name)) for role, name in names.items()}
    except pa.ArrowException as error:
        raise FormatError(f"its row group {group} cannot be read: {first_line(error)}") from error
    for number in reversed(range(batch.num_rows)):
        yield _row({role: column[number] for role, column in columns.items()})


def _read(role: str, column: pa.Array) -> list[Any]:
    """A column's values; a timestamp in milliseconds, a struct as its JSON text."""
    shape = shape_of(column.type)
    if role == "value" and shape.name == "struct":
        kept = [number for number, (name, kind) in enumerate(shape.fields) if _is_readable(kind)]
        kind = pa.struct([column.type.field(number) for number in kept])
        encode = encoder(Shape("struct", fields=tuple(shape.fields[number] for number in kept)))
        return [None if value is None else encode(value) for value in plain_values(column.cast(kind))]
    values = plain_values(column)
    if shape.name == "timestamp":
        return [None if ticks is None else ticks * 1000 // 10**shape.scale for ticks in values]
    return values


def _is_readable(shape: Shape) -> bool:
    try:
        writer(shape)
    except FormatError:
        return False
    return True


def _row(record: dict[str, Any]) -> Row:
    pairs = record.get("headers") or []
    flat = [(pair["key"], pair["value"]) if isinstance(pair, dict) else pair for pair in pairs if pair is not None]
    named = [(text_of(name) or "", value) for name, value in flat]
    return Row(
        text_of(record["topic"]),
        record["partition"],
        record["offset"],
        record.get("timestamp"),
        record.get("key"),
        record["value"],
        tuple((name, text_of(value)) for name, value in named),
        binary_pairs(named),
    )
