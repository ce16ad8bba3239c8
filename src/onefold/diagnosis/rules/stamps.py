"""Timestamps: intervals are cut by them, retention counts from them, and a version may be a timestamp."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from onefold.dataset.expressions import parse, used
from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding, millis, setting
from onefold.instants import span_text
from onefold.report.causes import Change

AHEAD = timedelta(days=1)
"""How far ahead of the brokers' clock a producer's may be."""


def version_of_arrival(facts: Facts) -> Iterator[Finding]:
    """A version that is the broker's clock: a retry is a newer version."""
    version = facts.dataset.apply.version
    if version is None or all(path.root != "timestamp" for text in version.parts for path in used(parse(text))):
        return
    readable = {topic.name for topic in facts.topics if topic.config.text("message.timestamp.type") is not None}
    by_broker = {topic.name for topic in facts.topics if topic.config.text("message.timestamp.type") == "LogAppendTime"}
    by_broker |= {batch.topic for batch in facts.written if batch.append_time and batch.topic not in readable}
    # A version that goes on with the offset is for keys that move between partitions: an offset alone orders none.
    alone = "" if facts.dataset.before_offset else "offset"
    note = "or a version that the producer sets" if alone else "a version that the producer sets"
    for topic in sorted(by_broker):
        yield Finding(
            "warning",
            f"topic {topic}",
            "message.timestamp.type=LogAppendTime, and apply.version.from is the timestamp",
            "A version is when a record arrived: a record that is sent again, or late, counts as the newest.",
            Change("apply.version.from", alone, note),
        )


def already_expired(facts: Facts) -> Iterator[Finding]:
    """Records whose own timestamps are older than retention.ms: they go as soon as their segment is closed."""
    for topic in facts.topics:
        kept = topic.config.span("retention.ms")
        old = [partition.stamps.oldest for partition in topic.partitions if partition.stamps]
        if kept is None or not old or "delete" not in topic.policy or facts.now - min(old) <= kept:
            continue
        yield Finding(
            "error",
            f"topic {topic.name}",
            f"new records of {min(old):%Y-%m-%dT%H:%MZ}, {setting('retention.ms', millis(kept), kept)}",
            "Retention counts from a record's own timestamp: these are deleted when their segment is, landed or not.",
            Change("message.timestamp.type", "LogAppendTime", "or retention.ms=-1 while history is sent"),
        )


def future_timestamps(facts: Facts) -> Iterator[Finding]:
    """Producers whose clocks are not checked."""
    name = "message.timestamp.after.max.ms"
    for topic in facts.topics:
        number, ahead = topic.config.number(name), topic.config.span(name)
        if topic.config.text("message.timestamp.type") == "LogAppendTime" or number is None:
            continue
        if ahead is None or ahead > AHEAD:
            found = setting(name, str(number), ahead if ahead and ahead < timedelta(days=36500) else None)
            why = (
                "A clock that runs ahead puts records into an interval that is not over; retention never reaches them."
            )
            yield Finding("info", f"topic {topic.name}", found, why, Change(name, "3600000", "1h"))


def late_records(facts: Facts) -> Iterator[Finding]:
    """Records that come behind newer records, by more than the schedule waits."""
    if facts.dataset.schedule is None:
        return
    settle = facts.dataset.schedule.settle
    for topic in facts.topics:
        behind = max(
            (partition.stamps.behind for partition in topic.partitions if partition.stamps), default=timedelta(0)
        )
        if behind > settle:
            yield Finding(
                "info",
                f"topic {topic.name}",
                f"records up to {span_text(behind)} older than those before them, "
                f"schedule.settle is {span_text(settle)}",
                "They come late, or a clock of those before them runs ahead: they belong to the interval in which "
                "they arrive. None is lost, but intervals are incomplete, and waiting longer changes nothing.",
                Change(
                    "message.timestamp.type",
                    "LogAppendTime",
                    "or limit message.timestamp.after.max.ms",
                ),
            )
