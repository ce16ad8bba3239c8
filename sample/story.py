"""The steps of a story: the actions and faults of producers, chapter by chapter. `sample.stage` runs it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

PARTITIONS = 2


@dataclass(frozen=True, slots=True)
class Message:
    """A message as an application gives it to its producer; `ts` in milliseconds."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]
    ts: int


@dataclass(frozen=True, slots=True)
class Send:
    """A producer is started, sends the messages, and ends."""

    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class LostAcknowledgements:
    """A producer without idempotence sends one batch and misses its first acknowledgements."""

    messages: tuple[Message, ...]
    times: int = 1


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transactional producer sends the messages, then commits or aborts."""

    messages: tuple[Message, ...]
    commit: bool


Step = Send | LostAcknowledgements | Transaction


@dataclass(frozen=True, slots=True)
class Chapter:
    """A part of the story that an export can have as a range of offsets."""

    name: str
    steps: tuple[Step, ...]


def partition_of(key: bytes) -> int:
    """The partition that librdkafka's default partitioner gives a key."""
    return zlib.crc32(key) % PARTITIONS


def later(messages: Iterable[Message], hours: int = 1) -> tuple[Message, ...]:
    """The same messages, sent again some hours later: the same ids, the same bytes."""
    return tuple(replace(each, ts=each.ts + hours * 3_600_000) for each in messages)
