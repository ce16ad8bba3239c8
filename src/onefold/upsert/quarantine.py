"""The quarantine: rejected records as rows of the state table, published with their batch in its one commit.

They have no key and `_state` quarantined; what they are is in `_order_…` (the position) and `_quarantine`. So
they follow `main`: a red batch shows none, a rollback takes them back, a rebuild has its own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.records import envelope as E
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import state_table
from onefold.vocabulary import RowState

QUARANTINE_TYPE = (
    "struct<batch:string,reason:string,detail:string,object:string,line:int,key:binary,value:binary,"
    "headers:array<struct<key:string,value:string>>>"
)

_COLUMNS = {
    "batch": f"{S.QUARANTINE}.batch",
    "cluster": FLAT_ORDER["cluster"],
    "topic": FLAT_ORDER["topic"],
    "incarnation": FLAT_ORDER["incarnation"],
    "partition": FLAT_ORDER["partition"],
    "offset": FLAT_ORDER["offset"],
    "timestamp": C.stamp(FLAT_ORDER["timestamp"]),
    "reason": f"{S.QUARANTINE}.reason",
    "detail": f"{S.QUARANTINE}.detail",
    "key": f"{S.QUARANTINE}.key",
    "value": f"{S.QUARANTINE}.value",
    "key_text": f"try_validate_utf8(CAST({S.QUARANTINE}.key AS STRING))",
    "value_text": f"try_validate_utf8(CAST({S.QUARANTINE}.value AS STRING))",
    "headers": f"{S.QUARANTINE}.headers",
    "object": f"{S.QUARANTINE}.object",
    "line": f"{S.QUARANTINE}.line",
}
"""The view's columns, each an expression over the state table."""


def is_quarantined() -> Column:
    """Whether a row of the actions is a record that cannot be used."""
    return F.expr(U.REFUSED)


def quarantine_struct(batch: str, refused: Column) -> Column:
    """`_quarantine` of a row of the actions; null where it is not `refused`."""
    kept = F.struct(
        F.lit(batch).alias("batch"),
        F.col(C.REASON).alias("reason"),
        F.col(C.DETAIL).alias("detail"),
        F.col(E.OBJECT).alias("object"),
        F.col(E.LINE).alias("line"),
        F.col(C.RAW_KEY).alias("key"),
        F.col(C.RAW_VALUE).alias("value"),
        F.col(C.RAW_HEADERS).alias("headers"),
    )
    return F.when(refused, kept).cast(QUARANTINE_TYPE)


def quarantine_field() -> T.StructField:
    """The column of the state table."""
    return T.StructField(S.QUARANTINE, T.DataType.fromDDL(QUARANTINE_TYPE))


def quarantine_query(state: str) -> str:
    """What the view `<target>__quarantine` reads of a state table."""
    named = ", ".join(f"{expression} AS `{name}`" for name, expression in _COLUMNS.items())
    return f"SELECT {named} FROM {state} WHERE {S.STATE} = '{RowState.QUARANTINED}'"


def read_entries(session: SparkSession, dataset: Dataset, snapshot: int) -> DataFrame:
    """The quarantine as of a snapshot: position, `batch`, and the bytes `key` and `value` of each entry."""
    rows = session.read.option("versionAsOf", str(snapshot)).table(state_table(dataset))
    entries = rows.where(F.col(C.KEY).isNull() & (F.col(S.STATE) == RowState.QUARANTINED))
    place = [F.col(column).alias(name) for name, column in FLAT_ORDER.items() if name != "timestamp"]
    return entries.select(*place, *(F.col(S.QUARANTINE)[name].alias(name) for name in ("batch", "key", "value")))
