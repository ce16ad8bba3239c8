"""One narrow identity under two deciding ones: a finding next to the verdicts, looked for in a narrow second pass."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.documents import Reused
from onefold.folding.levels import identity_text
from onefold.folding.strategy import folding_of
from onefold.offsets import Position
from onefold.tables import staging as C

LARGEST = 10_000
"""Identities of a batch, or of a table, that are found: further ones are neither marked nor counted."""


def reused_identities(staged: DataFrame, dataset: Dataset) -> list[Reused]:
    """The narrow identities of a staged batch that are of two messages, as the mode tells them apart. At most `LARGEST`
    are named, narrow levels first.

    A digest of each identity travels, not the identity; only where that finds one, the texts are compared.
    """
    if not dataset.narrow:
        return []
    found = _grouped(staged, dataset, _digest()).where(_is_reused(dataset)).select("identity").limit(LARGEST)
    candidates = [row.identity for row in found.collect()]
    if not candidates:
        return []
    suspect = staged.sparkSession.createDataFrame([(one,) for one in candidates], "suspect bigint")
    rows = _identities(staged, dataset).join(F.broadcast(suspect), _digest() == F.col("suspect"), "left_semi")
    exact = rows.groupBy("level", "text").agg(
        *_extremes(dataset),
        F.count("*").alias("records"),
        F.min(C.ORDER).alias("first"),
        F.max(C.ORDER).alias("last"),
    )
    reused = [
        Reused(
            level=row.level,
            identity=row.text,
            records=row.records,
            first=_position(row["first"]),
            last=_position(row["last"]),
        )
        for row in exact.where(_is_reused(dataset)).collect()
    ]
    return sorted(reused, key=lambda one: (dataset.narrow.index(one.level), one.identity))


def _identities(staged: DataFrame, dataset: Dataset) -> DataFrame:
    """A row a record and level: `level`, `text`, and what tells two messages apart."""
    apart = dict.fromkeys((*folding_of(dataset).apart(), C.ORDER))
    named = F.array(
        *(F.struct(F.lit(level).alias("level"), identity_text(level).alias("text")) for level in dataset.narrow)
    )
    # Next to a generator that reads fields of a struct (`_order`) Spark loses other columns (SPARK-39854).
    rows = staged.where(F.col(C.KEY).isNotNull()).select(*apart, named.alias("named"))
    return rows.select(*apart, F.inline("named")).where(F.col("text").isNotNull())


def _grouped(staged: DataFrame, dataset: Dataset, identity: Column) -> DataFrame:
    digests = {name: F.xxhash64(name) for name in folding_of(dataset).apart()}
    rows = _identities(staged, dataset).select(
        identity.alias("identity"), *(of.alias(name) for name, of in digests.items())
    )
    return rows.groupBy("identity").agg(*_extremes(dataset))


def _digest() -> Column:
    return F.xxhash64("level", "text")


def _extremes(dataset: Dataset) -> list[Column]:
    return [
        of(name).alias(f"{word}{name}")
        for name in folding_of(dataset).apart()
        for word, of in (("low", F.min), ("high", F.max))
    ]


def _is_reused(dataset: Dataset) -> Column:
    """Whether two of the records are two messages."""
    folding = folding_of(dataset)
    return folding.are_two({name: F.col(f"low{name}") != F.col(f"high{name}") for name in folding.apart()})


def _position(order: Row) -> str:
    return str(Position.of(order.asDict()))
