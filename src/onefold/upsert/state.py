"""The state table of a generation and the views that readers see."""

from __future__ import annotations

from contextlib import suppress

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.errors import LakeUnavailableError
from onefold.folding.strategy import folding_of
from onefold.generation import Generation, begun_rebuild
from onefold.iceberg.commits import COMMIT_TRIES, RECORD_PROPERTY, ROOT, MainMovedError
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.spark.flat_structs import flat_fields, with_structs
from onefold.spark.iceberg_tables import ensure_namespace, new_table
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import CATALOG, state_name, state_table
from onefold.upsert.quarantine import quarantine_field, quarantine_query
from onefold.vocabulary import RowState

ORDER_TYPE = "struct<timestamp:bigint,cluster:string,topic:string,incarnation:int,partition:int,offset:bigint>"


def state_columns(staged: DataFrame, dataset: Dataset) -> list[T.StructField]:
    """The state table's columns, with the types that staging has."""
    folding = folding_of(dataset)
    named = [C.KEY, C.WITHIN, C.IDENTITY, C.VERSION, C.ORDER, C.HASH, C.COMPARED, *folding.KEPT, *C.LEVELS.values()]
    payload = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    known = {field.name: field for field in staged.schema.fields}
    own = [part for name in named if name in known for part in flat_fields(known[name])]
    state = T.StructField(S.STATE, T.StringType())
    return [*own, state, quarantine_field(), *(known[name] for name in payload), *folding.further_columns()]


def ensure_state(session: SparkSession, lake: Lake, dataset: Dataset, staged: DataFrame) -> None:
    """Create the state table with an empty first snapshot (a branch needs a `main`) and the views, where absent; change
    its fields, where the file does."""
    table = state_table(dataset)
    ensure_namespace(session, dataset.target.namespace)
    columns = state_columns(staged, dataset)
    if not session.catalog.tableExists(table):
        # Of no rows, which Spark knows before it starts a job.
        _create(session.createDataFrame([], T.StructType(columns)).limit(0), table, dataset)
    if dataset.shape:
        change_fields(lake, dataset)
    ensure_views(session, lake, dataset)


def change_fields(lake: Lake, dataset: Dataset) -> None:
    """Give the state table the fields that the file declares, by their ids, where it has others.

    It is a commit of its own on `main`, and moves it: what was folded before, and is not published yet, is folded
    again.

    Raises:
        LakeUnavailableError: other processes moved the table each time.
    """
    table = StateTable(lake, dataset)
    changed = table.change_fields(dataset.fields, dataset.value.former_columns)
    for _ in range(COMMIT_TRIES):
        if table.current and not changed:
            return
        with suppress(MainMovedError):  # what was published meanwhile has the fields as they were
            table.carry_record()
        changed, table = False, StateTable(lake, dataset)
    raise LakeUnavailableError(state_table(dataset), f"its `main` moved at each of {COMMIT_TRIES} commits")


def _create(empty: DataFrame, table: str, dataset: Dataset) -> None:
    """The table and its first snapshot in one commit: a slower driver cannot put another root behind a batch."""
    try:
        new_table(empty, table, dataset).option(f"snapshot-property.{RECORD_PROPERTY}", ROOT).create()
    except Exception:  # another driver created it meanwhile
        if not empty.sparkSession.catalog.tableExists(table):
            raise


def ensure_views(session: SparkSession, lake: Lake, dataset: Dataset) -> None:
    """The published name (live rows without Onefold's own columns) and its quarantine, over the state table as it is.

    Nothing is done for a generation that is folded next to the published one, and a rebuild that has led readers on is
    not taken back.
    """
    published = lake.get(lake_keys.generation(dataset), Generation)
    if published and published.generation != dataset.generation:
        return
    begun = begun_rebuild(lake, dataset, published) if published else ""
    for view, query in _views(dataset).items():
        session.sql(f"CREATE VIEW IF NOT EXISTS {view} AS {query}")
        present = str(session.sql(f"SHOW CREATE TABLE {view}").collect()[0][0]).strip()
        if not present.endswith(query) and not (begun and state_name(dataset, begun) in present):
            session.sql(f"CREATE OR REPLACE VIEW {view} AS {query}")


def swap_views(session: SparkSession, dataset: Dataset) -> None:
    """Lead readers to the dataset's generation: one statement, before which they see the old rows, then the new.

    The quarantine's view follows it.
    """
    for view, query in _views(dataset).items():
        session.sql(f"CREATE OR REPLACE VIEW {view} AS {query}")


def _views(dataset: Dataset) -> dict[str, str]:
    """The query of each view, by its name; that of the rows first."""
    state, name = state_table(dataset), f"{CATALOG}.{dataset.target.table}"
    names = ", ".join(f"`{column}`" for column in dataset.published_columns)
    return {
        name: f"SELECT {names} FROM {state} WHERE {S.STATE} = '{RowState.LIVE}'",
        f"{name}{S.QUARANTINE_VIEW}": quarantine_query(state),
    }


def read_state(session: SparkSession, dataset: Dataset, snapshot: int, periods: list[str] | None = None) -> DataFrame:
    """The rows of the state table that have a key, as of a snapshot; quarantined records are left out, unread, and the
    ledger of messages.

    `periods`: only of keys that lie in them (`Staged.within`); no other file is opened.
    """
    rows = _at(session, dataset, snapshot, periods)
    return with_fields(with_structs(_rows(rows, dataset), [S.QUARANTINE]), dataset)


def read_messages(
    session: SparkSession, dataset: Dataset, snapshot: int, periods: list[str] | None = None
) -> DataFrame:
    """The ledger of messages as of a snapshot, where a delivery decides: `row_key`, `_version`, `_order`, the digest by
    which contents compare, `_message`. `periods`: as for `read_state`."""
    rows = with_structs(_at(session, dataset, snapshot, periods).where(F.col(S.STATE) == RowState.MESSAGE))
    return rows.select(*C.row_key(dataset), C.VERSION, C.ORDER, C.compared(dataset), S.MESSAGE)


def _at(session: SparkSession, dataset: Dataset, snapshot: int, periods: list[str] | None) -> DataFrame:
    rows = session.read.option("versionAsOf", str(snapshot)).table(state_table(dataset))
    return rows if periods is None else rows.where(in_periods(dataset, periods))


ROW_STATES = [str(kind) for kind in RowState if kind not in (RowState.MESSAGE, RowState.QUARANTINED)]
"""The states of what is a row of a key, live or not."""


def _rows(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """Rows with a key, but for those of the ledger of messages: these lie in files of their own, which are left unread.
    (By a list of states: of `<>` no file's bounds tell.)"""
    keyed = rows.where(F.col(C.KEY).isNotNull())
    return keyed.where(F.col(S.STATE).isin(ROW_STATES)) if dataset.versions_by_delivery else keyed


def read_appended(session: SparkSession, dataset: Dataset, base: int, head: int) -> DataFrame:
    """The rows of the state table that snapshots behind `base`, up to `head`, appended; no other file is opened.

    What rows a MERGE wrote (guard contiguous) is not among them.
    """
    between = {"start-snapshot-id": str(base), "end-snapshot-id": str(head)}
    rows = session.read.options(**between).table(state_table(dataset))
    return with_fields(with_structs(_rows(rows, dataset), [S.QUARANTINE]), dataset)


def with_fields(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """Rows as an older snapshot has them, with the fields that the file declares: by their former names, widened, and
    NULL where there were none."""
    if not dataset.shape:
        return rows
    kinds, named = dict(rows.dtypes), dataset.value.former_columns
    columns: dict[str, Column] = {}
    for name, kind in dataset.fields.items():
        found = next((candidate for candidate in (name, *named.get(name, ())) if candidate in kinds), None)
        columns[name] = (F.col(found) if found else F.lit(None)).cast(kind.sql)
    fields = {*dataset.fields, *(column for former in named.values() for column in former)}
    others = [name for name in rows.columns if name not in fields]
    return rows.select(*others, *(column.alias(name) for name, column in columns.items()))


_NAMED = 1000
"""Periods that a condition names one by one; of more, it names the first and the last."""


def in_periods(dataset: Dataset, periods: list[str], table: str = "") -> str:
    """The condition, in SQL, that a row's key lies in one of some periods."""
    assert dataset.within
    kind = dataset.type_of(dataset.within)
    assert kind
    column = f"{table}.{C.WITHIN}" if table else C.WITHIN
    values = [f"{kind.name.upper()} '{period}'" for period in periods]
    # Of one that is named, Spark would put the literal in the column's place, and a join lose a key that it has by it.
    if len(values) == 1:
        return f"{column} BETWEEN {values[0]} AND {values[0]}"
    if len(values) > _NAMED:  # by their texts, which a year of more than four digits begins with a sign
        plain = [value for period, value in zip(periods, values, strict=True) if period[0].isdigit()]
        bounded = [f"{column} BETWEEN {min(plain)} AND {max(plain)}"] if plain else []
        signed = [
            f"{column} = {value}" for period, value in zip(periods, values, strict=True) if not period[0].isdigit()
        ]
        return f"({' OR '.join([*bounded, *signed])})"
    return f"{column} IN ({', '.join(values)})" if values else "false"


def count_quarantined(session: SparkSession, dataset: Dataset, snapshot: int, batch: str) -> int:
    """The records that a batch quarantined, as of a snapshot; no bytes are read."""
    rows = session.read.option("versionAsOf", str(snapshot)).table(state_table(dataset))
    return rows.where((F.col(S.STATE) == RowState.QUARANTINED) & (F.col(f"{S.QUARANTINE}.batch") == batch)).count()
