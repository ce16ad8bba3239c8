"""Dedup: one survivor per identity, and a verdict for every other record of the batch. Reads no table state."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import LostContent, Skip, log_of, standing
from onefold.dedup.code_digest import judge_of
from onefold.dedup.documents import EVERYTHING, NOTHING, Staged, TakenOut, staged_key
from onefold.dedup.exclusions import take_out
from onefold.dedup.identity import identify
from onefold.dedup.positions import fold_positions
from onefold.dedup.schemas import knows_more, with_schemas
from onefold.dedup.staging import (
    account,
    commit_staging,
    needed,
    slots_for,
    staged_columns,
    write_staging,
)
from onefold.dedup.survivors import choose_survivors
from onefold.errors import ExportColumnError, ObjectTooLargeError, UnreadableObjectError
from onefold.generation import is_rebuild
from onefold.lake import Lake, new_attempt
from onefold.landing.land import check_bytes, manifest_of
from onefold.landing.manifest import Manifest
from onefold.records import envelope as E
from onefold.records.landed_objects import objects_named
from onefold.records.read import read_records
from onefold.spark.codegen import sized
from onefold.spark.iceberg_tables import drop
from onefold.spark.job import main_of
from onefold.upsert.commit_record import find_record
from onefold.upsert.documents import Upserted
from onefold.values.decode import decode


def run(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    batch: str,
    attempt: str | None = None,
    taken: TakenOut = NOTHING,
) -> Staged:
    """Stage a landed batch, or find its staging; without the records that decisions take out, as upsert found them."""
    found = lake.get(staged_key(lake, dataset, batch, taken.digest), Staged)
    is_there = found and session.catalog.tableExists(found.table)  # else `maintain` has cleared it away
    if found and is_there and not found.unknown_schemas:
        return found
    if published := _published(lake, dataset, batch):
        return found if found and is_there else published
    if found and is_there and not knows_more(lake, dataset, found):
        return found
    manifest = manifest_of(lake, dataset, batch)
    check_bytes(lake, manifest)
    known_by = {"without": taken.digest}
    try:
        with sized(session, manifest.size), objects_named(manifest):
            records = take_out(read_records(session, lake, dataset, manifest), taken)
            again = manifest.replays is not None and not is_rebuild(lake, dataset)
            known, unknown = with_schemas(lake, dataset, records, again=again)
            staged = _stage(session, known, manifest, attempt or new_attempt(), records, taken.lost)
            staged = staged.model_copy(update={"unknown_schemas": unknown})
    except (UnreadableObjectError, ExportColumnError, ObjectTooLargeError) as error:
        # A skip does not read such an object: its records are unknown.
        skips = taken.everything or isinstance(standing(log_of(lake, dataset.name, batch)), Skip)
        if not skips or manifest.ranges:
            raise
        staged = _stage(session, dataset, manifest, new_attempt(), session.createDataFrame([], E.DDL))
        known_by = {"without": EVERYTHING.digest, "unreadable": f"{error.object}: {error.problem}"}
    return commit_staging(session, lake, dataset, staged.model_copy(update=known_by), found if is_there else None)


def _published(lake: Lake, dataset: Dataset, batch: str) -> Staged | None:
    """The staging document of a published batch, by the code and fields of its time; its table may be gone."""
    tried = lake.storage.stat(lake_keys.latest(dataset, batch))  # else the chain need not be walked
    record = find_record(lake, dataset, batch) if tried else None
    upserted = lake.get(lake_keys.attempt(dataset, batch, record.attempt, "upsert"), Upserted) if record else None
    if record is None or upserted is None:
        return None
    return lake.get(staged_key(lake, dataset, batch, by=judge_of(upserted.code, record.shape)), Staged)


def _stage(
    session: SparkSession,
    dataset: Dataset,
    manifest: Manifest,
    attempt: str,
    records: DataFrame,
    lost: Sequence[LostContent] = (),
) -> Staged:
    batch = manifest.batch
    identified = identify(decode(records, dataset), dataset)
    slots = slots_for(manifest, dataset.target.buckets)
    judged = choose_survivors(needed(identified, dataset), dataset, slots, lost)
    table = write_staging(staged_columns(judged, dataset), dataset, attempt)
    staged, inconsistent = account(session, dataset, batch, attempt, table)
    if inconsistent:  # rare, and worth a second pass: one position has two contents
        drop(session, table)
        folded = choose_survivors(needed(fold_positions(identified), dataset), dataset, slots, lost)
        table = write_staging(staged_columns(folded, dataset), dataset, attempt)
        staged, _ = account(session, dataset, batch, attempt, table)
    return staged


def main(argv: list[str]) -> int:
    """Entry point of spark-submit."""
    return main_of(run, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
