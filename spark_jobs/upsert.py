"""Upsert: judge a staged batch against the published table once, and merge what it changes into a branch."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import Skip, check_not_rolled_back, log_of, standing
from onefold.decisions.conflicts import conflicts_in_force, lost_contents
from onefold.decisions.log import pinned_skips
from onefold.decisions.marks import marks_in_force
from onefold.dedup.documents import staged_of
from onefold.dedup.lost_contents import lost_in
from onefold.faults import fault_point
from onefold.generation import check_generation, claim_target, left_out_of, record_shape
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake, new_attempt
from onefold.landing.land import manifest_of
from onefold.spark.flat_structs import read_flat
from onefold.spark.job import main_of
from onefold.upsert.apply import Attempt, apply_batch
from onefold.upsert.commit_record import find_record, read_record
from onefold.upsert.decisions_in_force import Obeyed, taken_out_of
from onefold.upsert.documents import Upserted
from onefold.upsert.find_mark import find_mark
from onefold.upsert.known_positions import Known
from onefold.upsert.marks_met import with_forgotten
from onefold.upsert.position_contents import known_positions
from onefold.upsert.state import ensure_state
from spark_jobs import dedup


def run(session: SparkSession, lake: Lake, dataset: Dataset, batch: str, attempt: str | None = None) -> Upserted:
    """Make one attempt at a staged batch; none if the batch is already published.

    Raises:
        RolledBackError: the batch waits for an operator.
        ChangedDocumentError: the commit record of `main` has another digest than its snapshot names.
    """
    check_generation(lake, dataset, rebuilding=True)
    claim_target(lake, dataset)
    if found := find_record(lake, dataset, batch):  # its staging may be gone
        return Upserted(batch=batch, attempt=found.attempt, published=True)
    attempt = attempt or new_attempt()
    log = log_of(lake, dataset.name, batch)
    check_not_rolled_back(log)
    decision = standing(log)
    staged = staged_of(lake, dataset, batch, skips=isinstance(decision, Skip))
    record_shape(lake, dataset)
    ensure_state(session, lake, dataset, read_flat(session, staged.table))
    table = StateTable(lake, dataset)
    base = table.main
    record = read_record(lake, dataset, base.record, base.digest)
    manifest = manifest_of(lake, dataset, batch)
    marks = record.forgotten if record else {}
    forgotten = marks_in_force(lake, dataset.name, marks)
    if manifest.forgets and batch not in forgotten:
        forgotten[batch] = find_mark(session, lake, dataset, manifest, base, attempt)
    named = record.conflicts if record else {}
    decided = conflicts_in_force(lake, dataset.name, named, left_out_of(lake, dataset))
    obeyed = Obeyed(
        decided=len(log),
        decision=decision,
        skipped=record.skipped if record else {},
        pinned=pinned_skips(lake, dataset.name),
        forgotten=forgotten,
        known=marks,
        conflicts={made.attempt: made.batch for made in decided},
        lost=[] if dataset.resolves_ties else lost_contents(decided, forgotten),
    )
    taken = taken_out_of(staged, manifest, obeyed)
    if obeyed.lost and not obeyed.skips:
        lost = lost_in(read_flat(session, staged.table), dataset, obeyed.lost)
        taken = taken.model_copy(update={"lost": lost})
    taken = with_forgotten(session, lake, dataset, staged, manifest, forgotten.values(), taken)
    if taken:
        staged = dedup.run(session, lake, dataset, batch, taken=taken)
    known = Known()
    if not obeyed.skips:
        known = known_positions(session, lake, dataset, staged, manifest, record, base.snapshot)
    if known.apart:
        taken = taken.model_copy(update={"covered": known.apart})
        staged = dedup.run(session, lake, dataset, batch, taken=taken)
    upserted = apply_batch(Attempt(session, lake, dataset, staged, table, attempt, record, obeyed, known))
    lake.put(lake_keys.attempt(dataset, batch, attempt, "upsert"), upserted)
    lake.put(lake_keys.latest(dataset, batch), upserted)
    fault_point("after_upsert")
    return upserted


def main(argv: list[str]) -> int:
    """Entry point of spark-submit."""
    return main_of(run, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
