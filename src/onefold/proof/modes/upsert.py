"""Upsert: of the highest version the last claim in the order, or with tie `first` the first."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.dataset.modes.version import Version
from onefold.proof.expected import Expected
from onefold.tables import staging as C
from onefold.vocabulary import RowState


class Rows(Expected):
    """Mode upsert, guard newer."""

    VERSIONS: tuple[str, ...] = (C.VERSION,)

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

    def preference(self) -> list[Column]:
        """The version, the order, then the hash."""
        order = F.col(C.ORDER)
        own = order.asc() if self.version.tie == "first" else order.desc()
        return [F.col(C.VERSION).desc(), own, F.col(C.HASH).asc()]
