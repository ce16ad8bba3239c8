"""Asks a live cluster for its condition: settings, replicas, offsets, timestamps. It changes nothing.

What the brokers do not let this user read is reported as such; only the topics themselves must be readable.
Groups are asked in `activity`: librdkafka's admin client may end the process when it asks a group's coordinator
(confluentinc/librdkafka#4605, #5315).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from confluent_kafka import TopicCollection
from confluent_kafka.admin import ConfigResource, ResourceType  # type: ignore[attr-defined]

from onefold.errors import ClusterRefusedError, ClusterUnavailableError, UnknownTopicError
from onefold.instants import EPOCH, clamped, instant
from onefold.kafka import cluster
from onefold.kafka.activity import activity_of
from onefold.kafka.cluster import Cluster, Partition
from onefold.kafka.condition import (
    BrokerCondition,
    ClusterCondition,
    Config,
    PartitionCondition,
    Stamps,
    TopicCondition,
)

INTERNAL = ("__consumer_offsets", "__transaction_state")
SAMPLED = 10
"""Of how many partitions the newest records are looked at: those with the most."""


class Inspection(Cluster):
    """More questions to the brokers of a connection, to judge how they are set up."""

    def condition(self, wanted: Sequence[str], count: int = 500) -> ClusterCondition:
        """All that is known of topics (names or patterns), their brokers, producers and groups.

        `count` is how many of the newest records are read for their timestamps.

        Raises:
            UnknownTopicError, ClusterUnavailableError, ClusterRefusedError: as `Cluster.topics`.
        """
        topics = tuple(self._topic(topic.name, topic.id) for topic in self.topics(wanted))
        partitions = [
            (topic.name, partition.number) for topic in topics for partition in topic.partitions if partition.has_leader
        ]
        # The logs grow meanwhile, so the order counts: a record that is sampled has its producer, an offset that is
        # committed lies before the end, and what is stable is not behind an end that was asked for later.
        starts = self.starts(partitions)
        sampled = self._sampled(starts, count)
        activity = activity_of(self.settings, partitions)
        positions = self._positions(starts)
        conditions = tuple(
            replace(
                topic,
                partitions=tuple(
                    replace(
                        partition,
                        **positions.get((topic.name, partition.number), {}),
                        stamps=sampled.get((topic.name, partition.number)),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        )
        brokers = tuple(
            BrokerCondition(node, self._settings_of(ResourceType.BROKER, str(node))) for node in self._nodes()
        )
        return ClusterCondition(self.id, brokers, conditions, self._internal(), activity)

    def _topic(self, name: str, id_: str) -> TopicCondition:
        partitions = tuple(
            PartitionCondition(
                partition.id,
                len(partition.replicas),
                len(partition.isr),
                partition.leader is not None and partition.leader.id >= 0,
            )
            for partition in sorted(self._describe(name).partitions, key=lambda partition: int(partition.id))
        )
        return TopicCondition(name, id_, self._settings_of(ResourceType.TOPIC, name), partitions)

    def _describe(self, name: str) -> Any:
        with self._asking(name):
            asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=cluster.SECONDS)
            return self._answer(asked[name])

    def _nodes(self) -> list[int]:
        with self._asking():
            description = self._answer(self._admin.describe_cluster(request_timeout=cluster.SECONDS))
        return sorted(node.id for node in description.nodes)

    def _settings_of(self, kind: Any, name: str) -> Config:
        """The settings of a topic or a broker; without the right to read them (DESCRIBE_CONFIGS), why not."""
        try:
            with self._asking(name):
                asked = self._admin.describe_configs([ConfigResource(kind, name)], request_timeout=cluster.SECONDS)
                entries = self._answer(next(iter(asked.values())))
        except (ClusterRefusedError, ClusterUnavailableError) as error:
            return Config(refused=error.problem)
        return Config({entry.name: entry.value for entry in entries.values() if entry.value is not None})

    def _internal(self) -> dict[str, int]:
        found = {}
        for name in INTERNAL:
            try:
                description = self._describe(name)
            except (UnknownTopicError, ClusterRefusedError, ClusterUnavailableError):
                continue
            found[name] = min((len(partition.replicas) for partition in description.partitions), default=0)
        return found

    def _positions(self, starts: dict[Partition, int]) -> dict[Partition, dict[str, Any]]:
        """Of each partition the fields of its condition that are offsets or times."""
        ends, stable = self.ends(starts), self.stable_ends(starts)
        oldest = self.first_at(starts, EPOCH)
        return {
            where: {
                "start": start,
                "end": ends[where],
                "stable": stable[where],
                "oldest": oldest[where][1] if where in oldest else None,
                "stalled_since": self.timestamp_at(where, stable[where]) if stable[where] < ends[where] else None,
            }
            for where, start in starts.items()
        }

    def _sampled(self, starts: dict[Partition, int], count: int) -> dict[Partition, Stamps]:
        """The timestamps of about the newest `count` committed records."""
        ends = self.stable_ends(starts)
        longest = sorted((where for where in starts if ends[where] > starts[where]), key=lambda where: -ends[where])
        share = max(2, count // max(1, min(SAMPLED, len(longest))))
        found = {}
        for where in longest[:SAMPLED]:
            low = max(starts[where], ends[where] - share)
            stamps = stamps_of(record.timestamp for record in self.records(where, low, ends[where]))
            if stamps:
                found[where] = stamps
        return found


def stamps_of(timestamps: Iterable[int | None]) -> Stamps | None:
    """What timestamps (milliseconds since 1970, in the order of the log) tell; None: there are none."""
    oldest = newest = None
    behind = 0
    for stamp in (clamped(millis) for millis in timestamps if millis is not None):
        oldest = stamp if oldest is None else min(oldest, stamp)
        newest = stamp if newest is None else max(newest, stamp)
        behind = max(behind, newest - stamp)
    if oldest is None or newest is None:
        return None
    return Stamps(instant(oldest), instant(newest), timedelta(milliseconds=behind))
