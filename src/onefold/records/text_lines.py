"""Objects of lines, read in Spark's Python workers: a task reads some parts, of each only its own bytes of the object.

Spark's own reader of text would copy every line four times on its way to Python: into a string, a row, an Arrow batch
and a socket.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from onefold.formats.expansion import ExpansionLimits
from onefold.formats.structured_json import FormatError
from onefold.records.landed_objects import complaint
from onefold.spark.python_tasks import map_in_python
from onefold.storage import S3Access, Storage, open_storage

PER_TASK = 64 << 20
"""Bytes that a task reads at most, about, one part after another: to begin a task costs Python a quarter of a
second."""
_PIECE = 2 << 20
"""Bytes of lines that are handed on at once, about."""
_LOOK = 64 << 10
"""Bytes in which the end of a line is looked for at once."""
ReadLines = Callable[[str, bytes], pa.RecordBatch]
"""The name of an object and some of its lines, with `\\n` between them and none behind the last, to a row a line."""


@dataclass(frozen=True, slots=True)
class TextObject:
    """An object of lines, packed if its URI ends in `.gz`."""

    name: str
    uri: str
    size: int


@dataclass(frozen=True, slots=True)
class _Part:
    """The lines of an object that begin in `[start, end)`; of a packed object all."""

    object_: TextObject
    start: int
    end: int


def read_text(
    session: SparkSession,
    objects: list[TextObject],
    read: ReadLines,
    schema: str,
    access: S3Access | None,
    limits: ExpansionLimits,
) -> DataFrame:
    """The rows that `read` makes of the lines of objects; `schema` in Spark SQL's spelling.

    A job that meets a packed object that is damaged or exceeds a limit ends with the object's name (`complaint`).
    """
    cores = session.sparkContext.defaultParallelism
    tasks = _tasks_of([part for object_ in objects for part in _parts_of(object_, cores)], cores)

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for part in tasks[number]:
                    for piece in _pieces(part, access, limits):
                        yield read(part.object_.name, piece)

    return map_in_python(session.range(0, len(tasks), 1, len(tasks)), run, schema)


def _parts_of(object_: TextObject, cores: int) -> list[_Part]:
    if object_.uri.endswith(".gz"):
        return [_Part(object_, 0, object_.size)] if object_.size else []
    size = min(PER_TASK, max(_PIECE, -(-object_.size // cores)))
    return [_Part(object_, start, min(start + size, object_.size)) for start in range(0, object_.size, size)]


def _tasks_of(parts: list[_Part], cores: int) -> list[list[_Part]]:
    """Parts by task: about as many bytes each, in their order."""
    whole = sum(part.end - part.start for part in parts)
    wanted = min(PER_TASK, max(_PIECE, -(-whole // cores)))
    tasks: list[list[_Part]] = []
    held = wanted
    for part in parts:
        if held >= wanted:
            tasks.append([])
            held = 0
        tasks[-1].append(part)
        held += part.end - part.start
    return tasks


def _pieces(part: _Part, access: S3Access | None, limits: ExpansionLimits) -> Iterator[bytes]:
    folder, _, key = part.object_.uri.rpartition("/")
    store = open_storage(folder, access)
    if not part.object_.uri.endswith(".gz"):
        yield from whole_lines(part_of(store, key, part.object_.size, part.start, part.end))
        return
    try:
        with store.open(key) as packed:
            yield from whole_lines(limits.unpacked_lines(packed))
    except FormatError as error:
        raise RuntimeError(complaint(part.object_.name, str(error))) from error


def part_of(store: Storage, key: str, size: int, start: int, end: int) -> Iterator[bytes]:
    """The bytes of the lines of an object of `size` bytes that begin in `[start, end)`."""
    first = _line_behind(store, key, start - 1, size) if start else 0
    last = _line_behind(store, key, end - 1, size)
    for at in range(first, last, _PIECE):
        yield store.read_range(key, at, min(at + _PIECE, last))


def _line_behind(store: Storage, key: str, place: int, size: int) -> int:
    """Where the first line begins behind the first end of line from a place on."""
    for at in range(place, size, _LOOK):
        found = store.read_range(key, at, min(at + _LOOK, size)).find(b"\n")
        if found >= 0:
            return at + found + 1
    return size


def whole_lines(data: Iterable[bytes]) -> Iterator[bytes]:
    """The same bytes, cut behind lines and without the last end of line."""
    held: list[bytes] = []
    for piece in data:
        end = piece.rfind(b"\n")
        if end < 0:
            held.append(piece)
            continue
        yield b"".join([*held, piece[:end]])
        held = [piece[end + 1 :]] if end + 1 < len(piece) else []
    if held:
        yield b"".join(held)
