"""What the landed and published data shows: loss that has happened or is near, duplicates and their causes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding, lasting, millis
from onefold.diagnosis.rules.retention import enough
from onefold.instants import span_text
from onefold.report.causes import Change
from onefold.vocabulary import LOST, HoleKind

NOTABLE = 0.01
"""The share of duplicates from which they are a warning."""
MENDS = {
    HoleKind.RETENTION: ("they had expired", None),
    HoleKind.TRUNCATED: (
        "the log was cut off",
        Change("unclean.leader.election.enable", "false", "and min.insync.replicas=2"),
    ),
    HoleKind.DELETED: (
        "the topic was deleted",
        Change("delete.topic.enable", "false", "or withdraw the right to DELETE"),
    ),
}


def gone_before_landing(facts: Facts) -> Iterator[Finding]:
    """Offsets behind the landing that the log holds no more."""
    for topic in facts.topics:
        for partition in topic.partitions:
            end = facts.landed.ends.get((topic.name, partition.number))
            if partition.has_leader and end is not None and partition.start > end:
                yield Finding(
                    "error",
                    f"topic {topic.name}, partition {partition.number}",
                    f"offsets [{end}, {partition.start}) are gone, not landed",
                    f"{partition.start - end} offsets left the log before they were read: the next run lists them as a "
                    "hole.",
                    lasting("retention.ms", enough(facts.wait)),
                )


def lost_before(facts: Facts) -> Iterator[Finding]:
    """Holes in the coverage that records may have been in."""
    for kind in LOST:
        if count := facts.landed.holes.get(kind, 0):
            what, change = MENDS[kind]
            found = f"{count} offsets of kind {kind}"
            mend = change or lasting("retention.ms", enough(facts.wait))
            yield Finding("error", "published coverage", found, f"Records were never read: {what}.", mend)


def expiring_backlog(facts: Facts) -> Iterator[Finding]:
    """What was not landed since the last batch, and expires soon."""
    if facts.landed.until is None:
        return
    since = facts.now - facts.landed.until
    for topic in facts.topics:
        kept = topic.config.span("retention.ms")
        if kept is None or "delete" not in topic.policy:
            continue
        waiting = sum(
            max(0, partition.end - facts.landed.ends.get((topic.name, partition.number), partition.start))
            for partition in topic.partitions
        )
        left = kept - since
        if not waiting or left >= min(kept / 4, timedelta(days=1)):
            continue
        near = f"expire within {span_text(left)}" if left > timedelta(0) else "expire now"
        yield Finding(
            "error",
            f"topic {topic.name}",
            f"{waiting} offsets wait, landed until {facts.landed.until:%Y-%m-%dT%H:%MZ}, retention.ms={millis(kept)}",
            f"The last landing is {span_text(since)} ago and the log keeps {span_text(kept)}: "
            f"the first records {near}.",
            action=f"onefold run {facts.dataset.name}, now",
        )


def duplicates(facts: Facts) -> Iterator[Finding]:
    """Duplicates by their cause, each with the setting that prevents it."""
    for group in facts.landed.causes():
        share = group.records / max(1, facts.landed.records)
        counted = "1 duplicate" if group.records == 1 else f"{group.records} duplicates"
        found = f"{counted}, {group.cause.name} ({share:.1%} of {facts.landed.records} records)"
        yield Finding(
            "warning" if share >= NOTABLE else "info",
            "published batches",
            found,
            group.cause.tells,
            _first(group.cause.settings),
            "" if group.cause.settings else group.cause.prevents,
        )


def _first(settings: tuple[Change, ...]) -> Change | None:
    """The most important of some settings; the others go with it as a note."""
    if not settings:
        return None
    first, *others = settings
    return replace(first, note="; ".join([*filter(None, [first.note]), *(f"and {change}" for change in others)]))
