"""Collects the facts: from the live cluster, from the lake, from the dataset file. It writes nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.diagnosis.facts import Facts, FirstPartitions, Landed
from onefold.errors import OnefoldError
from onefold.kafka.condition import ClusterCondition, NewestBatches, Where
from onefold.kafka.connection import client_settings
from onefold.lake import Lake
from onefold.landing.cuts import cut_of
from onefold.landing.exports import ExportSource
from onefold.landing.incarnations import incarnation_of
from onefold.landing.manifest import Manifest
from onefold.landing.plan import RangesPlan, is_decided, of_kind, taken_plans
from onefold.offsets import TopicPartition
from onefold.quality.documents import CheckResult, GateResult
from onefold.report.ledger import records_of
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.documents import Duplicates, Upserted
from onefold.vocabulary import Verdict

EXPLAINED = 100
"""Of how many batches with duplicates it is looked up how they came about; of all others the reason is counted."""
LANDINGS = 100
"""In how many of the newest landings the newest segments are looked for."""


def gather(lake: Lake, dataset: Dataset, now: datetime | None = None) -> Facts:
    """What there is to know of a dataset; of an export only what its file and its data tell.

    Raises:
        UnknownTopicError, ClusterUnavailableError, ClusterRefusedError, UsageError: the topics cannot be looked at.
    """
    cluster = _cluster(lake, dataset)
    newest = _newest(lake, dataset, cluster)
    return Facts(
        dataset,
        now or datetime.now(UTC),
        _landed(lake, dataset, cluster),
        cluster,
        newest.batches if newest and (newest.batches or not newest.unseen) else None,
        newest.unseen if newest else "",
        _left_out(lake, dataset),
    )


def _left_out(lake: Lake, dataset: Dataset) -> tuple[str, ...]:
    """What a run would say now of objects that it does not read."""
    if not dataset.source.exports:
        return ()
    try:
        return tuple(ExportSource(lake, dataset).plan(None, dry_run=True).notes)
    except OnefoldError as error:  # a run would end with it
        return (str(error),)


def _newest(lake: Lake, dataset: Dataset, cluster: ClusterCondition | None) -> NewestBatches | None:
    """The newest record batches, where the source shows them."""
    from onefold.diagnosis.landed_segments import newest_of_segments
    from onefold.kafka.newest_batches import newest_of_topics

    kafka = dataset.source.kafka
    if kafka and cluster:
        return newest_of_topics(client_settings(lake.settings, kafka.connection), cluster.topics)
    if not dataset.source.shows_log:
        return None
    taken = (plan for plan in taken_plans(lake, dataset.name) if not plan.decided)
    plans = [plan for plan in taken if plan.source == dataset.source_id]
    manifests = (lake.get(lake_keys.manifest(plan.source, plan.batch), Manifest) for plan in plans[-LANDINGS:])
    landed = [object_ for manifest in manifests if manifest for object_ in manifest.of_role("values")]
    return newest_of_segments(lake, dataset.source_id, landed)


def _cluster(lake: Lake, dataset: Dataset) -> ClusterCondition | None:
    from onefold.kafka.inspection import Inspection

    kafka = dataset.source.kafka
    if kafka is None:
        return None
    return Inspection(kafka.connection, client_settings(lake.settings, kafka.connection)).condition(kafka.topics)


def _landed(lake: Lake, dataset: Dataset, cluster: ClusterCondition | None) -> Landed:
    records = records_of(lake, dataset)
    counts: dict[str, Counter[str]] = {}
    for record in records:
        for verdict, reasons in record.counts.items():
            counts.setdefault(verdict, Counter()).update(reasons)
    holes: Counter[str] = Counter()
    for offsets in records[0].coverage.partitions.values() if records else ():
        for start, end, kind in offsets.holes:
            holes[kind] += end - start
    plans = _landed_plans(lake, dataset) if cluster else []
    numbers = _incarnations(lake, cluster) if cluster else {}
    until, ends = _reached(plans, numbers)
    first = _first_partitions(lake, [plan for plan, _ in plans], numbers)
    kinds = tuple(_kinds(lake, dataset, records))
    warned = _warned(lake, dataset, records)
    newest = records[0].newest_used if records else None
    return Landed(len(records), counts, kinds, holes, until, ends, first, warned, newest)


def _warned(lake: Lake, dataset: Dataset, records: list[CommitRecord]) -> tuple[CheckResult, ...]:
    """The checks of the newest published batch of new records that failed and only warn."""
    newest = next((record for record in records if not is_decided(record.batch)), None)
    key = lake_keys.attempt(dataset, newest.batch, newest.attempt, "gate") if newest else ""
    gate = lake.get(key, GateResult) if newest else None
    return tuple(check for check in gate.checks if check.warns) if gate else ()


def _kinds(lake: Lake, dataset: Dataset, records: list[CommitRecord]) -> Iterator[Duplicates]:
    """How the duplicates of the newest published batches that have any came about."""
    having = [record for record in records if sum(record.counts.get(Verdict.DUPLICATE, {}).values())]
    for record in having[:EXPLAINED]:
        if upserted := lake.get(lake_keys.attempt(dataset, record.batch, record.attempt, "upsert"), Upserted):
            yield from upserted.duplicates


def _landed_plans(lake: Lake, dataset: Dataset) -> list[tuple[RangesPlan, datetime]]:
    """The plans of live topics that are landed, in the order in which the dataset took them up, and up to when."""
    plans = []
    for plan in of_kind(taken_plans(lake, dataset.name), RangesPlan):
        manifest = lake.storage.stat(lake_keys.manifest(plan.source, plan.batch))
        if manifest is not None:
            plans.append((plan, plan.interval.end if plan.interval else manifest.modified))
    return plans


Incarnations = Mapping[tuple[str, str], int]
"""By (cluster, topic): the number of today's topic among those of its name."""


def _incarnations(lake: Lake, cluster: ClusterCondition) -> Incarnations:
    return {
        (cluster.id, topic.name): incarnation_of(lake, cluster.id, topic.name, topic.id, dry_run=True)
        for topic in cluster.topics
    }


def _reached(
    plans: list[tuple[RangesPlan, datetime]], numbers: Incarnations
) -> tuple[datetime | None, dict[Where, int]]:
    """How far the topics are landed: the instant, and the offset of each partition of today's incarnations."""
    ends: dict[Where, int] = {}
    for plan, _ in plans:
        for range_ in plan.ranges:
            if _is_of(range_.topic_partition, numbers):
                where = (range_.topic_partition.topic, range_.topic_partition.partition)
                ends[where] = max(range_.end, ends.get(where, 0))
    return max((instant for _, instant in plans), default=None), ends


def _first_partitions(lake: Lake, plans: list[RangesPlan], numbers: Incarnations) -> dict[str, FirstPartitions]:
    """How many partitions today's topics had when they were first landed: as the cuts of the first plan know, else as
    its ranges show, if they are of every partition from 0 on."""
    first: dict[str, FirstPartitions | None] = {}
    for plan in plans:
        planned = _partitions_of((range_.topic_partition for range_ in plan.ranges), numbers)
        if new := planned.keys() - first.keys():
            known = _cut_partitions(lake, plan, numbers)
            first |= {topic: _count(known.get(topic), planned[topic]) for topic in new}
    return {topic: count for topic, count in first.items() if count}


def _count(known: set[int] | None, planned: set[int]) -> FirstPartitions | None:
    if known:
        return FirstPartitions(len(known), certain=True)
    whole = planned == set(range(len(planned)))
    return FirstPartitions(len(planned), certain=False) if whole else None


def _cut_partitions(lake: Lake, plan: RangesPlan, numbers: Incarnations) -> dict[str, set[int]]:
    """The partitions that the cuts of a plan's interval know, empty ones too: at its start, else at its end."""
    instants = (plan.interval.end, plan.interval.start) if plan.interval else ()
    known: dict[str, set[int]] = {}
    for instant in instants:
        if cut := cut_of(lake, plan.source, instant):
            known |= _partitions_of(map(TopicPartition.of, cut.offsets), numbers)
    return known


def _partitions_of(partitions: Iterable[TopicPartition], numbers: Incarnations) -> dict[str, set[int]]:
    """The partition numbers of each of today's topics."""
    by_topic: dict[str, set[int]] = {}
    for partition in partitions:
        if _is_of(partition, numbers):
            by_topic.setdefault(partition.topic, set()).add(partition.partition)
    return by_topic


def _is_of(where: TopicPartition, numbers: Incarnations) -> bool:
    return numbers.get((where.cluster, where.topic)) == where.incarnation
