"""Settings that no broker tells: what to look up in the producers' and consumers' own configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onefold.diagnosis.facts import Facts


@dataclass(frozen=True, slots=True)
class Unseen:
    """A setting to check by hand. Defaults are those of Kafka's own clients and brokers from 3.0 on.

    librdkafka's (C, Python, Go, .NET) are named where they differ.
    """

    of: Literal["producer", "consumer", "topic", "broker"]
    name: str
    default: str
    wanted: str
    why: str


CLIENTS = (
    Unseen("producer", "acks", "all", "all", "with fewer, a leader that fails takes acknowledged records along"),
    Unseen(
        "producer",
        "enable.idempotence",
        "true, librdkafka: false",
        "true",
        "a retry writes the record twice",
    ),
    Unseen(
        "producer",
        "max.in.flight.requests.per.connection",
        "5, librdkafka: 1000000",
        "5, without idempotence 1",
        "a retry overtakes what was sent after it",
    ),
    Unseen("producer", "retries", "2147483647", "2147483647", "with 0, a passing error loses the record"),
    Unseen(
        "producer",
        "retry.backoff.ms",
        "100",
        "100 or more",
        "with few retries and no pause, all of them are over before a leader is elected: the record is lost",
    ),
    Unseen("producer", "delivery.timeout.ms", "120000", "120000 or more", "what is given up may have been written"),
    Unseen(
        "producer",
        "transactional.id",
        "none",
        "one of its own per instance",
        "without it, a restarted producer is a new producer: the broker does not know its retries again",
    ),
    Unseen(
        "producer",
        "transaction.timeout.ms",
        "60000",
        "60000 or less",
        "a transaction that hangs holds back all readers of committed records for so long",
    ),
    Unseen(
        "consumer",
        "isolation.level",
        "read_uncommitted, librdkafka: read_committed",
        "read_committed",
        "aborted records are read",
    ),
    Unseen("consumer", "enable.auto.commit", "true", "false", "offsets are committed before, or long after, the work"),
    Unseen(
        "consumer",
        "auto.offset.reset",
        "latest",
        "earliest, or none",
        "a group whose offset is gone skips what is there (latest), or reads it again (earliest)",
    ),
    Unseen("consumer", "session.timeout.ms", "45000", "45000", "too short, and a pause is a rebalance: read twice"),
    Unseen("consumer", "heartbeat.interval.ms", "3000", "a third of the session's, at most", "as above"),
    Unseen(
        "consumer", "max.poll.interval.ms", "300000", "longer than a poll's work", "slow work is taken over: done twice"
    ),
)
SERVERS = (
    Unseen("topic", "replication.factor", "1", "3", "the only copy goes with its broker"),
    Unseen("topic", "min.insync.replicas", "1", "2", "acks=all means one copy"),
    Unseen("topic", "unclean.leader.election.enable", "false", "false", "a leader that lags cuts the log off"),
    Unseen("topic", "retention.ms", "604800000", "longer than the export waits", "records expire before their export"),
    Unseen("topic", "cleanup.policy", "delete", "delete", "compaction takes records before their export"),
    Unseen(
        "topic",
        "message.timestamp.type",
        "CreateTime",
        "CreateTime, where the timestamp is a version",
        "LogAppendTime is when a record arrived: a retry is the newest version",
    ),
    Unseen("broker", "offsets.retention.minutes", "10080", "10080 or more", "an idle export starts over"),
    Unseen("broker", "producer.id.expiration.ms", "86400000", "86400000", "a late retry is written twice"),
    Unseen("broker", "transactional.id.expiration.ms", "604800000", "604800000", "a late zombie is not fenced"),
    Unseen(
        "broker",
        "transaction.max.timeout.ms",
        "900000",
        "900000 or less",
        "a producer may keep a transaction, and the export behind it, open for so long",
    ),
)


def unseen_by(facts: Facts) -> tuple[Unseen, ...]:
    """What the facts leave to be looked up: the clients' settings, and of an export the servers' too."""
    return CLIENTS if facts.cluster else (*CLIENTS, *SERVERS)
