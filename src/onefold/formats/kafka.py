"""A few rows of Parquet with Kafka's own columns, for whoever looks at them without Spark."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from onefold.dataset.source import Columns
from onefold.formats.parquet import open_parquet, plain_values, shape_of
from onefold.formats.shapes import FormatError, Shape, encoded, writer

_ROWS = 1_000


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


def kafka_rows(file: io.RawIOBase) -> Iterator[Row]:
    """The rows of a file, as they are asked for.

    Raises:
        FormatError: it is no Parquet file, or has not Kafka's columns.
    """
    opened = open_parquet(pa.PythonFile(file, mode="r"))
    names = Columns().model_dump()
    if lacking := [name for role, name in names.items() if Columns().required(role) and name not in _there(opened)]:
        raise FormatError(f"it has no column {lacking[0]} (there are {', '.join(_there(opened)[:20])})")
    wanted = [name for name in names.values() if name in _there(opened)]
    for batch in opened.iter_batches(batch_size=_ROWS, columns=wanted, use_threads=False):
        columns = {name: _read(name, batch.column(name)) for name in wanted}
        for number in range(batch.num_rows):
            yield _row({name: column[number] for name, column in columns.items()})


def _there(opened: Any) -> list[str]:
    names: list[str] = opened.schema_arrow.names
    return names


def _read(name: str, column: pa.Array) -> list[Any]:
    """A column's values; a timestamp in milliseconds, a struct as its JSON text."""
    shape, values = shape_of(column.type), plain_values(column)
    if shape.name == "timestamp":
        return [None if one is None else one * 1000 // 10**shape.scale for one in values]
    if name == "value" and shape.name == "struct":
        write = writer(_readable(shape))
        return [None if one is None else encoded(write(one)) for one in values]
    return values


def _readable(shape: Shape) -> Shape:
    return Shape("struct", fields=tuple((name, kind) for name, kind in shape.fields if kind.name != "refused"))


def _row(told: dict[str, Any]) -> Row:
    pairs = told.get("headers") or []
    flat = ((one["key"], one["value"]) if isinstance(one, dict) else one for one in pairs)
    return Row(
        _text(told["topic"]),
        told["partition"],
        told["offset"],
        told.get("timestamp"),
        told.get("key"),
        told["value"],
        tuple((_text(name) or "", _text(value)) for name, value in flat),
    )


def _text(data: bytes | None) -> str | None:
    """A text; None where it is none."""
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
