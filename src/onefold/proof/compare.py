"""Where a snapshot of the state table differs from the rows that claims make."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions.accepted_gaps import Link
from onefold.dedup.identity import content_of
from onefold.proof.expected import expected_of
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.state import read_state
from onefold.values.canonical import content_as_of, same_content

WRONG = "_wrong"
"""Why a row is wrong (`onefold.proof.documents.KINDS`); null: it is right."""
_CONTENT = "_content"
_TABLE = "table_"
"""Prefix of what the table has."""


def compared(
    session: SparkSession, claims: DataFrame, dataset: Dataset, snapshot: int, share: float, links: Sequence[Link] = ()
) -> DataFrame:
    """Every row that there is or should be: its key, `_order` and `table__order`, the key's columns, `_wrong`."""
    expected = expected_of(dataset)
    by = expected.by
    wanted = expected.rows(claims.where(drawn(share)), links)
    state = expected.claimed(read_state(session, dataset, snapshot).where(drawn(share)))
    state = state.withColumn(_CONTENT, content_of(dataset))
    digests = [*dict.fromkeys((C.HASH, C.compared(dataset)))]
    names = [C.ORDER, *digests, S.STATE, *expected.compared_columns]
    columns = [name for name, _ in dataset.key_columns]
    table = state.select(*by, *(F.col(name).alias(_TABLE + name) for name in (*names, *columns, _CONTENT)))
    both = wanted.join(table, by, "full")
    table_hash = F.col(_TABLE + C.HASH)
    same = [F.col(name).eqNullSafe(F.col(_TABLE + name)) for name in names if name not in digests]
    same += [same_content(F.col(name), F.col(_TABLE + name)) for name in digests]
    content = [F.col(name).eqNullSafe(F.col(_TABLE + name)) for name in columns]
    # A row that was folded before a field was added says nothing of it.
    content.append(content_as_of(table_hash, F.col(C.HASH)) == content_as_of(table_hash, F.col(_TABLE + _CONTENT)))
    wrong = (
        F.when(F.col(_TABLE + S.STATE).isNull(), "missing")
        .when(F.col(S.STATE).isNull(), "extra")
        .when(~reduce(Column.__and__, same), "other_record")
        .when(~reduce(Column.__and__, content), "other_content")
        .when(F.count("*").over(Window.partitionBy(*by)) > 1, "repeated")
    )
    known = [F.coalesce(F.col(name), F.col(_TABLE + name)).cast("string").alias(name) for name in columns]
    return both.select(C.KEY, C.ORDER, F.col(_TABLE + C.ORDER), *known, wrong.alias(WRONG))


def drawn(share: float) -> Column:
    """Whether a key is of the share that is compared: by its digest, so the same keys on both sides, and every time."""
    number = F.conv(F.hex(F.substring(C.KEY, 1, 4)), 16, 10).cast("bigint")
    return F.lit(True) if share >= 1 else number < int(share * (1 << 32))
