"""What only a look at every row can find, on a schedule of its own.

The full proof of L3, which the gate proves batch by batch; and identities that came again under another key, or in
another period, in another batch, which no batch goes to look for.
"""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.masks import masked_json
from onefold.dedup.documents import Reused
from onefold.dedup.reused_identities import reused_identities
from onefold.errors import RepeatedKeysError
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.quality.examples import EXAMPLES
from onefold.spark.flat_structs import with_structs
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import state_table
from onefold.vocabulary import RowState


def prove_unique(session: SparkSession, lake: Lake, dataset: Dataset) -> int:
    """Count the live rows of `main`, each of which must have a key of its own; only key and state are read.

    Raises:
        RepeatedKeysError: keys have more than one live row.
    """
    if find_state(lake, dataset) is None:
        return 0
    live = session.table(state_table(dataset)).where(F.col(S.STATE) == RowState.LIVE)
    keys = live.groupBy(C.KEY).agg(F.count("*").alias("rows"))
    twice = F.col("rows") > 1
    counts = keys.agg(F.coalesce(F.sum("rows"), F.lit(0)).alias("rows"), F.count_if(twice).alias("repeated")).first()
    assert counts is not None
    if counts.repeated:
        names = dataset.row_key_columns or [C.KEY]
        shown = live.join(keys.where(twice).limit(EXAMPLES), C.KEY, "left_semi").select(*names).distinct().toJSON()
        masked_keys = tuple(masked_json(dataset, key) for key in sorted(shown.collect()))
        raise RepeatedKeysError(dataset.name, state_table(dataset), int(counts.repeated), masked_keys)
    return int(counts.rows)


def find_reused(session: SparkSession, lake: Lake, dataset: Dataset) -> list[Reused]:
    """The narrow identities that two rows of `main` share, held and deleted ones included; and the identities that have
    rows in two periods, deleted ones left out. No payload is read.

    Of a row that was replaced the identity is gone, and is not found.
    """
    if find_state(lake, dataset) is None:
        return []
    rows = with_structs(session.table(state_table(dataset)))
    found = reused_identities(rows, dataset, in_periods=F.col(S.STATE) != RowState.DELETED)
    return [identity.shown(dataset) for identity in found]
