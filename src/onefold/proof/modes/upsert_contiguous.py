"""Upsert with guard contiguous: the version that ends the unbroken run, and each version above it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from onefold.decisions.accepted_gaps import Link
from onefold.proof.modes import upsert
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import RowState

_ACCEPTED = "_chain_accepted"


class Rows(upsert.Rows):
    """Mode upsert, guard contiguous."""

    @property
    def compared_columns(self) -> list[str]:
        """Whether the row is placeless; its version is what it is found by."""
        return [name for name in super().compared_columns if name != C.VERSION]

    @property
    def by(self) -> list[str]:
        """A version of a key."""
        return [*C.row_key(self.dataset), C.VERSION]

    def rows(self, claims: DataFrame, links: Sequence[Link] = ()) -> DataFrame:
        """Of the winners of a key's versions the one that ends the unbroken run, and those above it. It begins behind
        the highest accepted gap whose version is there."""
        winners = _with_accepted(self.first(claims), links)
        version, first = F.col(C.VERSION), F.lit(self.version.begins)
        of_key = Window.partitionBy(*C.row_key(self.dataset))
        begins = F.greatest(first, F.max(F.when(F.col(_ACCEPTED), version)).over(of_key))
        number = F.count(F.when(version >= F.col("_begins"), True)).over(of_key.orderBy(version))
        end = F.coalesce(F.max(F.when(F.col("_in_run"), version)).over(of_key), first - 1)
        placed = winners.withColumn("_begins", begins).withColumn("_in_run", version == F.col("_begins") - 1 + number)
        placed = placed.withColumn("_end", end)
        state = F.when(version > F.col("_end"), RowState.HELD).otherwise(self.state())
        return (
            placed.where(version >= F.col("_end"))
            .withColumn(S.STATE, state)
            .drop("_begins", "_in_run", "_end", _ACCEPTED)
        )

    def claimed(self, state: DataFrame) -> DataFrame:
        """All rows; the table says of each whether it deletes."""
        return state


def _with_accepted(winners: DataFrame, links: Sequence[Link]) -> DataFrame:
    """With `_accepted`: whether a gap below the version was accepted."""
    pairs = sorted({f"{link.key.hex()} {link.version}" for link in links})
    of_row = F.concat_ws(" ", F.lower(F.hex(C.KEY)), F.col(C.VERSION).cast("string"))
    return winners.withColumn(_ACCEPTED, of_row.isin(pairs) if pairs else F.lit(False))
