"""Increment: of each message the smallest claim is an entry, and each sum is added up from the entries."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.proof.modes import append
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.values.canonical import key_digest, key_text
from onefold.vocabulary import RowState

_ALONE, _WANTED = "_move_alone", "_move_wanted_{}"


class Rows(append.Rows):
    """Mode increment."""

    def state(self) -> Column:
        """An entry."""
        return F.lit(RowState.ENTRY)

    def claimed(self, state: DataFrame) -> DataFrame:
        """The entries."""
        return super().claimed(state.where(F.col(S.STATE) == RowState.ENTRY))

    def group_key(self) -> Column:
        """That of the sum."""
        return key_digest([F.lit("sum"), *(key_text(F.col(name)) for name in self.dataset.row_key_names)])

    def wrong_groups(self, state: DataFrame) -> DataFrame | None:
        """`_key` of each sum that is not what the entries of its key add up to, is there twice, or has the digest of
        another key; of a sum that is missing, the digest that it should have."""
        digest = self.group_key()
        fields = self.dataset.apply.made_of(self.dataset)
        wide = {name: f"decimal(37,{self.dataset.fields[field].scale})" for name, field in fields.items()}
        added = {name: F.try_sum(F.col(field).cast(wide[name])) for name, field in fields.items()}
        added[S.ENTRIES] = F.count("*")
        entries, sums = (state.where(F.col(S.STATE) == kind) for kind in (RowState.ENTRY, RowState.LIVE))
        wanted = entries.groupBy(digest.alias(C.KEY)).agg(
            *(of.alias(_WANTED.format(name)) for name, of in added.items())
        )
        is_alone = (F.count("*") == 1) & F.bool_and(digest == F.col(C.KEY))
        found = sums.groupBy(C.KEY).agg(is_alone.alias(_ALONE), *(F.max(name).alias(name) for name in added))
        both = found.join(wanted, C.KEY, "full")
        right = [F.col(_ALONE), *(F.col(name) == F.col(_WANTED.format(name)) for name in added)]
        return both.where(~F.coalesce(reduce(Column.__and__, right), F.lit(False))).select(C.KEY)
