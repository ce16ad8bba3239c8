"""Upsert: pin the base, look up once, write the actions, then merge them into a branch cut at the base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.catalog import Head, StateTable
from onefold.dataset import Dataset
from onefold.dedup import columns as C
from onefold.dedup.documents import Reused, Staged
from onefold.dedup.reuse import identity_text
from onefold.dedup.staging import slots_for
from onefold.dedup.survivors import SLOT, in_slots
from onefold.faults import fault_point
from onefold.lake import CATALOG, Lake
from onefold.landing.land import manifest_of
from onefold.landing.offsets import Coverage, Range, TopicPartition
from onefold.landing.plan import find_plan
from onefold.records import envelope as E
from onefold.records.within import mark_lines, mark_positions
from onefold.spark.at_once import at_once
from onefold.spark.tables import PROPERTIES, bucketed, location_of, scratch_table
from onefold.upsert import columns as U
from onefold.upsert.causes import duplicates_of
from onefold.upsert.chain import chain_columns, judge_chain
from onefold.upsert.commit_record import CommitRecord, Highest
from onefold.upsert.coverage import account_for, covered_objects, covered_ranges
from onefold.upsert.documents import CameAgain, Duplicates, Upserted
from onefold.upsert.flat import laid_flat, read_actions
from onefold.upsert.forgotten import forgotten_keys, without_keys
from onefold.upsert.gaps import Link, links_of
from onefold.upsert.generation import check_generation
from onefold.upsert.judge import base_columns, judge
from onefold.upsert.merge import merge
from onefold.upsert.narrow import narrowed, worthwhile
from onefold.upsert.producers import come_again, highest_after
from onefold.upsert.skips import Obeyed, cover
from onefold.upsert.state import read_state, sum_columns, verdict_table
from onefold.upsert.sums import append_sums, entered

_REUSED = "_reused_"
SHOWN = 20
"""Reused identities that are shown, of those that are counted."""


def look_up(
    session: SparkSession,
    dataset: Dataset,
    staged: DataFrame,
    base: int,
    periods: list[str] | None = None,
    slots: int = 1,
    links: Sequence[Link] = (),
    gone: Sequence[bytes] = (),
    *,
    keys: DataFrame | None = None,
) -> DataFrame:
    """Staged rows (with `_covered`) judged against the base: no exchange, tables bucketed alike.

    Of the base, only files of `periods` (`Staged.within`) are read. With guard contiguous the batch's winners are
    shuffled once more (into `slots` parts a bucket), together with the base's rows of their keys; `links` are its
    accepted gaps. Rows of the keys that are `gone` are not there. `keys`: the batch's, where the base is large
    beside it; guard contiguous makes no use of them.
    """
    state = without_keys(read_state(session, dataset, base, periods), list(gone))
    if dataset.chained:
        place = partial(in_slots, dataset=dataset, slots=slots)
        return judge_chain(staged, chain_columns(state, dataset), dataset, place, (SLOT,), links)
    known = base_columns(state.where(F.col(U.STATE) == U.ENTRY) if dataset.sums else state, dataset)
    whole_and_large = keys is not None and periods is None
    if not (whole_and_large or known.select(C.KEY).take(1)):
        known = F.broadcast(known)  # a scan without files tells no buckets: the join would shuffle the batch
    elif keys is not None:
        known = narrowed(known, keys, dataset, large=True)
    judged = judge(staged, known, dataset)
    return entered(judged) if dataset.sums else judged


def mark_covered(
    rows: DataFrame,
    ranges: list[tuple[TopicPartition, Range]],
    objects: dict[str, list[Range]],
    order: str | None = C.ORDER,
) -> DataFrame:
    """Add `_covered`: a published batch processed the record's position (`mark_positions`), or its object but for some
    lines of it."""
    if objects:
        marked = mark_lines(rows, U.COVERED, {name: lines for name, lines in objects.items() if lines})
        return marked.withColumn(U.COVERED, F.col(E.OBJECT).isin(list(objects)) & ~F.col(U.COVERED))
    return mark_positions(rows, U.COVERED, ranges, order)


def mark_repeated(judged: DataFrame) -> DataFrame:
    """What an earlier batch covers is a duplicate by its position, also where that batch was skipped."""
    again = F.col(U.COVERED) & (F.col(C.VERDICT) == "skipped")
    told = {
        C.VERDICT: F.lit("duplicate"),
        C.REASON: F.lit("position"),
        U.SCOPE: F.lit("stored"),
        U.OTHER: F.col(C.ORDER),
    }
    return judged.withColumns({name: F.when(again, of).otherwise(F.col(name)) for name, of in told.items()})


def mark_reused(session: SparkSession, rows: DataFrame, reused: list[Reused]) -> DataFrame:
    """Add `_finding` to the records whose narrow identity stands for two messages of the batch, but for those that are
    covered: they were found with the batch that covered them."""
    found = F.lit(None).cast(U.FINDING_TYPE)
    fresh = F.col(C.KEY).isNotNull() & ~F.col(U.COVERED)
    for level in _levels(reused):
        identity = _REUSED + level
        named = F.broadcast(_named(session, reused, level))
        rows = rows.join(named, identity_text(level) == F.col(identity), "left")
        mark = F.struct(F.lit(level).alias("level"), F.lit("in_batch").alias("scope"))
        found = F.coalesce(found, F.when(F.col(identity).isNotNull() & fresh, mark))
    return rows.withColumn(U.FINDING, found).drop(*(_REUSED + level for level in _levels(reused)))


def found_reused(session: SparkSession, actions: DataFrame, reused: list[Reused]) -> list[Reused]:
    """Of the reused identities of a batch those that a record with a finding has: one pass, where there is any."""
    marked = actions.where(F.col(U.FINDING)["scope"] == "in_batch")
    found = set()
    for level in _levels(reused):
        identities = marked.select(identity_text(level).alias(_REUSED + level))
        named = F.broadcast(_named(session, reused, level))
        told = identities.join(named, _REUSED + level, "left_semi").distinct()
        found |= {(level, row[0]) for row in told.collect()}
    return [one for one in reused if (one.level, one.identity) in found]


def _levels(reused: list[Reused]) -> list[str]:
    return list(dict.fromkeys(one.level for one in reused))


def _named(session: SparkSession, reused: list[Reused], level: str) -> DataFrame:
    """Identities of a level, as the column `_reused_<level>`."""
    rows = [(one.identity,) for one in reused if one.level == level]
    return session.createDataFrame(rows, f"{_REUSED}{level} string")


def write_actions(judged: DataFrame, dataset: Dataset, attempt: str) -> str:
    """Write what the look-up said, once; payload only of rows that change. The table's full name."""
    payload = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    changes = F.col(U.ACTION).isNotNull()
    columns = {name: F.when(changes, F.col(name)) for name in payload}
    columns |= {field.name: F.lit(None).cast(field.dataType) for field in sum_columns(dataset)}
    # What only the look-up needs goes; of a row that changes, `_other` is the order that the base has.
    before = [name for name in judged.columns if name.startswith(f"{U.BASE}_") and name != U.BASE + C.VERSION]
    table = scratch_table(dataset.name, "actions", attempt)
    bucketed(laid_flat(judged.withColumns(columns).drop(C.TIED, C.WINNER, *before)), table, dataset)
    return table


@dataclass(frozen=True, slots=True)
class ActionCounts:
    """What the actions amount to."""

    verdicts: dict[str, dict[str, int]]
    partitions: dict[str, dict[str, dict[str, int]]]
    covered: int
    changes: dict[str, int]
    newest: int | None
    buckets: list[int]
    findings: int
    woken: int

    @property
    def keep_bytes(self) -> bool:
        """Whether a record keeps its bytes: one that is rejected, and a content that was beaten at its position."""
        return "rejected" in self.verdicts or "inconsistent_position" in self.verdicts.get("conflict", {})


NOWHERE = "unreadable"
"""In place of a partition: lines of an export that say none."""


def count_actions(actions: DataFrame, dataset: Dataset) -> ActionCounts:
    """Records by verdict and reason, of all and of each partition; rows by action, and the buckets that they touch."""
    bucket = F.expr(f"{CATALOG}.system.bucket({dataset.target.buckets}, {C.KEY})")
    touched = F.when(F.col(U.ACTION).isNotNull(), bucket).alias("bucket")
    log = [F.col(C.ORDER)[name].alias(name) for name in TopicPartition.model_fields]
    told = [C.VERDICT, C.REASON, U.COVERED, U.ACTION]
    landed = F.col(C.SURVIVOR).isNotNull()  # the others are rows of the base that change (contiguous), and sums
    newest = F.max(F.when(landed, F.col(f"{C.ORDER}.timestamp")))
    counted = actions.groupBy(*told, *log, touched).agg(
        F.count("*").alias("count"),
        newest.alias("newest"),
        F.count_if(F.col(U.FINDING)["scope"] == "stored").alias("findings"),
        F.count_if(~landed & F.col(C.VERDICT).isNotNull()).alias("woken"),
    )
    sums = [F.sum(name).alias(name) for name in ("count", "findings", "woken")]
    groups = counted.groupBy(*told, *TopicPartition.model_fields)  # few: the records are counted above
    rows = groups.agg(*sums, F.max("newest").alias("newest"), F.collect_set("bucket").alias("buckets")).collect()
    verdicts: dict[str, dict[str, int]] = {}
    partitions: dict[str, dict[str, dict[str, int]]] = {}
    changes: dict[str, int] = {}
    covered = 0
    for row in sorted(rows, key=lambda row: [str(one) for one in row]):
        if row[C.VERDICT]:  # a row that only goes has none
            place = {name: row[name] for name in TopicPartition.model_fields}
            where = TopicPartition(**place).key if row["topic"] is not None else NOWHERE
            for counts in (verdicts, partitions.setdefault(where, {})):
                reasons = counts.setdefault(row[C.VERDICT], {})
                reasons[row[C.REASON]] = reasons.get(row[C.REASON], 0) + row["count"]
        covered += row["count"] if row[U.COVERED] and row[C.VERDICT] == "duplicate" else 0
        if row[U.ACTION]:
            changes[row[U.ACTION]] = changes.get(row[U.ACTION], 0) + row["count"]
    latest = max((row.newest for row in rows if row.newest is not None and row.newest >= 0), default=None)
    buckets = sorted({bucket for row in rows for bucket in row.buckets})
    findings, woken = (sum(row[name] for row in rows) for name in ("findings", "woken"))
    return ActionCounts(verdicts, partitions, covered, changes, latest, buckets, findings, woken)


def _counted(actions: DataFrame, dataset: Dataset, again: list[CameAgain]) -> tuple[ActionCounts, list[Duplicates]]:
    counts = count_actions(actions, dataset)
    return counts, duplicates_of(actions, again) if counts.verdicts.get("duplicate") else []


SURVIVOR_LOG = {"cluster": "string", "incarnation": "int"}
"""What tells a survivor's log from another of the same topic and partition."""
_SORTED = {"write.parquet.row-group-size-bytes": str(4 << 20)}


def append_verdicts(actions: DataFrame, dataset: Dataset, batch: str, attempt: str, *, keeps_bytes: bool) -> None:
    """Append one row a record of the batch to the verdict table; not `keeps_bytes`: the actions have of no record the
    bytes, and these columns are not read."""
    table = verdict_table(dataset)
    if not keeps_bytes:
        raw = {name: actions.schema[name].dataType for name in (C.RAW_KEY, C.RAW_VALUE, C.RAW_HEADERS)}
        actions = actions.withColumns({name: F.lit(None).cast(kind) for name, kind in raw.items()})
    other = F.col(U.OTHER)
    survivor = F.when(
        other.isNotNull() & ~F.col(C.VERDICT).isin("applied", "rejected", "filtered"),
        F.struct(*(other[name].alias(name) for name in ("topic", "partition", "offset", *SURVIVOR_LOG))),
    )
    version = F.col(C.VERSION).cast("string") if C.VERSION in actions.columns else F.lit(None).cast("string")
    message = F.col(C.MESSAGE_ID) if C.MESSAGE_ID in actions.columns else F.lit(None).cast("string")
    rows = actions.where(F.col(C.VERDICT).isNotNull()).select(
        F.lit(batch).alias("batch"),
        F.lit(attempt).alias("attempt"),
        *(
            F.col(f"{C.ORDER}.{name}").alias(name)
            for name in ("cluster", "topic", "incarnation", "partition", "offset")
        ),
        F.expr(C.stamp(f"{C.ORDER}.timestamp")).alias("timestamp"),
        F.col(C.VERDICT).alias("verdict"),
        F.col(C.REASON).alias("reason"),
        F.col(U.SCOPE).alias("scope"),
        survivor.alias("survivor"),
        F.col(U.WON).alias("won"),
        F.when(F.col(U.FINDING).isNotNull(), F.concat(F.lit("identity_reused: "), F.col(U.FINDING)["level"])).alias(
            "finding"
        ),
        F.col(C.DETAIL).alias("detail"),
        F.col(C.KEY).alias("key"),
        version.alias("version"),
        message.alias("message_id"),
        F.col(E.OBJECT).alias("object"),
        F.col(E.LINE).alias("line"),
        F.col(C.RAW_KEY).alias("raw_key"),
        F.col(C.RAW_VALUE).alias("raw_value"),
        F.col(C.RAW_HEADERS).alias("raw_headers"),
    )
    session = rows.sparkSession
    if not session.catalog.tableExists(table):
        ddl = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in rows.schema.fields)
        place = location_of(session, table).replace("\\", "\\\\").replace("'", "\\'")
        properties = ", ".join(f"'{name}'='{value}'" for name, value in (PROPERTIES | _SORTED).items())
        session.sql(
            f"CREATE TABLE IF NOT EXISTS {table} ({ddl}) USING iceberg "
            f"PARTITIONED BY (attempt, bucket({dataset.target.buckets}, key)) "
            f"LOCATION '{place}' TBLPROPERTIES ({properties})"
        )
    known = session.table(table).schema["survivor"].dataType.fieldNames()  # type: ignore[attr-defined]
    for name, kind in SURVIVOR_LOG.items():  # of a table that an earlier Onefold made
        if name not in known:
            session.sql(f"ALTER TABLE {table} ADD COLUMN survivor.{name} {kind}")
    # Whoever asks for one key reads one bucket, and of its files the part where the key lies.
    rows.sortWithinPartitions("key", "topic", "partition", "offset").writeTo(table).append()


def write_record(
    lake: Lake,
    dataset: Dataset,
    upserted: Upserted,
    base: Head,
    coverage: Coverage,
    highest: list[Highest],
    left_out: int,
    obeyed: Obeyed,
) -> CommitRecord:
    """Write the attempt's commit record; it means nothing until `main` points to it."""
    record = CommitRecord(
        name=upserted.attempt,
        parent=base.record,
        dataset=dataset.name,
        generation=dataset.generation,
        shape=dataset.shape,
        batch=upserted.batch,
        interval=find_plan(lake, dataset, upserted.batch).interval,
        attempt=upserted.attempt,
        staging=upserted.staging,
        verdicts=upserted.verdicts,
        landed=upserted.landed,
        replayed=upserted.replayed,
        replays=upserted.replays,
        counts=upserted.counts,
        coverage=coverage,
        highest=highest,
        left_out=left_out,
        decision=obeyed.decision,
        unreadable=upserted.unreadable,
        skipped=obeyed.skipped,
        accepted=upserted.accepted,
        forgotten=upserted.forgotten,
        within=upserted.within,
        written=datetime.now(UTC),
    )
    return lake.put_first(Lake.record(dataset, upserted.attempt), record)


def apply_batch(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    staged: Staged,
    table: StateTable,
    attempt: str,
    record: CommitRecord | None,
    obeyed: Obeyed,
) -> Upserted:
    """All of upsert behind the pinned base; `record` is the base's commit record."""
    base, before, seen = table.main, record.coverage if record else Coverage(), record.highest if record else []
    manifest = manifest_of(lake, dataset, staged.batch)
    own, accounts = account_for(dataset, staged, manifest, before)
    own, skipped = cover(own, before, staged.batch, obeyed)
    rows = mark_covered(
        session.table(staged.table), covered_ranges(staged, before), covered_objects(staged, manifest, before)
    )
    rows = mark_reused(session, rows, staged.reused)
    slots = slots_for(manifest, dataset.target.buckets)
    known = record.accepted if record else []
    links = links_of(dataset, known, manifest.accepts)
    periods = staged.within
    if periods is not None:
        periods = sorted({*periods, *(one.period for one in links if one.own and one.period)})
    gone = forgotten_keys(obeyed.fresh)
    narrow = worthwhile(table.size, staged.records)
    keys = session.table(staged.table).select(*C.row_key(dataset)) if narrow else None
    judged = look_up(session, dataset, rows, base.snapshot, periods, slots, links, gone, keys=keys)
    actions = write_actions(mark_repeated(judged) if staged.without and not obeyed.skips else judged, dataset, attempt)
    if dataset.sums:
        sums = read_state(session, dataset, base.snapshot)
        append_sums(session, dataset, actions, sums, attempt, slots, gone, narrow=narrow)
    sessions = staged.producers.listed if staged.producers else []
    again = [CameAgain(session=one, highest=highest) for one, highest in come_again(sessions, seen)]
    written = read_actions(session, actions)
    (counts, duplicates), reused = at_once(
        session, partial(_counted, written, dataset, again), partial(found_reused, session, written, staged.reused)
    )
    upserted = Upserted(
        batch=staged.batch,
        attempt=attempt,
        base=base.snapshot,
        base_record=base.record,
        branch=f"attempt_{attempt}",
        staging=staged.table,
        code=staged.code,
        actions=actions,
        verdicts=verdict_table(dataset),
        landed=0 if manifest.replays else staged.records,
        replayed=staged.records if manifest.replays else 0,
        replays=manifest.replays.batch if manifest.replays else None,
        woken=counts.woken,
        covered=counts.covered,
        counts=counts.verdicts,
        partitions=counts.partitions,
        changes=counts.changes,
        buckets=counts.buckets,
        within=periods,
        narrow=narrow,
        duplicates=duplicates,
        come_again=again,
        findings=len(reused) + counts.findings,
        reused=reused[:SHOWN],
        accounts=accounts,
        newest=None if obeyed.skips else counts.newest,
        unreadable=staged.unreadable,
        decided=obeyed.decided,
        accepted=[*known, *([manifest.accepts] if manifest.accepts else [])],
        forgotten={name: mark.attempt for name, mark in obeyed.forgotten.items()},
        carried_out={mark.batch: mark.attempt for mark in obeyed.fresh},
    )
    after = obeyed.model_copy(update={"skipped": skipped})
    highest, forgotten = highest_after(staged.producers, seen)
    left_out = forgotten + (record.left_out if record else 0)
    write_record(lake, dataset, upserted, base, before.with_(own), highest, left_out, after)
    table.cut_branch(upserted.branch, base.snapshot)
    fault_point("before_merge")
    check_generation(lake, dataset, rebuilding=True)  # a newer file may have changed the table's fields meanwhile
    at_once(
        session,
        partial(merge, session, dataset, upserted, gone),
        partial(append_verdicts, written, dataset, staged.batch, attempt, keeps_bytes=counts.keep_bytes),
    )
    fault_point("after_merge")
    head = StateTable(lake, dataset).ref(upserted.branch)
    assert head is not None
    assert head.record == attempt, "the merge's snapshot must name its commit record"
    return upserted.model_copy(update={"head": head.snapshot})
