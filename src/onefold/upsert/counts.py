"""What the actions of a batch amount to: its records by verdict, and the rows that change."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.offsets import TopicPartition
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables.names import CATALOG
from onefold.upsert.completeness import UNREADABLE
from onefold.vocabulary import DECLARED_LEVELS, Reason, Scope, Verdict


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """What the actions amount to."""

    verdicts: dict[str, dict[str, int]]
    partitions: dict[str, dict[str, dict[str, int]]]
    known: dict[str, int]
    changes: dict[str, int]
    delivered: dict[str, int]
    newest: int | None
    newest_of: dict[str, int]
    """The same by TopicPartition.key"""
    newest_used: int | None
    buckets: list[int]
    findings: int
    woken: int
    refused_deletes: int
    late_repeats: int


_SUMMED = ("findings", "woken", "refused_deletes", "late_repeats")
_DAY = 24 * 60 * 60 * 1000


USED = (Verdict.APPLIED, Verdict.SUPERSEDED, Verdict.HELD)
"""Of a record with such a verdict the table is at least as new. A record that was filtered, rejected or sent again says
nothing of that."""


def count_actions(actions: DataFrame, dataset: Dataset) -> ActionCounts:
    """Records by verdict and reason, of all and of each partition; rows by action, and the buckets that they touch."""
    bucket = F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})")
    delivered = F.col(U.DELIVERED) if U.DELIVERED in actions.columns else F.lit(None).cast("string")
    touched = F.when(F.col(U.ACTION).isNotNull() | delivered.isNotNull(), bucket).alias("bucket")
    log = [F.col(C.ORDER)[name].alias(name) for name in TopicPartition.model_fields]
    actions = actions.withColumn(U.DELIVERED, delivered)
    words = [C.VERDICT, C.REASON, U.COVERED, U.ACTION, U.DELIVERED]
    landed = F.col(C.SURVIVOR).isNotNull()  # the others are rows of the base that change (contiguous), and sums
    newest = F.max(F.when(landed, F.expr(C.sent_at(actions.columns))))
    counted = actions.groupBy(*words, *log, touched).agg(
        F.count("*").alias("count"),
        newest.alias("newest"),
        F.count_if(F.col(U.FINDING)["scope"] == Scope.STORED).alias("findings"),
        F.count_if(~landed & F.col(C.VERDICT).isNotNull()).alias("woken"),
        F.count_if(refused_delete(dataset)).alias("refused_deletes"),
        F.count_if(repeats_late()).alias("late_repeats"),
    )
    sums = [F.sum(name).alias(name) for name in ("count", *_SUMMED)]
    groups = counted.groupBy(*words, *TopicPartition.model_fields)  # few: the records are counted above
    rows = groups.agg(*sums, F.max("newest").alias("newest"), F.collect_set("bucket").alias("buckets")).collect()
    verdicts: dict[str, dict[str, int]] = {}
    partitions: dict[str, dict[str, dict[str, int]]] = {}
    changes: dict[str, int] = {}
    known: dict[str, int] = {}
    kept: dict[str, int] = {}
    for row in sorted(rows, key=lambda row: [str(part) for part in row]):
        if row[C.VERDICT]:  # a row that only goes has none
            place = {name: row[name] for name in TopicPartition.model_fields}
            where = TopicPartition(**place).key if row["topic"] is not None else UNREADABLE
            for counts in (verdicts, partitions.setdefault(where, {})):
                reasons = counts.setdefault(row[C.VERDICT], {})
                reasons[row[C.REASON]] = reasons.get(row[C.REASON], 0) + row["count"]
        if row[U.COVERED] and row[C.VERDICT] and row[C.REASON] != Reason.FORGOTTEN:
            known[row[C.VERDICT]] = known.get(row[C.VERDICT], 0) + row["count"]
        if row[U.ACTION]:
            changes[row[U.ACTION]] = changes.get(row[U.ACTION], 0) + row["count"]
        if row[U.DELIVERED]:
            kept[row[U.DELIVERED]] = kept.get(row[U.DELIVERED], 0) + row["count"]
    newest_of: dict[str, int] = {}
    for row in rows:
        if row["topic"] is not None and row.newest is not None and row.newest >= 0:
            key = TopicPartition(**{name: row[name] for name in TopicPartition.model_fields}).key
            newest_of[key] = max(row.newest, newest_of.get(key, 0))
    latest = max((row.newest for row in rows if row.newest is not None and row.newest >= 0), default=None)
    stamps = [row.newest for row in rows if row[C.VERDICT] in USED and row.newest is not None and row.newest >= 0]
    buckets = sorted({bucket for row in rows for bucket in row.buckets})
    sums_of = {name: sum(row[name] for row in rows) for name in _SUMMED}
    newest_used = max(stamps, default=None)
    return ActionCounts(verdicts, partitions, known, changes, kept, latest, newest_of, newest_used, buckets, **sums_of)


def refused_delete(dataset: Dataset) -> Column:
    """Whether a record of the actions is rejected and would have deleted its key, or may have: its value is null."""
    deletes = F.col(C.DELETED) | (F.col(C.REASON) == Reason.NULL_VALUE)
    return F.lit(dataset.apply.DELETES) & F.expr(U.REFUSED) & F.coalesce(deletes, F.lit(False))


def repeats_late() -> Column:
    """Whether a record of the actions repeats a declared identity of a record that lies more than a day from it in the
    log: in another send of a message, or as an identity that is none."""
    of_identity = F.col(C.REASON).isin(*map(str, DECLARED_LEVELS)) & (F.col(C.VERDICT) == Verdict.DUPLICATE)
    of_identity |= F.col(C.REASON) == Reason.SAME_IDENTITY
    mine, other = F.col(f"{C.ORDER}.timestamp"), F.col(f"{U.OTHER}.timestamp")
    known = (mine >= 0) & (other >= 0)
    return F.coalesce(of_identity & known & (F.abs(mine - other) > _DAY), F.lit(False))
