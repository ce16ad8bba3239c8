"""What a live cluster says of itself: topics, ends, offsets by time. The only room that knows confluent_kafka."""

from __future__ import annotations

import difflib
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar, cast

from confluent_kafka import (
    OFFSET_INVALID,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
)
from confluent_kafka import Consumer as KafkaConsumer
from confluent_kafka import TopicPartition as KafkaPartition
from confluent_kafka.admin import AdminClient, ConfigResource, OffsetSpec  # type: ignore[attr-defined]

from onefold.errors import ClientSettingsError, ClusterRefusedError, ClusterUnavailableError, UnknownTopicError
from onefold.formats.text import binary_pairs
from onefold.instants import instant, millis_from
from onefold.kafka.connection import SERVERS, ClientSettings, librdkafka_settings
from onefold.kafka.record import Record

SECONDS = 30.0
"""How long brokers may take to answer one question."""
_EARLIEST, _LATEST = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]
_FETCHED = 5_000
_REFUSED = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED,
    KafkaError.GROUP_AUTHORIZATION_FAILED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    KafkaError.SASL_AUTHENTICATION_FAILED,
    KafkaError._AUTHENTICATION,
}
_SAYS_REFUSED = re.compile(
    r"uthentication|certificate verify failed|OAUTHBEARER token: .*\b(invalid_\w+|un(authoriz|support)ed_\w+)"
)
"""How librdkafka says that brokers, or a token server (RFC 6749, 5.2), refuse who asks; else what failed may pass."""
_LEADERLESS = {
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,  # a new leader that does not know its high watermark yet
}
Partition = tuple[str, int]
"""(topic, partition number)"""


Answer = TypeVar("Answer")
Client = TypeVar("Client")


def _is_leaderless(error: BaseException) -> bool:
    """Whether a partition has no leader yet: it was made a moment ago, or its broker went away."""
    cause = error.__cause__
    return isinstance(cause, KafkaException) and cause.args[0].code() in _LEADERLESS


def _while_leaderless(ask: Callable[[], Answer]) -> Answer:
    """Ask again while a partition has no leader, at least once after a question that used up its time.

    A loop, for tenacity keeps the error in a cycle with its own frames, and with them the client: its collection
    could fall to a thread of another client, which crashes the process.
    """
    deadline, pause = time.monotonic() + 2 * SECONDS, 0.1
    while True:
        try:
            return ask()
        except ClusterUnavailableError as error:
            if not _is_leaderless(error) or time.monotonic() + pause > deadline:
                raise
        time.sleep(pause)
        pause = min(2 * pause, 2.0)


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is now; `id` changes when it is created again."""

    name: str
    id: str
    partitions: tuple[int, ...]


class Cluster:
    """Questions to the brokers of one connection; every one raises `ClusterUnavailableError` without an answer, and
    `ClientSettingsError` where no client can be made."""

    def __init__(self, connection: str, settings: ClientSettings) -> None:
        self.connection, self.settings = connection, settings
        self._heard: list[str] = []

    @cached_property
    def id(self) -> str:
        """The cluster's own id, which positions carry."""
        with self._asking():
            return str(self._answer(self._admin.describe_cluster(request_timeout=SECONDS)).cluster_id)

    def topics(self, wanted: Sequence[str], *, missing_ok: bool = False) -> list[Topic]:
        """The topics of these names, and those that the patterns (`^…`) match, by name.

        Raises:
            UnknownTopicError: a topic does not exist, or a pattern matches none (unless `missing_ok`).
        """
        there = self._names() if any(name.startswith("^") for name in wanted) else []
        found: set[str] = set()
        for name in wanted:
            matching = matching_topics(name, there)
            if not matching and not missing_ok:
                raise UnknownTopicError(self.connection, name, ())
            found.update(matching)
        described = []
        for name in sorted(found):
            try:
                described.append(self._described(name))
            except UnknownTopicError:
                if not missing_ok:
                    raise
        return described

    def _names(self) -> list[str]:
        assert self.id  # asked first: it fails at once where the user is refused, and a listing would wait
        with self._asking():
            return sorted(name for name in self._admin.list_topics(timeout=SECONDS).topics if not name.startswith("__"))

    def _described(self, name: str) -> Topic:
        with self._asking(name):
            asked = self._admin.describe_topics(TopicCollection([name]), request_timeout=SECONDS)
            description = self._answer(asked[name])
        return Topic(
            name, str(description.topic_id), tuple(sorted(partition.id for partition in description.partitions))
        )

    def starts(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The first offset of each log."""
        return self._offsets(partitions, _EARLIEST)

    def ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The high watermark of each log: open transactions included."""
        return self._offsets(partitions, _LATEST)

    def stable_ends(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The last stable offset of each log: no open transaction below it."""
        return self._offsets(partitions, _LATEST, IsolationLevel.READ_COMMITTED)

    def epochs(self, partitions: Iterable[Partition]) -> dict[Partition, int]:
        """The newest leader epoch of each log, where its leader tells."""
        answer = self._listed(partitions, _LATEST)
        return {where: info.leader_epoch for where, info in answer.items() if info.leader_epoch is not None}

    def first_at(self, partitions: Iterable[Partition], at: datetime) -> dict[Partition, tuple[int, datetime]]:
        """The first record of each log whose timestamp is at or after an instant, where the log has such a record."""
        answer = self._listed(partitions, OffsetSpec.for_timestamp(millis_from(at)))
        found = {where: (info.offset, info.timestamp) for where, info in answer.items() if info.offset >= 0}
        return {where: (offset, instant(millis)) for where, (offset, millis) in found.items()}

    def first_between(self, where: Partition, start: int, end: int, since: datetime, until: datetime) -> int:
        """The first offset in `[start, end)` whose timestamp is in `[since, until]`, else `end`: reads the records."""
        for message in self._records(where, start, end):
            offset = message.offset()
            assert offset is not None
            if since <= instant(message.timestamp()[1]) <= until:
                return offset
        return end

    def first_beyond(self, where: Partition, start: int, end: int, millis: int) -> tuple[int, int] | None:
        """The first offset in `[start, end)` with a later timestamp, and that timestamp: reads the records."""
        for record in self.records(where, start, end):
            if record.timestamp is not None and record.timestamp > millis:
                return record.offset, record.timestamp
        return None

    def oldest(self, ranges: dict[Partition, tuple[int, int]], most: int) -> dict[Partition, datetime]:
        """The oldest timestamp among the first `most` committed records of each `[start, end)`, where it has any."""
        left = {where: min(end, start + most) for where, (start, end) in ranges.items()}
        found: dict[Partition, datetime] = {}
        for message in self._of_each({where: start for where, (start, _) in ranges.items()}, left):
            where, at = cast("Partition", (message.topic(), message.partition())), instant(message.timestamp()[1])
            found[where] = min(at, found.get(where, at))
        return found

    def timestamp_at(self, where: Partition, offset: int) -> datetime | None:
        """The timestamp of the first record at or after an offset, committed or not."""
        for message in self._records(where, offset, offset + 1, isolation="read_uncommitted"):
            return instant(message.timestamp()[1])
        return None

    def cleanup_policy(self, topic: str) -> str:
        """How a topic is cleaned now: `delete`, `compact` or both.

        Raises:
            ClusterRefusedError: the user lacks DESCRIBE_CONFIGS on the topic.
            ClusterUnavailableError: the brokers do not answer, or have no such setting.
        """
        settings = self.topic_settings(topic)
        if "cleanup.policy" not in settings:
            raise ClusterUnavailableError(self.connection, self.settings[SERVERS], "the brokers tell no cleanup.policy")
        return settings["cleanup.policy"]

    def topic_settings(self, topic: str) -> dict[str, str]:
        """The settings of a topic as they are now, by name.

        Raises:
            ClusterRefusedError: the user lacks DESCRIBE_CONFIGS on the topic.
            ClusterUnavailableError: the brokers do not answer.
        """
        asked = ConfigResource(ConfigResource.Type.TOPIC, topic)
        with self._asking(topic):
            config = self._answer(self._admin.describe_configs([asked], request_timeout=SECONDS)[asked])
        return {name: str(entry.value) for name, entry in config.items() if entry.value is not None}

    def records(self, where: Partition, start: int, end: int) -> Iterator[Record]:
        """The committed records of `[start, end)`, in their order: to look at some, not to land them."""
        for message in self._records(where, start, end):
            yield _record(message)

    def commit_upwards(self, group: str, ends: dict[Partition, int]) -> None:
        """Commit offsets for a group, never below what it has committed.

        By a consumer that joins nothing: the admin client ends the process when it asks a broker for the offsets
        of a group that has moved to another broker (confluentinc/librdkafka#5315).
        """
        wanted = [KafkaPartition(topic, number) for topic, number in ends]
        if not wanted:
            return
        with self._asking(", ".join(sorted({topic for topic, _ in ends}))):
            consumer = self._made(KafkaConsumer, {"group.id": group, "enable.auto.commit": False})
            try:
                committed = {(at.topic, at.partition): at.offset for at in consumer.committed(wanted, SECONDS)}
                higher = [
                    KafkaPartition(topic, number, end)
                    for (topic, number), end in ends.items()
                    if end > committed.get((topic, number), -1)
                ]
                if higher:
                    consumer.commit(offsets=higher, asynchronous=False)
            finally:
                consumer.close()

    def _offsets(
        self, partitions: Iterable[Partition], spec: OffsetSpec, isolation: Any = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[Partition, int]:
        return {where: info.offset for where, info in self._listed(partitions, spec, isolation).items()}

    def _listed(
        self, partitions: Iterable[Partition], spec: OffsetSpec, isolation: Any = IsolationLevel.READ_UNCOMMITTED
    ) -> dict[Partition, Any]:
        asked = {KafkaPartition(topic, number): spec for topic, number in partitions}
        return _while_leaderless(lambda: self._listed_now(asked, isolation)) if asked else {}

    def _listed_now(self, asked: dict[KafkaPartition, OffsetSpec], isolation: Any) -> dict[Partition, Any]:
        with self._asking():
            answer = self._admin.list_offsets(asked, isolation_level=isolation, request_timeout=SECONDS)
        found = {}
        for partition, future in answer.items():
            with self._asking(partition.topic):
                found[partition.topic, partition.partition] = info = self._answer(future)
                if info.offset == OFFSET_INVALID:  # librdkafka's answer, without an error, where the leader gave none
                    raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
        return found

    def _records(self, where: Partition, start: int, end: int, isolation: str = "read_committed") -> Iterator[Message]:
        """The records of `[start, end)` in their order."""
        yield from self._of_each({where: start}, {where: end}, isolation)

    def _of_each(
        self, starts: dict[Partition, int], ends: dict[Partition, int], isolation: str = "read_committed"
    ) -> Iterator[Message]:
        """The records of a range of each partition, those of one partition in their order."""
        left = {where for where, start in starts.items() if start < ends[where]}
        if not left:
            return
        config = {"isolation.level": isolation, "group.id": "onefold", "enable.auto.commit": False}
        with self._asking(", ".join(sorted({topic for topic, _ in left}))):
            consumer = self._made(KafkaConsumer, config | {"enable.partition.eof": True})
            try:
                consumer.assign([KafkaPartition(*where, starts[where]) for where in sorted(left)])
                silent = time.monotonic()
                while left:
                    # It waits for the whole number, or for the whole time limit, whatever it has got.
                    messages = consumer.consume(_FETCHED, 0.1)
                    if messages:
                        silent = time.monotonic()
                    elif time.monotonic() - silent > SECONDS:
                        raise KafkaException(KafkaError(KafkaError._TIMED_OUT))
                    for message in messages:
                        where, offset = cast("Partition", (message.topic(), message.partition())), message.offset()
                        error = message.error()
                        if error and error.code() != KafkaError._PARTITION_EOF:
                            raise KafkaException(error)
                        if where not in left:
                            continue
                        if error or (offset is not None and offset >= ends[where]):
                            left.discard(where)
                            continue
                        yield message
            finally:
                consumer.close()

    @property
    def _config(self) -> dict[str, Any]:
        heard = self._heard  # not self: a cycle would leave it to some thread of a client to end another client

        def hear(error: KafkaError) -> None:
            heard[:] = [error.str()]

        return {**librdkafka_settings(self.settings), "log_level": 0, "error_cb": hear}

    @cached_property
    def _admin(self) -> AdminClient:
        return self._made(AdminClient, {})

    def _made(self, kind: Callable[[dict[str, Any]], Client], own: dict[str, Any]) -> Client:
        """A client with the connection's settings and some of its own.

        Raises:
            ClientSettingsError: librdkafka refuses them; it names the first.
        """
        try:
            return kind(self._config | own)
        except KafkaException as error:
            if error.args[0].code() != KafkaError._INVALID_ARG:
                raise
            problem = error.args[0].str().strip().rstrip(".")
            raise ClientSettingsError(self.connection, self.settings[SERVERS], problem) from error

    def _answer(self, future: Future[Any]) -> Any:
        """What a future brings, in `SECONDS`; who is refused hears it at once, though librdkafka would try on."""
        deadline = time.monotonic() + SECONDS
        while not wait([future], 0.1).done and time.monotonic() < deadline:
            self._admin.poll(0)
            if self._is_refused:
                raise KafkaException(KafkaError(KafkaError._AUTHENTICATION))
        # An error of its own: the future's would hold this frame, and the frame the future, as a cycle does.
        if not future.done():
            raise TimeoutError
        if error := future.exception():
            raise KafkaException(*error.args)
        return future.result()

    @property
    def _is_refused(self) -> bool:
        """Whether the brokers, or a token server, refused the user, or this client the brokers' certificate."""
        return any(_SAYS_REFUSED.search(heard) for heard in self._heard)

    @contextmanager
    def _asking(self, topic: str = "") -> Iterator[None]:
        try:
            yield
        except (KafkaException, TimeoutError) as error:
            raised = error.args[0] if error.args and isinstance(error.args[0], KafkaError) else None
            if raised and raised.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC):
                near = difflib.get_close_matches(topic, self._names(), n=2, cutoff=0.6)
                raise UnknownTopicError(self.connection, topic, tuple(near)) from error
            self._admin.poll(0)
            problem = raised.str() if raised else "no answer"
            # librdkafka says why it has no connection in another voice.
            last = self._heard[0] if self._heard else ""
            heard = f": {last}" if last and last not in problem else ""
            refused = (raised and raised.code() in _REFUSED) or self._is_refused
            kind = ClusterRefusedError if refused else ClusterUnavailableError
            raise kind(self.connection, self.settings[SERVERS], f"{problem}{heard}") from error


def _record(message: Message) -> Record:
    topic, partition, offset, millis = message.topic(), message.partition(), message.offset(), message.timestamp()[1]
    assert topic is not None
    assert partition is not None
    assert offset is not None
    pairs = cast("list[tuple[str, bytes | str | None]]", message.headers() or [])
    headers = tuple((name, _text(value)) for name, value in pairs)
    binary = binary_pairs((name, value) for name, value in pairs if isinstance(value, bytes))
    stamp = millis if millis >= 0 else None
    return Record(topic, partition, offset, stamp, message.key(), message.value(), headers, binary)


def _text(value: bytes | str | None) -> str | None:
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None


def matching_topics(name: str, there: Sequence[str]) -> list[str]:
    """The topics that a name of a dataset file means: itself, or of a pattern (`^…`) those that it matches whole."""
    return [topic for topic in there if re.fullmatch(name, topic)] if name.startswith("^") else [name]
