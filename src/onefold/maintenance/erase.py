"""Take what was erased out of a dataset's tables: rows, files, snapshots, bounds. The rows of forgotten keys are gone
from the newest snapshot already; here go the files and snapshots that still hold them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.errors import ErasureDisturbedError
from onefold.faults import fault_point
from onefold.iceberg.commits import MainMovedError
from onefold.iceberg.connection import drop_table, open_catalog
from onefold.iceberg.state_table import StateTable, find_state, generations_of
from onefold.lake import Lake
from onefold.maintenance.tables import compact, expire, rewrite_manifests
from onefold.offsets import Range, TopicPartition
from onefold.spark.iceberg_tables import commits_name
from onefold.spark.strict_json import quoted
from onefold.tables import state as S
from onefold.tables.names import CATALOG, SCRATCH, STAGING, branch_table, state_name, state_table, verdict_name
from onefold.upsert.state import ensure_views
from onefold.vocabulary import RowState

_POSITION = ("cluster", "topic", "incarnation", "partition")
_VIEW = "onefold_erased"
_OF_VERDICTS = ("detail", "version", "message_id", "content", "raw_key", "raw_value", "raw_headers")
"""Columns of the verdict table that hold something of the record itself."""
_OF_QUARANTINE = ("detail", "key", "value", "headers")
"""Parts of a quarantined record's `_quarantine` that hold something of the record itself."""
_KEPT_OF_QUARANTINE = frozenset({S.STATE, S.QUARANTINE, *FLAT_ORDER.values()})
"""Columns of a quarantined record that stay: every other one has something of the record, if it was read."""


def erase_from_tables(
    session: SparkSession, lake: Lake, dataset: Dataset, positions: Mapping[str, list[Range]]
) -> list[str]:
    """Leave nothing of some positions in the dataset's tables, nor of rows that are not there any more; which tables
    went as a whole.

    Called under the table's lease, while no batch waits. Of each table only one snapshot is left: what was written
    before this call, and is in no table, goes too.

    Raises:
        ErasureDisturbedError: another process moved the table meanwhile.
    """
    fault_point("before_tables")
    begun = datetime.now(UTC)
    table = find_state(lake, dataset)
    if table is None:
        return []
    ensure_views(session, lake, dataset)  # no reader is left on a table that goes
    for branch in table.branches():
        table.drop_branch(branch)
    dropped = _drop_others(lake, dataset)
    tables = [".".join(table.identifier), f"{STAGING}.{verdict_name(dataset)}"]
    _name(session, positions)
    try:
        _empty_quarantine(session, lake, dataset)
        _empty_verdicts(session, f"{CATALOG}.{tables[1]}")
        for name in tables:
            compact(session, name)
            rewrite_manifests(session, name)
        StateTable(lake, dataset).carry_record()
    except MainMovedError:
        raise ErasureDisturbedError(dataset.name, "another process has moved its table") from None
    finally:
        session.catalog.dropTempView(_VIEW)
    for name in tables:
        expire(session, name, datetime.now(UTC), keep=1)
        _remove_unnamed(session, name, begun)
    return dropped


def _drop_others(lake: Lake, dataset: Dataset) -> list[str]:
    """Drop what is the work of attempts that are over, and the tables of every other generation, published or not.

    What a drop has left that was killed behind the catalog's row is looked for by the folders' names.
    """
    catalog = open_catalog(lake)
    own = re.compile(rf"{re.escape(dataset.name)}__({'|'.join((*SCRATCH, 'verdicts'))})_[0-9a-f]+")
    found = {name for *_, name in (catalog.list_tables(STAGING) if catalog.namespace_exists(STAGING) else [])}
    found |= {info.key.split("/")[2] for info in lake.storage.list(f"warehouse/{STAGING}/")}
    names = [f"{STAGING}.{name}" for name in found if own.fullmatch(name) and name != verdict_name(dataset)]
    space = dataset.target.namespace
    states = {state_name(dataset, generation) for generation in generations_of(lake, dataset)}
    state = re.compile(state_name(dataset, "[0-9a-f]{12}"))
    folders = {info.key.split("/")[2] for info in lake.storage.list(f"warehouse/{space}/")}
    states |= {name for name in folders if state.fullmatch(name)}
    names += [f"{space}.{name}" for name in states if name != state_name(dataset)]
    dropped = [name for name in sorted(names) if catalog.table_exists(tuple(name.split(".")))]
    for name in sorted(names):
        drop_table(lake, name)
        lake.storage.remove_below(f"warehouse/{name.replace('.', '/')}/")
    return dropped


def _name(session: SparkSession, positions: Mapping[str, list[Range]]) -> None:
    """The positions as a view: a row a range."""
    rows: list[tuple[Any, ...]] = []
    for key, ranges in positions.items():
        where = TopicPartition.of(key)
        place = tuple(getattr(where, part) for part in _POSITION)
        rows += [(*place, start, end) for start, end in ranges]
    kinds = "cluster string, topic string, incarnation int, partition int, start bigint, end bigint"
    session.createDataFrame(rows, kinds).createOrReplaceTempView(_VIEW)


def _same(prefix: str) -> str:
    parts = [f"{prefix}{part} = s.{part}" for part in _POSITION]
    return " AND ".join([*parts, f"{prefix}offset >= s.start", f"{prefix}offset < s.end"])


def _empty_quarantine(session: SparkSession, lake: Lake, dataset: Dataset) -> None:
    """Entries of such positions (read twice, once of use) keep their place and reason: in one step of `main`, which
    goes on naming its commit record."""
    table = StateTable(lake, dataset)
    main = table.main
    branch = f"erase_{main.snapshot}"
    table.drop_branch(branch)
    table.cut_branch(branch, main.snapshot)
    of_record = [
        f"t.{quoted(name)}" for name in session.table(state_table(dataset)).columns if name not in _KEPT_OF_QUARANTINE
    ]
    of_record += [f"t.{S.QUARANTINE}.{part}" for part in _OF_QUARANTINE]
    held = " OR ".join(f"{column} IS NOT NULL" for column in of_record)
    empty = ", ".join(f"{column} = NULL" for column in of_record)
    with commits_name(session, main.properties):
        session.sql(
            f"MERGE INTO {branch_table(dataset, branch)} t USING {_VIEW} s ON t._key IS NULL "
            f"AND t.{S.STATE} = '{RowState.QUARANTINED}' AND {_same('t._order_')} AND ({held}) "
            f"WHEN MATCHED THEN UPDATE SET {empty}"
        )
    table = StateTable(lake, dataset)
    head = table.ref(branch)
    assert head
    table.publish(branch, head.snapshot, main.snapshot)


def _empty_verdicts(session: SparkSession, table: str) -> None:
    """Verdicts of such positions stay what they are, of every attempt; what they hold of the record goes."""
    held = " OR ".join(f"t.{column} IS NOT NULL" for column in _OF_VERDICTS)
    empty = ", ".join(f"t.{column} = NULL" for column in _OF_VERDICTS)
    session.sql(
        f"MERGE INTO {table} t USING {_VIEW} s ON {_same('t.')} AND ({held}) WHEN MATCHED THEN UPDATE SET {empty}"
    )


def _remove_unnamed(session: SparkSession, table: str, before: datetime) -> None:
    """Remove files below the table's place that it does not name: an expiry that was interrupted leaves such.

    The procedure refuses an age below a day, which guards writers at work; here the lease does.
    """
    jvm, spark = session._jvm, session._jsparkSession
    assert jvm
    opened = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(spark, f"{CATALOG}.{table}")
    action = jvm.org.apache.iceberg.spark.actions.SparkActions.get(spark).deleteOrphanFiles(opened)
    action.olderThan(int(before.timestamp() * 1000)).execute()
