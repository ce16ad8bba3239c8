"""Staging: a batch, judged by itself, as a table bucketed like the target.

It is a pure function of (batch, generation, code): written once under a digest of all three and reused.
"""

from __future__ import annotations

import math
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.dedup.code_digest import code_digest
from onefold.dedup.documents import Producers, Restart, Staged, StagedPartition, staged_key
from onefold.dedup.positions import PartitionOffsets, has_inconsistent_positions, lines_of, offsets_of
from onefold.dedup.reused_identities import reused_identities
from onefold.dedup.sequences import producers_of
from onefold.faults import fault_point
from onefold.lake import Lake
from onefold.landing.manifest import Manifest
from onefold.offsets import Range, TopicPartition, merged, size
from onefold.records import envelope as E
from onefold.spark.concurrently import at_once
from onefold.spark.flat_structs import read_flat
from onefold.spark.iceberg_tables import bucketed, drop
from onefold.tables import staging as C
from onefold.tables.names import scratch_table
from onefold.values.decode import FILTERED, REJECTED
from onefold.vocabulary import Verdict

_SLOT_BYTES = 64 << 20
"""Landed bytes that one task of the exchange gets, about."""
PAYLOAD_VERDICTS = (Verdict.CONFLICT,)
"""Losers that keep their fields, so that both sides of a conflict can be shown."""


def slots_for(manifest: Manifest, buckets: int) -> int:
    """Into how many parts each bucket is shuffled, by the batch's size."""
    landed = sum(landed_object.size for landed_object in manifest.of_role("values"))
    return max(1, math.ceil(landed / (_SLOT_BYTES * buckets)))


def has_payload() -> Column:
    """Whether a record keeps its fields in the staging table for what it is there: a survivor, or in conflict."""
    return F.col(C.SURVIVOR) | F.col(C.VERDICT).isin(*PAYLOAD_VERDICTS)


def staged_columns(judged: DataFrame, dataset: Dataset) -> DataFrame:
    """The staging table's columns (`onefold.tables.staging`), payload and bytes only where they are needed."""
    refused = F.col(REJECTED).isNotNull()
    kept = has_payload()
    if C.COPY in judged.columns:  # what is the row, the ledger of messages decides
        kept |= F.col(C.KEY).isNotNull() & ~F.col(C.COPY)
    if C.CONTESTED in judged.columns:  # whatever became of the winner of the position, the conflict names it
        kept |= F.col(C.CONTESTED).isNotNull()
    own = [C.KEY, C.ORDER, C.HASH, C.DELETED]
    optional = [C.HIDDEN, C.COMPARED, C.SAID, C.WITHIN, C.IDENTITY, C.VERSION, C.COPY, C.TIED, C.PLACELESS]
    optional += [C.NULL_KEY, C.FILTERED_KEY, C.READABLE_KEY, C.TRUE_TIMESTAMP]
    own += [name for name in (*optional, *C.LEVELS.values()) if name in judged.columns]
    payload = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    return judged.select(
        *own,
        *(F.when(kept, F.col(name)).alias(name) for name in payload),
        *(F.col(name) for name in (C.SURVIVOR, C.VERDICT, C.REASON, C.WINNER, C.WITNESS, C.DETAIL, E.OBJECT, E.LINE)),
        F.when(refused, F.col(E.KEY_BYTES)).alias(C.RAW_KEY),
        F.when(refused, F.col(E.VALUE_BYTES)).alias(C.RAW_VALUE),
        F.when(refused, E.shown_headers()).alias(C.RAW_HEADERS),
    )


def needed(identified: DataFrame, dataset: Dataset) -> DataFrame:
    """What must travel through the exchange: bytes only of what was rejected."""
    refused = F.col(REJECTED).isNotNull()
    identified = identified.withColumns(
        {name: F.when(refused, F.col(name)) for name in (E.KEY_BYTES, E.VALUE_BYTES, E.HEADERS)}
    )
    own = [
        C.KEY,
        C.WITHIN,
        C.IDENTITY,
        C.NULL_KEY,
        C.FILTERED_KEY,
        C.READABLE_KEY,
        C.ORDER,
        C.HASH,
        C.COMPARED,
        C.SAID,
        C.DELETED,
        C.HIDDEN,
        C.VERSION,
        *C.LEVELS.values(),
    ]
    own += [FILTERED, REJECTED, C.CONTESTED]
    payload = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    restated = (*E.TOTAL_ORDER, E.UNREADABLE, E.PRODUCER_ID, E.PRODUCER_EPOCH, E.SEQUENCE)  # other columns say it
    named = [name for name in (*own, *payload, *E.ENVELOPE) if name in identified.columns and name not in restated]
    return identified.select(*dict.fromkeys(named))


def write_staging(staged: DataFrame, dataset: Dataset, attempt: str) -> str:
    """Write a staging table; its full name. No exchange: rows lie in their buckets already."""
    table = scratch_table(dataset.name, "staged", attempt)
    bucketed(staged, table, dataset)
    return table


def without_bytes(rows: DataFrame) -> DataFrame:
    """Rows of a batch in which no record keeps its bytes (`Staged.keeps_bytes`): null, and not read."""
    raw = {name: rows.schema[name].dataType for name in (C.RAW_KEY, C.RAW_VALUE, C.RAW_HEADERS)}
    return rows.withColumns({name: F.lit(None).cast(kind) for name, kind in raw.items()})


def periods_of(staged: DataFrame) -> list[str]:
    """Where the periods begin that the keys of a staged batch lie in."""
    keyed = staged.where(F.col(C.KEY).isNotNull())
    return sorted(row[0] for row in keyed.select(F.col(C.WITHIN).cast("string")).distinct().collect() if row[0])


def account(session: SparkSession, dataset: Dataset, batch: str, attempt: str, table: str) -> tuple[Staged, bool]:
    """Count a staging table: records by object, offsets by partition; and whether a position is inconsistent."""
    rows = read_flat(session, table)
    counts = [F.count("*").alias("count")]
    asked = {"rejected": C.REFUSED, "bytes": C.KEEPS_BYTES, "nulls": "false"}
    if C.NULL_KEY in rows.columns:
        asked["nulls"] = f"{C.NULL_KEY} IS NOT NULL"
    counts += [F.count_if(F.expr(condition)).alias(name) for name, condition in asked.items()]
    counted, (found, producers, restarts), reused = at_once(
        session,
        rows.groupBy(E.OBJECT).agg(*counts).collect,
        partial(_positions, rows, dataset),
        partial(reused_identities, rows, dataset),
    )
    objects = {row[E.OBJECT]: row["count"] for row in counted}
    records = sum(objects.values())
    partitions, refused, inconsistent = {}, {}, False
    if not dataset.source.exact and any(row["rejected"] for row in counted):
        refused = lines_of(rows.where(F.expr(C.REFUSED)))
    if dataset.source.exact:
        partitions = {
            where.key: StagedPartition(
                present=offsets.present,
                quarantined=offsets.quarantined,
                undecided=offsets.undecided,
                damaged=offsets.damaged,
            )
            for where, offsets in found.items()
        }
        held = sum(size(_held(offsets)) for offsets in found.values())
        inconsistent = held < records and has_inconsistent_positions(rows)
    staged = Staged(
        batch=batch,
        generation=dataset.generation,
        code=code_digest(),
        attempt=attempt,
        table=table,
        records=records,
        partitions=partitions,
        objects=objects,
        refused=refused,
        keeps_bytes=any(row["bytes"] for row in counted),
        nulls=sum(row["nulls"] for row in counted),
        reused=reused,
        producers=producers,
        restarts=restarts,
        within=periods_of(rows) if dataset.within else None,
    )
    return staged, inconsistent


def _positions(
    rows: DataFrame, dataset: Dataset
) -> tuple[dict[TopicPartition, PartitionOffsets], Producers | None, list[Restart]]:
    """The offsets of a staged batch by partition, where they are exact; its producers and their restarts, if it has
    any: the sequence rule asks whether a partition has holes."""
    found = offsets_of(rows) if dataset.source.exact else {}
    if C.PRODUCER not in rows.columns:
        return found, None, []
    whole = dataset.source.exact and all(len(_held(offsets)) == 1 for offsets in found.values())
    return found, *producers_of(rows, whole)


def _held(offsets: PartitionOffsets) -> list[Range]:
    return merged([*offsets.present, *offsets.quarantined, *offsets.undecided])


def commit_staging(
    session: SparkSession, lake: Lake, dataset: Dataset, staged: Staged, instead_of: Staged | None = None
) -> Staged:
    """Make a staging table the batch's; where another driver was first, its staging is kept and ours goes, unless it is
    the one that ours takes the place of."""
    fault_point("before_staged")
    key = staged_key(lake, dataset, staged.batch, staged.without)
    standing = lake.put_first(key, staged)
    if instead_of and standing.table == instead_of.table:
        lake.put(key, staged)
        drop(session, instead_of.table)
        standing = staged
    elif standing.table != staged.table and session.catalog.tableExists(standing.table):
        drop(session, staged.table)
    elif standing.table != staged.table:  # `maintain` has cleared it away
        lake.put(key, staged)
        standing = staged
    fault_point("after_dedup")
    return standing
