"""What is true of a branch: counted by plain Spark, over the batch's keys and the buckets they lie in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse, paths
from onefold.dataset.masks import masked
from onefold.lake import CATALOG
from onefold.quality.chains import chain_faults, changed_chains, keys_of_chains
from onefold.quality.sums import sum_faults
from onefold.spark.flat_structs import read_flat
from onefold.spark.key_filter import narrowed
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.documents import Upserted
from onefold.upsert.forgotten import of_keys, without_keys
from onefold.upsert.replay import entries_left
from onefold.upsert.state import count_quarantined, read_appended, read_state
from onefold.vocabulary import Action, RowState, Verdict, outcome_of

EXAMPLES = 20
"""At most so many examples of each kind are shown."""


@dataclass(frozen=True, slots=True)
class BranchFacts:
    """Counts of rows and keys: from `repeated_keys` to `unequal_sums` every one must be 0. `added`: net."""

    rows_before: int
    rows_after: int
    added: int
    verdicts: int
    repeated_keys: int
    nulls: int
    regressions: int
    unapplied: int
    unknown_columns: int
    unequal_sums: int | None
    quarantined: int
    rejected: int
    forgotten: int | None
    failing_keys: list[dict[str, str]]


def changed_rows(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """The branch's rows for the keys of the actions, with what the base had and what was meant.

    Adds `_base_order` (and `_base_version`) and `_new_order`; with guard contiguous what `chains.changed_chains` says.
    Of the fields only those of the key are read (L8).
    """
    own = [*C.row_key(dataset), C.ORDER, U.STATE, *([C.VERSION] if dataset.apply.mode == "upsert" else [])]
    rows = read_state(session, dataset, upserted.head, upserted.within)
    rows = rows.select(*dict.fromkeys([*own, *key_columns(dataset)]))
    if dataset.chained:
        return changed_chains(session, dataset, upserted, rows)
    by = C.row_key(dataset)
    names = [*map(F.col, by), F.col(C.ORDER).alias("_new_order"), F.col(U.OTHER).alias("_base_order")]
    if dataset.apply.mode == "upsert":
        names.append(F.col(U.BASE + C.VERSION).alias("_base_version"))
    actions = read_flat(session, upserted.actions).where(F.col(U.ACTION).isNotNull()).select(*names)
    return narrowed(rows, actions, dataset, large=upserted.narrow).join(actions, by)


def written_rows(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    """The branch's rows that the batch made, whole. Of what else the table has no field is read (L8); but with guard
    contiguous, whose held rows wake in place, these are all rows of the keys of the actions."""
    if dataset.chained:
        rows = read_state(session, dataset, upserted.head, upserted.within)
        return changed_chains(session, dataset, upserted, rows)
    return read_appended(session, dataset, upserted.base, upserted.head)


def live_rows(rows: DataFrame, dataset: Dataset) -> DataFrame:
    """Live rows, the published columns only."""
    return rows.where(F.col(U.STATE) == RowState.LIVE).select(*dataset.published_columns)


def facts_of(
    session: SparkSession, dataset: Dataset, upserted: Upserted, changed: DataFrame, gone: Sequence[bytes] = ()
) -> BranchFacts:
    """Count everything that the generated checks ask; `changed` is `changed_rows`, better cached. Of keys that are
    `gone`, forgotten with this attempt, the base's rows do not count."""
    keys = keys_of_chains(changed) if dataset.chained else changed.groupBy(C.KEY).agg(_repeated())
    repeated = keys.where("repeated")
    stood = keys.agg(F.count("*").alias("keys"), F.count_if("repeated").alias("repeated")).first()
    assert stood is not None
    nulls, *faults = _counted(changed, [_null(dataset, changed), *([] if dataset.chained else _faulty(dataset))])
    if dataset.chained:
        regressions, unapplied = chain_faults(session, dataset, upserted, changed)
    else:
        regressions, unapplied = faults
        unapplied += sum(n for action, n in upserted.changes.items() if action != Action.REMOVE) - int(stood.keys)
    bucket = F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})")

    def rows_at(snapshot: int) -> int:
        rows = read_state(session, dataset, snapshot, upserted.within)
        rows = without_keys(rows, list(gone)) if snapshot == upserted.base else rows
        return rows.where(bucket.isin(upserted.buckets)).select(C.KEY).count() if upserted.buckets else 0

    quarantined, rejected = _quarantined(session, dataset, upserted)
    base, branch = (read_state(session, dataset, at).schema for at in (upserted.base, upserted.head))
    return BranchFacts(
        rows_before=rows_at(upserted.base),
        rows_after=rows_at(upserted.head),
        added=sum(upserted.changes.get(one, 0) for one in (Action.INSERT, Action.ENTER))
        - upserted.changes.get(Action.REMOVE, 0),
        verdicts=session.table(upserted.verdicts).where(F.col("attempt") == upserted.attempt).count(),
        repeated_keys=int(stood.repeated),
        nulls=nulls,
        regressions=regressions,
        unapplied=unapplied,
        unknown_columns=len({field.simpleString() for field in branch} ^ {field.simpleString() for field in base}),
        unequal_sums=sum_faults(session, dataset, upserted, gone) if dataset.sums else None,
        quarantined=quarantined,
        rejected=rejected,
        forgotten=_left(session, dataset, upserted, list(gone)) if gone else None,
        failing_keys=_failing(changed, repeated, dataset) if stood.repeated else [],
    )


def _quarantined(session: SparkSession, dataset: Dataset, upserted: Upserted) -> tuple[int, int]:
    """Entries of the quarantine that the branch has of the batch's records, and that it should have."""
    if upserted.replays:
        return entries_left(session, dataset, upserted)
    counts = upserted.counts.get(Verdict.REJECTED, {})
    rejected = sum(count for reason, count in counts.items() if outcome_of(Verdict.REJECTED, reason).quarantined)
    return count_quarantined(session, dataset, upserted.head, upserted.batch) if rejected else 0, rejected


def _left(session: SparkSession, dataset: Dataset, upserted: Upserted, gone: list[bytes]) -> int:
    """Rows that the branch has of forgotten keys and that no action made."""
    made = session.table(upserted.actions).where(F.col(U.ACTION).isNotNull()).select(C.KEY)
    return of_keys(read_state(session, dataset, upserted.head), gone).join(made, C.KEY, "left_anti").count()


def _repeated() -> Column:
    return (F.count("*") > 1).alias("repeated")


def _counted(changed: DataFrame, asked: list[Column]) -> list[int]:
    """How many rows meet each of some conditions: one pass."""
    sums = changed.agg(*map(F.count_if, asked)).first()
    assert sums is not None
    return [int(one) for one in sums]


def _faulty(dataset: Dataset) -> list[Column]:
    """Whether a row went back, and whether it is not what was meant."""
    return [_worse(dataset), F.col(C.ORDER) != F.col("_new_order")]


def _null(dataset: Dataset, changed: DataFrame) -> Column:
    """A row without its key or a part of its version, or a live one without a column of its key."""
    always = [F.col(C.KEY)]
    if version := dataset.apply.version:
        several = len(version.parts) > 1
        parts = changed.select(f"{C.VERSION}.*").columns if several else []
        always += [F.col(C.VERSION)[part] for part in parts] or [F.col(C.VERSION)]
    live = [F.col(name).isNull() & (F.col(U.STATE) == RowState.LIVE) for name in key_columns(dataset)]
    return reduce(Column.__or__, [*(one.isNull() for one in always), *live])


def key_columns(dataset: Dataset) -> list[str]:
    """The parts of a row's key that are columns; of the period, where it begins. A value's field may have the name of a
    part that is read elsewhere, such as a header, and is none then."""
    trees = [parse(text) for text in dataset.apply.key or ()] if dataset.sums else dataset.key_expressions
    names: list[str] = []
    for tree in trees:
        path = next(iter(paths(tree)))
        of_value = path.root == "value" and not path.inner
        if tree == dataset.within:
            names.append(C.WITHIN)
        elif (of_value and path.name in dataset.fields) or (path.column, tree) in dataset.key_columns:
            names.append(path.column)
    return list(dict.fromkeys(names))


def _worse(dataset: Dataset) -> Column:
    """(version, order) went down for a key (L4); elsewhere the order went up, for the smaller stands there."""
    base = F.col("_base_order")
    if dataset.apply.mode != "upsert":
        return base.isNotNull() & (F.col(C.ORDER) > base)
    assert dataset.apply.version
    first = dataset.apply.version.tie == "first"
    order_down = (F.col(C.ORDER) > base) if first else (F.col(C.ORDER) < base)
    version, before = F.col(C.VERSION), F.col("_base_version")
    return base.isNotNull() & ((version < before) | ((version == before) & order_down))


def _failing(changed: DataFrame, repeated: DataFrame, dataset: Dataset) -> list[dict[str, str]]:
    """Some keys that stand more than once, as readers see them."""
    digests = [row[C.KEY] for row in repeated.select(C.KEY).limit(EXAMPLES).collect()]
    names = key_columns(dataset) or [C.KEY]
    shown = changed.where(F.col(C.KEY).isin(digests)).select(*(F.col(name).cast("string") for name in names))
    return [masked(dataset, row.asDict()) for row in shown.distinct().limit(EXAMPLES).collect()]
