"""The rows of a branch that the gate looks at."""

from __future__ import annotations

from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.strategy import folding_of
from onefold.spark.flat_structs import read_flat
from onefold.spark.key_filter import narrowed
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_appended, read_state
from onefold.vocabulary import RowState


def changed_rows(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """The branch's rows of the keys of the actions, with what `Folding.changed` adds.

    Of the fields only those of the key are read (L8).
    """
    folding = folding_of(dataset)
    own = [*C.row_key(dataset), C.ORDER, S.STATE, *folding.row_columns()]
    rows = read_state(session, dataset, upserted.head, upserted.within)
    rows = rows.select(*dict.fromkeys([*own, *dataset.row_key_columns]))
    narrow = partial(narrowed, dataset=dataset, large=upserted.narrow)
    return folding.changed(rows, acting(session, upserted), narrow)


def acting(session: SparkSession, upserted: Upserted) -> DataFrame:
    """The actions that change a row."""
    return read_flat(session, upserted.actions).where(F.col(U.ACTION).isNotNull())


def written_rows(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """The branch's rows that the batch wrote, with all columns. Of other rows no field is read (L8), but where rows
    change in place (`Folding.written`)."""
    rows = read_state(session, dataset, upserted.head, upserted.within)
    written = folding_of(dataset).written(rows, acting(session, upserted))
    return read_appended(session, dataset, upserted.base, upserted.head) if written is None else written


def live_rows(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """The live rows among state rows, with the published columns."""
    return rows.where(F.col(S.STATE) == RowState.LIVE).select(*dataset.published_columns)
