"""What is true of a branch with guard contiguous: of each key one head, held versions above a gap, nothing else."""

from __future__ import annotations

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse
from onefold.dataset.masks import digest, masked_json
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.state import read_state
from onefold.vocabulary import RowState


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
