"""The conflicts of an attempt by identity and content: which contents an identity has, and which of them wins."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import DecidedConflict
from onefold.dedup.lost_contents import version_text, without_lost
from onefold.errors import UsageError
from onefold.folding.strategy import folding_of
from onefold.spark.flat_structs import read_flat
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.vocabulary import DECIDABLE, Verdict

WINNER, CONTENTS = "winner", "contents"
LARGEST = 100_000
"""Identities in conflict that a release may decide."""


def conflicts_of(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """A row for each identity (in upsert: and version) in conflict: `_key`, `_version`, `winner`, and `contents`, all
    digests that batch and base have of it, sorted, but for those that lost by an earlier decision.

    It is the same for any split and order of the same records. Of the base only the rows of these keys are read (L8).
    """
    actions = read_flat(session, upserted.actions)
    identity = [C.KEY, C.VERSION] if dataset.apply.version else [C.KEY]
    in_conflict = actions.where((F.col(C.VERDICT) == Verdict.CONFLICT) & F.col(C.REASON).isin(*DECIDABLE))
    in_conflict = in_conflict.select(*identity).distinct()
    content = C.compared(dataset)
    columns = [*identity, C.ORDER, C.HASH, *({content} - {C.HASH})]
    base = folding_of(dataset).kept(read_state(session, dataset, upserted.base, upserted.within))
    landed = without_lost(actions.where(F.col(C.SURVIVOR).isNotNull()), dataset)
    rows = landed.select(*columns).unionByName(without_lost(base, dataset).select(*columns))
    rows = rows.join(F.broadcast(in_conflict), identity, "left_semi")
    first, last = F.min_by(content, F.struct(C.ORDER, C.HASH)), F.max_by(content, F.struct(C.ORDER, C.HASH))
    contents = F.array_sort(F.collect_set(F.hex(content)))
    return rows.groupBy(*identity).agg(
        F.hex(first if dataset.earliest_wins else last).alias(WINNER), contents.alias(CONTENTS)
    )


def decided_in(conflicts: DataFrame, dataset: Dataset) -> list[DecidedConflict]:
    """`conflicts_of` as a decision keeps them.

    Raises:
        UsageError: they are too many.
    """
    key, winner, contents = F.lower(F.hex(C.KEY)), F.lower(WINNER), F.transform(CONTENTS, F.lower)
    losers = F.array_remove(contents, winner)
    rows = conflicts.select(key.alias("key"), version_text(dataset).alias("version"), winner.alias(WINNER), losers)
    found = rows.orderBy("key", "version").limit(LARGEST + 1).collect()
    if len(found) > LARGEST:
        raise UsageError(
            f"{dataset.name}: more than {LARGEST:,} identities of the batch are in conflict, and a release keeps which "
            "content of each won. Nothing was published, and the batch stays landed. Correct the cause, leave fields "
            "out of the comparison (apply.compare), or skip the batch."
        )
    return [DecidedConflict(key=row[0], version=row[1], winner=row[2], losers=row[3]) for row in found]
