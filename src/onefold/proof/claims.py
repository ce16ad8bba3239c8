"""The claims on a table's rows: every landed record that counts, decoded in another way and identified again, narrow.

| column | |
| --- | --- |
| `_key`, `_within` (where declared) | whose row it claims |
| `_version` (upsert), `_order`, `_hash`, `_compared` (with `apply.compare`), `_is_delete` | what decides, and digests |
| `_filtered_key` (where the filter is watched) | whose row a record that the filter left out would claim |
| `_message_id`, `_producer` (where a delivery decides) | by what a message is known |
| `_true_timestamp` (the same, where conflicts were decided) | when a content that lost was sent |
| `_is_hidden` (with `target.where`) | whether readers do not see the row |
| the key's columns that are no value field | |
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import zip_longest

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import LostContent, Mark
from onefold.decisions.conflicts import conflicts_named, lost_contents
from onefold.decisions.marks import identities_of, marks_named
from onefold.dedup.documents import TakenOut
from onefold.dedup.exclusions import take_out
from onefold.dedup.identity import identify
from onefold.dedup.staging import slots_for
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.manifest import Manifest
from onefold.offsets import Coverage, Present, TopicPartition, minus
from onefold.proof.decode import decode_again
from onefold.proof.forgotten import without_forgotten
from onefold.records import envelope as E
from onefold.records.covered import mark_covered
from onefold.records.landed_objects import objects_named
from onefold.records.read import read_records
from onefold.schemas.kept import read_all_kept
from onefold.spark.codegen import sized
from onefold.spark.flat_structs import laid_flat, read_flat
from onefold.spark.iceberg_tables import bucketed
from onefold.spark.slots import SLOT, in_slots
from onefold.tables import actions as U
from onefold.tables import staging as C
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.decisions_in_force import forgotten_records


def write_claims(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    records: Iterable[CommitRecord],
    table: str,
    say: Callable[[str], None],
) -> None:
    """Write the claims of all batches that `records` (newest first) publish, bucketed like the target.

    A replay lands nothing: what it used is covered by now, and is read with the batch that landed it. Nothing of a
    batch that was skipped unread is covered.

    Raises:
        LandingClearedError: landed bytes are gone, by the landing's retention.
        UnreadableObjectError: an object cannot be read.
    """
    dataset = dataset.with_writer_schemas(
        {section: read_all_kept(lake, registry) for section, registry in dataset.registries.items()}
    )
    newest, *older = records = list(records)
    own = first_covered(records)
    taken = reduce(Coverage.with_, newest.skipped.values(), Coverage())
    named = marks_named(lake, dataset.name, newest.forgotten)
    marks = [(mark, identities_of(lake, dataset.name, mark)) for mark in named.values()]
    lost = lost_contents(conflicts_named(lake, dataset.name, newest.conflicts), named)
    landed = [record for record in (newest, *older) if record.replays is None and not record.unreadable]
    begun = False
    for number, record in enumerate(reversed(landed), 1):
        say(f"batch {number} of {len(landed)}")
        manifest = manifest_of(lake, dataset, record.batch)
        with sized(session, manifest.size), objects_named(manifest):
            found = read_records(session, lake, dataset, manifest)
            claims = _claims(found, dataset, manifest, own[record.batch], taken, marks)
            claims = _put_last(claims, dataset, lost)
            laid_flat(claims).writeTo(table).append() if begun else bucketed(claims, table, dataset)
        begun = True


def first_covered(records: Sequence[CommitRecord]) -> dict[str, Coverage]:
    """What each batch that landed records covers first, by batch: a copy of what another batch covers claims nothing,
    whatever it says. `records`: a chain, newest first. Objects are covered by what they hold, whichever batch has them.
    """
    found: dict[str, Coverage] = {}
    for record, before in zip_longest(records, records[1:]):
        earlier = before.coverage.partitions if before else {}
        fresh = {
            key: Present(present=minus(part.present, earlier[key].present if key in earlier else []))
            for key, part in record.coverage.partitions.items()
        }
        batch = record.replays or record.batch
        objects = records[0].coverage.model_copy(update={"partitions": fresh})
        found[batch] = found.get(batch, Coverage()).with_(objects)
    return found


def read_claims(session: SparkSession, table: str) -> DataFrame:
    """The claims that count: of records that the table covers and that have a key."""
    return read_flat(session, table).where(F.col(U.COVERED) & F.col(C.KEY).isNotNull())


def _put_last(claims: DataFrame, dataset: Dataset, lost: Sequence[LostContent]) -> DataFrame:
    """Claims, those last in the order whose content lost a conflict by a decision."""
    if not lost or dataset.resolves_ties:
        return claims
    parts = [F.lower(F.hex(C.KEY)), F.lower(F.hex(C.compared(dataset)))]
    if dataset.apply.version:
        parts.append(F.to_json(F.struct(F.col(C.VERSION).alias("v"))))
    texts = [" ".join([key, content, *([version] if version is not None else [])]) for key, version, content in lost]
    last = F.lit(C.LAST_OF_ALL if dataset.earliest_wins else C.FIRST_OF_ALL).cast("bigint")
    order = F.col(C.ORDER)
    has_lost = F.concat_ws(" ", *parts).isin(texts)
    at = F.when(has_lost, last).otherwise(order["timestamp"])
    sent = {C.TRUE_TIMESTAMP: F.when(has_lost, order["timestamp"])} if dataset.versions_by_delivery else {}
    return claims.withColumns({C.ORDER: order.withField("timestamp", at), **sent})


def _claims(
    found: DataFrame,
    dataset: Dataset,
    manifest: Manifest,
    covered: Coverage,
    taken: Coverage,
    marks: Sequence[tuple[Mark, list[bytes]]],
) -> DataFrame:
    digests = manifest.digests
    forgotten, lines = forgotten_records(
        [mark for mark, _ in marks], {key: part.present for key, part in covered.partitions.items()}, manifest
    )
    out = TakenOut(
        partitions={key: part.present for key, part in taken.partitions.items()},
        objects=[name for name, digest in digests.items() if digest in taken.objects],
        forgotten=forgotten,
        forgotten_lines=lines,
    )
    ranges = [
        (TopicPartition.of(key), covered_range)
        for key, some in covered.partitions.items()
        for covered_range in some.present
    ]
    objects = {name: covered.refused.get(digest, []) for name, digest in digests.items() if digest in covered.objects}
    # Marked and not filtered: a condition on the key would be pushed into the decoder, which then runs twice.
    marked = mark_covered(take_out(found, out), ranges, objects, order=None)
    # What is covered was never rejected: a field that was added since was not looked at when it was folded.
    known = identify(decode_again(marked, dataset, forgiven=dataset.added), dataset)
    names = [C.KEY, C.FILTERED_KEY, C.WITHIN, C.VERSION, C.ORDER, C.HASH, C.COMPARED, C.DELETED, C.HIDDEN]
    names += [name for name, _ in dataset.key_columns]
    passing = [E.OBJECT, C.MESSAGE_ID, C.PRODUCER]
    if dataset.versions_by_delivery:  # a message counts once
        names, passing = [*names, C.MESSAGE_ID, C.PRODUCER], [E.OBJECT]
    named = [*(name for name in (*names, *passing) if name in known.columns), U.COVERED, *E.POSITION, E.LINE]
    claims = without_forgotten(known.select(*dict.fromkeys(named)), dataset, manifest, marks)
    slots = slots_for(manifest, dataset.target.buckets)
    spread = F.pmod(F.xxhash64(*E.POSITION, E.LINE), F.lit(dataset.target.buckets * slots)).cast("int")
    return in_slots(claims, dataset, slots, spread).drop(SLOT, *E.POSITION, E.LINE, *passing)
