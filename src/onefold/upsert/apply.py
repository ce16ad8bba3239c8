"""Upsert: pin the base, look up once, write the actions, then merge them into a branch cut at the base."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dedup.documents import Staged
from onefold.dedup.staging import slots_for, without_bytes
from onefold.dedup.survivors import SLOT, in_slots
from onefold.faults import fault_point
from onefold.generation import check_generation
from onefold.iceberg.commits import Head
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.plan import find_plan
from onefold.offsets import Coverage, Range, TopicPartition
from onefold.records import envelope as E
from onefold.records.covered import mark_lines, mark_positions
from onefold.spark.concurrently import at_once
from onefold.spark.flat_structs import read_flat
from onefold.spark.iceberg_tables import bucketed, scratch_table
from onefold.spark.key_filter import narrowed, worthwhile
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.causes import duplicates_of
from onefold.upsert.chain import chain_columns, judge_chain
from onefold.upsert.commit_record import CommitRecord, Highest
from onefold.upsert.counts import ActionCounts, count_actions
from onefold.upsert.coverage import account_for, covered_objects, covered_ranges
from onefold.upsert.documents import CameAgain, Duplicates, Upserted
from onefold.upsert.forgotten import forgotten_keys, without_keys
from onefold.upsert.gaps import Link, links_of
from onefold.upsert.judge import base_columns, judge
from onefold.upsert.merge import merge
from onefold.upsert.nulls import nulls_of, settle_nulls, without_nulls
from onefold.upsert.producers import come_again, highest_after
from onefold.upsert.reused import found_reused, mark_reused
from onefold.upsert.skips import Obeyed, cover
from onefold.upsert.state import read_state, sum_columns, verdict_table
from onefold.upsert.sums import append_sums, entered
from onefold.upsert.verdicts import append_verdicts
from onefold.vocabulary import Reason, RowState, Scope, Verdict

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
    known = base_columns(state.where(F.col(U.STATE) == RowState.ENTRY) if dataset.sums else state, dataset)
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
    again = F.col(U.COVERED) & (F.col(C.VERDICT) == Verdict.SKIPPED)
    told = {
        C.VERDICT: F.lit(Verdict.DUPLICATE),
        C.REASON: F.lit(Reason.POSITION),
        U.SCOPE: F.lit(Scope.STORED),
        U.OTHER: F.col(C.ORDER),
    }
    return judged.withColumns({name: F.when(again, of).otherwise(F.col(name)) for name, of in told.items()})


def write_actions(judged: DataFrame, dataset: Dataset, attempt: str) -> str:
    """Write what the look-up said, once; payload only of rows that change. The table's full name."""
    payload = [name for name, _ in dataset.key_columns] + list(dataset.fields)
    changes = F.col(U.ACTION).isNotNull()
    columns = {name: F.when(changes, F.col(name)) for name in payload}
    columns |= {field.name: F.lit(None).cast(field.dataType) for field in sum_columns(dataset)}
    # What only the look-up needs goes; of a row that changes, `_other` is the order that the base has.
    before = [name for name in judged.columns if name.startswith(f"{U.BASE}_") and name != U.BASE + C.VERSION]
    table = scratch_table(dataset.name, "actions", attempt)
    bucketed(judged.withColumns(columns).drop(C.TIED, C.WINNER, *before), table, dataset)
    return table


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
    return lake.put_first(lake_keys.record(dataset, upserted.attempt), record)


def _counted(actions: DataFrame, dataset: Dataset, again: list[CameAgain]) -> tuple[ActionCounts, list[Duplicates]]:
    counts = count_actions(actions, dataset)
    return counts, duplicates_of(actions, again) if counts.verdicts.get(Verdict.DUPLICATE) else []


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
    rows = read_flat(session, staged.table)
    rows = rows if staged.keeps_bytes else without_bytes(rows)
    rows = mark_covered(rows, covered_ranges(staged, before), covered_objects(staged, manifest, before))
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
    nulls = nulls_of(rows) if staged.nulls else None
    judged = look_up(session, dataset, without_nulls(rows), base.snapshot, periods, slots, links, gone, keys=keys)
    actions = write_actions(mark_repeated(judged) if staged.without and not obeyed.skips else judged, dataset, attempt)
    if nulls:
        state = without_keys(read_state(session, dataset, base.snapshot, periods), list(gone))
        staged = settle_nulls(session, dataset, staged, nulls, actions, state)
    own, accounts = account_for(dataset, staged, manifest, before)
    own, skipped = cover(own, before, staged.batch, obeyed)
    if dataset.sums:
        sums = read_state(session, dataset, base.snapshot)
        append_sums(session, dataset, actions, sums, attempt, slots, gone, narrow=narrow)
    sessions = staged.producers.listed if staged.producers else []
    again = [CameAgain(session=one, highest=highest) for one, highest in come_again(sessions, seen)]
    written = read_flat(session, actions)
    written = written if staged.keeps_bytes else without_bytes(written)
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
        refused_deletes=counts.refused_deletes,
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
        partial(append_verdicts, written, dataset, staged.batch, attempt),
    )
    fault_point("after_merge")
    head = StateTable(lake, dataset).ref(upserted.branch)
    assert head is not None
    assert head.record == attempt, "the merge's snapshot must name its commit record"
    return upserted.model_copy(update={"head": head.snapshot})
