"""What red checks are made of, as digests: identities and contents, never positions, which change with the split.

A waiver holds such a digest (`onefold.quality.checks.Behind` says of what), so that it accepts what was looked at and
nothing else. Only red checks cost a pass over their records' narrow columns; equal rows count once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.plan import find_plan
from onefold.quality.branch_rows import changed_rows
from onefold.quality.checks import CHECKS, Behind
from onefold.quality.documents import CheckResult
from onefold.quality.first_records import newer_than_their_row
from onefold.spark.flat_structs import read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.conflicts import conflicts_of
from onefold.upsert.counts import refused_delete
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.vocabulary import LOST, Reason, RowState, Verdict

_WORDS = 4
_DIGITS = 15
"""Hex digits of a row's SHA-256 that one of the sums adds up: together 240 bits."""


def with_digests(
    session: SparkSession, lake: Lake, dataset: Dataset, upserted: Upserted, checks: Sequence[CheckResult]
) -> list[CheckResult]:
    """The results of generated checks; those that are red and may be waived with the digest of what they count."""
    found: dict[Behind, str] = {}

    def complete(check: CheckResult) -> CheckResult:
        behind = CHECKS[check.id.partition("(")[0]].behind
        if not (check.red and check.waivable) or behind in (None, Behind.MEASUREMENT, Behind.WARNING):
            return check
        if behind not in found:
            found[behind] = _digest(session, lake, dataset, upserted, behind)
        return check.model_copy(update={"digest": found[behind]})

    return [complete(check) for check in checks]


def digest_of_rows(rows: DataFrame) -> str:
    """Sixteen hex digits of the set of rows, in any order and however often each is there. One exchange."""
    texts = rows.select(F.to_json(F.struct(*rows.columns), {"ignoreNullFields": "false"}).alias("text")).distinct()
    hashed = texts.select(F.sha2("text", 256).alias("hash"))
    sums = [
        F.sum(F.conv(F.substring("hash", 1 + _DIGITS * number, _DIGITS), 16, 10).cast("decimal(20,0)"))
        for number in range(_WORDS)
    ]
    return _short(hashed.agg(F.count("*"), *sums).collect()[0])


def _digest(session: SparkSession, lake: Lake, dataset: Dataset, upserted: Upserted, behind: Behind) -> str:
    manifest = manifest_of(lake, dataset, upserted.batch)
    if behind == Behind.GONE:
        return _short(sorted(find_plan(lake, dataset, upserted.batch).gone))
    if behind == Behind.GAPS:
        return _short(sorted(gap.shown for gap in upserted.gaps))
    if behind == Behind.NEW_TOPICS:
        return _short(sorted(upserted.added_topics))
    if behind == Behind.DAMAGED:
        return _short(sorted(damage.model_dump_json() for damage in manifest.damage))
    if behind == Behind.LOST:
        lost = [
            (hole.topic_partition.key, hole.start, hole.end, hole.kind) for hole in manifest.holes if hole.kind in LOST
        ]
        cut = [(range_.topic_partition.key, range_.start, range_.end, "replaced") for range_ in manifest.replaced]
        return _short(sorted([*lost, *cut]))
    actions, is_held = read_flat(session, upserted.actions), F.col(S.STATE) == RowState.HELD
    made_of: dict[Behind, Callable[[], list[DataFrame]]] = {
        Behind.CONFLICTS: partial(_conflicts, session, dataset, upserted),
        Behind.DUPLICATES: lambda: [_identities(actions, dataset, F.col(C.VERDICT) == Verdict.DUPLICATE)],
        Behind.REJECTED: lambda: [_bytes(actions, F.expr(U.REFUSED))],
        Behind.REJECTED_DELETES: lambda: [_bytes(actions, refused_delete(dataset))],
        Behind.OF_DATABASE: lambda: [_bytes(actions, F.col(C.REASON).isin(Reason.TRUNCATE, Reason.SCHEMA_CHANGE))],
        Behind.BACKWARDS: lambda: [_identities(actions, dataset, F.col(C.REASON) == Reason.BACKWARDS)],
        Behind.FILTERED: lambda: [newer_than_their_row(session, dataset, upserted).select(*_identity(dataset))],
        Behind.HELD: lambda: [_identities(read_state(session, dataset, upserted.head), dataset, is_held)],
        Behind.NULL_KEYS: lambda: [_null_keys(session, dataset, upserted)],
    }
    found = [digest_of_rows(rows) for rows in made_of[behind]()]
    named = [(identity.level, identity.identity) for identity in upserted.reused] if behind == Behind.CONFLICTS else []
    return _short([*found, *sorted(named)])


def _conflicts(session: SparkSession, dataset: Dataset, upserted: Upserted) -> list[DataFrame]:
    """Identities in conflict with their contents and the winner; and the identities of two messages."""
    actions = read_flat(session, upserted.actions)
    named = [name for name in C.LEVELS.values() if name in actions.columns]
    reused = actions.where(F.col(U.FINDING).isNotNull())
    levels = [F.col(name) for name in named if name != C.PRODUCER]
    return [
        conflicts_of(session, dataset, upserted),
        reused.select(*_identity(dataset), C.compared(dataset), *levels, F.col(U.FINDING)["level"].alias("level")),
    ]


def _identity(dataset: Dataset) -> list[str]:
    return [C.KEY, C.VERSION] if dataset.apply.version else [C.KEY]


def _identities(rows: DataFrame, dataset: Dataset, counted: Column) -> DataFrame:
    return rows.where(counted).select(*_identity(dataset))


def _bytes(actions: DataFrame, counted: Column) -> DataFrame:
    return actions.where(counted).select(C.REASON, C.RAW_KEY, C.RAW_VALUE)


def _null_keys(session: SparkSession, dataset: Dataset, upserted: Upserted) -> DataFrame:
    names = dataset.row_key_columns
    rows = changed_rows(session, dataset, upserted).where(F.col(S.STATE) == RowState.LIVE)
    return rows.where(F.expr(" OR ".join(f"`{name}` IS NULL" for name in names))).select(C.KEY)


def _short(of: object) -> str:
    return hashlib.sha256(json.dumps(of, default=str).encode()).hexdigest()[:16]
