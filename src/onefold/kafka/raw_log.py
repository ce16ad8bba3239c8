"""Raw record batches, as the leaders of a cluster hold them: what a consumer skips is still in them.

With `batches`, the only module that knows kafka-python: librdkafka and the JVM's client show records only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from kafka.errors import KafkaError, for_code
from kafka.net import KafkaConnectionManager, NetworkSelector
from kafka.protocol.consumer import FetchRequest, OffsetForLeaderEpochRequest
from kafka.protocol.metadata import MetadataRequest

from onefold.kafka.connection import SERVERS, ClientSettings, python_settings

SECONDS = 30.0
"""How long leaders may take to answer one question, asked again where an error passes."""
_ISOLATION = {False: 0, True: 1}
"""How much a leader gives, by whether only what is committed is asked for."""
_BY_NAME = 12
"""The last version of a fetch that names topics by their names."""
_LARGEST = 1 << 30
"""Bytes of an answer: a leader gives the first batch whole, however large the topic lets it be."""

# Its debug log would hold what it sends, the password too; what matters is in the error.
logging.getLogger("kafka").setLevel(logging.CRITICAL)


Result = TypeVar("Result")


class NoEvidenceError(Exception):
    """The leader's batches cannot be had, in words for a note."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a leader answered: whole record batches (the last may be torn), and what was aborted among them."""

    records: bytes
    aborted: list[tuple[int, int]]
    """(producer id, first offset) of each transaction"""


class RawLog:
    """The logs of one connection's cluster; every question raises `NoEvidenceError` without an answer.

    Once the brokers cannot be reached they are not asked again, and all questions together wait for leaders that are
    not there for as long as an answer may take: a landing is held up once, not once a partition.
    """

    def __init__(self, settings: ClientSettings) -> None:
        self._settings = settings
        self._leaders: dict[tuple[str, int], int] = {}
        self._net: Any = None
        self._manager: Any = None
        self._unreachable = ""
        self._patience = SECONDS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._manager is not None:
            self._manager.close()
            self._net.close()

    def fetch(self, topic: str, partition: int, offset: int, size: int, *, committed: bool = True) -> Answer:
        """The batches from the batch that holds an offset, or follows it, on: about `size` bytes, at least one batch.

        With `committed` nothing at or above the last stable offset is among them; without it what is open is, too,
        and the answer does not say what was aborted.
        """
        isolation = _ISOLATION[committed]
        return self._patiently(topic, partition, lambda: self._fetched(topic, partition, offset, size, isolation))

    def _patiently(self, topic: str, partition: int, ask: Callable[[], Result]) -> Result:
        pause = 0.1
        while True:
            begun = time.monotonic()
            try:
                return ask()
            except KafkaError as error:
                self._leaders.pop((topic, partition), None)
                self._patience -= time.monotonic() - begun + pause
                if not error.retriable or self._patience < 0:
                    raise NoEvidenceError(f"the leader does not say what its log holds: {_said(error)}") from error
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def epoch_end(self, topic: str, partition: int, epoch: int) -> int | None:
        """Where a leader epoch ended: the first offset of the next; None: the leader does not know the epoch."""
        return self._patiently(topic, partition, lambda: self._epoch_end(topic, partition, epoch))

    def _epoch_end(self, topic: str, partition: int, epoch: int) -> int | None:
        self._connect()
        wanted = OffsetForLeaderEpochRequest.OffsetForLeaderTopic
        where = wanted.OffsetForLeaderPartition(partition=partition, current_leader_epoch=-1, leader_epoch=epoch)
        request = OffsetForLeaderEpochRequest(replica_id=-1, topics=[wanted(topic=topic, partitions=[where])])
        [[found]] = [answer.partitions for answer in self._ask(request, self._leader(topic, partition)).topics]
        if found.error_code:
            raise for_code(found.error_code)
        return None if found.end_offset < 0 else int(found.end_offset)

    def _fetched(self, topic: str, partition: int, offset: int, size: int, isolation: int) -> Answer:
        self._connect()
        where = FetchRequest.FetchTopic.FetchPartition(
            partition=partition,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=size,
        )
        request = FetchRequest(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=size,
            isolation_level=isolation,
            session_id=0,
            session_epoch=-1,
            topics=[FetchRequest.FetchTopic(topic=topic, partitions=[where])],
            forgotten_topics_data=[],
            rack_id="",
            min_version=FetchRequest.min_version_for_isolation_level(isolation),
            max_version=_BY_NAME,
        )
        answer = self._ask(request, self._leader(topic, partition))
        if answer.error_code:
            raise for_code(answer.error_code)
        [[found]] = [response.partitions for response in answer.responses]
        if found.error_code:
            raise for_code(found.error_code)
        aborted = [(span.producer_id, span.first_offset) for span in found.aborted_transactions or ()]
        return Answer(bytes(found.records or b""), aborted)

    def _leader(self, topic: str, partition: int) -> int:
        if (topic, partition) not in self._leaders:
            wanted = [MetadataRequest.MetadataRequestTopic(name=topic)]
            answer = self._ask(
                MetadataRequest(
                    topics=wanted,
                    allow_auto_topic_creation=False,
                    include_cluster_authorized_operations=False,
                    include_topic_authorized_operations=False,
                )
            )
            self._manager.cluster.update_metadata(answer)
            [described] = answer.topics
            if described.error_code:
                raise for_code(described.error_code)
            self._leaders |= {
                (topic, partition.partition_index): partition.leader_id for partition in described.partitions
            }
        return self._leaders[topic, partition]

    def _ask(self, request: Any, node: int | None = None) -> Any:
        future = self._manager.send(request, node_id=node, request_timeout_ms=SECONDS * 1000)
        self._net.poll(timeout_ms=SECONDS * 1000, future=future)
        if future.succeeded():
            return future.value
        raise future.exception or NoEvidenceError(self._give_up(TimeoutError("no answer")))

    def _connect(self) -> None:
        if self._unreachable:
            raise NoEvidenceError(self._unreachable)
        if self._manager is not None:
            return
        try:
            config = python_settings(self._settings)
            self._net = NetworkSelector(**config)
            self._manager = KafkaConnectionManager(self._net, receive_message_max_bytes=_LARGEST, **config)
            self._manager.bootstrap(timeout_ms=SECONDS * 1000)
        except Exception as error:  # whatever it makes of settings, certificates and what is not installed
            raise NoEvidenceError(self._give_up(error)) from error

    def _give_up(self, error: Exception) -> str:
        self._unreachable = f"kafka-python cannot reach {self._settings[SERVERS]}: {_said(error)}"
        return self._unreachable


def _said(error: Exception) -> str:
    """An error in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]
