"""How structs of Onefold's own lie in the state table and the actions: flat, a column a part.

Iceberg reads a file by vectors where no column that is asked for is a struct, else row by row, which takes three times
the CPU; and of these tables every row of the batch's buckets is read. Between the tables they are structs.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset.columns import FLAT_ORDER
from onefold.dedup import columns as C
from onefold.upsert import columns as U

_STRUCTS = (C.VERSION, C.ORDER, C.PRODUCER, U.OTHER, U.FINDING)
"""A version is one where it has several parts; `_witness`, which the causes of duplicates ask for, and what holds
bytes stay structs. Null is one whose first part is; but not `_order`, which rows of every kind are compared by."""


def with_structs(rows: DataFrame) -> DataFrame:
    """Rows of a table, each struct put together of its parts."""
    structs, flat = {}, list[str]()
    for name in _STRUCTS:
        parts = [column for column in rows.columns if column.startswith(f"{name}_")]
        if parts:
            parts = list(FLAT_ORDER.values()) if name == C.ORDER else parts  # it compares in this order (L7)
            whole = F.struct(*(F.col(part).alias(part.removeprefix(f"{name}_")) for part in parts))
            structs[name] = whole if name == C.ORDER else F.when(F.col(parts[0]).isNotNull(), whole)
            flat += parts
    return rows.withColumns(structs).drop(*flat)


def laid_flat(rows: DataFrame) -> DataFrame:
    """The other way: rows as a table has them."""
    structs = [one for one in rows.schema if _parts(one)]
    parts = {f"{one.name}_{part.name}": F.col(one.name)[part.name] for one in structs for part in _parts(one)}
    return rows.withColumns(parts).drop(*(one.name for one in structs))


def flat_fields(column: T.StructField) -> list[T.StructField]:
    """The columns that a column of a batch is in a table."""
    return [T.StructField(f"{column.name}_{part.name}", part.dataType) for part in _parts(column)] or [column]


def _parts(column: T.StructField) -> list[T.StructField]:
    kind = column.dataType
    return kind.fields if column.name in _STRUCTS and isinstance(kind, T.StructType) else []


def read_actions(session: SparkSession, actions: str) -> DataFrame:
    """The actions of an attempt (`onefold.upsert.columns`), by their table's name."""
    return with_structs(session.table(actions))
