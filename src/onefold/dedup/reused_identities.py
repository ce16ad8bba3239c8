"""What two messages must not share: one narrow identity under two deciding ones, and a deciding one in two periods.

Both are findings next to the verdicts, looked for in one narrow second pass.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.documents import Reused
from onefold.folding.levels import identity_digest, identity_text, searched_levels
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

    Digests travel, not the identities; only where they find one, the texts are compared.
    """
    levels = searched_levels(dataset)
    if not levels:
        return []
    in_periods = F.lit(True) if in_periods is None else in_periods
    digests = _identities(staged, dataset, in_periods, exact=False)
    grouped = digests.groupBy("identity").agg(*_extremes(dataset))
    found = grouped.where(_is_reused(dataset)).select("identity").limit(LARGEST)
    candidates = [row.identity for row in found.collect()]
    if not candidates:
        return []
    suspect = staged.sparkSession.createDataFrame([(candidate,) for candidate in candidates], "identity bigint")
    identities = _identities(staged, dataset, in_periods, exact=True)
    rows = identities.join(F.broadcast(suspect), "identity", "left_semi")
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


def _identities(staged: DataFrame, dataset: Dataset, in_periods: Column, exact: bool) -> DataFrame:
    """A row a record and level: `identity`, a digest, and what tells two messages apart; of a deciding identity, its
    period. `exact`: with `level`, `text` and the order; else what tells apart is digests, too."""
    named = []
    for level in searched_levels(dataset):
        parts = {"identity": identity_digest(level)}
        if level == Finding.PERIOD_MOVED:
            parts["identity"] = F.when(in_periods, parts["identity"])
        if dataset.within:
            parts["in_period"] = F.lit(level == Finding.PERIOD_MOVED)
        if exact:
            parts |= {"level": F.lit(level), "text": identity_text(level)}
        named.append(F.struct(*(of.alias(name) for name, of in parts.items())))
    names = dict.fromkeys((*_apart(dataset), C.ORDER) if exact else _apart(dataset))
    own = [F.col(name) if exact else F.xxhash64(name).alias(name) for name in names]
    # Next to a generator that reads fields of a struct (`_order`) Spark loses other columns (SPARK-39854).
    rows = staged.where(F.col(C.KEY).isNotNull()).select(*own, F.array(*named).alias("named"))
    rows = rows.select(*names, F.inline("named")).where(F.col("identity").isNotNull())
    if not dataset.within:
        return rows
    of_level = {name: F.col("in_period") == (name == C.WITHIN) for name in _apart(dataset)}
    return rows.withColumns({name: F.when(of, F.col(name)) for name, of in of_level.items()})


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
