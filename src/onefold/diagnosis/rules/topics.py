"""Replication of the topics: what a broker that fails takes along."""

from __future__ import annotations

from collections.abc import Iterator

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding, setting
from onefold.kafka.condition import PartitionCondition, TopicCondition
from onefold.report.causes import Change

WANTED = 3
"""Copies, so that a copy may be away while another fails."""
BACK = "bring the replicas back"


def _named(topic: TopicCondition) -> str:
    return f"topic {topic.name}"


def _numbers(partitions: list[PartitionCondition]) -> str:
    listed = ", ".join(str(partition.number) for partition in partitions[:8])
    return f"partition {listed}" + (f" and {len(partitions) - 8} more" if len(partitions) > 8 else "")


def leaders(facts: Facts) -> Iterator[Finding]:
    """Partitions without a leader."""
    for topic in facts.topics:
        if away := [partition for partition in topic.partitions if not partition.has_leader]:
            why = "It can be neither written nor read; producers give up after delivery.timeout.ms and may send again."
            mend = "start the brokers that hold its replicas"
            yield Finding("error", _named(topic), f"no leader: {_numbers(away)}", why, action=mend)


def replication(facts: Facts) -> Iterator[Finding]:
    """A replication factor below three."""
    for topic in facts.topics:
        if topic.partitions and topic.replicas < WANTED:
            alone = topic.replicas == 1
            why = (
                "The broker that fails takes the only copy along: its records are lost."
                if alone
                else "While one broker is away there is one copy, and min.insync.replicas=2 cannot be kept."
            )
            mend = Change("replication.factor", str(WANTED), "kafka-reassign-partitions.sh; then min.insync.replicas=2")
            found = f"replication.factor={topic.replicas}"
            yield Finding("error" if alone else "warning", _named(topic), found, why, mend)


def in_sync_minimum(facts: Facts) -> Iterator[Finding]:
    """min.insync.replicas that is not one less than the replication factor; `replication` reports a single copy."""
    for topic in facts.topics:
        least, copies = topic.config.number("min.insync.replicas"), topic.replicas
        if least is None or (copies < 2 and least <= copies):
            continue
        found = f"min.insync.replicas={least} of {copies} replicas"
        if least > copies:
            why = "More copies are asked for than there are: every write with acks=all is refused."
            yield Finding("error", _named(topic), found, why, Change("min.insync.replicas", str(max(1, copies - 1))))
        elif least == 1:
            why = "acks=all may mean one copy: an acknowledged record is lost with a leader whose followers lagged."
            enough = copies >= WANTED
            change = Change("min.insync.replicas", str(max(2, copies - 1)), "" if enough else f"with {WANTED} replicas")
            yield Finding("warning", _named(topic), found, why, change)
        elif least < copies - 1:
            # `info`: as many brokers must fail together before such a record is lost.
            why = f"An acknowledged record may be on {least} brokers only: it is lost if these fail together."
            yield Finding("info", _named(topic), found, why, Change("min.insync.replicas", str(copies - 1)))
        elif least == copies:
            why = "One broker away and writes are refused: producers give up, and what they send again comes twice."
            more = Change("replication.factor", str(WANTED), "kafka-reassign-partitions.sh")
            change = Change("min.insync.replicas", str(copies - 1)) if copies >= WANTED else more
            yield Finding("warning", _named(topic), found, why, change)


def unclean_election(facts: Facts) -> Iterator[Finding]:
    """A topic whose leader may be a replica that lags."""
    for topic in facts.topics:
        if topic.config.flag("unclean.leader.election.enable"):
            why = "A replica that lags may lead: what it has not got is cut off, and its offsets are given out again."
            change = Change("unclean.leader.election.enable", "false")
            yield Finding("error", _named(topic), setting(change.name, "true"), why, change)


def in_sync_now(facts: Facts) -> Iterator[Finding]:
    """Partitions with fewer replicas in sync than there are."""
    for topic in facts.topics:
        least = topic.config.number("min.insync.replicas") or 1
        behind = [
            partition
            for partition in topic.partitions
            if partition.has_leader and partition.in_sync < partition.replicas
        ]
        refusing = [partition for partition in behind if partition.in_sync < least]
        if refusing:
            why = "Writes with acks=all are refused now: producers give up, and what they send again may come twice."
            found = f"in sync below min.insync.replicas={least}: {_numbers(refusing)}"
            yield Finding("error", _named(topic), found, why, action=BACK)
        if lagging := [partition for partition in behind if partition not in refusing]:
            why = "One more broker away and records are lost, or can no more be written."
            found = f"replicas out of sync: {_numbers(lagging)}"
            yield Finding("warning", _named(topic), found, why, action=BACK)


READ = (
    "min.insync.replicas",
    "unclean.leader.election.enable",
    "retention.ms",
    "retention.bytes",
    "cleanup.policy",
    "min.compaction.lag.ms",
    "delete.retention.ms",
    "message.timestamp.type",
    "message.timestamp.after.max.ms",
)
"""The settings of a topic that rules read. (message.timestamp.after.max.ms: from Kafka 3.6 on.)"""


def unreadable(facts: Facts) -> Iterator[Finding]:
    """Settings of topics that the brokers do not tell."""
    for topic in facts.topics:
        if missing := [name for name in READ if topic.config.text(name) is None]:
            yield unreadable_settings(_named(topic), missing, topic.config.refused, "topic")


def unreadable_settings(where: str, missing: list[str], refused: str, kind: str) -> Finding:
    """The finding for settings that the brokers do not tell."""
    why = f"The brokers do not tell ({refused})." if refused else "These brokers have no such setting, or keep it."
    grant = f"grant DESCRIBE_CONFIGS on the {kind}"
    return Finding("unknown", where, ", ".join(missing), why, action=grant if refused else "")
