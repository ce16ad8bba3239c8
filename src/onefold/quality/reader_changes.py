"""Rows that a batch inserts, updates and deletes for readers: the difference of two snapshots, as `onefold changes`
has it, counted by Spark."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.strategy import folding_of
from onefold.quality.branch_rows import acting
from onefold.quality.documents import ReaderChanges
from onefold.spark.key_filter import narrowed
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import CATALOG
from onefold.upsert.documents import Upserted
from onefold.upsert.forgotten_keys import of_keys
from onefold.upsert.state import read_state
from onefold.vocabulary import Action, RowState

_NEW = {Action.INSERT, Action.ENTER}
_BEFORE, _AFTER = "_hash_before", "_hash_after"


def count_reader_changes(
    session: SparkSession, dataset: Dataset, upserted: Upserted, forgotten: Sequence[bytes] = ()
) -> ReaderChanges:
    """Count the live rows that only the branch has, that only the base has, and whose content differs.

    Of both, only key, state and hash are read, of the rows that the batch's actions touch, in the files of
    their buckets (L8). A batch that only adds rows of new keys does not read the base. `forgotten`: digests of the keys
    that this attempt forgets.
    """
    kinds = set(upserted.changes)
    if not kinds and not forgotten:
        return ReaderChanges()
    touched = acting(session, upserted)
    if kinds <= _NEW and not forgotten:
        return ReaderChanges(inserted=touched.where(folding_of(dataset).state_of_row() == RowState.LIVE).count())
    by, bucket = C.row_key(dataset), F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})")
    keys = touched.select(*by)

    def live(snapshot: int, name: str) -> DataFrame:
        rows = read_state(session, dataset, snapshot, upserted.within).where(bucket.isin(upserted.buckets))
        rows = rows.where(F.col(S.STATE) == RowState.LIVE).select(*by, F.col(C.HASH).alias(name))
        of_actions = narrowed(rows, keys, dataset, large=upserted.narrow).join(keys, by, "left_semi")
        if not forgotten:
            return of_actions
        left = of_keys(read_state(session, dataset, snapshot), list(forgotten))
        left = left.where(F.col(S.STATE) == RowState.LIVE).select(*by, F.col(C.HASH).alias(name))
        return of_actions.unionByName(left).distinct()

    both = live(upserted.base, _BEFORE).join(live(upserted.head, _AFTER), by, "full")
    before, after = F.col(_BEFORE), F.col(_AFTER)
    counted = both.agg(F.count_if(before.isNull()), F.count_if(before != after), F.count_if(after.isNull())).first()
    assert counted is not None
    return ReaderChanges(inserted=counted[0], updated=counted[1], deleted=counted[2])
