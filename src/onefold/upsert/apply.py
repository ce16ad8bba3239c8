"""Upsert behind the pinned base: mark, look up once, write the actions, count and record them, and merge them into a
branch that is cut at the base."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property, partial

from pyspark.sql import DataFrame, SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import DecidedConflicts
from onefold.decisions.accepted_gaps import Link, links_of
from onefold.decisions.conflicts import put_conflicts
from onefold.dedup.documents import Restart, Staged
from onefold.dedup.lost_contents import judge_with_lost, put_lost_last
from onefold.dedup.staging import slots_for, without_bytes
from onefold.faults import fault_point
from onefold.folding.strategy import Size, folding_of
from onefold.generation import check_generation
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.manifest import Manifest
from onefold.landing.plan import find_plan
from onefold.offsets import Coverage
from onefold.spark.concurrently import at_once
from onefold.spark.cut import cut
from onefold.spark.flat_structs import read_flat
from onefold.spark.key_filter import worthwhile
from onefold.spark.settings import SMALL_BYTES
from onefold.tables import staging as C
from onefold.tables.names import verdict_table
from onefold.upsert.actions import write_actions
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.completeness import fallen_silent, gaps_of, stamp_runs, taken_partitions, topics_of
from onefold.upsert.conflicts import conflicts_of, decided_in
from onefold.upsert.counts import ActionCounts, count_actions
from onefold.upsert.coverage import account_for, freed_by
from onefold.upsert.decisions_in_force import Obeyed, cover
from onefold.upsert.documents import CameAgain, Duplicates, Highest, Upserted
from onefold.upsert.duplicate_groups import duplicates_of
from onefold.upsert.forgotten_keys import forgotten_keys, without_keys
from onefold.upsert.known_positions import Known, count_offsets, mark_known, settle_known, without_copies
from onefold.upsert.look_up import look_up, meet_messages
from onefold.upsert.merge import merge
from onefold.upsert.nulls import nulls_of, settle_nulls, without_nulls
from onefold.upsert.producer_sequences import come_again, highest_after, restarted
from onefold.upsert.reused_identities import found_reused, mark_reused
from onefold.upsert.state import read_messages, read_state
from onefold.upsert.verdict_table import append_verdicts
from onefold.vocabulary import Finding, Verdict

SHOWN = 20
"""Reused identities, and identities in two periods, that are shown, of those that are counted."""


@dataclass(frozen=True)
class Attempt:
    """One attempt at a staged batch: what it works on. `record` is the commit record of the pinned base."""

    session: SparkSession
    lake: Lake
    dataset: Dataset
    staged: Staged
    table: StateTable
    name: str
    record: CommitRecord | None
    obeyed: Obeyed
    known: Known

    @cached_property
    def manifest(self) -> Manifest:
        """What was landed."""
        return manifest_of(self.lake, self.dataset, self.staged.batch)

    @property
    def before(self) -> Coverage:
        """What the base has processed."""
        return self.record.coverage if self.record else Coverage()

    @property
    def seen(self) -> list[Highest]:
        """The highest sequence that the base has seen of each producer."""
        return self.record.highest if self.record else []

    @cached_property
    def links(self) -> list[Link]:
        """Accepted gaps, that of the batch included, and the versions that forget marks take out."""
        accepted = self.record.accepted if self.record else []
        return links_of(self.dataset, accepted, self.manifest.accepts, self.obeyed.forgotten.values())

    @cached_property
    def periods(self) -> list[str] | None:
        """Where the periods of the batch's keys begin; None: there is no bound."""
        if self.staged.within is None:
            return None
        return sorted({*self.staged.within, *(link.period for link in self.links if link.own and link.period)})

    @cached_property
    def gone(self) -> list[bytes]:
        """Keys whose rows leave with this attempt."""
        return list(forgotten_keys(self.obeyed.fresh))

    @cached_property
    def size(self) -> Size:
        """How the batch lies next to the base."""
        slots = slots_for(self.manifest, self.dataset.target.buckets)
        return Size(slots, worthwhile(self.table.size, self.staged.records))

    @property
    def keys(self) -> DataFrame | None:
        """The keys of the batch, where the base is much larger; else None."""
        return self.session.table(self.staged.table).select(*C.row_key(self.dataset)) if self.size.narrow else None

    def rows(self, table: str) -> DataFrame:
        """The rows of a staging or actions table; where no record keeps its bytes, these are not read."""
        rows = read_flat(self.session, table)
        return rows if self.staged.keeps_bytes else without_bytes(rows)

    def state(self) -> DataFrame:
        """The base's rows that may have keys of the batch, but for those that leave."""
        rows = read_state(self.session, self.dataset, self.table.main.snapshot, self.periods)
        return without_keys(rows, self.gone)

    def messages(self) -> DataFrame:
        """The same of the ledger of messages, those last in the order whose content lost a conflict."""
        rows = read_messages(self.session, self.dataset, self.table.main.snapshot, self.periods)
        return put_lost_last(without_keys(rows, self.gone), self.dataset, self.obeyed.lost)


def apply_batch(at: Attempt) -> Upserted:
    """All of upsert behind the pinned base."""
    marked = mark(at)
    with met(at, without_nulls(marked)) as rows:
        actions = write_actions(judge(at, rows), at.dataset, at.name)
    staged = at.staged
    if staged.nulls:
        staged = settle_nulls(at.session, at.dataset, staged, nulls_of(marked), actions, at.state())
    folding_of(at.dataset).follow_up(
        actions, lambda: read_state(at.session, at.dataset, at.table.main.snapshot), at.name, at.size, at.gone
    )
    upserted = decide_conflicts(at, count(at, actions))
    upserted = record(at, staged, upserted)
    at.table.cut_branch(upserted.branch, at.table.main.snapshot)
    fault_point("before_merge")
    check_generation(at.lake, at.dataset, rebuilding=True)  # a newer file may have changed the table's fields meanwhile
    at_once(
        at.session,
        partial(merge, at.session, at.dataset, upserted, at.gone),
        partial(append_verdicts, at.rows(actions), at.dataset, staged.batch, at.name),
    )
    fault_point("after_merge")
    head = StateTable(at.lake, at.dataset).ref(upserted.branch)
    assert head is not None
    assert head.record == at.name, "the merge's snapshot must name its commit record"
    return upserted.model_copy(update={"head": head.snapshot})


def mark(at: Attempt) -> DataFrame:
    """The staged rows, with those marked whose positions are known, and those with a finding."""
    return mark_reused(at.session, mark_known(at.rows(at.staged.table), at.known), at.staged.reused)


@contextmanager
def met(at: Attempt, marked: DataFrame) -> Iterator[DataFrame]:
    """Marked rows without the copies of messages that the base knows, where a delivery decides. They are kept meanwhile
    if what judges them reads them several times: their windows would be sorted once more for each."""
    if not at.dataset.versions_by_delivery:
        yield marked
        return
    rows = meet_messages(at.dataset, marked, at.messages(), keys=at.keys, bounded=at.periods is not None)
    if folding_of(at.dataset).MEETS_KEYS_ALONE and not at.obeyed.lost:
        yield rows
        return
    kept = rows.persist()
    try:
        # A small batch is planned faster so. Of a large one the planner needs to know in which buckets its rows lie.
        yield cut(kept) if at.manifest.size <= SMALL_BYTES else kept
    finally:
        kept.unpersist()


def judge(at: Attempt, marked: DataFrame) -> DataFrame:
    """Marked rows with their final verdicts."""
    bounded = at.periods is not None

    def judge_rows(rows: DataFrame) -> DataFrame:
        return look_up(at.dataset, rows, at.state(), at.size.slots, at.links, keys=at.keys, bounded=bounded)

    return settle_known(judge_with_lost(marked, at.dataset, judge_rows) if at.obeyed.lost else judge_rows(marked))


def count(at: Attempt, actions: str) -> Upserted:
    """What the actions amount to, as the attempt's document without its accounts."""
    staged, manifest, obeyed = at.staged, at.manifest, at.obeyed
    sessions = staged.producers.listed if staged.producers else []
    restarts = [
        *restarted(sessions, at.seen),
        *(restart for restart in staged.restarts if not _is_covered(restart, at.before)),
    ]
    again = [CameAgain(session=session, highest=highest) for session, highest in come_again(sessions, at.seen)]
    written = at.rows(actions)
    (counts, duplicates), reused = at_once(
        at.session,
        partial(_counted, written, at.dataset, again),
        partial(found_reused, at.session, written, staged.reused),
    )
    moved = [identity for identity in reused if identity.level == Finding.PERIOD_MOVED]
    narrow = [identity for identity in reused if identity.level != Finding.PERIOD_MOVED]
    accepted = at.record.accepted if at.record else []
    return Upserted(
        batch=staged.batch,
        attempt=at.name,
        base=at.table.main.snapshot,
        base_record=at.table.main.record,
        branch=f"attempt_{at.name}",
        staging=staged.table,
        code=staged.code,
        actions=actions,
        verdicts=verdict_table(at.dataset),
        landed=0 if manifest.replays else staged.records,
        replayed=staged.records if manifest.replays else 0,
        replays=manifest.replays.batch if manifest.replays else None,
        woken=counts.woken,
        known=counts.known,
        not_compared=count_offsets(at.known.not_compared),
        counts=counts.verdicts,
        partitions=counts.partitions,
        changes=counts.changes,
        delivered=counts.delivered,
        buckets=counts.buckets,
        within=at.periods,
        narrow=at.size.narrow,
        duplicates=duplicates,
        come_again=again,
        restarts=list({(restart.partition, restart.producer): restart for restart in restarts}.values()),
        refused_deletes=counts.refused_deletes,
        late_repeats=counts.late_repeats,
        findings=len(reused) + counts.findings,
        moved=len(moved),
        reused=[*narrow[:SHOWN], *moved[:SHOWN]],
        newest=None if obeyed.skips else counts.newest,
        newest_of={} if obeyed.skips else counts.newest_of,
        newest_used=counts.newest_used,
        unreadable=staged.unreadable,
        decided=obeyed.decided,
        accepted=[*accepted, *([manifest.accepts] if manifest.accepts else [])],
        forgotten={name: made.attempt for name, made in obeyed.forgotten.items()},
        carried_out={made.batch: made.attempt for made in obeyed.fresh},
        conflicts=obeyed.conflicts,
    )


def decide_conflicts(at: Attempt, upserted: Upserted) -> Upserted:
    """Under a release that accepts conflicts, keep which contents won; the document, with the attempt among those that
    decided conflicts.

    It counts from the next batch on. The gate judges this one by the waivers, which hold the digest of these contents.
    """
    release = at.obeyed.decides_conflicts
    if release is None or upserted.waivable_conflicts <= at.dataset.quality.max_conflicts:
        return upserted  # what is within the limit was released by no one
    if not (found := decided_in(conflicts_of(at.session, at.dataset, upserted), at.dataset)):
        return upserted
    decided = DecidedConflicts(
        batch=upserted.batch,
        attempt=at.name,
        released=release.at,
        marks=sorted(at.obeyed.forgotten),
        conflicts=found,
    )
    put_conflicts(at.lake, at.dataset.name, decided)
    return upserted.model_copy(update={"conflicts": {**upserted.conflicts, at.name: upserted.batch}})


def _is_covered(restart: Restart, before: Coverage) -> bool:
    """Whether it was found with an earlier batch."""
    present = before.partitions[restart.partition].present if restart.partition in before.partitions else []
    return any(start <= restart.offset < end for start, end in present)


def _counted(actions: DataFrame, dataset: Dataset, again: Sequence[CameAgain]) -> tuple[ActionCounts, list[Duplicates]]:
    counts = count_actions(actions, dataset)
    return counts, duplicates_of(actions, list(again)) if counts.verdicts.get(Verdict.DUPLICATE) else []


def record(at: Attempt, staged: Staged, upserted: Upserted) -> Upserted:
    """Account for the batch's offsets and write its commit record, which means nothing until `main` points to it; the
    document with the accounts. `staged`: with what its nulls cover."""
    own, accounts = account_for(at.dataset, without_copies(staged, at.known), at.manifest, at.before)
    own, skipped = cover(own, at.before, staged.batch, at.obeyed)
    coverage = at.before.with_(own)
    stamps = stamp_runs(coverage, at.record.run_stamps if at.record else {}, upserted.newest_of)
    seen = at.record.seen_partitions if at.record else []
    taken = [] if upserted.replays else taken_partitions(upserted.partitions)
    upserted = upserted.model_copy(
        update={
            "accounts": accounts,
            "freed": freed_by(own, at.before),
            "gaps": gaps_of(coverage, stamps),
            "silent": fallen_silent(seen, taken),
            "added_topics": sorted(topics_of(taken) - topics_of(seen)),
            "known_topics": sorted(topics_of(seen)),
        }
    )
    highest, left_out = highest_after(staged.producers, at.seen)
    used = (upserted.newest_used, at.record.newest_used if at.record else None)
    made = CommitRecord.of(
        upserted.model_copy(update={"newest_used": max((stamp for stamp in used if stamp is not None), default=None)}),
        name=at.name,
        parent=at.table.main.record,
        dataset=at.dataset.name,
        generation=at.dataset.generation,
        shape=at.dataset.shape,
        interval=find_plan(at.lake, at.dataset, upserted.batch).interval,
        coverage=coverage,
        run_stamps=stamps,
        seen=sorted({*seen, *taken}),
        highest=highest,
        left_out=left_out + (at.record.left_out if at.record else 0),
        decision=at.obeyed.decision,
        skipped=skipped,
        links=_links(at, upserted),
        written=datetime.now(UTC),
    )
    key = lake_keys.record(at.dataset, at.name)
    at.lake.put_first(key, made)
    return upserted.model_copy(update={"record_digest": at.lake.digest(key)})


def _links(at: Attempt, upserted: Upserted) -> dict[str, str]:
    """The digests of the documents that the attempt's commit record rests on, by key."""
    manifest = at.manifest
    keys = [lake_keys.manifest(manifest.source, manifest.batch)]
    keys += [lake_keys.decision_of(at.dataset.name, manifest.batch, 1 + n) for n in range(at.obeyed.decided)]
    for mark in at.obeyed.fresh:
        names = at.dataset.name, mark.batch, mark.attempt
        keys += [lake_keys.mark(*names), lake_keys.mark_identities(*names)]
    named = at.record.conflicts if at.record else {}
    fresh = [(batch, attempt) for attempt, batch in upserted.conflicts.items() if attempt not in named]
    keys += [lake_keys.decided_conflicts(at.dataset.name, *document) for document in fresh]
    found = {key: at.lake.digest(key) for key in keys}
    # Of the parent what its own snapshot says: what became of the document since does not count.
    parent = lake_keys.record(at.dataset, at.table.main.record)
    found[parent] = at.table.main.digest or at.lake.digest(parent)
    return {key: digest for key, digest in found.items() if digest}
