"""Accepted gaps: versions of keys that need no version before them, by a person's word (guard contiguous).

They are part of the commit record, so of what `main` is (L1): every batch behind it obeys them, and rows are a function
of the records covered and the gaps accepted, whichever came first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.landing.manifest import Accepted
from onefold.tables import staging as C
from onefold.tables.key_digest import digest_of_key, period_of_key


@dataclass(frozen=True, slots=True)
class Link:
    """A version of a key that counts as if all before it were there. `own`: the batch that is judged accepts it."""

    key: bytes
    version: int
    period: str | None = None
    own: bool = False


def links_of(dataset: Dataset, before: Sequence[Accepted], own: Accepted | None = None) -> list[Link]:
    """The links of accepted gaps; of gaps that were accepted for another key than the dataset has now, none."""
    found = []
    for one in [*before, *([own] if own else [])] if dataset.chained else []:
        try:
            digest = digest_of_key(dataset, one.key)
        except UsageError:  # of the generation before
            continue
        found.append(Link(digest, one.version, period_of_key(dataset, one.key), one is own))
    return found


def keys_of(session: SparkSession, links: Sequence[Link], like: DataFrame) -> DataFrame:
    """The keys (and periods) of links, with the types that another frame has."""
    rows = session.createDataFrame([(one.key, one.period) for one in links], f"{C.KEY} binary, {C.WITHIN} string")
    if C.WITHIN not in like.columns:
        return rows.select(C.KEY)
    return rows.withColumn(C.WITHIN, F.col(C.WITHIN).cast(like.schema[C.WITHIN].dataType))


_LINK, _LINKS_TO = "_chain_link", "_chain_links_to"


def mark_links(rows: DataFrame, name: str, links: Sequence[Link]) -> DataFrame:
    """Add a column: whether a row's version of its key needs none before it. No exchange."""
    if not links:
        return rows.withColumn(name, F.lit(False))
    shape = f"{_LINK} binary, {_LINKS_TO} bigint"
    known = rows.sparkSession.createDataFrame([(one.key, one.version) for one in links], shape)
    same = (rows[C.KEY] == F.col(_LINK)) & (rows[C.VERSION] == F.col(_LINKS_TO))
    marked = rows.join(F.broadcast(known.distinct()), same, "left")
    return marked.withColumn(name, F.col(_LINK).isNotNull()).drop(_LINK, _LINKS_TO)
