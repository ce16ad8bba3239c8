"""What leaves the quarantine: the entries of what a batch covers. What a replay rejects again keeps its first entry.

An entry is a row of the batch that rejected the record first. It is found by its place: the position where that is
exact, else the line of the landed object.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.records import envelope as E
from onefold.records.covered import mark_positions
from onefold.spark.flat_structs import read_flat
from onefold.spark.iceberg_tables import view_of
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import branch_table, state_table
from onefold.upsert.documents import Upserted
from onefold.upsert.known_positions import listed
from onefold.upsert.quarantine import read_entries
from onefold.vocabulary import RowState

_AGAIN = "again"


def leave_quarantine(session: SparkSession, dataset: Dataset, upserted: Upserted) -> None:
    """Delete, on the attempt's branch, the entries of what the batch covers: by any batch where positions are exact.

    Of a replay's record that is rejected again, and that nothing covers, the entry stays (L6).
    """
    names = _entry(dataset)
    if upserted.replays:
        used = _places(session, dataset, upserted).where(~F.col(_AGAIN)).withColumn("batch", F.lit(upserted.replays))
        same = [f"t.{column} = s.{name}" for name, column in names.items()]
        same += [] if dataset.source.exact else [f"t.{S.QUARANTINE}.batch = s.batch"]
    elif upserted.freed:
        used = _freed(session, upserted)
        same = [f"t.{column} = s.{name}" for name, column in names.items() if name != "offset"]
        same.append(f"t.{names['offset']} >= s.start AND t.{names['offset']} < s.end")
    else:
        return
    with view_of(used, "onefold_used"):
        session.sql(
            f"MERGE INTO {branch_table(dataset, upserted.branch)} t USING onefold_used s ON t.{C.KEY} IS NULL "
            f"AND t.{S.STATE} = '{RowState.QUARANTINED}' AND {' AND '.join(same)} WHEN MATCHED THEN DELETE"
        )


def freed_entries(session: SparkSession, dataset: Dataset, upserted: Upserted) -> int:
    """Entries that the branch has at offsets that the batch covers and no batch before it did."""
    if not upserted.freed:
        return 0
    entries = read_entries(session, dataset, upserted.head)
    placed = entries.withColumnsRenamed({name: f"_{name}" for name in entries.columns})
    return mark_positions(placed, _AGAIN, listed(upserted.freed)).where(_AGAIN).count()


def _freed(session: SparkSession, upserted: Upserted) -> DataFrame:
    """A row a range: the partition, `start` and `end`."""
    rows = [(*where.model_dump().values(), *range_) for where, range_ in listed(upserted.freed)]
    shape = "cluster string, topic string, incarnation int, partition int, start bigint, end bigint"
    return session.createDataFrame(rows, shape)


def entries_left(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, int]:
    """Entries that the branch has at the places of a replay; and how many the base has of those rejected again."""
    places = _places(session, dataset, upserted)
    left = _entries(session, dataset, upserted, upserted.head).join(places, [*_entry(dataset)], "left_semi")
    again = places.where(_AGAIN)
    wanted = _entries(session, dataset, upserted, upserted.base).join(again, [*_entry(dataset)], "left_semi")
    return left.count(), wanted.count()


def _entry(dataset: Dataset) -> dict[str, str]:
    """The columns of the state table that say where an entry's record lies, by short names."""
    if dataset.source.exact:
        return {part: name for part, name in FLAT_ORDER.items() if part != "timestamp"}
    return {"object": f"{S.QUARANTINE}.object", "line": f"{S.QUARANTINE}.line"}


def _places(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """Where the records of a replay lie, once each; `again`: one there was rejected again."""
    exact = {part: f"{C.ORDER}.{part}" for part in _entry(dataset)}
    columns = exact if dataset.source.exact else {"object": E.OBJECT, "line": E.LINE}
    at: list[Column] = [F.col(column).alias(name) for name, column in columns.items()]
    # The others are rows of the base.
    records = read_flat(session, upserted.actions).where(F.col(C.SURVIVOR).isNotNull())
    return records.groupBy(*at).agg(F.max(F.expr(U.REFUSED)).alias(_AGAIN))


def _entries(session: SparkSession, dataset: Dataset, upserted: Upserted, snapshot: int) -> DataFrame:
    rows = session.read.option("versionAsOf", str(snapshot)).table(state_table(dataset))
    mine = (
        F.col(C.KEY).isNull()
        & (F.col(S.STATE) == RowState.QUARANTINED)
        & (F.col(S.QUARANTINE)["batch"] == upserted.replays)
    )
    return rows.where(mine).select(*(F.col(column).alias(name) for name, column in _entry(dataset).items()))
