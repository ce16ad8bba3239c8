"""How structs of Onefold's own lie in tables that are joined with a batch: flat, a column a part.

Iceberg reads a file by vectors where no column that is asked for is a struct, else row by row, which takes three times
the CPU; and of these tables every row of the batch's buckets is read. Between the tables they are structs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from onefold.dataset.reserved_columns import FLAT_ORDER, STRUCTS

_ORDER = "_order"
_ALWAYS_THERE = (_ORDER, "_witness")
"""Of a row without it a struct of nulls, not null: rows of every kind are compared by their order, and a witness may
lack the producer. Another struct is null if its first part is."""


def with_structs(rows: DataFrame, without: Sequence[str] = ()) -> DataFrame:
    """Rows of a table, each struct put together of its parts, `without` some columns. (A version is a struct where it
    has several parts.)"""
    structs, flat = [], list[str]()
    for name in STRUCTS:
        parts = [column for column in rows.columns if column.startswith(f"{name}_")]
        if parts:
            parts = list(FLAT_ORDER.values()) if name == _ORDER else parts  # it compares in this order (L7)
            whole = ", ".join(f"'{part.removeprefix(f'{name}_')}', `{part}`" for part in parts)
            whole = f"named_struct({whole})"
            whole = whole if name in _ALWAYS_THERE else f"CASE WHEN `{parts[0]}` IS NOT NULL THEN {whole} END"
            structs.append(f"{whole} AS `{name}`")
            flat += parts
    return _without(rows, [*flat, *without], structs)


def laid_flat(rows: DataFrame) -> DataFrame:
    """The other way: rows as a table has them."""
    structs = [field for field in rows.schema if _parts(field)]
    parts = [
        f"`{struct.name}`.`{part.name}` AS `{struct.name}_{part.name}`" for struct in structs for part in _parts(struct)
    ]
    return _without(rows, [struct.name for struct in structs], parts)


def _without(rows: DataFrame, names: Sequence[str], more: Sequence[str]) -> DataFrame:
    """Rows with more columns, in SQL, in place of others. As text: a call into the JVM for each part of an expression
    would take a fifth of all calls of a small batch."""
    if not names:
        return rows
    return rows.selectExpr(f"* EXCEPT ({', '.join(f'`{name}`' for name in names)})", *more)


def flat_fields(column: T.StructField) -> list[T.StructField]:
    """The columns that a column of a batch is in a table."""
    return [T.StructField(f"{column.name}_{part.name}", part.dataType) for part in _parts(column)] or [column]


def _parts(column: T.StructField) -> list[T.StructField]:
    kind = column.dataType
    return kind.fields if column.name in STRUCTS and isinstance(kind, T.StructType) else []


def read_flat(session: SparkSession, table: str) -> DataFrame:
    """The rows of a table that `bucketed` made (`onefold.spark.iceberg_tables`), by its name."""
    return with_structs(session.table(table))
