"""What a folding answers: how the records of a key become a row, for Spark. Each mode is one subclass, `Fold`."""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset import Dataset
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.vocabulary import Action, RowState

if TYPE_CHECKING:
    from onefold.decisions.accepted_gaps import Link

Place = Callable[[DataFrame], DataFrame]
"""Puts the rows of a key together."""
Narrow = Callable[[DataFrame, DataFrame], DataFrame]
"""Of rows of the table those that may have the keys of others."""
BASE_ORDER, BASE_VERSION, NEW_ORDER = "_base_order", "_base_version", "_new_order"
NEW_PLACELESS, LOWERS = "_new_placeless", "_new_lowers"
"""Of a changed row of the branch: what the base had, and what was meant; whether it may go back."""
REPEATED, NULLS, REGRESSIONS, UNAPPLIED = "repeated", "nulls", "regressions", "unapplied"
"""Of a key of changed rows: see `Folding.faults_by_key`."""


def as_it_lies(rows: DataFrame) -> DataFrame:
    """Rows that are placed already."""
    return rows


@dataclass(frozen=True, slots=True)
class Placing:
    """How rows of the base are judged together with those of the batch, by a folding that does so."""

    place: Place = as_it_lies
    within: tuple[str, ...] = ()
    """Columns, which `place` may add, that are part of every group."""
    links: Sequence[Link] = ()
    """Accepted gaps."""


PLACED = Placing()


@dataclass(frozen=True, slots=True)
class Size:
    """How a batch lies next to the base: `slots` parts a bucket; `narrow`: the base is much larger."""

    slots: int = 1
    narrow: bool = False


class Folding(ABC):
    """The rules of one mode for one dataset."""

    MEETS_KEYS_ALONE = True
    """Whether `judge` asks of the base only rows of the batch's keys."""
    KEPT: tuple[str, ...] = ()
    """Staging columns that the state table has, next to those of every mode."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    # The batch.

    def own_columns(self) -> tuple[dict[str, Column], list[Column]]:
        """Columns of an identified record that only this mode has, and why a record cannot be folded
        (`REJECTED_TYPE` structs, null where it can)."""
        return {}, []

    @abstractmethod
    def survivors(self, records: DataFrame, within: tuple[str, ...] = ()) -> DataFrame:
        """Add `_survivor`, `_verdict`, `_reason`, `_winner` and `_witness` (upsert: and `_tied`) to identified records;
        `within` columns are part of every group."""

    def apart(self) -> tuple[str, ...]:
        """The columns that tell the messages of one narrow identity apart."""
        return (C.identity(self.dataset),)

    def are_two(self, differ: Mapping[str, Column]) -> Column:
        """Whether an identity is that of two messages, by which columns of `apart` differ."""
        return differ[C.identity(self.dataset)]

    # The batch against the base.

    def kept(self, state: DataFrame) -> DataFrame:
        """Of the state table's rows with a key those that records became."""
        return state

    def group_key(self) -> Column | None:
        """`_key` of the row that a kept row is a part of; None: it is a row itself."""
        return None

    def known_messages(self, messages: DataFrame) -> DataFrame:
        """What `meet_messages` joins of the table's ledger (rows of `_state` message): keys, orders and digests."""
        return messages

    def meet_messages(self, staged: DataFrame, known: DataFrame) -> DataFrame:
        """Staged rows (with `_covered`) folded once more, without the copies of messages that the table knows; only
        where a delivery decides."""
        del known
        return staged

    def base_columns(self, state: DataFrame) -> DataFrame:
        """What `judge` reads of the table: key, order and hash columns, never payload (L8)."""
        return self.named_columns(state)

    def named_columns(self, state: DataFrame, *more: str) -> DataFrame:
        """The key, and by the names that `U.BASE` begins what a join asks of a row."""
        names = [*dict.fromkeys((C.ORDER, C.HASH, C.compared(self.dataset))), S.STATE, *more]
        names += [name for name in C.LEVELS.values() if name in state.columns]
        return self.kept(state).select(*C.row_key(self.dataset), *(F.col(name).alias(U.BASE + name) for name in names))

    @abstractmethod
    def judge(self, staged: DataFrame, base: DataFrame, placing: Placing = PLACED) -> DataFrame:
        """Judge staged rows (with `_covered`) against `base_columns`.

        Gives the staging columns with the final `_verdict` and `_reason`; `_scope`, `_other`, `_won`, `_action`,
        `_finding`; and where rows have further states `_becomes`.
        """

    def follow_up(
        self, actions: str, state: Callable[[], DataFrame], attempt: str, size: Size, gone: Collection[bytes]
    ) -> None:
        """Append to the actions what follows from them; `gone` are keys whose rows leave with the batch."""
        return  # each record's own action is all there is

    # The state table.

    def further_columns(self) -> list[T.StructField]:
        """Columns that the state table has and no record."""
        return []

    def state_of_row(self) -> Column:
        """`_state` of the row that an action makes."""
        return F.when(F.col(C.DELETED), RowState.DELETED).otherwise(RowState.LIVE)

    def makes_row(self) -> Column:
        """Whether an action makes the row of its key, and not one that waits."""
        return F.lit(True)

    def merge_statement(
        self, target: str, source: str, same_key: Sequence[str], columns: Sequence[str], changes: Collection[str]
    ) -> str | None:
        """The one statement that merges the actions (view `source`, alias s) into a branch (alias t); None: rows that
        others displace leave first, and then everything new is appended."""
        del target, source, same_key, columns, changes
        return None

    # What must be true of a branch.

    def row_columns(self) -> list[str]:
        """What a row's checks read next to key, order and state."""
        return []

    def changed(self, rows: DataFrame, actions: DataFrame, narrowed: Narrow) -> DataFrame:
        """The branch's rows of the keys of `actions` (those that change a row), with what the base had and what was
        meant: `_base_order`, `_base_version`, `_new_order`, `_new_placeless`, `_new_lowers`."""
        stays = F.col(U.ACTION) == Action.UNPLACE  # the row keeps the order that the base has
        named = {NEW_ORDER: F.when(stays, F.col(U.OTHER)).otherwise(F.col(C.ORDER)), BASE_ORDER: F.col(U.OTHER)}
        columns = self.row_columns()
        if C.VERSION in columns:
            named[BASE_VERSION] = F.col(U.BASE + C.VERSION)
        if C.PLACELESS in columns:
            named[NEW_PLACELESS] = F.col(C.PLACELESS)
        if self.dataset.versions_by_delivery:
            named[LOWERS] = F.col(U.ACTION) == Action.LOWER
        by = C.row_key(self.dataset)
        meant = actions.select(*by, *(of.alias(name) for name, of in named.items()))
        return narrowed(rows, meant).join(meant, by)

    def written(self, rows: DataFrame, actions: DataFrame) -> DataFrame | None:
        """Of the branch's rows those that the batch made; None: they are what it appended."""
        del rows, actions
        return None

    def faults_by_key(self, changed: DataFrame, null: Column, links: Sequence[Link]) -> DataFrame:
        """One row a key: `repeated`, where it has rows that may not be next to each other (L3); and how many of them
        have `nulls`, are `regressions` (L4), and are `unapplied`: not as they were meant.

        Of `changed` rows, of which `null` says where one is. `links`: versions that need none before them.
        """
        del links
        differs = F.col(C.ORDER) != F.col(NEW_ORDER)
        if C.PLACELESS in self.row_columns():
            differs |= ~F.col(C.PLACELESS).eqNullSafe(F.col(NEW_PLACELESS))
        counted = {NULLS: null, REGRESSIONS: self.went_back(), UNAPPLIED: differs}
        counts = [F.count_if(wrong).alias(name) for name, wrong in counted.items()]
        return changed.groupBy(C.KEY).agg((F.count("*") > 1).alias(REPEATED), *counts)

    @abstractmethod
    def went_back(self) -> Column:
        """Whether a changed row went back (L4)."""

    def count_missing(self, changed: DataFrame, actions: DataFrame, meant: Mapping[str, int], keys: int) -> int:
        """How many actions are not on the branch, or removed nothing; `meant` are actions by kind, and `keys` the keys
        of `changed`."""
        del changed, actions
        return abs(sum(count for action, count in meant.items() if action != Action.REMOVE) - keys)

    def unmoved(self, rows: Sequence[tuple[DataFrame, int]]) -> DataFrame | None:
        """`_key` of each group whose row is not what its entries make, over rows of the state table that count by a
        sign; None: no row is made of several."""
        del rows
        return None


def folding_of(dataset: Dataset) -> Folding:
    """The folding of a dataset's mode."""
    module = importlib.import_module(f"onefold.folding.{dataset.apply.NAME}")
    folding: Folding = module.Fold(dataset)
    return folding
