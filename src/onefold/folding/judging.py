"""Staged records against the rows that the base has of their keys: one join, and with it every record's final verdict.

A pure function on columns. Each mode says what a survivor of the batch is (`winner`) and what one of its losers is
(`loser`); what is covered, and which row is named, is the same for all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.folding.levels import same_levels
from onefold.folding.ties import is_before_winner, is_preferred
from onefold.folding.witness import stored_witness
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.values.canonical import same_content
from onefold.vocabulary import Action


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a record and of the row that the base has of its key.

    `has`: there is one. `same`: their contents are equal as they are compared; `identical`: in every field.
    `preferred`: of one version, the record is the row. `stays`: the row takes the place of the record that the batch's
    loser lost to.
    """

    has: Column
    same: Column
    identical: Column
    same_order: Column
    preferred: Column
    stays: Column
    same_levels: dict[str, Column]
    base_order: Column
    base_hash: Column


@dataclass(frozen=True, slots=True)
class Judged:
    """What a record is. `other`: order of the record that the verdict names; `won`: it beat a row of its version."""

    verdict: Column
    reason: Column
    scope: Column
    other: Column
    won: Column
    action: Column


_COLUMNS = {
    "verdict": C.VERDICT,
    "reason": C.REASON,
    "scope": U.SCOPE,
    "other": U.OTHER,
    "won": U.WON,
    "action": U.ACTION,
}
_FACT = "_fact_"
"""Prefix of facts that are columns of their own for a while: each is asked once, where every rule that asks would have
it compiled again."""
Rule = Callable[[Facts, Dataset], Judged]


def judge_by(
    winner: Rule,
    loser: Rule,
    tie: str,
    staged: DataFrame,
    base: DataFrame,
    dataset: Dataset,
    finding: Callable[[Facts], Column] | None = None,
) -> DataFrame:
    """Join staged rows (with `_covered`) to the base by key, and decide.

    Takes the staging columns and `Folding.base_columns`; gives them back with the final `_verdict` and `_reason`, and
    `_scope`, `_other`, `_won`, `_action`; and completes `_finding` by what the base tells.
    """
    joined = staged.join(base, C.row_key(dataset), "left")
    facts, joined = _facts(joined, dataset, tie)
    won, left = winner(facts, dataset), loser(facts, dataset)
    lost, keyed = ~F.col(C.SURVIVOR), F.col(C.KEY).isNotNull()
    covered = F.col(U.COVERED) & keyed  # its position has its verdict, and it changes nothing
    columns = {}
    for part in fields(Judged):
        columns[_COLUMNS[part.name]] = F.when(lost, getattr(left, part.name)).otherwise(getattr(won, part.name))
    # A covered survivor may have copies in the batch that are not covered, and in other partitions.
    acts = ~covered | (columns[U.ACTION] == Action.UNPLACE)
    columns[U.ACTION] = F.when(keyed & ~lost & acts, columns[U.ACTION])
    columns[U.WON] = F.coalesce(keyed & ~lost & ~covered & columns[U.WON], F.lit(False))
    # The other record is the batch's own winner, or the row that the base has.
    own = lost & (F.col(C.WINNER) == columns[U.OTHER])
    columns[C.WITNESS] = F.when(own, F.col(C.WITNESS)).otherwise(F.when(facts.has, stored_witness(joined)))
    stored = finding(facts) if finding else F.lit(None).cast(U.FINDING_TYPE)
    columns[U.FINDING] = F.when(keyed & ~covered, F.coalesce(F.col(U.FINDING), stored))
    judged = joined.withColumns({f"_new{name}": column for name, column in columns.items()})
    asked = [name for name in judged.columns if name.startswith(_FACT)]
    return judged.drop(*columns, *asked).withColumnsRenamed({f"_new{name}": name for name in columns})


def _facts(joined: DataFrame, dataset: Dataset, tie: str) -> tuple[Facts, DataFrame]:
    """What the rules ask, and the rows with what of it is no mere name."""
    order, base_order = F.col(C.ORDER), F.col(U.BASE + C.ORDER)
    content = C.compared(dataset)
    levels = same_levels(joined, lambda name: F.col(U.BASE + name), lambda name: U.BASE + name in joined.columns)
    asked = {
        "has": F.col(U.BASE + C.HASH).isNotNull(),
        "same": same_content(F.col(content), F.col(U.BASE + content)),
        "identical": same_content(F.col(C.HASH), F.col(U.BASE + C.HASH)),
        "same_order": order == base_order,
        "preferred": is_preferred(order, base_order, tie),
        "stays": is_before_winner(base_order, tie),
    }
    rows = joined.withColumns({_FACT + name: of for name, of in asked.items()})
    known = {name: F.col(_FACT + name) for name in asked}
    return Facts(**known, same_levels=levels, base_order=base_order, base_hash=F.col(U.BASE + C.HASH)), rows
