"""What the brokers delete by themselves, against what the schedule has landed by then."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from onefold.diagnosis.facts import MARGIN, Facts
from onefold.diagnosis.findings import Finding, Severity, days, lasting, millis, setting
from onefold.instants import span_text
from onefold.report.causes import Change

USUAL = timedelta(days=7)
"""Kafka's own default, and the least that is advised."""


def _against(span: timedelta, wait: timedelta) -> Severity | None:
    """How bad it is that something is kept for `span` where records wait for up to `wait`."""
    if span < wait:
        return "error"
    return "warning" if span < wait + MARGIN else None


def enough(wait: timedelta | None) -> timedelta:
    """How long a log should keep records that wait for so long at most."""
    return days(max((wait or timedelta(0)) + MARGIN, USUAL))


def _reading(wait: timedelta) -> str:
    return f"a record may wait {span_text(wait)} (longest interval and settle)"


def retention_time(facts: Facts) -> Iterator[Finding]:
    """retention.ms against the longest wait."""
    wait = facts.wait
    for topic in facts.topics:
        kept = topic.config.span("retention.ms")
        if kept is None or wait is None or "delete" not in topic.policy:
            continue
        if severity := _against(kept, wait):
            ends = (
                "so records expire before they are landed"
                if severity == "error"
                else (f"so a schedule that stops for {span_text(kept - wait)} loses records")
            )
            yield Finding(
                severity,
                f"topic {topic.name}",
                setting("retention.ms", millis(kept), kept),
                f"{_reading(wait).capitalize()}, {ends}.",
                lasting("retention.ms", enough(wait)),
            )


def retention_bytes(facts: Facts) -> Iterator[Finding]:
    """retention.bytes, by how far back the logs that have reached it go."""
    wait = facts.wait
    for topic in facts.topics:
        size = topic.config.number("retention.bytes")
        if size is None or size < 0 or "delete" not in topic.policy:
            continue
        ages = [
            facts.now - partition.oldest for partition in topic.partitions if partition.oldest and partition.start > 0
        ]
        where, found = f"topic {topic.name}", setting("retention.bytes", str(size))
        unlimited = Change("retention.bytes", "-1", "and a retention.ms that suffices")
        if not ages:
            why = "How long it lasts depends on the rate; no log has been cut off yet, so nothing tells."
            yield Finding("info", where, found, why, unlimited)
        elif wait is not None and (severity := _against(min(ages), wait)):
            ends = "records are cut off before they are landed" if severity == "error" else "a busier day loses records"
            why = f"The shortest log goes back {span_text(min(ages))}, and {_reading(wait)}: {ends}."
            yield Finding(severity, where, f"{found}, log of {span_text(min(ages))}", why, unlimited)


def compaction(facts: Facts) -> Iterator[Finding]:
    """Compaction takes records away that were not landed yet."""
    wait, apply = facts.wait, facts.dataset.apply
    for topic in facts.topics:
        if "compact" not in topic.policy:
            continue
        lag = topic.config.span("min.compaction.lag.ms") or timedelta(0)
        if wait is not None and lag >= wait + MARGIN:
            continue
        severity: Severity
        if apply.NEEDS_EVERY_RECORD:
            severity = "error" if wait is None or lag < wait else "warning"
            why = (
                f"{apply.words.capitalize()} needs every record, and compaction removes all but a key's last before "
                "they are landed."
            )
        elif apply.version and apply.version.parts != ["offset"]:
            severity = "warning"
            why = (
                f"Compaction keeps a key's last record, not that of the highest {apply.version.named}: "
                "an older record that comes late removes it."
            )
        else:
            continue
        need = days((wait or timedelta(0)) + MARGIN)
        policy = topic.config.text("cleanup.policy")
        found = f"cleanup.policy={policy}, {setting('min.compaction.lag.ms', millis(lag), lag)}"
        yield Finding(
            severity,
            f"topic {topic.name}",
            found,
            why,
            lasting("min.compaction.lag.ms", need),
        )


def tombstones(facts: Facts) -> Iterator[Finding]:
    """A tombstone of a compacted topic is gone after delete.retention.ms."""
    wait = facts.wait
    if facts.dataset.apply.delete_when != "tombstone" or wait is None:
        return
    for topic in facts.topics:
        kept = topic.config.span("delete.retention.ms")
        if "compact" in topic.policy and kept is not None and (severity := _against(kept, wait)):
            need = enough(wait)
            yield Finding(
                severity,
                f"topic {topic.name}",
                setting("delete.retention.ms", millis(kept), kept),
                f"Deletes are tombstones; {_reading(wait)}: if cleaned before, it leaves its row in the table.",
                lasting("delete.retention.ms", need),
            )
