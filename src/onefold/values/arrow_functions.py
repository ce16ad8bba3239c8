"""Functions of columns that Python runs over Arrow batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from onefold.formats.cloudevents import CONTENT_TYPE, PREFIX, BinaryEvent, attributes_in, headers_of
from onefold.formats.connect_decimals import json_with_decimals
from onefold.formats.envelopes import NoRowError
from onefold.formats.structured_json import FormatError, TooLargeError
from onefold.formats.wire import Header, header_names
from onefold.records import envelope as E
from onefold.spark.python_tasks import lightened
from onefold.values.columns import Fields, Json, reader
from onefold.vocabulary import Reason

Read = Callable[[bytes], bytes]
"""The bytes of a message to JSON that says the same; FormatError: they are no message of the schema."""
ToJson = Callable[[bytes | None, Header | None], Json]
"""A key or a value, and the header that names its schema, to the JSON that says the same."""
DECODED = "struct<json: binary, problem: string, reason: string>"
"""The JSON of a message, or why there is none; null of a null."""
_DECODED = pa.struct([("json", pa.binary()), ("problem", pa.string()), ("reason", pa.string())])


def json_by(read: Read, message: bytes) -> Json:
    """The JSON of a message, or why there is none."""
    try:
        return read(message)
    except TooLargeError as error:
        return Reason.TOO_LARGE.value, str(error)
    except FormatError as error:
        return Reason.UNDECODABLE.value, str(error)


def header_of(section: str) -> Column:
    """struct<key: string, value: binary>: the last header that names the schema of a section; null: there is none."""
    named = F.filter(E.HEADERS, lambda header: header.key.isin(*header_names(section)))
    return F.get(named, F.size(named) - 1)


def fields_of(data: Column, fields: Fields, section: str = "", made: Callable[[], ToJson] | None = None) -> Column:
    """What is read of a column of values (`onefold.values.columns.reader`).

    Args:
        data: the values, binary.
        fields: what is read of them.
        section: of messages, the section of the dataset file that says how they are written.
        made: of messages, what makes, once a task, what turns them into JSON.
    """

    def run(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        read = reader(fields)
        for batch in batches:
            yield read(batch.to_pylist())

    def run_messages(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        assert made
        read, to_json = reader(fields), made()
        for batch in batches:
            yield read([to_json(message, header) for message, header in _messages(batch)])

    if made is None:
        return _once(run, fields.ddl)(data)
    header = header_of(section)
    return _once(run_messages, fields.ddl)(data, header["key"], header["value"])


def event_of(value: bytes | None, headers: Sequence[Mapping[str, Any]] | None) -> Json:
    """The event that a value is with some headers (`onefold.records.envelope.HEADERS`): in structured mode the value
    alone."""
    if headers is None:
        return Reason.UNDECODABLE.value, "the headers cannot be read"
    try:
        attributes = attributes_in(headers_of((header["key"], header["value"]) for header in headers))
    except NoRowError as error:
        return error.reason.value, error.detail
    return value if attributes is None else BinaryEvent(attributes, value)


def fields_of_events(data: Column, fields: Fields) -> Column:
    """What is read of a column of values that are CloudEvents, with their headers."""

    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        read = reader(fields)
        for batch in batches:
            values, headers = (column.to_pylist() for column in batch)
            yield read([event_of(value, named) for value, named in zip(values, headers, strict=True)])

    def is_of_event(header: Column) -> Column:
        return header.key.startswith(PREFIX) | (F.lower(header.key) == CONTENT_TYPE)

    return _once(run, fields.ddl)(data, F.filter(E.HEADERS, is_of_event))


def decoded(data: Column, section: str, made: Callable[[], ToJson]) -> Column:
    """`DECODED` of a column of messages."""

    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        to_json = made()
        for batch in batches:
            yield pa.array([_said(to_json(message, header)) for message, header in _messages(batch)], _DECODED)

    header = header_of(section)
    return _once(run, DECODED)(data, header["key"], header["value"])


def with_decimals(data: Column) -> Column:
    """JSON keys (binary) that may be `{schema, payload}`, with the digits of decimals that the schema says are Base64.
    Python sees only those that may have such a schema."""

    def run(batches: Iterator[pa.Array]) -> Iterator[pa.Array]:
        for batch in batches:
            given = batch.to_pylist()
            yield pa.array([None if key is None else json_with_decimals(key) for key in given], pa.binary())

    text = data.cast("string")
    may_be = F.contains(text, F.lit("Decimal")) | F.contains(text, F.lit("\\u"))
    return F.coalesce(_function(run, "binary")(F.when(may_be, data)), data)


def _said(json: Json) -> dict[str, Any] | None:
    if json is None:
        return None
    if isinstance(json, tuple):
        return {"json": None, "reason": json[0], "problem": json[1]}
    return {"json": json, "reason": None, "problem": None}


def text_of(
    data: Column, section: str, made: Callable[[], Callable[[bytes | None, Header | None], str | None]]
) -> Column:
    """The text that a function, which `made` makes once a task, has for a message and the header that names its
    schema."""

    def run(batches: Iterator[tuple[pa.Array, ...]]) -> Iterator[pa.Array]:
        each = made()
        for batch in batches:
            yield pa.array([each(message, header) for message, header in _messages(batch)], pa.string())

    header = header_of(section)
    found: Column = _function(run, "string")(data, header["key"], header["value"])
    return found


def _messages(batch: tuple[pa.Array, ...]) -> Iterator[tuple[bytes | None, Header | None]]:
    messages, names, values = (column.to_pylist() for column in batch)
    for message, name, value in zip(messages, names, values, strict=True):
        yield message, Header(name, value) if name else None


def _function(run: Callable[..., Iterator[pa.Array]], sql: str) -> Any:
    given: Any = arrow_udf  # Spark reads from the types of `run` that it is called once a task
    return given(lightened(run), sql)


def _once(run: Callable[..., Iterator[pa.Array]], sql: str) -> Callable[..., Column]:
    """A function that Spark believes to give something else each time: else its optimizer runs it again for each
    condition on what it gives, below the column that has this already."""
    made: Callable[..., Column] = _function(run, sql).asNondeterministic()
    return made
