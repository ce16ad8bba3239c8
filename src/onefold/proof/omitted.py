"""What a proof does not look at: gaps, quarantined, filtered and skipped records, batches that readers do not see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import masked_json
from onefold.decisions import Discard, log_of, undone
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.landing.plan import taken_plans
from onefold.offsets import Coverage, Range, minus
from onefold.proof.documents import Omitted, OmittedBatch
from onefold.spark.flat_structs import read_flat
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.tables import state as S
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.documents import Upserted
from onefold.upsert.state import read_state
from onefold.vocabulary import RowState, Verdict

_FIRST = 5
_ROW = "row_"
"""Prefix of what the table's row has."""


class _Judged(BaseModel):
    """Of a gate's result only whether it was green."""

    green: bool


def omitted_of(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    table: StateTable,
    snapshot: int,
    records: Sequence[CommitRecord],
    claims: str,
) -> Omitted:
    """What a proof of `snapshot` does not look at. `records`: the chain, newest first; `claims`: their table."""
    counts = [record.by_verdict() for record in records]
    newer, first = _filtered_newer(session, dataset, snapshot, claims)
    return Omitted(
        gaps=_missing_between(records[0].coverage),
        quarantined=sum(1 for _ in table.quarantined("_key")),
        filtered=sum(count.get(Verdict.FILTERED, 0) for count in counts),
        skipped=sum(count.get(Verdict.SKIPPED, 0) for count in counts),
        batches=_unpublished(lake, dataset, {record.batch for record in records}),
        filtered_newer=newer,
        first_filtered=first,
    )


def _missing_between(coverage: Coverage) -> dict[str, list[Range]]:
    """By TopicPartition.key the offsets between known ones that were neither landed nor explained."""
    found: dict[str, list[Range]] = {}
    for where, offsets in coverage.partitions.items():
        known = [*offsets.covered, *offsets.uncovered]
        whole = [(min(start for start, _ in known), max(end for _, end in known))] if known else []
        if gaps := minus(whole, known):
            found[where] = gaps
    return found


def _unpublished(lake: Lake, dataset: Dataset, published: set[str]) -> list[OmittedBatch]:
    """Landed batches with records of their own that readers do not see."""
    found: list[OmittedBatch] = []
    for plan in taken_plans(lake, dataset.name):
        landed = lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest)
        if plan.batch in published or plan.empty or plan.decided or landed is None:
            continue
        latest = lake.get(lake_keys.latest(dataset, plan.batch), Upserted)
        gate = lake.get(lake_keys.attempt(dataset, plan.batch, latest.attempt, "gate"), _Judged) if latest else None
        state: Literal["red", "rolled_back", "discarded", "unfinished"]
        log = log_of(lake, dataset.name, plan.batch)
        if undone(log):
            state = "rolled_back"
        elif log and isinstance(log[-1], Discard):
            state = "discarded"
        else:
            state = "red" if gate and not gate.green else "unfinished"
        found.append(OmittedBatch(batch=plan.batch, state=state, records=latest.landed if latest else None))
    return found


def _filtered_newer(session: SparkSession, dataset: Dataset, snapshot: int, claims: str) -> tuple[int, list[str]]:
    """How many covered records that the filter left out are newer than the live row of their key, and some of them by
    key and position."""
    if not dataset.watches_filter:
        return 0, []
    by = C.row_key(dataset)
    left_out = read_flat(session, claims).where(F.col(U.COVERED) & F.col(C.FILTERED_KEY).isNotNull())
    left_out = left_out.withColumn(C.KEY, F.col(C.FILTERED_KEY)).select(*by, C.VERSION, C.ORDER)
    rows = read_state(session, dataset, snapshot).where(F.col(S.STATE) == RowState.LIVE)
    shown = F.to_json(F.struct(*dataset.row_key_columns), {"ignoreNullFields": "false"}).alias("shown")
    rows = rows.select(*by, *(F.col(name).alias(_ROW + name) for name in (C.VERSION, C.ORDER)), shown)
    newer = _newer(left_out.join(rows, by), dataset).select(f"{C.ORDER}.*", "shown").distinct()
    count = newer.count()
    first = newer.orderBy("topic", "partition", "offset").limit(_FIRST).collect() if count else []
    return count, [
        f"key {masked_json(dataset, row.shown)} at {row.topic}-{row.partition}@{row.offset}" for row in first
    ]


def _newer(met: DataFrame, dataset: Dataset) -> DataFrame:
    """The records whose version is above the row's. Where a version holds an offset, records of two partitions compare
    only by the parts before it."""
    version, row = F.col(C.VERSION), F.col(_ROW + C.VERSION)
    newer = met.where(version > row)
    if dataset.before_offset is None:
        return newer
    comparable: Column = F.lit(True)
    for part in ("cluster", "topic", "partition"):
        comparable &= F.col(C.ORDER)[part].eqNullSafe(F.col(_ROW + C.ORDER)[part])
    for number in range(1, 1 + dataset.before_offset):
        comparable |= version[f"v{number}"] != row[f"v{number}"]
    return newer.where(comparable)
