"""Choose survivors: one exchange by the deciding identity, window functions over it, a verdict for every loser.

Append: the smallest record in the total order stands. Upsert: per (key, version) the largest (tie `first`: the
smallest), and of a key the highest version; with guard contiguous every version. Rejected and filtered records pass
through with their verdict.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window, WindowSpec
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.positions import INCONSISTENT
from onefold.records import envelope as E
from onefold.tables import staging as C
from onefold.values.decode import FILTERED, REJECTED
from onefold.vocabulary import Level, LogStatus, Reason, Verdict

SLOT = "_slot"


def choose_survivors(identified: DataFrame, dataset: Dataset, slots: int = 1) -> DataFrame:
    """Add `_survivor`, `_verdict`, `_reason` and `_winner` to identified records.

    `slots` is how many parts each bucket of the target is shuffled into: records of one key share one slot,
    so that what a task writes falls into few buckets. Exactly one exchange.
    """
    # Records without a key stay where they are spread; they meet nobody.
    spread = F.pmod(F.xxhash64(C.ORDER, E.LINE), F.lit(dataset.target.buckets * slots)).cast("int")
    return judge_batch(in_slots(identified, dataset, slots, spread), dataset, (SLOT,)).drop(SLOT)


def in_slots(rows: DataFrame, dataset: Dataset, slots: int, spread: Column | None = None) -> DataFrame:
    """Add `_slot` and shuffle by it: rows of one key share one; `spread` is that of rows without a key."""
    bucket = F.expr(f"{BUCKET_FUNCTION}({dataset.target.buckets}, {C.KEY})")
    part = F.pmod(F.xxhash64(C.KEY), F.lit(slots)).cast("int")
    slot = bucket * F.lit(slots) + part
    slot = slot if spread is None else F.coalesce(slot, spread)
    # A task a slot: by a hash of it some tasks would have several, and as many none.
    return rows.withColumn(SLOT, slot).repartitionById(dataset.target.buckets * slots, SLOT)


BUCKET_FUNCTION = "onefold.system.bucket"


def judge_batch(records: DataFrame, dataset: Dataset, within: tuple[str, ...] = ()) -> DataFrame:
    """`choose_survivors` on records that are placed already; `within` columns are part of every group."""
    judged = (_upsert if dataset.apply.mode == "upsert" else _append)(records, dataset, within)
    refused = F.col(REJECTED).isNotNull()
    keyed = F.col(C.KEY).isNotNull()
    inconsistent = F.col(REJECTED)["reason"].isin(INCONSISTENT, INCOMPARABLE)
    fate = F.col(E.FATE)
    others = [F.col(one) for one in (_APART, C.CONTESTED) if one in judged.columns]
    stands = F.coalesce(*others) if others else F.lit(None)
    told = F.when(fate == LogStatus.OPEN, Verdict.HELD).when(fate == E.FORGOTTEN, Verdict.REJECTED)
    verdict = (
        F.when(fate.isNotNull(), told.otherwise(fate))
        .when(inconsistent, Verdict.CONFLICT)
        .when(refused, Verdict.REJECTED)
        .when(F.col(FILTERED), Verdict.FILTERED)
        .when(keyed, F.col(C.VERDICT))
    )
    of_the_log = (
        F.when(fate == LogStatus.CONTROL, Reason.MARKER)
        .when(fate == LogStatus.OPEN, Reason.OPEN_TRANSACTION)
        .otherwise(Reason.TRANSACTION)
    )
    of_the_log = F.when(fate == E.SKIPPED, Reason.DECISION).when(fate == E.FORGOTTEN, E.FORGOTTEN).otherwise(of_the_log)
    reason = (
        F.when(fate.isNotNull(), of_the_log)
        .when(refused, F.col(REJECTED)["reason"])
        .when(F.col(FILTERED), Reason.FILTER)
        .when(keyed, F.col(C.REASON))
    )
    return judged.withColumns(
        {
            C.SURVIVOR: keyed & F.col(C.SURVIVOR),
            C.VERDICT: verdict,
            C.REASON: reason,
            C.WINNER: F.when(inconsistent, stands).when(keyed & verdict.isNotNull(), F.col(C.WINNER)),
            C.WITNESS: F.when(keyed, F.col(C.WITNESS)),
            C.DETAIL: F.col(REJECTED)["detail"],
        }
    ).drop(_APART)


def _append(records: DataFrame, dataset: Dataset, within: tuple[str, ...]) -> DataFrame:
    preference = [F.col(C.ORDER).asc(), F.col(C.HASH).asc()]
    levelled = _levels(records, dataset, within, preference)
    group = Window.partitionBy(C.KEY, *within).orderBy(*preference)
    rows = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    content = C.compared(dataset)
    first_content, first_order = F.first(content).over(rows), F.first(C.ORDER).over(rows)
    witness = F.first(witness_of(records)).over(rows)
    lost = F.row_number().over(group) > 1
    # Equal positions are folded first: a record read twice says nothing new, whoever stands for its key.
    repeats = _repeats(group)
    same = (F.col(content) == first_content) | repeats
    reason = F.coalesce(F.when(repeats, F.lit(Reason.POSITION)), F.col(_LEVEL), F.lit(dataset.deciding))
    clash = F.when(_clashes(group, dataset), INCONSISTENT).otherwise(Reason.SAME_IDENTITY)
    return levelled.withColumns(
        {
            C.SURVIVOR: ~lost,
            C.VERDICT: F.when(lost, F.when(same, Verdict.DUPLICATE).otherwise(Verdict.CONFLICT)),
            C.REASON: F.when(lost, F.when(same, reason).otherwise(clash)),
            C.WINNER: F.when(lost, first_order),
            C.WITNESS: F.when(lost, witness),
        }
    ).drop(_LEVEL, _RESENT)


def _upsert(records: DataFrame, dataset: Dataset, within: tuple[str, ...]) -> DataFrame:
    assert dataset.apply.version
    if dataset.before_offset is not None:
        records = _set_apart(records, dataset, within)
    tie = dataset.apply.version.tie
    order = F.col(C.ORDER).asc() if tie == "first" else F.col(C.ORDER).desc()
    # Of two contents at one position the smaller hash stands, in either direction.
    preference = [F.col(C.VERSION).desc(), order, F.col(C.HASH).asc()]
    levelled = _levels(records, dataset, within, preference)
    group = Window.partitionBy(C.KEY, *within).orderBy(*preference)
    rows = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    # One sort serves both the key and its versions: a version starts where it differs from the row before.
    starts = F.coalesce(F.lag(C.VERSION).over(group) != F.col(C.VERSION), F.lit(True))
    with_starts = levelled.withColumns(
        {
            "_number": F.row_number().over(group),
            "_starts": starts,
            "_repeats": _repeats(group),
            "_clashes": _clashes(group, dataset),
            "_top": F.first(_struct_of(records, C.ORDER)).over(rows),
        }
    )
    content = C.compared(dataset)
    head = F.when(F.col("_starts"), _struct_of(records, C.ORDER, content))
    ranked = with_starts.withColumn("_head", F.last(head, ignorenulls=True).over(rows))
    tied = ~F.col("_starts")
    lost = tied if dataset.chained else F.col("_number") > 1  # of a chain every version is a link
    same = F.col(content) == F.col("_head")[content.removeprefix("_")]
    retry = F.col(_RESENT).isNotNull()
    duplicate = tied & (same | F.col("_repeats"))
    reason = F.coalesce(F.when(F.col("_repeats"), F.lit(Reason.POSITION)), F.col(_LEVEL), F.lit(Reason.KEY_VERSION))
    tie_verdict = Verdict.CONFLICT if tie == "conflict" else Verdict.SUPERSEDED
    return ranked.withColumns(
        {
            C.SURVIVOR: ~lost,
            C.TIED: F.when(tied & (duplicate | ~retry), F.col("_head.order") == F.col("_top.order")),
            C.VERDICT: F.when(duplicate | (lost & retry), Verdict.DUPLICATE)
            .when(tied & F.col("_clashes"), Verdict.CONFLICT)
            .when(tied, tie_verdict)
            .when(lost, Verdict.SUPERSEDED),
            C.REASON: F.when(duplicate, reason)
            .when(lost & retry, F.col(_RESENT)["level"])
            .when(tied & F.col("_clashes"), INCONSISTENT)
            .when(tied, Reason.SAME_VERSION)
            .when(lost, Reason.IN_BATCH),
            **{
                name: F.when(~duplicate & lost & retry, F.col(_RESENT)[part])  # the message that it repeats
                .when(tied, F.col("_head")[part])
                .when(lost, F.col("_top")[part])
                for name, part in ((C.WINNER, "order"), (C.WITNESS, "witness"))
            },
        }
    ).drop("_number", "_starts", "_repeats", "_clashes", "_top", "_head", _LEVEL, _RESENT)


def _set_apart(records: DataFrame, dataset: Dataset, within: tuple[str, ...]) -> DataFrame:
    """Records whose version cannot be compared with that of an earlier one of their key leave the fold, as a conflict:
    what stands before the offset is equal, and they are of another partition. Adds `_apart`, the order of that other.
    """
    key: list[Column | str] = [C.KEY, *within, *before_offset(dataset, F.col(C.VERSION))]
    first = F.min(C.ORDER).over(Window.partitionBy(*key))
    apart = F.col(C.KEY).isNotNull() & (partition_of(first) != partition_of(F.col(C.ORDER)))
    marked = records.withColumn(_APART, F.when(apart, first))
    said = F.concat(
        F.lit("offsets of two partitions order nothing: an earlier record of the key is in "),
        *(F.col(_APART)[name].cast("string") if name else F.lit("-") for name in ("topic", "", "partition")),
    )
    left = F.when(F.col(_APART).isNotNull(), F.struct(F.lit(INCOMPARABLE).alias("reason"), said.alias("detail")))
    gone = F.col(_APART).isNotNull()
    return marked.withColumns({REJECTED: F.coalesce(F.col(REJECTED), left), C.KEY: F.when(~gone, F.col(C.KEY))})


def before_offset(dataset: Dataset, version: Column) -> list[Column]:
    """The parts of a version that stand before an offset."""
    assert dataset.apply.version
    several = len(dataset.apply.version.parts) > 1
    return [version[f"v{number}"] for number in range(1, 1 + (dataset.before_offset or 0))] if several else []


def partition_of(order: Column) -> Column:
    """Where a record was written, of whichever incarnation of its topic."""
    return F.struct(*(order[name] for name in ("cluster", "topic", "partition")))


_APART = "_apart"
INCOMPARABLE = Reason.INCOMPARABLE_VERSION
_LEVEL, _RESENT = "_level", "_resent"


def _levels(records: DataFrame, dataset: Dataset, within: tuple[str, ...], preference: list[Column]) -> DataFrame:
    """Add `_level`, the narrowest level at which a record is not the first of its identity; and, of mode upsert,
    `_resent`: {level, order, witness} of the message that it repeats under its key, whatever the versions.

    One sort a level, by key and level; and these sorts come first, while the rows are narrow. In them, too, the
    records of a version follow each other.
    """
    of_version = dataset.apply.mode == "upsert"
    found = F.lit(None).cast("string")
    resent = F.when(F.lit(False), F.struct(F.lit("").alias("level"), *_pointer(_struct_of(records, C.ORDER))))
    records = records.withColumns({_LEVEL: found, _RESENT: resent})
    for level in dataset.narrow:
        group = Window.partitionBy(C.KEY, *within, *_level_columns(level)).orderBy(*preference)
        sent = F.col(C.LEVELS[level]).isNotNull()
        before = F.lag(C.VERSION).over(group) == F.col(C.VERSION) if of_version else F.row_number().over(group) > 1
        found = F.coalesce(found, F.when(sent & before, F.lit(level)))
        if level in RETRIES and of_version and not dataset.chained:
            # The same id under one key with equal content is a retry, whatever its version.
            rows = group.rowsBetween(Window.unboundedPreceding, Window.currentRow)
            content = C.compared(dataset)
            first = F.first(_struct_of(records, C.ORDER, content)).over(rows)
            same = first[content.removeprefix("_")] == F.col(content)
            again = sent & (first["order"] != F.col(C.ORDER)) & same
            resent = F.coalesce(resent, F.when(again, F.struct(F.lit(level).alias("level"), *_pointer(first))))
        records = records.withColumns({_LEVEL: found, _RESENT: resent})
        found, resent = F.col(_LEVEL), F.col(_RESENT)
    return records


def _pointer(of: Column) -> list[Column]:
    return [of[name].alias(name) for name in ("order", "witness")]


RETRIES = (Level.PRODUCER, Level.MESSAGE_ID)
"""Levels at which a client itself sends again: what they repeat is no new version."""


def _struct_of(records: DataFrame, *names: str) -> Column:
    """Columns without their underscore, and the witness, as one value."""
    named = [F.col(name).alias(name.removeprefix("_")) for name in names]
    return F.struct(*named, witness_of(records).alias("witness"))


def witness_of(records: DataFrame) -> Column:
    """What tells how another record came to be sent: the session of its producer, and the object it came from."""
    known = C.PRODUCER in records.columns
    name, epoch = (F.col(f"{C.PRODUCER}.{part}") if known else F.lit(None) for part in ("name", "epoch"))
    of = F.col(E.OBJECT) if E.OBJECT in records.columns else F.lit(None)
    return F.struct(
        name.cast("string").alias("name"), epoch.cast("int").alias("epoch"), of.cast("string").alias("object")
    )


def _same_position(group: WindowSpec) -> Column:
    """Whether the row before in the order has the same position; equal positions are neighbours."""
    before = F.lag(C.ORDER).over(group)
    return F.coalesce(_position(before) == _position(F.col(C.ORDER)), F.lit(False))


def _position(order: Column) -> Column:
    return F.struct(*(order[name.removeprefix("_")] for name in E.POSITION))


def _repeats(group: WindowSpec) -> Column:
    """The same position with the same content: read or written twice."""
    return _same_position(group) & F.coalesce(F.lag(C.HASH).over(group) == F.col(C.HASH), F.lit(False))


def _clashes(group: WindowSpec, dataset: Dataset) -> Column:
    """The same position with other content; an inferred position never says so."""
    differs = F.coalesce(F.lag(C.HASH).over(group) != F.col(C.HASH), F.lit(False))
    return _same_position(group) & differs if dataset.source.exact else F.lit(False)


def _level_columns(level: str) -> tuple[str, ...]:
    """What is equal in records that a level takes for the same: a producer counts for each partition anew."""
    of_partition = (f"{C.ORDER}.{name.removeprefix('_')}" for name in E.POSITION[:-1])
    return (C.LEVELS[level], *of_partition) if level == Level.PRODUCER else (C.LEVELS[level],)
