"""What two messages must not share: one narrow identity under two deciding ones, and a deciding one in two periods.

Both are findings next to the verdicts, looked for in one narrow second pass.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.documents import Reused
from onefold.folding.levels import identity_text, searched_levels
from onefold.folding.strategy import folding_of
from onefold.offsets import Position
from onefold.tables import staging as C
from onefold.vocabulary import Finding

LARGEST = 10_000
"""Identities of a batch, or of a table, that are found: further ones are neither marked nor counted."""


def reused_identities(staged: DataFrame, dataset: Dataset, in_periods: Column | None = None) -> list[Reused]:
    """The narrow identities of a staged batch that are of two messages, as the mode tells them apart, and the deciding
    ones that are in two periods. At most `LARGEST` are named, narrow levels first.
    `in_periods`: which rows count for their periods; None: all.

    A digest of each identity travels, not the identity; only where that finds one, the texts are compared.
    """
    levels = searched_levels(dataset)
    if not levels:
        return []
    counted = _identities(staged, dataset, F.lit(True) if in_periods is None else in_periods)
    found = _grouped(counted, dataset, _digest()).where(_is_reused(dataset)).select("identity").limit(LARGEST)
    candidates = [row.identity for row in found.collect()]
    if not candidates:
        return []
    suspect = staged.sparkSession.createDataFrame([(candidate,) for candidate in candidates], "suspect bigint")
    rows = counted.join(F.broadcast(suspect), _digest() == F.col("suspect"), "left_semi")
    place = F.struct(*([C.WITHIN] if dataset.within else []), C.ORDER)
    exact = rows.groupBy("level", "text").agg(
        *_extremes(dataset),
        F.count("*").alias("records"),
        F.min(place)[C.ORDER].alias("first"),
        F.max(place)[C.ORDER].alias("last"),
    )
    reused = [
        Reused(
            level=row.level,
            identity=row.text,
            periods=[str(row[f"low{C.WITHIN}"]), str(row[f"high{C.WITHIN}"])]
            if row.level == Finding.PERIOD_MOVED
            else [],
            records=row.records,
            first=_position(row["first"]),
            last=_position(row["last"]),
        )
        for row in exact.where(_is_reused(dataset)).collect()
    ]
    return sorted(reused, key=lambda identity: (levels.index(identity.level), identity.identity))


def _identities(staged: DataFrame, dataset: Dataset, in_periods: Column) -> DataFrame:
    """A row a record and level: `level`, `text`, and what tells two messages apart; of a deciding identity, its
    period."""
    names = dict.fromkeys((*_apart(dataset), C.ORDER))
    levels = searched_levels(dataset)
    texts = {level: identity_text(level) for level in levels}
    if dataset.within:
        texts[Finding.PERIOD_MOVED] = F.when(in_periods, texts[Finding.PERIOD_MOVED])
    named = F.array(*(F.struct(F.lit(level).alias("level"), text.alias("text")) for level, text in texts.items()))
    # Next to a generator that reads fields of a struct (`_order`) Spark loses other columns (SPARK-39854).
    rows = staged.where(F.col(C.KEY).isNotNull()).select(*names, named.alias("named"))
    rows = rows.select(*names, F.inline("named")).where(F.col("text").isNotNull())
    if not dataset.within:
        return rows
    in_period = F.col("level") == Finding.PERIOD_MOVED
    return rows.withColumns({name: F.when(in_period == (name == C.WITHIN), F.col(name)) for name in _apart(dataset)})


def _grouped(identities: DataFrame, dataset: Dataset, identity: Column) -> DataFrame:
    digests = {name: F.xxhash64(name) for name in _apart(dataset)}
    rows = identities.select(identity.alias("identity"), *(of.alias(name) for name, of in digests.items()))
    return rows.groupBy("identity").agg(*_extremes(dataset))


def _digest() -> Column:
    return F.xxhash64("level", "text")


def _apart(dataset: Dataset) -> tuple[str, ...]:
    return (*folding_of(dataset).apart(), *([C.WITHIN] if dataset.within else []))


def _extremes(dataset: Dataset) -> list[Column]:
    return [
        of(name).alias(f"{word}{name}") for name in _apart(dataset) for word, of in (("low", F.min), ("high", F.max))
    ]


def _is_reused(dataset: Dataset) -> Column:
    """Whether two of the records are two messages, or in two periods."""
    folding = folding_of(dataset)
    differ = {name: F.col(f"low{name}") != F.col(f"high{name}") for name in _apart(dataset)}
    are_two = folding.are_two({name: differ[name] for name in folding.apart()})
    return are_two | differ[C.WITHIN] if dataset.within else are_two


def _position(order: Row) -> str:
    return str(Position.of(order.asDict()))
