"""Settings of the brokers: what they remember of producers and groups, and for how long."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from onefold.diagnosis.facts import Facts
from onefold.diagnosis.findings import Finding, Severity, days, lasting, millis, setting
from onefold.diagnosis.rules.topics import WANTED, unreadable_settings
from onefold.instants import span_text
from onefold.kafka.condition import BrokerCondition
from onefold.report.causes import Change

LONG = timedelta(hours=1)
DAY = timedelta(days=1)
WEEK = timedelta(days=7)
COPIES = {
    "__consumer_offsets": (
        "offsets.topic.replication.factor",
        "Groups start over: records are read again, or skipped.",
    ),
    "__transaction_state": (
        "transaction.state.log.replication.factor",
        "Transactions hang, and a producer's zombie is no more fenced.",
    ),
}
READ = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "offsets.retention.minutes",
    "producer.id.expiration.ms",
    "transactional.id.expiration.ms",
    "transaction.max.timeout.ms",
    "unclean.leader.election.enable",
    "auto.create.topics.enable",
)
"""The settings of a broker that rules read."""


def _named(broker: BrokerCondition) -> str:
    return f"broker {broker.id}"


def internal_topics(facts: Facts) -> Iterator[Finding]:
    """Replication of the brokers' own topics: as they are, else as they will be made."""
    internal = facts.cluster.internal if facts.cluster else {}
    for topic, (name, ending) in COPIES.items():
        why = f"The topic {topic} goes with the brokers that hold it. {ending}"
        mend = Change(name, str(WANTED), f"and kafka-reassign-partitions.sh for {topic}")
        if topic in internal:
            if internal[topic] < WANTED:
                found = f"replication factor {internal[topic]} of {topic}"
                yield Finding(_few(internal[topic]), "cluster", found, why, mend)
            continue
        for broker in facts.brokers:
            copies = broker.config.number(name)
            if copies is not None and copies < WANTED:
                yield Finding(_few(copies), _named(broker), setting(name, str(copies)), why, Change(name, str(WANTED)))
    for broker in facts.brokers:
        least, name = broker.config.number("transaction.state.log.min.isr"), "transaction.state.log.min.isr"
        if least is not None and least < 2:
            why = "A commit may be on one broker only when it is acknowledged; if that one fails, it never happened."
            yield Finding("warning", _named(broker), setting(name, str(least)), why, Change(name, "2"))


def _few(copies: int) -> Severity:
    return "error" if copies == 1 else "warning"


def offsets_retention(facts: Facts) -> Iterator[Finding]:
    """offsets.retention.minutes against a consumer that runs as the schedule does."""
    need = max(WEEK, days((facts.wait or timedelta(0)) + DAY))
    for broker in facts.brokers:
        minutes = broker.config.number("offsets.retention.minutes")
        if minutes is None:
            continue
        kept = timedelta(minutes=minutes)
        if kept < need:
            severity: Severity = "error" if facts.wait is not None and kept < facts.wait else "warning"
            why = "A group that is idle for longer loses its offsets: by auto.offset.reset it reads all again or skips."
            change = Change("offsets.retention.minutes", str(need // timedelta(minutes=1)), span_text(need))
            yield Finding(severity, _named(broker), setting(change.name, str(minutes), kept), why, change)


def producer_memory(facts: Facts) -> Iterator[Finding]:
    """For how long a producer's sequence numbers, and a transactional id's epoch, are remembered."""
    for name, least, why in (
        ("producer.id.expiration.ms", DAY, "After so long a pause a retry is not known again, and written twice."),
        (
            "transactional.id.expiration.ms",
            WEEK,
            "After so long a pause the id starts over: a zombie of it is no more fenced, and its work done twice.",
        ),
    ):
        for broker in facts.brokers:
            kept = broker.config.span(name)
            if kept is not None and kept < least:
                found = setting(name, millis(kept), kept)
                yield Finding("warning", _named(broker), found, why, lasting(name, least))


def long_transactions(facts: Facts) -> Iterator[Finding]:
    """How long a producer may keep a transaction open, and with it the landing."""
    name = "transaction.max.timeout.ms"
    for broker in facts.brokers:
        longest = broker.config.span(name)
        if longest is not None and longest > LONG:
            why = "One producer that hangs holds back the landing of its partitions for so long."
            yield Finding(
                "warning", _named(broker), setting(name, millis(longest), longest), why, Change(name, "900000", "15m")
            )


def unclean_election(facts: Facts) -> Iterator[Finding]:
    """The default for topics that say nothing of their own, the brokers' own topics among them."""
    name = "unclean.leader.election.enable"
    for broker in facts.brokers:
        if broker.config.flag(name):
            why = "New topics, and the groups' committed offsets, may be cut off by a leader that lags."
            yield Finding("warning", _named(broker), setting(name, "true"), why, Change(name, "false"))


def topic_creation(facts: Facts) -> Iterator[Finding]:
    """Topics that come into being by being named."""
    name = "auto.create.topics.enable"
    for broker in facts.brokers:
        if broker.config.flag(name):
            why = "A misspelt or deleted topic comes into being with default settings, and records go there unseen."
            yield Finding("warning", _named(broker), setting(name, "true"), why, Change(name, "false"))


def unreadable(facts: Facts) -> Iterator[Finding]:
    """Settings of brokers that they do not tell."""
    for broker in facts.brokers:
        if missing := [name for name in READ if broker.config.text(name) is None]:
            yield unreadable_settings(_named(broker), missing, broker.config.refused, "cluster")
