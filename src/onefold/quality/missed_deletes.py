"""Deletes that found no row in their period: the row that they mean may be in another one, where no look-up goes."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.spark.flat_structs import read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state


def missed_deletes(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame | None:
    """The actions that delete, and whose key and period have neither a row in the base nor another record in the batch;
    None: there are none. The base is read only where it may hold records back, in the periods of the batch."""
    if not (dataset.within and dataset.apply.DELETES):
        return None
    actions = read_flat(session, upserted.actions).where(F.col(C.KEY).isNotNull())
    deletes = actions.where(F.col(U.ACTION).isNotNull() & F.col(C.SURVIVOR) & F.col(C.DELETED))
    unmet, by = deletes.where(F.col(U.BASE + C.VERSION).isNull()), C.row_key(dataset)
    if unmet.isEmpty():
        return None
    kept = actions.where(F.col(C.SURVIVOR).isNotNull() & ~F.col(C.DELETED))
    missed = unmet.join(kept.select(*by), by, "left_anti")
    if dataset.apply.HOLDS:
        base = read_state(session, dataset, upserted.base, upserted.within)
        missed = missed.join(base.select(*by), by, "left_anti")
    return missed
