"""The conflicts of an attempt by identity and content: which contents an identity has, and which of them wins."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.strategy import folding_of
from onefold.spark.flat_structs import read_flat
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.vocabulary import Reason, Verdict

WINNER, CONTENTS = "winner", "contents"
DECIDABLE = (Reason.SAME_IDENTITY, Reason.SAME_VERSION)
"""Reasons of conflicts of which an operator may accept the winner; the others are against a law."""


def conflicts_of(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """A row for each identity (in upsert: and version) in conflict: `_key`, `_version`, `winner`, and `contents`, all
    digests that batch and base have of it, sorted.

    It is the same for any split and order of the same records. Of the base only the rows of these keys are read (L8).
    """
    actions = read_flat(session, upserted.actions)
    identity = [C.KEY, C.VERSION] if dataset.apply.version else [C.KEY]
    in_conflict = actions.where((F.col(C.VERDICT) == Verdict.CONFLICT) & F.col(C.REASON).isin(*DECIDABLE))
    in_conflict = in_conflict.select(*identity).distinct()
    content = C.compared(dataset)
    columns = [*identity, C.ORDER, C.HASH, *({content} - {C.HASH})]
    base = folding_of(dataset).kept(read_state(session, dataset, upserted.base, upserted.within))
    rows = actions.where(F.col(C.SURVIVOR).isNotNull()).select(*columns).unionByName(base.select(*columns))
    rows = rows.join(F.broadcast(in_conflict), identity, "left_semi")
    earliest = dataset.apply.version is None or dataset.apply.version.tie == "first"
    first, last = F.min_by(content, F.struct(C.ORDER, C.HASH)), F.max_by(content, F.struct(C.ORDER, C.HASH))
    contents = F.array_sort(F.collect_set(F.hex(content)))
    return rows.groupBy(*identity).agg(F.hex(first if earliest else last).alias(WINNER), contents.alias(CONTENTS))
