"""Partitions that were added: keys move, and an offset orders the records of one partition only."""

from __future__ import annotations

from collections.abc import Iterator

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding
from onefold.report.causes import Change


def added_partitions(facts: Facts) -> Iterator[Finding]:
    """A topic that got partitions since it was first landed, under a version that begins with the offset."""
    if facts.dataset.before_offset != 0:
        return
    for topic in facts.topics:
        first = facts.landed.partitions.get(topic.name)
        if first is None:
            continue
        added = [partition for partition in topic.partitions if partition.number >= first.count]
        if not added or not (first.certain or any(partition.end for partition in added)):
            continue
        count = f"{len(topic.partitions)} partitions, {first.count} when it was first landed"
        yield Finding(
            "warning",
            f"topic {topic.name}",
            f"{count}{'' if first.certain else ' (or the others were empty)'}; apply.version.from is the offset",
            "Keys may have moved to other partitions, whose offsets order nothing: a batch with such a key is red "
            "(conflict/incomparable_version).",
            Change(
                "apply.version.from",
                "[timestamp, offset]",
                "with message.timestamp.type=LogAppendTime on the topic, else the producers' clocks decide; or a "
                f"version in the value; then onefold rebuild {facts.dataset.name}",
            ),
        )
