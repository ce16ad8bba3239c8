"""Keys that two topics share: where the file's key names the row, one row is made of records of both."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.masks import masked_json
from onefold.spark.flat_structs import read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state

NAMED = 5
"""Keys that the check names, of those that it counts."""


def shared_keys(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, list[str]]:
    """How many keys of the batch have records of one topic that met a record of another, in the batch or in the table;
    and some of them with their topics. Nothing is read where the table has one topic, or where the message's identity
    is the key."""
    if dataset.apply.KEYED_BY_IDENTITY or len({*upserted.known_topics, *upserted.added_topics}) < 2:
        return 0, []
    own, other = (F.col(f"{order}.topic") for order in (C.ORDER, U.OTHER))
    met = read_flat(session, upserted.actions).where(F.col(C.KEY).isNotNull() & (own != other))
    by_key = met.groupBy(C.KEY).agg(F.array_sort(F.collect_set(own)).alias("own"), F.collect_set(other).alias("other"))
    count = by_key.count()
    if not count:
        return 0, []
    first = by_key.orderBy(C.KEY).limit(NAMED).collect()
    keys = F.to_json(F.struct(*dataset.row_key_columns)) if dataset.row_key_columns else F.lit("{}")
    rows = read_state(session, dataset, upserted.head, upserted.within)
    rows = rows.where(F.col(C.KEY).isin([row[C.KEY] for row in first])).groupBy(C.KEY).agg(F.max(keys))
    shown = {bytes(row[0]): row[1] for row in rows.collect()}
    named = []
    for row in first:
        key = masked_json(dataset, shown.get(bytes(row[C.KEY]), "{}"))
        named.append(f"key {key} of {' and '.join(sorted({*row.own, *row.other}))}")
    return count, [*named, *([f"and {count - len(named)} more"] if count > len(named) else [])]
