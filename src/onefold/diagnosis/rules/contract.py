"""The dataset file itself: what it cannot tell, does not ask, or leaves open."""

from __future__ import annotations

from collections.abc import Iterator

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding
from onefold.instants import instant, span_text
from onefold.report.causes import Change
from onefold.vocabulary import Level

_FILE = "dataset file"


def position_decides(facts: Facts) -> Iterator[Finding]:
    """An append whose records are the same only at the same position."""
    if facts.dataset.deciding is Level.POSITION:
        why = "Only the position decides: a message that a producer wrote twice has two, and both become rows."
        change = Change("identity.message_id", note="an id that the producer sets, or a business_key")
        yield Finding("warning", _FILE, "identity: no message_id, no business_key", why, change)


def loss_tolerated(facts: Facts) -> Iterator[Finding]:
    """Loss does not stop a batch."""
    if facts.dataset.quality.loss == "tolerated":
        why = "Batches are published of which records were gone before they were landed; no batch stops for it."
        yield Finding("warning", _FILE, "quality.loss=tolerated", why, Change("quality.loss", "refused"))


def no_schedule(facts: Facts) -> Iterator[Finding]:
    """Nothing says how long records wait."""
    if facts.dataset.schedule is None:
        why = "No schedule lands it, and what expires before the next run cannot be seen from here."
        yield Finding("info", _FILE, "schedule: none", why, Change("schedule", note='{cron: "0 * * * *", start: …}'))


def stale(facts: Facts) -> Iterator[Finding]:
    """What readers see is older than the file allows."""
    limit, newest = facts.dataset.quality.freshness, facts.landed.newest
    if limit and newest is not None and facts.now.timestamp() - newest / 1000 > limit.total_seconds():
        yield Finding(
            "error",
            facts.dataset.target.table,
            f"newest record of {instant(newest):%Y-%m-%d %H:%M} UTC, quality.freshness={span_text(limit)}",
            "No newer record is applied, superseded or held: nothing came, nothing was run, or what came is filtered, "
            "rejected, or in a batch that waits.",
            action="onefold batches shows what came; look for a producer, an export or a schedule that stopped",
        )


def no_freshness(facts: Facts) -> Iterator[Finding]:
    """A source that went silent is not noticed."""
    if facts.wait is not None and facts.dataset.quality.freshness is None:
        why = "A source that sends nothing any more looks like a quiet day."
        hours = max(1, -(-2 * facts.wait.total_seconds() // 3600))
        yield Finding("info", _FILE, "quality.freshness: none", why, Change("quality.freshness", f"{hours:.0f}h"))


def no_duplicate_rate(facts: Facts) -> Iterator[Finding]:
    """More duplicates than usual stop nothing."""
    if facts.dataset.quality.max_duplicate_rate is None:
        seen = sum(facts.landed.duplicates().values()) / max(1, facts.landed.records)
        limit = max(0.05, min(1.0, round(2 * seen, 2)))
        why = "A producer or an export that repeats everything is folded, and no one hears of it."
        found = "quality.max_duplicate_rate: none"
        yield Finding("info", _FILE, found, why, Change("quality.max_duplicate_rate", f"{limit:.2f}"))


def export(facts: Facts) -> Iterator[Finding]:
    """What an export does not tell."""
    exports = facts.dataset.source.exports
    if exports:
        yield Finding(
            "unknown",
            f"cluster {exports.origin.cluster}",
            "replication, retention, compaction, transactions, groups",
            "An export tells nothing of the cluster that it came from.",
            action="onefold doctor on a dataset of the live topic; or look up the list below",
        )
