"""Mode increment: the sums moved by what the ledger moved, by two snapshots and not by the actions.

By induction: an empty ledger has no sums, and where base and branch differ by the same in both, each sum of the branch
is the sum over its entries if each of the base was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.spark.key_filter import narrowed
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.upsert.sums import moves_of, standing
from onefold.vocabulary import RowState


def sum_faults(session: SparkSession, dataset: Dataset, upserted: Upserted, gone: Sequence[bytes] = ()) -> int:
    """Keys whose sum, or the number of its messages, did not move by what their entries moved.

    Of both snapshots only rows of the batch's keys count, and entries that are `gone` with it.
    """
    touched = session.table(upserted.actions).where(F.col(U.ACTION).isNotNull()).select(C.KEY)
    if gone:
        touched = touched.unionByName(session.createDataFrame([(key,) for key in gone], f"{C.KEY} binary"))
    snapshots = ((upserted.head, 1), (upserted.base, -1))
    read = [
        (narrowed(read_state(session, dataset, one), touched, dataset, large=upserted.narrow), by)
        for one, by in snapshots
    ]
    return unmoved(dataset, [(rows.join(touched, C.KEY, "left_semi"), sign) for rows, sign in read]).count()


def unmoved(dataset: Dataset, rows: Iterable[tuple[DataFrame, int]]) -> DataFrame:
    """`_key` of each sum that is not what the entries add up to, over rows of the state table that count by a sign."""
    moved = []
    for some, sign in rows:
        entries, sums = (some.where(F.col(U.STATE) == state) for state in (RowState.ENTRY, RowState.LIVE))
        moved += [moves_of(entries, dataset, sign), standing(sums, dataset, -sign)]
    balance = reduce(DataFrame.unionByName, (one.drop(*dataset.row_key_names) for one in moved))
    sides = [name for name in balance.columns if name != C.KEY]
    summed = balance.groupBy(C.KEY).agg(*(F.try_sum(name).alias(name) for name in sides))
    still = reduce(Column.__and__, (F.coalesce(F.col(name) == 0, F.lit(False)) for name in sides))
    return summed.where(~still).select(C.KEY)
