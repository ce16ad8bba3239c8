"""What is true of a branch with guard contiguous: of each key one head, held versions above a gap, nothing else."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse
from onefold.dataset.masks import digest, masked_json
from onefold.spark.flat_structs import read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.chain import STANDS
from onefold.upsert.documents import Upserted
from onefold.upsert.gaps import links_of, mark_links
from onefold.upsert.state import read_state
from onefold.vocabulary import Action, RowState

_BASE_VERSION, _LINKED = "_base_version", "_linked"


def changed_chains(session: SparkSession, dataset: Dataset, upserted: Upserted, rows: DataFrame) -> DataFrame:
    """Of the branch's rows those of the keys of the actions: heads and held. Adds `_base_version`, of the head."""
    by = C.row_key(dataset)
    actions = session.table(upserted.actions).where(F.col(U.ACTION).isNotNull())
    keys = actions.groupBy(*by).agg(F.max(U.BASE + C.VERSION).alias(_BASE_VERSION))
    return rows.join(keys, by)


def keys_of_chains(changed: DataFrame) -> DataFrame:
    """A row a key: `repeated` where it has two heads, or a version twice."""
    heads, versions = F.count_if(F.col(U.STATE).isin(*STANDS)), F.count_distinct(C.VERSION)
    return changed.groupBy(C.KEY).agg(((heads > 1) | (versions < F.count("*"))).alias("repeated"))


def chain_faults(session: SparkSession, dataset: Dataset, upserted: Upserted, changed: DataFrame) -> tuple[int, int]:
    """Heads that went back (L4); and actions that are not on the branch, and held rows that have no gap below them, or
    whose gap was accepted."""
    assert dataset.apply.version
    below = F.lit(dataset.apply.version.begins - 1)
    version, stands = F.col(C.VERSION), F.col(U.STATE).isin(*STANDS)
    linked = mark_links(changed.where(~stands), _LINKED, links_of(dataset, upserted.accepted)).where(_LINKED).count()
    of_key = changed.groupBy(C.KEY, _BASE_VERSION).agg(
        F.max(F.when(stands, version)).alias("head"), F.min(F.when(~stands, version)).alias("lowest")
    )
    head = F.coalesce("head", below)
    back = F.col(_BASE_VERSION).isNotNull() & (head < F.col(_BASE_VERSION))
    no_gap = F.col("lowest") <= head + 1
    told = of_key.agg(F.count_if(back).alias("back"), F.count_if(no_gap).alias("no_gap")).first()
    place = [C.KEY, C.VERSION, C.ORDER]
    # Where positions are inferred, what goes and what comes may have one place; what only goes leaves nothing there.
    becomes = F.max(F.when(F.col(U.ACTION) != Action.REMOVE, F.col(U.BECOMES)))
    actions = read_flat(session, upserted.actions).where(F.col(U.ACTION).isNotNull())
    met = actions.groupBy(*place).agg(becomes.alias(U.BECOMES)).join(changed.select(*place, U.STATE), place, "left")
    wrong = met.agg(F.count_if(~F.col(U.STATE).eqNullSafe(F.col(U.BECOMES)))).first()
    assert told is not None
    assert wrong is not None
    return int(told.back), int(wrong[0]) + int(told.no_gap) + linked


def held_rows(session: SparkSession, dataset: Dataset, snapshot: int) -> tuple[int, int | None]:
    """How many records are held in the table, and the timestamp (milliseconds) of the oldest."""
    held = read_state(session, dataset, snapshot).where(F.col(U.STATE) == RowState.HELD)
    found = held.agg(F.count("*").alias("count"), F.min(f"{C.ORDER}.timestamp").alias("oldest")).first()
    assert found is not None
    return int(found["count"]), None if found.oldest is None or found.oldest < 0 else int(found.oldest)


SHOWN = 5
"""Held records that a check names, of those that it counts."""


def first_held(session: SparkSession, dataset: Dataset, snapshot: int, keys: list[str]) -> list[str]:
    """The oldest held records, by key (its columns) and version, as a person reads them."""
    assert dataset.apply.version
    hidden = any(dataset.masks(parse(text)) for _, text in dataset.apply.version.expressions)
    held = read_state(session, dataset, snapshot).where(F.col(U.STATE) == RowState.HELD)
    oldest = held.orderBy(F.col(C.ORDER), C.VERSION).limit(SHOWN)
    told = oldest.select(F.to_json(F.struct(*keys)).alias("key"), C.VERSION).collect()
    return [
        f"version {digest(row[C.VERSION]) if hidden else row[C.VERSION]} of {masked_json(dataset, row.key)}"
        for row in told
    ]
