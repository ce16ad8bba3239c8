"""The rows that claims make, and where a snapshot of the state table differs from them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.identity import content_of
from onefold.quality.sums import unmoved
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.gaps import Link, mark_links
from onefold.upsert.state import read_state
from onefold.upsert.sums import sum_key
from onefold.values.canonical import content_as_of, same_content
from onefold.vocabulary import RowState

WRONG = "_wrong"
"""Why a row is wrong (`onefold.proof.documents.KINDS`); null: it is right."""
_CONTENT, _LINKED, _OTHER, _TIMES = "_content", "_linked", "_other", "_rows"
_STANDS = "stands_"
"""Prefix of what the table has."""


def rows_of(claims: DataFrame, dataset: Dataset, links: Sequence[Link] = ()) -> DataFrame:
    """The row of each key (of a chain its head, and each version above a gap): the claims' columns and `_state`.

    Append and increment: the smallest in the order. Upsert: of the highest version the largest, or with tie `first` the
    smallest. Of two contents at one position the smaller hash.
    """
    order = F.col(C.ORDER)
    by, preference = [*_by(dataset)], [order.asc(), F.col(C.HASH).asc()]
    if dataset.apply.version:
        own = order.asc() if dataset.apply.version.tie == "first" else order.desc()
        preference = [F.col(C.VERSION).desc(), own, F.col(C.HASH).asc()]
    first = F.row_number().over(Window.partitionBy(*by).orderBy(*preference))
    found = claims.withColumn("_number", first).where("_number = 1").drop("_number")
    told = F.when(F.col(C.DELETED), RowState.DELETED).otherwise(RowState.ENTRY if dataset.sums else RowState.LIVE)
    return (
        _chained(mark_links(found, _LINKED, links), dataset, told)
        if dataset.chained
        else found.withColumn(U.STATE, told)
    )


def _chained(links: DataFrame, dataset: Dataset, told: Column) -> DataFrame:
    """Of the winners of a key's versions the one that ends the unbroken run, and those above it. It begins behind the
    highest accepted gap whose version is there."""
    assert dataset.apply.version
    version, first = F.col(C.VERSION), F.lit(dataset.apply.version.begins)
    of_key = Window.partitionBy(*C.row_key(dataset))
    begins = F.greatest(first, F.max(F.when(F.col(_LINKED), version)).over(of_key))
    number = F.count(F.when(version >= F.col("_begins"), True)).over(of_key.orderBy(version))
    end = F.coalesce(F.max(F.when(F.col("_in_run"), version)).over(of_key), first - 1)
    placed = links.withColumn("_begins", begins).withColumn("_in_run", version == F.col("_begins") - 1 + number)
    placed = placed.withColumn("_end", end)
    state = F.when(version > F.col("_end"), RowState.HELD).otherwise(told)
    return placed.where(version >= F.col("_end")).withColumn(U.STATE, state).drop("_begins", "_in_run", "_end", _LINKED)


def compared(
    session: SparkSession, claims: DataFrame, dataset: Dataset, snapshot: int, share: float, links: Sequence[Link] = ()
) -> DataFrame:
    """Every row that there is or should be: its key, `_order` and `stands__order`, the key's columns, `_wrong`."""
    wanted = rows_of(claims.where(_drawn(share)), dataset, links)
    state = read_state(session, dataset, snapshot).where(_drawn(share))
    if dataset.sums:
        state = state.where(F.col(U.STATE) == RowState.ENTRY)
    if not dataset.chained:
        state = state.withColumn(C.DELETED, F.col(U.STATE) == RowState.DELETED)
    state = state.withColumn(_CONTENT, content_of(dataset))
    digests = [*dict.fromkeys((C.HASH, C.compared(dataset)))]
    own = [C.ORDER, *digests, U.STATE, *([C.VERSION] if dataset.apply.version else [])]
    names = list(dict.fromkeys(name for name in own if name not in _by(dataset)))
    columns = [name for name, _ in dataset.key_columns]
    stands = state.select(*_by(dataset), *(F.col(name).alias(_STANDS + name) for name in (*names, *columns, _CONTENT)))
    both = wanted.join(stands, _by(dataset), "full")
    stood = F.col(_STANDS + C.HASH)
    same = [F.col(name).eqNullSafe(F.col(_STANDS + name)) for name in names if name not in digests]
    same += [same_content(F.col(name), F.col(_STANDS + name)) for name in digests]
    content = [F.col(name).eqNullSafe(F.col(_STANDS + name)) for name in columns]
    # A row that was folded before a field was added says nothing of it.
    content.append(content_as_of(stood, F.col(C.HASH)) == content_as_of(stood, F.col(_STANDS + _CONTENT)))
    wrong = (
        F.when(F.col(_STANDS + U.STATE).isNull(), "missing")
        .when(F.col(U.STATE).isNull(), "extra")
        .when(~reduce(Column.__and__, same), "other_record")
        .when(~reduce(Column.__and__, content), "other_content")
        .when(F.count("*").over(Window.partitionBy(*_by(dataset))) > 1, "repeated")
    )
    known = [F.coalesce(F.col(name), F.col(_STANDS + name)).cast("string").alias(name) for name in columns]
    return both.select(C.KEY, C.ORDER, F.col(_STANDS + C.ORDER), *known, wrong.alias(WRONG))


def wrong_sums(session: SparkSession, dataset: Dataset, snapshot: int) -> DataFrame:
    """Mode increment: the keys of sums that are not those of the table's entries, stand twice, or say another key."""
    state = read_state(session, dataset, snapshot)
    times = F.count("*").over(Window.partitionBy(C.KEY))
    sums = state.where(F.col(U.STATE) == RowState.LIVE)
    told = sums.select(C.KEY, sum_key(dataset).alias(_OTHER), times.alias(_TIMES))
    misplaced = told.where((F.col(_OTHER) != F.col(C.KEY)) | (F.col(_TIMES) > 1)).select(C.KEY)
    return unmoved(dataset, [(state, 1)]).unionByName(misplaced).distinct()


def _drawn(share: float) -> Column:
    """Whether a key is of the share that is compared: by its digest, so the same keys on both sides, and every time."""
    number = F.conv(F.hex(F.substring(C.KEY, 1, 4)), 16, 10).cast("bigint")
    return F.lit(True) if share >= 1 else number < int(share * (1 << 32))


def _by(dataset: Dataset) -> list[str]:
    """What a row is one of: of a chain, a version of a key."""
    return [*C.row_key(dataset), C.VERSION] if dataset.chained else C.row_key(dataset)
