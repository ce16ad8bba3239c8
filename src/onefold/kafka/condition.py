"""The condition of a live cluster as far as it can be asked: settings, partitions, who writes, who reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

Where = tuple[str, int]
"""(topic, partition number)"""
ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")
"""States of a transactional producer that has no transaction open."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings of a topic or a broker, by name; `refused` says why there are none."""

    values: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""

    def text(self, name: str) -> str | None:
        """A setting's value; None: the brokers do not tell it."""
        return self.values.get(name)

    def number(self, name: str) -> int | None:
        """A setting's value as a number, or None."""
        try:
            return int(self.values[name])
        except (KeyError, ValueError):
            return None

    def span(self, name: str) -> timedelta | None:
        """A setting in milliseconds; None: it is unknown, has no limit, or is longer than a time span can be."""
        number = self.number(name)
        if number is None or number < 0:
            return None
        try:
            return timedelta(milliseconds=number)
        except OverflowError:
            return None

    def flag(self, name: str) -> bool | None:
        """A setting that is on or off."""
        value = self.values.get(name)
        return None if value is None else value == "true"


@dataclass(frozen=True, slots=True)
class Stamps:
    """The timestamps of a partition's newest records."""

    oldest: datetime
    newest: datetime
    behind: timedelta
    """How far a record's timestamp is at most behind that of a record before it."""


@dataclass(frozen=True, slots=True)
class PartitionCondition:
    """One partition. Its offsets are all 0 while it has no leader."""

    number: int
    replicas: int
    in_sync: int
    has_leader: bool = True
    start: int = 0
    end: int = 0
    """The high watermark: open transactions included."""
    stable: int = 0
    """The last stable offset: no open transaction below it."""
    stalled_since: datetime | None = None
    """Where `stable < end`: the timestamp of the first record of the open transaction."""
    oldest: datetime | None = None
    """The timestamp of the first record that is there."""
    stamps: Stamps | None = None


@dataclass(frozen=True, slots=True)
class TopicCondition:
    """One topic; `id` changes when it is created again."""

    name: str
    id: str
    config: Config
    partitions: tuple[PartitionCondition, ...]

    @property
    def replicas(self) -> int:
        """The replication factor: that of the partition with the fewest."""
        return min((partition.replicas for partition in self.partitions), default=0)

    @property
    def policy(self) -> frozenset[str]:
        """The words of cleanup.policy; empty: it is unknown."""
        words = (self.config.text("cleanup.policy") or "").split(",")
        return frozenset(word.strip() for word in words if word.strip())


@dataclass(frozen=True, slots=True)
class BrokerCondition:
    """One broker that is up."""

    id: int
    config: Config


@dataclass(frozen=True, slots=True)
class ProducerCondition:
    """A producer with an id that a partition remembers (a producer without an id leaves no trace)."""

    topic: str
    partition: int
    id: int
    epoch: int
    newest: datetime | None = None
    """The timestamp of its newest record batch."""
    open_from: int | None = None
    """The first offset of its open transaction."""


@dataclass(frozen=True, slots=True)
class TransactionCondition:
    """A transactional producer as its coordinator knows it."""

    id: str
    """Its transactional.id."""
    producer: int
    state: str
    timeout: timedelta | None = None
    """Its own transaction.timeout.ms."""
    since: datetime | None = None
    holds: frozenset[Where] | None = None
    """The partitions that it will end the transaction in; None: unknown."""


@dataclass(frozen=True, slots=True)
class Opener:
    """Who holds a transaction open."""

    producer: ProducerCondition
    transaction: TransactionCondition | None
    """As its coordinator tells it; None: it does not, or not to this user."""

    def __str__(self) -> str:
        name = f"transactional.id {self.transaction.id}" if self.transaction else "no transactional.id known"
        return f"producer {self.producer.id} (epoch {self.producer.epoch}, {name})"

    @property
    def since(self) -> datetime | None:
        """When it was opened, by the coordinator's clock."""
        return self.transaction.since if self.transaction and not self.forgotten else None

    @property
    def forgotten(self) -> bool:
        """Whether its coordinator knows the producer, but of no transaction that is open here: none will be ended.

        As `kafka-transactions.sh find-hanging` has it (KIP-664).
        """
        transaction, where = self.transaction, (self.producer.topic, self.producer.partition)
        return transaction is not None and (
            transaction.state in ENDED or (transaction.holds is not None and where not in transaction.holds)
        )


@dataclass(frozen=True, slots=True)
class GroupCondition:
    """A consumer group that reads, or has read, one of the topics."""

    name: str
    state: str
    clients: tuple[str, ...]
    """The client ids of its members."""
    committed: Mapping[Where, int]
    session: timedelta | None = None
    """consumer.session.timeout.ms, which the brokers hold for groups of the new protocol (KIP-848). None: unknown; the
    members of other groups have settings of their own."""
    heartbeat: timedelta | None = None
    """consumer.heartbeat.interval.ms, likewise."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Who writes and who reads. None: unknown, and `refused` says why."""

    producers: tuple[ProducerCondition, ...] | None = None
    transactions: tuple[TransactionCondition, ...] | None = None
    groups: tuple[GroupCondition, ...] | None = None
    refused: Mapping[str, str] = field(default_factory=dict)

    def opener(self, where: Where, offset: int) -> Opener | None:
        """Who opened the transaction that begins at an offset of a partition, where that is known."""
        of = (
            writer
            for writer in self.producers or ()
            if (writer.topic, writer.partition) == where and writer.open_from == offset
        )
        producer = next(of, None)
        if producer is None:
            return None
        return Opener(
            producer,
            next((transaction for transaction in self.transactions or () if transaction.producer == producer.id), None),
        )


@dataclass(frozen=True, slots=True)
class ClusterCondition:
    """A cluster, and the topics of it that were asked for."""

    id: str
    brokers: tuple[BrokerCondition, ...]
    topics: tuple[TopicCondition, ...]
    internal: Mapping[str, int] = field(default_factory=dict)
    """The replication factors of the brokers' own topics that are there and may be described."""
    activity: Activity = field(default_factory=Activity)


@dataclass(frozen=True, slots=True)
class RecordBatch:
    """The header of one of Kafka's record batches: who wrote it, and how."""

    topic: str
    partition: int
    offset: int
    """The first offset."""
    producer: int
    """The producer's id; -1: it has none, it is not idempotent."""
    epoch: int = -1
    sequence: int = -1
    transactional: bool = False
    control: bool = False
    """A marker: the broker wrote it."""
    records: int = 1
    codec: str = "none"
    append_time: bool = False
    """The broker's clock stamped its records, not the producer's."""
    newest: datetime | None = None
    """The timestamp of its newest record."""


@dataclass(frozen=True, slots=True)
class NewestBatches:
    """The newest record batches of some partitions; `unseen` says why there are not those of all."""

    batches: tuple[RecordBatch, ...] = ()
    unseen: str = ""
