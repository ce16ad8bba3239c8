"""How orders and findings lie in the state table and the actions: flat, a column a part.

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

_PARTS = {C.ORDER: tuple(FLAT_ORDER), U.OTHER: tuple(FLAT_ORDER), U.FINDING: ("level", "scope")}
"""By struct; null is one whose first part is, but an order that rows are judged by."""


def with_structs(rows: DataFrame) -> DataFrame:
    """Rows of a table, each struct put together of its parts."""
    structs = {}
    for name, parts in _PARTS.items():
        if f"{name}_{parts[0]}" in rows.columns:
            whole = F.struct(*(F.col(f"{name}_{part}").alias(part) for part in parts))
            structs[name] = whole if name == C.ORDER else F.when(F.col(f"{name}_{parts[0]}").isNotNull(), whole)
    return rows.withColumns(structs).drop(*(f"{name}_{part}" for name in structs for part in _PARTS[name]))


def laid_flat(rows: DataFrame) -> DataFrame:
    """The other way: rows as a table has them."""
    flat = [name for name in _PARTS if name in rows.columns]
    return rows.withColumns({f"{name}_{part}": F.col(name)[part] for name in flat for part in _PARTS[name]}).drop(*flat)


def flat_fields(column: T.StructField) -> list[T.StructField]:
    """The columns that a column of a batch is in a table."""
    if column.name not in _PARTS:
        return [column]
    assert isinstance(column.dataType, T.StructType)
    return [T.StructField(f"{column.name}_{part}", column.dataType[part].dataType) for part in _PARTS[column.name]]


def same_order(left: str, right: str) -> str:
    """Whether a row of a table has the order of a row that has it as a struct: in SQL, by their names."""
    return " AND ".join(f"{left}.{name} <=> {right}.{C.ORDER}.{part}" for part, name in FLAT_ORDER.items())


def read_actions(session: SparkSession, actions: str) -> DataFrame:
    """The actions of an attempt (`onefold.upsert.columns`), by their table's name."""
    return with_structs(session.table(actions))
