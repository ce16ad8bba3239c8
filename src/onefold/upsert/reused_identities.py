"""Identities of a batch that are of two messages, or in two periods: the records that have one, and which count."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dedup.documents import Reused
from onefold.folding.levels import identity_text
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.vocabulary import Scope

_REUSED = "_reused_"


def mark_reused(session: SparkSession, rows: DataFrame, reused: list[Reused]) -> DataFrame:
    """Add `_finding` to the records whose identity is that of two messages of the batch, or is in two periods of it,
    but for those that are covered: they were found with the batch that covered them."""
    found = F.lit(None).cast(U.FINDING_TYPE)
    fresh = F.col(C.KEY).isNotNull() & ~F.col(U.COVERED)
    for level in _levels(reused):
        identity = _REUSED + level
        named = F.broadcast(_named(session, reused, level))
        rows = rows.join(named, identity_text(level) == F.col(identity), "left")
        mark = F.struct(F.lit(level).alias("level"), F.lit(Scope.IN_BATCH).alias("scope"))
        found = F.coalesce(found, F.when(F.col(identity).isNotNull() & fresh, mark))
    return rows.withColumn(U.FINDING, found).drop(*(_REUSED + level for level in _levels(reused)))


def found_reused(session: SparkSession, actions: DataFrame, reused: list[Reused]) -> list[Reused]:
    """Of the reused identities of a batch those that a record with a finding has: one pass, where there is any."""
    marked = actions.where(F.col(U.FINDING)["scope"] == Scope.IN_BATCH)
    found = set()
    for level in _levels(reused):
        identities = marked.select(identity_text(level).alias(_REUSED + level))
        named = F.broadcast(_named(session, reused, level))
        met = identities.join(named, _REUSED + level, "left_semi").distinct()
        found |= {(level, row[0]) for row in met.collect()}
    return [identity for identity in reused if (identity.level, identity.identity) in found]


def _levels(reused: list[Reused]) -> list[str]:
    return list(dict.fromkeys(identity.level for identity in reused))


def _named(session: SparkSession, reused: list[Reused], level: str) -> DataFrame:
    """Identities of a level, as the column `_reused_<level>`."""
    rows = [(identity.identity,) for identity in reused if identity.level == level]
    return session.createDataFrame(rows, f"{_REUSED}{level} string")
