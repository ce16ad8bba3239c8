"""What a proof expects of a mode, written apart from how a run folds: nothing of `onefold.folding` is imported."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions.accepted_gaps import Link
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import RowState


class Expected(ABC):
    """The rows that claims make by the rules of one mode. Each mode is a subclass, `Rows`."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    @property
    def by(self) -> list[str]:
        """What tells the rows of the table apart."""
        return C.row_key(self.dataset)

    @property
    def compared_columns(self) -> list[str]:
        """The columns of a row that the mode decides by, next to its order and contents."""
        return []

    @abstractmethod
    def preference(self) -> list[Column]:
        """What sorts the claims of a row, the one that makes it first."""

    def state(self) -> Column:
        """`_state` of the row that a claim makes."""
        return F.when(F.col(C.DELETED), RowState.DELETED).otherwise(RowState.LIVE)

    def rows(self, claims: DataFrame, links: Sequence[Link] = ()) -> DataFrame:
        """The row of each key, with the claims' columns and `_state`; `links` are accepted gaps."""
        del links
        return self.first(claims).withColumn(S.STATE, self.state())

    def first(self, claims: DataFrame) -> DataFrame:
        """The claim that makes each row."""
        first = F.row_number().over(Window.partitionBy(*self.by).orderBy(*self.preference()))
        return claims.withColumn("_number", first).where("_number = 1").drop("_number")

    def claimed(self, state: DataFrame) -> DataFrame:
        """Of the table's rows with a key those that one claim makes, with `_is_delete`."""
        return state.withColumn(C.DELETED, F.col(S.STATE) == RowState.DELETED)

    def group_key(self) -> Column | None:
        """`_key` of the row that a claim is a part of; None: it makes a row itself."""
        return None

    def wrong_groups(self, state: DataFrame) -> DataFrame | None:
        """The keys of rows that several claims make, and that are wrong; None: the mode has none."""
        del state
        return None

    def wrong_messages(self, claims: DataFrame, messages: DataFrame) -> DataFrame | None:
        """Where a ledger of messages is not what claims make: `_key`, `_order`, `table__order`, of which one is null;
        None: the mode keeps none."""
        del claims, messages
        return None


def expected_of(dataset: Dataset) -> Expected:
    """What a dataset's mode makes of claims."""
    module = importlib.import_module(f"onefold.proof.modes.{dataset.apply.NAME}")
    expected: Expected = module.Rows(dataset)
    return expected
