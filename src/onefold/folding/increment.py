"""Mode increment: what is added to a key is added once a message, whatever arrives in which order.

The state table is ledger and sums in one. Each message id has an *entry* (`_state` entry: its key, its fields, its
place in the total order), judged as in append: the smallest record in the order wins. Each key has a *sum* (`_state`
live: the columns added to, and `_entries`, how many entries it is made of). What a batch changes in the ledger, +new,
or -old +new where a smaller record takes over, is added up by key and moves the sums; both are published in one
commit, so no one reads one of them without the other. A key whose last entry went has no sum.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from onefold.dataset import Dataset
from onefold.dataset.evolution import Origin
from onefold.dataset.expressions import parse
from onefold.dataset.masks import masked_json
from onefold.dataset.modes.increment import Increment
from onefold.dataset.types import FieldType
from onefold.errors import SumOverflowError
from onefold.folding import append
from onefold.folding.strategy import PLACED, Placing, Size
from onefold.spark.iceberg_tables import bucketed, drop
from onefold.spark.key_filter import narrowed
from onefold.spark.slots import SLOT, in_slots
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.tables.names import scratch_table
from onefold.values.canonical import content_hash, key_digest, key_text
from onefold.values.expressions import compile_expression
from onefold.values.rejection import rejected, unusable
from onefold.vocabulary import Action, Reason, RowState, Verdict

_MOVE = "_move_"
"""Prefix of what a batch adds to a column."""
_SHOWN = 5


class Fold(append.Fold):
    """Mode increment: the ledger is judged as in mode append."""

    @property
    def sums(self) -> dict[str, tuple[str, FieldType]]:
        """Of each column that is added to, the field and the sum's type."""
        return sums_of(self.dataset)

    def own_columns(self) -> tuple[dict[str, Column], list[Column]]:
        """No column; but a record must say what is added, and to which key."""
        keys = [(text, compile_expression(parse(text))) for text in self.dataset.apply.key or ()]
        refused = [unusable(part, Reason.NULL_KEY, text) for text, part in keys]
        for field, _ in self.sums.values():
            why = rejected(Reason.NULL_VALUE, f"{field} is null: nothing to add")
            refused.append(F.when(F.col(field).isNull(), why))
        return {}, refused

    def kept(self, state: DataFrame) -> DataFrame:
        """The entries."""
        return state.where(F.col(S.STATE) == RowState.ENTRY)

    def group_key(self) -> Column | None:
        """That of the sum."""
        return sum_key(self.dataset)

    def judge(self, staged: DataFrame, base: DataFrame, placing: Placing = PLACED) -> DataFrame:
        """As in append, with the words of the ledger, and `_becomes`."""
        judged, action = super().judge(staged, base, placing), F.col(U.ACTION)
        added = (F.col(C.VERDICT) == Verdict.APPLIED) & (F.col(C.REASON) == Reason.INSERT)
        return judged.withColumns(
            {
                U.ACTION: F.when(action == Action.INSERT, Action.ENTER).when(action == Action.UPDATE, Action.EXCHANGE),
                C.REASON: F.when(added, Reason.ADD).otherwise(F.col(C.REASON)),
                U.BECOMES: F.when(action.isNotNull(), RowState.ENTRY),
            }
        )

    def follow_up(
        self, actions: str, state: Callable[[], DataFrame], attempt: str, size: Size, gone: Collection[bytes]
    ) -> None:
        """Append what the actions make of the sums; `gone` are entries that leave.

        The batch's moves are shuffled once, the table not at all: of it, the sums of the batch's keys are read, and the
        entries that another record replaces. A scratch table keeps the moves, so that nothing is shuffled twice.

        Raises:
            SumOverflowError: a sum does not fit its type; nothing but the actions was written.
        """
        dataset, base = self.dataset, state()
        session = base.sparkSession
        entries = session.table(actions).where(F.col(U.ACTION).isNotNull())
        replaced = entries.where(F.col(U.ACTION) == Action.EXCHANGE).select(C.KEY)
        found = moves_of(entries, dataset, 1)
        if not replaced.isEmpty():
            before = narrowed(self.kept(base), replaced, dataset, large=size.narrow)
            found = found.unionByName(moves_of(before.join(replaced, C.KEY, "left_semi"), dataset, -1))
        if gone:
            left = session.createDataFrame([(key,) for key in gone], f"{C.KEY} binary")
            before = self.kept(base).join(F.broadcast(left), C.KEY, "left_semi")
            found = found.unionByName(moves_of(before, dataset, -1))
        summed = added_up(in_slots(found, dataset, size.slots), dataset, SLOT).drop(SLOT)
        still = reduce(Column.__and__, (F.coalesce(F.col(_MOVE + name) == 0, F.lit(False)) for name in self.sums))
        table = scratch_table(dataset.name, "moves", attempt)
        bucketed(summed.where(~still | (F.col(S.ENTRIES) != 0)), table, dataset)
        moved = session.table(table)
        sums = moved.join(_known(base, dataset, moved, narrow=size.narrow), C.KEY, "left")
        columns = session.table(actions).schema
        rows = sums.withColumns(_moved(dataset)).withColumn(C.HASH, content_hash(_content(dataset), F.lit(False)))
        rows.select(
            *(
                F.col(column.name)
                if column.name in _written(dataset)
                else F.lit(None).cast(column.dataType).alias(column.name)
                for column in columns
            )
        ).writeTo(actions).append()
        drop(session, table)
        _check_overflow(session.table(actions), dataset)

    def further_columns(self) -> list[T.StructField]:
        """What a sum has next to the key, and entries do not have."""
        ddl = {name: kind.sql for name, (_, kind) in self.sums.items()} | {S.ENTRIES: "bigint"}
        return [T.StructField(name, T._parse_datatype_string(kind)) for name, kind in ddl.items()]

    def state_of_row(self) -> Column:
        """An entry, or a sum."""
        return F.col(U.BECOMES)

    def unmoved(self, rows: Sequence[tuple[DataFrame, int]]) -> DataFrame | None:
        """`_key` of each sum that is not what the entries add up to.

        By induction: an empty ledger has no sums, and where base and branch differ by the same in both, each sum of the
        branch is the sum over its entries if each of the base was.
        """
        dataset, moved = self.dataset, []
        for some, sign in rows:
            sums = some.where(F.col(S.STATE) == RowState.LIVE)
            moved += [moves_of(self.kept(some), dataset, sign), moves_behind(sums, dataset, -sign)]
        balance = reduce(DataFrame.unionByName, (change.drop(*dataset.row_key_names) for change in moved))
        sides = [name for name in balance.columns if name != C.KEY]
        summed = balance.groupBy(C.KEY).agg(*(F.try_sum(name).alias(name) for name in sides))
        still = reduce(Column.__and__, (F.coalesce(F.col(name) == 0, F.lit(False)) for name in sides))
        return summed.where(~still).select(C.KEY)


def sums_of(dataset: Dataset) -> dict[str, tuple[str, FieldType]]:
    """Of each column that is added to, the field and the sum's type."""
    assert isinstance(dataset.apply, Increment)
    return dataset.apply.sums(dataset)


def sum_key(dataset: Dataset) -> Column:
    """`_key` of the sum that a row belongs to. No message id has such a digest: it is one part, this has one more."""
    return key_digest([F.lit("sum"), *(key_text(F.col(name)) for name in dataset.row_key_names)])


def moves_of(entries: DataFrame, dataset: Dataset, sign: int) -> DataFrame:
    """What each entry moves: `_key` of its sum, the key's columns, `_entries`, `_move_*`; times `sign`, 1 or -1."""
    moved = {name: F.col(field).cast(_wide(kind)) for name, (field, kind) in sums_of(dataset).items()}
    return _signed(entries, dataset, sum_key(dataset), F.lit(1).cast("bigint"), moved, sign)


def moves_behind(sums: DataFrame, dataset: Dataset, sign: int) -> DataFrame:
    """Sums in the shape of `moves_of`: what all that they are made of moved."""
    moved = {name: F.col(name).cast(_wide(kind)) for name, (_, kind) in sums_of(dataset).items()}
    return _signed(sums, dataset, F.col(C.KEY), F.col(S.ENTRIES), moved, sign)


def _signed(
    rows: DataFrame, dataset: Dataset, key: Column, entries: Column, moved: dict[str, Column], sign: int
) -> DataFrame:
    named = {C.KEY: key, **{name: F.col(name) for name in dataset.row_key_names}}
    numbers = {S.ENTRIES: entries, **{_MOVE + name: of for name, of in moved.items()}}
    signed = {name: of if sign > 0 else -of for name, of in numbers.items()}
    return rows.select(*(of.alias(name) for name, of in (named | signed).items()))


def added_up(moves: DataFrame, dataset: Dataset, *by: str) -> DataFrame:
    """`moves_of` by key (and `by`): `_entries` and `_move_*` added up; null where its digits do not suffice."""
    names = [F.any_value(name).alias(name) for name in dataset.row_key_names]
    summed = {name: F.try_sum(_MOVE + name).try_cast(_wide(kind)) for name, (_, kind) in sums_of(dataset).items()}
    sums = [of.alias(_MOVE + name) for name, of in summed.items()]
    return moves.groupBy(*by, C.KEY).agg(*names, F.sum(S.ENTRIES).alias(S.ENTRIES), *sums)


def _wide(kind: FieldType) -> str:
    """Wide enough to add up in any order. With 38 digits Spark would round what is added."""
    return f"decimal(37,{kind.scale})"


def _known(base: DataFrame, dataset: Dataset, moved: DataFrame, *, narrow: bool) -> DataFrame:
    known = base.where(F.col(S.STATE) == RowState.LIVE)
    known = known.select(C.KEY, *(F.col(name).alias(U.BASE + name) for name in (S.ENTRIES, *sums_of(dataset))))
    if not known.select(C.KEY).take(1):  # a scan without files tells no buckets
        return F.broadcast(known)
    return narrowed(known, moved, dataset, large=narrow)


def _moved(dataset: Dataset) -> dict[str, Column]:
    """The sums after the batch: null where one does not fit."""
    entries = F.coalesce(U.BASE + S.ENTRIES, F.lit(0)) + F.col(S.ENTRIES)
    new = F.col(U.BASE + S.ENTRIES).isNull()
    action = F.when(entries == 0, F.when(~new, Action.REMOVE)).otherwise(
        F.when(new, Action.INSERT).otherwise(Action.UPDATE)
    )
    sums = {}
    for name, (_, kind) in sums_of(dataset).items():
        before = F.coalesce(F.col(U.BASE + name).cast(_wide(kind)), F.lit(0).cast(_wide(kind)))
        sums[name] = F.try_add(before, F.col(_MOVE + name)).try_cast(kind.sql)
    return {S.ENTRIES: entries, U.ACTION: action, U.BECOMES: F.lit(RowState.LIVE), U.COVERED: F.lit(False), **sums}


def _content(dataset: Dataset) -> dict[str, Origin]:
    return {name: Origin(name, kind, added=False) for name, (_, kind) in sums_of(dataset).items()}


def _written(dataset: Dataset) -> set[str]:
    """The columns of the actions that the row of a sum has."""
    own = {C.KEY, C.HASH, S.ENTRIES, U.ACTION, U.BECOMES, U.COVERED}
    return own | set(dataset.published_columns)


def _check_overflow(actions: DataFrame, dataset: Dataset) -> None:
    unfit = reduce(Column.__or__, (F.col(name).isNull() for name in sums_of(dataset)))
    moved = (F.col(U.BECOMES) == RowState.LIVE) & (F.col(U.ACTION) != Action.REMOVE)
    names = [F.col(name).cast("string").alias(name) for name in dataset.row_key_names]
    shown = actions.where(moved & unfit).select(F.to_json(F.struct(*names)).alias("key")).limit(_SHOWN).collect()
    if shown:
        raise SumOverflowError(
            dataset.name, ", ".join(sums_of(dataset)), tuple(masked_json(dataset, row["key"]) for row in shown)
        )
