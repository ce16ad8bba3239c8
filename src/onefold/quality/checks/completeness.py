"""What never came, or should not have come: gaps of the coverage, deletes that compaction may have removed, partitions
that fell silent, topics that are new, keys that two topics share.

A batch that only carries a decision out, or replays, brings nothing that could be missing.
"""

from __future__ import annotations

from collections.abc import Sequence

from onefold.offsets import Range, TopicPartition, size
from onefold.quality.checks.check import BLOCKING, WARNING, Measurement
from onefold.quality.checks.facts import BranchFacts

NAMED = 5
"""Gaps, partitions or offsets that a check names, of those that it counts."""


def gaps(facts: BranchFacts) -> Measurement | None:
    """Offsets between covered ones that no batch has landed; red where what comes after is older than `max_gap_age`."""
    if not facts.dataset.source.exact or _brings_nothing(facts):
        return None
    found, limit = facts.upserted.gaps, facts.dataset.quality.max_gap_age
    ages = [facts.judged.timestamp() - gap.later / 1000 for gap in found if gap.later is not None]
    old = limit is not None and max(ages, default=0.0) > limit.total_seconds()
    return Measurement(
        sum(gap.end - gap.start for gap in found),
        0,
        severity=BLOCKING if old else WARNING,
        first=name_first([gap.shown for gap in found]),
        way_out="publish the batches that have these offsets (an interval or an export that was left out, a batch that "
        "is red), or export them again; quality.max_gap_age says how old the records after them may be",
    )


def maybe_deletes(facts: BranchFacts) -> Measurement | None:
    """Compacted offsets after some that the table has: each may have been a delete whose row is still live."""
    found = [(account.partition, range_) for account in facts.upserted.accounts for range_ in account.maybe_deletes]
    if not facts.dataset.apply.DELETES or not found:
        return None
    return Measurement(
        size(range_ for _, range_ in found),
        0,
        first=name_first([name_range(partition, range_) for partition, range_ in found]),
        way_out="a delete that was compacted before it was landed leaves its row live: land the topic more often than "
        "its delete.retention.ms, and compare the keys with the source",
    )


def silent_partitions(facts: BranchFacts) -> Measurement | None:
    """Partitions that had records in earlier batches, and none now while others do."""
    silent = facts.upserted.silent
    if not silent or _brings_nothing(facts):
        return None
    return Measurement(
        len(silent),
        0,
        first=name_first([f"{where.topic}, partition {where.partition}" for where in map(TopicPartition.of, silent)]),
        way_out="look whether its producer stopped, or whether files of it are missing in the export",
    )


def new_topics(facts: BranchFacts) -> Measurement | None:
    """Topics of which the table has no record yet, where the file does not name each topic."""
    upserted, kafka = facts.upserted, facts.dataset.source.kafka
    listed = kafka is not None and not any(topic.startswith("^") for topic in kafka.topics)
    if listed or not upserted.known_topics or _brings_nothing(facts):
        return None
    known = ", ".join(name_first(upserted.known_topics))
    return Measurement(
        len(upserted.added_topics),
        0,
        first=name_first([f"{topic} (the table has records of {known})" for topic in upserted.added_topics]),
        way_out="if these records belong to the dataset, waive the check once: then the topic is known. If they are of "
        "an export of another topic, discard the batch. source.filter can say which topics count (topic = '…')",
    )


def shared_keys(facts: BranchFacts) -> Measurement | None:
    """Keys that records of two topics have: one row is made of both."""
    if not facts.keys_of_topics:
        return None
    return Measurement(
        facts.keys_of_topics,
        0,
        first=facts.first_keys_of_topics,
        way_out="if the topics number their things apart, the key takes two things for one: put the topic into it "
        "(apply.key: [topic, …]), or give each topic a dataset of its own",
    )


def name_range(partition: str, range_: Range) -> str:
    """Offsets of a partition (TopicPartition.key), as checks name them."""
    where = TopicPartition.of(partition)
    return f"{where.topic}, partition {where.partition}: [{range_[0]}, {range_[1]})"


def name_first(found: Sequence[str]) -> list[str]:
    """The first of what a check counts, and how many more there are."""
    return [*found[:NAMED], *([f"and {len(found) - NAMED} more"] if len(found) > NAMED else [])]


def _brings_nothing(facts: BranchFacts) -> bool:
    return facts.bare or facts.upserted.replays is not None
