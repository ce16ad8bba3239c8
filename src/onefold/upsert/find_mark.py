"""Find what a batch forgets: the keys, the records that were landed of them, and what knows a later copy of these."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.decisions import Mark
from onefold.decisions.marks import put_mark
from onefold.iceberg.commits import Head
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.landings import landings_of
from onefold.landing.manifest import Manifest
from onefold.landing.plan import taken_plans
from onefold.offsets import Coverage, Range, TopicPartition, merged
from onefold.spark.offset_ranges import ranges_by
from onefold.tables import staging as C
from onefold.tables.names import verdict_table
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.forgotten_keys import keys_to_forget, of_keys
from onefold.upsert.forgotten_versions import merge_versions
from onefold.upsert.landed_keys import KnownRecords, add_landed
from onefold.upsert.state import read_messages, read_state

_PARTITION = ("cluster", "topic", "incarnation", "partition")


def find_mark(
    session: SparkSession, lake: Lake, dataset: Dataset, manifest: Manifest, base: Head, attempt: str
) -> Mark:
    """What a batch forgets, found at a base and kept: the keys of the rows that are meant, and those that were asked
    for; the records that published verdicts name for them, and those of them that are landed and not published. An
    erasure reads every landing, and so finds what was filtered, skipped or rejected of the keys, too.
    """
    forgets = manifest.forgets
    assert forgets
    asked = {bytes.fromhex(key) for key in forgets.keys}
    state = read_state(session, dataset, base.snapshot)
    known = KnownRecords(keys=set(keys_to_forget(state, dataset, forgets)))
    records = list(chain(lake, dataset, base.record))
    published = {record.batch for record in records}
    landings = landings_of(lake, dataset)
    unpublished = [landing for landing in landings if landing.batch not in published]
    taken_up = {plan.batch for plan in taken_plans(lake, dataset.name)}
    waiting = [landing for landing in unpublished if landing.batch in taken_up]
    add_landed(session, lake, dataset, landings if forgets.erases else waiting, known.keys | asked, known)
    keys = sorted(known.keys | asked)
    _add_published(session, lake, dataset, records, keys, known)
    known.add_rows(of_keys(state, keys), dataset)
    if dataset.versions_by_delivery:
        known.add_messages(of_keys(read_messages(session, dataset, base.snapshot), keys), dataset)
    coverage = records[0].coverage if records else Coverage()
    digests = {digest for landing in unpublished for digest in landing.digests.values()}
    mark = Mark(
        batch=manifest.batch,
        attempt=attempt,
        keys=sorted(key.hex() for key in known.keys),
        asked=forgets.keys,
        partitions=dict(sorted(known.partitions.items())),
        lines=dict(sorted(known.lines.items())),
        landed=_landed(coverage, unpublished),
        landed_objects=sorted({*coverage.objects, *digests}),
        versioned_by=dataset.versioned_by,
        highest=merge_versions(session, state.schema[C.VERSION].dataType, known.versions) if known.versions else {},
    )
    return put_mark(lake, dataset.name, mark, known.identities)


def _add_published(
    session: SparkSession,
    lake: Lake,
    dataset: Dataset,
    records: Sequence[CommitRecord],
    keys: list[bytes],
    known: KnownRecords,
) -> None:
    """The records that published verdicts name for some keys."""
    if not (keys and records):
        return
    published = [record.attempt for record in records]
    rows = of_keys(session.table(verdict_table(dataset)).where(F.col("attempt").isin(published)), keys, "key")
    partitions: dict[str, list[Range]] = {}
    lines: dict[str, list[Range]] = {}
    if dataset.source.exact:
        for (cluster, topic, incarnation, number), ranges in ranges_by(rows, [*_PARTITION], "offset").items():
            where = TopicPartition(cluster=cluster, topic=topic, incarnation=incarnation, partition=number)
            partitions[where.key] = ranges
    else:
        # What a later batch woke has no line of its own: the verdict of the batch that held it names it.
        lined = rows.where(F.col("object").isNotNull()).withColumn("line", F.col("line").cast("long"))
        for (landed, name), ranges in ranges_by(lined, ["batch", "object"], "line").items():
            digest = manifest_of(lake, dataset, landed).digests[name]
            lines[digest] = merged([*lines.get(digest, []), *ranges])
    known.add_places(partitions, lines)
    messages = rows.select(F.col("key").alias(C.KEY), F.col("message_id").alias(C.MESSAGE_ID))
    known.add_rows(messages.where(F.col(C.MESSAGE_ID).isNotNull()), dataset)


def _landed(coverage: Coverage, unpublished: Sequence[Manifest]) -> dict[str, list[Range]]:
    """All offsets that were landed before."""
    landed = {key: known.landed for key, known in coverage.partitions.items()}
    for manifest in unpublished:
        for range_ in manifest.ranges:
            key = range_.topic_partition.key
            landed[key] = merged([*landed.get(key, []), (range_.start, range_.end)])
    return {key: ranges for key, ranges in sorted(landed.items()) if ranges}
