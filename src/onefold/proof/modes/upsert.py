"""Upsert: of the highest version the last claim in the order; with `tie: last | first` that of the largest or smallest
offset, and the row is placeless where claims of its version are in several partitions."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset.modes.version import Version
from onefold.proof.expected import Expected
from onefold.tables import staging as C
from onefold.vocabulary import RowState


class Rows(Expected):
    """Mode upsert, guard newer."""

    @property
    def version(self) -> Version:
        """What orders the versions of a key."""
        assert self.dataset.apply.version
        return self.dataset.apply.version

    def state(self) -> Column:
        """Live, where it is no delete and `target.where` is true of it."""
        if not self.dataset.where:
            return super().state()
        return F.when(F.col(C.DELETED), RowState.DELETED).otherwise(
            F.when(F.col(C.HIDDEN), RowState.HIDDEN).otherwise(RowState.LIVE)
        )

    @property
    def compared_columns(self) -> list[str]:
        """The version, and whether the row is placeless."""
        return [C.VERSION, *([C.PLACELESS] if self.dataset.ties_by_offset else [])]

    def first(self, claims: DataFrame) -> DataFrame:
        """With `_placeless`: whether the claims of a version are in more partitions than one."""
        if self.dataset.ties_by_offset:
            of_version = Window.partitionBy(*C.row_key(self.dataset), C.VERSION)
            log = F.concat_ws("/", *(F.col(f"{C.ORDER}.{name}") for name in ("cluster", "partition", "topic")))
            claims = claims.withColumn(C.PLACELESS, F.size(F.collect_set(log).over(of_version)) > 1)
        return super().first(claims)

    def preference(self) -> list[Column]:
        """The version, the order, then the hash."""
        parts = ["cluster", "topic", "incarnation", "partition", "offset"]
        parts = ["timestamp", *parts] if self.version.tie == "conflict" else [*parts, "timestamp"]
        order = [F.col(f"{C.ORDER}.{name}") for name in parts]
        own = [part.asc() if self.version.tie == "first" else part.desc() for part in order]
        return [F.col(C.VERSION).desc(), *own, F.col(C.HASH).asc()]
