"""The merge: what the actions change, brought into the attempt's branch. The table's payload is not read, but of rows
that become placeless."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.faults import fault_point
from onefold.folding.strategy import folding_of
from onefold.iceberg.commits import naming
from onefold.spark.flat_structs import laid_flat, read_flat
from onefold.spark.iceberg_tables import commits_name, view_of
from onefold.spark.key_filter import is_among
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import CATALOG, branch_table
from onefold.upsert.documents import Upserted
from onefold.upsert.forgotten_keys import leave_table
from onefold.upsert.leaving import leave_quarantine
from onefold.upsert.quarantine import is_quarantined, quarantine_struct
from onefold.upsert.state import ROW_STATES, in_periods
from onefold.vocabulary import Action, RowState, Verdict

_DISPLACE = (Action.UPDATE, Action.LOWER, Action.REMOVE, Action.EXCHANGE)
"""Actions before which the base's row of the key leaves."""
_ADDS_NONE = (Action.REMOVE, Action.UNPLACE)
"""Actions that add no row."""
_LEAVING, _ACTIONS, _PLACELESS = "onefold_leaving", "onefold_actions", "onefold_placeless"
_MESSAGES = "onefold_messages"


def merge(session: SparkSession, dataset: Dataset, upserted: Upserted, gone: Sequence[bytes] = ()) -> None:
    """Merge the actions into the attempt's branch; its last snapshot names the commit record.

    First the rows leave that others displace, those of keys that are `gone`, and from the quarantine what the batch
    covers; then everything new is appended. Readers see the branch only as a whole. Rejected records go along: they
    displace no row, and what a replay rejects again is there.
    """
    target = branch_table(dataset, upserted.branch)
    named = naming(upserted.attempt, upserted.record_digest)
    leave_table(session, dataset, upserted.branch, list(gone))
    leave_quarantine(session, dataset, upserted)
    actions = read_flat(session, upserted.actions)
    folding = folding_of(dataset)
    # Where none is rejected, what only these have is not read.
    refused = is_quarantined() if upserted.counts.get(Verdict.REJECTED) else F.lit(False)
    enters = F.lit(False) if upserted.replays else refused
    rows = actions.where(F.col(U.ACTION).isNotNull() | enters)
    state = F.when(refused, RowState.QUARANTINED).otherwise(folding.state_of_row())
    rows = laid_flat(rows.withColumns({S.STATE: state, S.QUARANTINE: quarantine_struct(upserted.batch, refused)}))
    columns = session.table(target).columns
    if dataset.versions_by_delivery:
        rows = rows.withColumn(S.MESSAGE, F.lit(None).cast("binary"))
        enter_messages(session, dataset, upserted, actions)
    same_key = [_same_key(dataset), *_rows_where(dataset, upserted)]
    if statement := folding.merge_statement(target, _ACTIONS, same_key, columns, upserted.changes):
        with view_of(rows, _ACTIONS), commits_name(session, named):
            session.sql(statement)
        return
    if upserted.changes.keys() & set(_DISPLACE):
        _displace(session, dataset, upserted, actions.where(F.col(U.ACTION).isin(*_DISPLACE)))
        fault_point("amid_merge")
    if Action.UNPLACE in upserted.changes:
        _unplace(session, dataset, upserted, actions.where(F.col(U.ACTION) == Action.UNPLACE))
    new = rows.where(F.coalesce(~F.col(U.ACTION).isin(*_ADDS_NONE), F.lit(True))).select(*columns)
    options = {f"snapshot-property.{name}": value for name, value in named.items()}
    new.writeTo(target).options(**options).append()


def enter_messages(session: SparkSession, dataset: Dataset, upserted: Upserted, actions: DataFrame) -> None:
    """Bring what is new in the ledger of messages into the attempt's branch; later deliveries leave before. It is a
    commit of its own, so that rows and ledger lie in files of their own."""
    target, digest = branch_table(dataset, upserted.branch), C.compared(dataset)
    new = delivered_messages(actions, dataset)
    if Action.LOWER in upserted.delivered:
        lowering = laid_flat(new.where(F.col(U.DELIVERED) == Action.LOWER))
        parts = [name for name in lowering.columns if name == C.VERSION or name.startswith(f"{C.VERSION}_")]
        same = [_same_key(dataset), *_where(dataset, upserted), f"t.{S.MESSAGE} = s.{S.MESSAGE}"]
        # Digests of two shapes say the same by what both began with.
        same += [f"t.{S.STATE} = '{RowState.MESSAGE}'", f"substring(t.{digest}, 1, 32) = substring(s.{digest}, 1, 32)"]
        if dataset.ties_by_offset:
            one_place = [f"t.{FLAT_ORDER[name]} = s.{FLAT_ORDER[name]}" for name in ("cluster", "topic", "partition")]
            other_version = [f"t.{name} <> s.{name}" for name in parts]
            same.append(f"({' OR '.join(other_version)} OR ({' AND '.join(one_place)}))")
        if dataset.apply.HOLDS:  # there each version has its messages
            same += [f"t.{name} = s.{name}" for name in parts]
        with view_of(lowering, _MESSAGES):
            session.sql(f"DELETE FROM {target} t WHERE EXISTS (SELECT 1 FROM {_MESSAGES} s WHERE {' AND '.join(same)})")
    if not upserted.delivered:
        return
    entries = laid_flat(new.drop(U.DELIVERED)).withColumn(S.STATE, F.lit(RowState.MESSAGE))
    shape = session.table(target).schema
    named = [
        F.col(field.name) if field.name in entries.columns else F.lit(None).cast(field.dataType).alias(field.name)
        for field in shape
    ]
    entries.select(*named).writeTo(target).append()


def delivered_messages(actions: DataFrame, dataset: Dataset) -> DataFrame:
    """What is new in the ledger of messages, by the actions: `_delivered`, and the columns of `read_messages`. Orders
    are as the records were sent, whatever a decision makes of them."""
    new = actions.where(F.col(U.DELIVERED).isNotNull())
    if C.TRUE_TIMESTAMP in actions.columns:
        sent = F.coalesce(C.TRUE_TIMESTAMP, F.col(C.ORDER)["timestamp"])
        new = new.withColumn(C.ORDER, F.col(C.ORDER).withField("timestamp", sent))
    return new.select(U.DELIVERED, *C.row_key(dataset), C.VERSION, C.ORDER, C.compared(dataset), S.MESSAGE)


def _displace(session: SparkSession, dataset: Dataset, upserted: Upserted, leaving: DataFrame) -> None:
    """Delete the branch's rows that have the keys of `leaving`: by position, in the files of these keys' buckets."""
    where = _rows_where(dataset, upserted)
    met = f"EXISTS (SELECT 1 FROM {_LEAVING} s WHERE {_same_key(dataset)})"
    where.append(is_among(_LEAVING, dataset, "t") if upserted.narrow else met)
    with view_of(leaving.select(*C.row_key(dataset)), _LEAVING):
        session.sql(f"DELETE FROM {branch_table(dataset, upserted.branch)} t WHERE {' AND '.join(where)}")


def _unplace(session: SparkSession, dataset: Dataset, upserted: Upserted, copies: DataFrame) -> None:
    """Mark the branch's rows that have the keys of `copies` as placeless, and leave them as they are."""
    same = " AND ".join([_same_key(dataset), *_rows_where(dataset, upserted)])
    with view_of(copies.select(*C.row_key(dataset)), _PLACELESS):
        session.sql(
            f"MERGE INTO {branch_table(dataset, upserted.branch)} t USING {_PLACELESS} s ON {same} "
            f"WHEN MATCHED THEN UPDATE SET t.{C.PLACELESS} = true"
        )


def _where(dataset: Dataset, upserted: Upserted) -> list[str]:
    """Literal periods and buckets: no run-time filter would leave the other ones' files unread."""
    where = [] if upserted.within is None else [in_periods(dataset, upserted.within, "t")]
    buckets = ", ".join(str(bucket) for bucket in upserted.buckets)
    if len(upserted.buckets) < dataset.target.buckets:
        where.append(f"{CATALOG}.system.bucket({dataset.target.buckets}, t.{C.KEY}) IN ({buckets})")
    return where


def _rows_where(dataset: Dataset, upserted: Upserted) -> list[str]:
    """`_where`, without the ledger of messages, which has the keys of rows, too, and messages without an identity."""
    rows = f"t.{S.STATE} IN ({', '.join(map(repr, ROW_STATES))})"
    return [*_where(dataset, upserted), *([rows] if dataset.versions_by_delivery else [])]


def _same_key(dataset: Dataset) -> str:
    return " AND ".join(f"t.{name} = s.{name}" for name in C.row_key(dataset))
