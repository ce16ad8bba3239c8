"""Topics of a real broker, and a dataset that reads them live."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any

import pyarrow.parquet as pq
from confluent_kafka import KafkaException, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyspark.sql import SparkSession

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.manifest import Manifest
from onefold.landing.plan import Interval, RangesPlan
from onefold.records.layouts.kafka import write_topics
from onefold.settings import Settings

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)
Position = tuple[str, int, int]


def at(hour: float) -> datetime:
    return MIDNIGHT + timedelta(hours=hour)


def between(start: float, end: float) -> Interval:
    return Interval(start=at(start), end=at(end))


@dataclass
class Topics:
    """Topics on a broker, a lake, and a session that lands from one into the other."""

    servers: str
    lake: Lake
    session: SparkSession
    names: tuple[str, ...]
    sent: int = field(default=0)

    @classmethod
    def on(cls, servers: str, lake: Lake, session: SparkSession, *names: str) -> Topics:
        """Topics that need not be there yet."""
        kafka = {"kafka_default": {"bootstrap.servers": servers}}
        settings: Settings = lake.settings.model_copy(update={"kafka": kafka})
        return cls(servers, Lake(settings), session, names)

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.servers, "log_level": 0})

    # On the broker.

    def create(self, partitions: int = 1, *, replicas: int = 1, **config: str) -> None:
        keep = {"retention.ms": "-1", "message.timestamp.after.max.ms": str(2**62)}
        for name in self.names:
            new = NewTopic(name, num_partitions=partitions, replication_factor=replicas, config=keep | config)
            self.admin.create_topics([new])[name].result(30)
            self.described(name, partitions)

    def delete(self, name: str = "") -> None:
        wanted = name or self.names[0]
        self.admin.delete_topics([wanted])[wanted].result(30)
        self.described(wanted, 0)

    def grow(self, partitions: int) -> None:
        name = self.names[0]
        self.admin.create_partitions([NewPartitions(name, partitions)])[name].result(30)
        self.described(name, partitions)

    def described(self, name: str, partitions: int) -> Any:
        """A topic once the broker tells it with so many partitions: the controller answers before it does."""
        deadline = time.monotonic() + 30
        while True:
            topic = None
            with contextlib.suppress(KafkaException):
                topic = self.admin.describe_topics(TopicCollection([name]))[name].result(30)
            if partitions == (len(topic.partitions) if topic else 0):
                return topic
            assert time.monotonic() < deadline, f"{name} has not got {partitions} partitions"

    def expire(self, before: int, partition: int = 0) -> None:
        """Delete records as retention does: the log's start moves up."""
        where = TopicPartition(self.names[0], partition, before)
        next(iter(self.admin.delete_records([where]).values())).result(30)

    def send(
        self, hours: Iterable[float], partition: int = 0, topic: str = "", *, pad: int = 0, wait: float = 30
    ) -> None:
        """One record an hour given, each with an id of its own, and some bytes larger if that is wanted; the broker
        must have it after `wait` seconds."""
        producer = Producer({"bootstrap.servers": self.servers, "linger.ms": 5, "log_level": 0})
        for hour in hours:
            value = json.dumps({"id": f"id-{self.sent}", "n": self.sent, **({"pad": "x" * pad} if pad else {})})
            stamp = int(at(hour).timestamp() * 1000)
            producer.produce(topic or self.names[0], value, partition=partition, timestamp=stamp)
            self.sent += 1
        assert producer.flush(wait) == 0

    # In Onefold.

    def dataset(self, **keys: Any) -> Dataset:
        given: dict[str, Any] = {
            "name": "things",
            "source": {"kafka": {"topics": list(self.names)}},
            "value": {"fields": {"id": "string", "n": "long"}},
            "identity": {"message_id": "id"},
            "apply": {"mode": "append"},
            "target": {"table": "live.things", "buckets": 2},
        }
        return Dataset.model_validate(given | keys)

    def plan(self, interval: Interval | None = None, **keys: Any) -> RangesPlan:
        plan = plan_batch(self.lake, self.dataset(**keys), interval)
        assert isinstance(plan, RangesPlan)
        return plan

    def land(self, plan: RangesPlan, read: Any = None) -> Manifest:
        return land_batch(self.lake, self.dataset(), plan.batch, None, read or partial(write_topics, self.session))

    def positions(self, manifest: Manifest) -> list[Position]:
        """The positions that a landing holds."""
        return sorted((row["topic"], row["partition"], row["offset"]) for row in self.rows(manifest))

    def rows(self, manifest: Manifest) -> list[dict[str, Any]]:
        """What a landing holds, read without Spark."""
        lake = self.lake.settings.path(self.lake.settings.lake)
        return [row for object_ in manifest.objects for row in pq.read_table(lake / object_.key).to_pylist()]


def ranges(plan: RangesPlan) -> dict[tuple[str, int], tuple[int, int]]:
    """A plan's ranges by topic and partition."""
    return {
        (range_.topic_partition.topic, range_.topic_partition.partition): (range_.start, range_.end)
        for range_ in plan.ranges
    }
