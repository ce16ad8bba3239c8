"""The one look-up: a staged batch against what the base has, and with it every record's final verdict.

A pure function on columns. `better` is the only rule that moves a row: append keeps the smaller in the total
order, upsert the larger (version, order). Everything else is naming.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.survivors import INCOMPARABLE, RETRIES, before_offset, partition_of
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.values.canonical import same_content
from onefold.vocabulary import Action, Level, Reason, RowState, Scope, Verdict


@dataclass(frozen=True, slots=True)
class _Facts:
    """What is known of a record and of the row that the base has for its key; `stands`: that row stands where
    the record would that the batch's loser lost to. `same`: their contents are equal as they are compared; `identical`:
    in every field."""

    has: Column
    same: Column
    identical: Column
    same_order: Column
    earlier: Column
    stands: Column
    same_levels: dict[str, Column]
    base_order: Column


def base_columns(base: DataFrame, dataset: Dataset) -> DataFrame:
    """What the look-up reads of the table: key, order and hash columns, never payload (L8)."""
    names = [*dict.fromkeys((C.ORDER, C.HASH, C.compared(dataset))), U.STATE]
    names += [C.VERSION] if dataset.apply.mode == "upsert" else []
    names += [name for name in C.LEVELS.values() if name in base.columns]
    return base.select(*C.row_key(dataset), *(F.col(name).alias(U.BASE + name) for name in names))


def judge(staged: DataFrame, base: DataFrame, dataset: Dataset) -> DataFrame:
    """Join staged rows (with `_covered`) to the base by key, and decide.

    Takes the staging columns and `base_columns`; gives them back with the final `_verdict` and `_reason`,
    and `_scope`, `_other`, `_won`, `_action`; and completes `_finding` by what the base tells.
    """
    joined = staged.join(base, C.row_key(dataset), "left")
    facts, joined = _facts(joined, dataset)
    decided = _upsert(facts, dataset) if dataset.apply.mode == "upsert" else _append(facts, dataset)
    lost = ~F.col(C.SURVIVOR)
    keyed = F.col(C.KEY).isNotNull()
    stands = F.col(U.COVERED) & keyed
    columns = {}
    for name, (survivor, loser) in decided.items():
        columns[name] = F.when(lost, loser).otherwise(survivor)
    # What is covered is not judged again. But its effect stands: without a row of its key, or where it would take the
    # row's place with other content, another record was there (a topic created anew, two exports that disagree).
    displaces = ~facts.identical & (facts.same_order | decided[U.ACTION][0].isNotNull())
    contradicts = F.coalesce(~facts.has | displaces, F.lit(False)) & F.lit(dataset.source.exact)
    repeated = {
        C.VERDICT: F.when(contradicts, Verdict.CONFLICT).otherwise(Verdict.DUPLICATE),
        C.REASON: F.when(contradicts, Reason.INCONSISTENT_POSITION).otherwise(Reason.POSITION),
        U.SCOPE: F.lit(Scope.STORED),
    }
    for name, value in repeated.items():
        columns[name] = F.when(stands, value).otherwise(columns[name])
    columns[U.ACTION] = F.when(keyed & ~lost & ~stands, columns[U.ACTION])
    columns[U.WON] = F.coalesce(keyed & ~lost & ~stands & columns[U.WON], F.lit(False))
    columns[U.OTHER] = F.when(stands, F.coalesce(F.col(U.BASE + C.ORDER), F.col(C.ORDER))).otherwise(columns[U.OTHER])
    # What stands as the other record is the batch's own winner, or the row that the base has.
    own = lost & ~stands & (F.col(C.WINNER) == columns[U.OTHER])
    columns[C.WITNESS] = F.when(own, F.col(C.WITNESS)).otherwise(F.when(facts.has, _stored_witness(joined)))
    columns[U.FINDING] = F.when(keyed & ~stands, F.coalesce(F.col(U.FINDING), _finding(facts, dataset)))
    judged = joined.withColumns({f"_new{name}": column for name, column in columns.items()})
    told = [name for name in judged.columns if name.startswith(_FACT)]
    return judged.drop(*columns, *told).withColumnsRenamed({f"_new{name}": name for name in columns})


_FACT = "_fact_"
"""Prefix of facts that are columns of their own for a while: each is asked once, where every rule that asks would have
it compiled anew."""


def _facts(joined: DataFrame, dataset: Dataset) -> tuple[_Facts, DataFrame]:
    """What the rules ask, and the rows with what of it is no mere name."""
    order, base_order = F.col(C.ORDER), F.col(U.BASE + C.ORDER)
    content = C.compared(dataset)
    same_levels = {
        level: F.coalesce(F.col(name) == F.col(U.BASE + name), F.lit(False))
        for level, name in C.LEVELS.items()
        if U.BASE + name in joined.columns and name in joined.columns
    }
    if Level.PRODUCER in same_levels:  # it counts for each partition anew
        for part in ("cluster", "topic", "incarnation", "partition"):
            same_levels[Level.PRODUCER] &= order[part] == base_order[part]
    asked = {
        "has": F.col(U.BASE + C.HASH).isNotNull(),
        "same": same_content(F.col(content), F.col(U.BASE + content)),
        "identical": same_content(F.col(C.HASH), F.col(U.BASE + C.HASH)),
        "same_order": order == base_order,
        "earlier": order < base_order,
        "stands": stands_above_winner(base_order, _tie(dataset)),
    }
    rows = joined.withColumns({_FACT + name: told for name, told in asked.items()})
    facts = {name: F.col(_FACT + name) for name in asked}
    return _Facts(**facts, same_levels=same_levels, base_order=base_order), rows


def _append(f: _Facts, dataset: Dataset) -> dict[str, tuple[Column, Column]]:
    """The smaller in the total order stands, at one position the smaller hash."""
    smaller_hash = ~f.identical & (F.col(C.HASH) < F.col(U.BASE + C.HASH))
    better = f.earlier | (f.same_order & smaller_hash)
    reason = _narrowest(f, dataset, dataset.deciding)
    # An inferred position orders and names, but never says that a position has two contents.
    exact = F.lit(dataset.source.exact)
    clash = F.when(f.same_order & exact, Reason.INCONSISTENT_POSITION).otherwise(F.lit(Reason.SAME_IDENTITY))
    # A loser of the batch answers to whoever stands for its key in the end.
    base_stands = f.has & f.stands
    was = F.col(C.VERDICT)
    against_base = base_stands & F.col(C.KEY).isNotNull()
    read_twice = (was == Verdict.DUPLICATE) & (F.col(C.REASON) == Reason.POSITION)
    same = f.same | read_twice
    return {
        C.VERDICT: (
            F.when(~f.has, Verdict.APPLIED).when(f.same, Verdict.DUPLICATE).otherwise(Verdict.CONFLICT),
            F.when(against_base, F.when(same, Verdict.DUPLICATE).otherwise(Verdict.CONFLICT)).otherwise(was),
        ),
        C.REASON: (
            F.when(~f.has, Reason.INSERT).when(f.same, reason).otherwise(clash),
            F.when(
                against_base,
                F.when(same, F.when(was == Verdict.DUPLICATE, F.col(C.REASON)).otherwise(reason)).otherwise(
                    F.when(was == Verdict.CONFLICT, F.col(C.REASON)).otherwise(F.lit(Reason.SAME_IDENTITY))
                ),
            ).otherwise(F.col(C.REASON)),
        ),
        U.SCOPE: (
            F.when(f.has, Scope.STORED).otherwise(Scope.IN_BATCH),
            F.when(
                against_base & (F.when(same, Verdict.DUPLICATE).otherwise(Verdict.CONFLICT) != was), Scope.STORED
            ).otherwise(Scope.IN_BATCH),
        ),
        U.OTHER: (F.when(f.has, f.base_order), F.when(against_base, f.base_order).otherwise(F.col(C.WINNER))),
        U.WON: (f.has & ~f.same & better, F.lit(False)),
        U.ACTION: (F.when(~f.has, Action.INSERT).when(better, Action.UPDATE), F.lit(None).cast("string")),
    }


def _upsert(f: _Facts, dataset: Dataset) -> dict[str, tuple[Column, Column]]:
    """The larger (version, order) stands; of equal versions the tie decides how the loser is called."""
    tie = _tie(dataset)
    version, base_version = F.col(C.VERSION), F.col(U.BASE + C.VERSION)
    newer, tied = version > base_version, version == base_version
    apart = _apart(f, dataset)
    smaller_hash = f.same_order & ~f.identical & (F.col(C.HASH) < F.col(U.BASE + C.HASH))
    later = f.earlier if tie == "first" else ~(f.earlier | f.same_order)
    better = newer | (tied & (later | smaller_hash))
    again = F.coalesce(
        *(F.when(f.same_levels[level], level) for level in RETRIES if level in f.same_levels), _no_level()
    )
    retry = again.isNotNull() & f.same
    same_reason = _narrowest(f, dataset, Reason.KEY_VERSION)
    fresh = (
        F.when(F.col(C.DELETED), Reason.DELETE)
        .when(~f.has | (F.col(U.BASE + U.STATE) == RowState.DELETED), Reason.INSERT)
        .otherwise(Reason.UPDATE)
    )
    inconsistent = tied & f.same_order & ~f.same & F.lit(dataset.source.exact)
    settled = F.when(later, Reason.REPLACE).otherwise(Reason.SAME_VERSION)
    was = F.col(C.VERDICT)
    # A lower version of the batch may still meet its own version in the table; and who lost to a record of its own
    # version answers to the table's row of that version, where that record does.
    meets = f.has & tied & (was == Verdict.SUPERSEDED) & (F.col(C.REASON) == Reason.IN_BATCH)
    stands = F.col(C.TIED) & f.stands
    answers = meets | (f.has & tied & (stands | ~F.col(C.TIED)))
    tie_verdict = (
        F.lit(Verdict.CONFLICT) if tie == "conflict" else F.when(later, Verdict.APPLIED).otherwise(Verdict.SUPERSEDED)
    )
    tie_reason = F.lit(Reason.SAME_VERSION) if tie == "conflict" else settled
    answer, answer_reason = answered(f.same, tie, same_reason)
    return {
        C.VERDICT: (
            F.when(~f.has, Verdict.APPLIED)
            .when(apart, Verdict.CONFLICT)
            .when((tied & f.same) | retry, Verdict.DUPLICATE)
            .when(inconsistent, Verdict.CONFLICT)
            .when(tied, tie_verdict)
            .when(newer, Verdict.APPLIED)
            .otherwise(Verdict.SUPERSEDED),
            F.when(answers, answer).otherwise(was),
        ),
        C.REASON: (
            F.when(~f.has, fresh)
            .when(apart, INCOMPARABLE)
            .when(tied & f.same, same_reason)
            .when(retry, again)
            .when(inconsistent, Reason.INCONSISTENT_POSITION)
            .when(tied, tie_reason)
            .when(newer, fresh)
            .otherwise(Reason.STORED),
            F.when(answers, answer_reason).otherwise(F.col(C.REASON)),
        ),
        U.SCOPE: (
            F.when(f.has, Scope.STORED).otherwise(Scope.IN_BATCH),
            F.when(meets | (answers & (answer != was)), Scope.STORED).otherwise(Scope.IN_BATCH),
        ),
        U.OTHER: (
            F.when(f.has, f.base_order),
            F.when(answers, f.base_order).otherwise(F.col(C.WINNER)),
        ),
        U.WON: (f.has & ~apart & tied & ~f.same & better, F.lit(False)),
        U.ACTION: (F.when(~f.has, Action.INSERT).when(better & ~apart, Action.UPDATE), F.lit(None).cast("string")),
    }


def _apart(f: _Facts, dataset: Dataset) -> Column:
    """Whether a version cannot be compared with that of the row: only the offsets differ, of two partitions."""
    if dataset.before_offset is None:
        return F.lit(False)
    parts = (before_offset(dataset, F.col(one)) for one in (C.VERSION, U.BASE + C.VERSION))
    same = (one == other for one, other in zip(*parts, strict=True))
    elsewhere = partition_of(F.col(C.ORDER)) != partition_of(f.base_order)
    return F.coalesce(reduce(Column.__and__, same, f.has & elsewhere), F.lit(False))


def _tie(dataset: Dataset) -> str:
    """Without versions the smaller record stands, as the first one of a version does."""
    return dataset.apply.version.tie if dataset.apply.version else "first"


def stands_above_winner(base_order: Column, tie: str) -> Column:
    """Whether a row of the table stands where the batch's winner of its version would."""
    return base_order <= F.col(C.WINNER) if tie == "first" else base_order >= F.col(C.WINNER)


def answered(same: Column, tie: str, same_reason: str | Column) -> tuple[Column, Column]:
    """Verdict and reason of a loser of the batch that answers to the table's row of its version; `same` content."""
    was, reason = F.col(C.VERDICT), F.col(C.REASON)
    repeats = same | ((was == Verdict.DUPLICATE) & (reason == Reason.POSITION))  # read twice
    differs = F.when(was == Verdict.CONFLICT, was).otherwise(
        Verdict.CONFLICT if tie == "conflict" else Verdict.SUPERSEDED
    )
    return F.when(repeats, Verdict.DUPLICATE).otherwise(differs), (
        F.when(repeats, F.when(was == Verdict.DUPLICATE, reason).otherwise(same_reason))
        .when(was == Verdict.CONFLICT, reason)
        .otherwise(Reason.SAME_VERSION)
    )


def _no_level() -> Column:
    return F.lit(None).cast("string")


def _narrowest(f: _Facts, dataset: Dataset, deciding: str) -> Column:
    """The narrowest level at which a record is the row that stands."""
    reason = F.when(f.same_order, Reason.POSITION)
    for level in dataset.narrow:
        reason = reason.when(f.same_levels[level], level)
    return reason.otherwise(F.lit(deciding))


def _stored_witness(joined: DataFrame) -> Column:
    """The witness (`onefold.dedup.survivors.witness_of`) of the row that the base has; it came with another batch."""
    known = U.BASE + C.PRODUCER in joined.columns
    name, epoch = (F.col(f"{U.BASE}{C.PRODUCER}.{part}") if known else F.lit(None) for part in ("name", "epoch"))
    nowhere = F.lit(None).cast("string").alias("object")
    return F.struct(name.cast("string").alias("name"), epoch.cast("int").alias("epoch"), nowhere)


def _finding(f: _Facts, dataset: Dataset) -> Column:
    """The level whose identity the stored version of the same key has too, with other content (upsert only)."""
    if dataset.apply.mode != "upsert":  # elsewhere it is another key, which no look-up of this one sees
        return F.lit(None).cast(U.FINDING_TYPE)
    other_version = F.col(C.VERSION) != F.col(U.BASE + C.VERSION)
    named = [F.when(f.same_levels[level], level) for level in dataset.narrow if level in f.same_levels]
    level = F.coalesce(*named, _no_level())
    reused = f.has & other_version & ~f.same & level.isNotNull()
    return F.when(reused, F.struct(level.alias("level"), F.lit(Scope.STORED).alias("scope")))
