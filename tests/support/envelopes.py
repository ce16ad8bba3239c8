"""Records as a reader of a layout gives them, for tests that start behind the reader."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from onefold.kafka.batch_records import HEADERS
from onefold.records import envelope as E

_FIELDS = {
    "case": pa.string(),
    E.TIMESTAMP: pa.int64(),
    E.CLUSTER: pa.string(),
    E.TOPIC: pa.string(),
    E.INCARNATION: pa.int32(),
    E.PARTITION: pa.int32(),
    E.OFFSET: pa.int64(),
    E.KEY_BYTES: pa.binary(),
    E.VALUE_BYTES: pa.binary(),
    E.HEADERS: HEADERS,
    E.OBJECT: pa.string(),
    E.LINE: pa.int32(),
    E.UNREADABLE: pa.string(),
    E.PRODUCER_ID: pa.int64(),
    E.PRODUCER_EPOCH: pa.int32(),
    E.SEQUENCE: pa.int32(),
    E.FATE: pa.string(),
}


def record(case: str, value: bytes | None, offset: int = 0, **given: Any) -> dict[str, Any]:
    """One record of the envelope; `given` without the columns' leading underscore."""
    row: dict[str, Any] = dict.fromkeys(_FIELDS)
    row |= {"case": case, E.VALUE_BYTES: value, E.OFFSET: offset, E.CLUSTER: "c", E.TOPIC: "t", E.INCARNATION: 1}
    row |= {E.PARTITION: 0, E.TIMESTAMP: 1000, E.HEADERS: [], E.OBJECT: "o"}
    changed = {f"_{name}": value for name, value in given.items()}
    if headers := changed.get(E.HEADERS):
        changed[E.HEADERS] = [{"key": name, "value": _bytes(value)} for name, value in headers]
    return row | changed


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def envelope(session: SparkSession, records: list[dict[str, Any]]) -> DataFrame:
    """The envelope's columns, and `case`."""
    return session.createDataFrame(pa.Table.from_pylist(records, pa.schema(list(_FIELDS.items()))))
