"""Append: the smallest claim in the order is the row; of two contents at one position the smaller hash."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from onefold.proof.expected import Expected
from onefold.tables import staging as C


class Rows(Expected):
    """Mode append."""

    def preference(self) -> list[Column]:
        """The order, then the hash."""
        return [F.col(C.ORDER).asc(), F.col(C.HASH).asc()]
