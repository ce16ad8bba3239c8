"""Who writes to a log and reads it, and knows of each offset what is there: independent of Onefold."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from confluent_kafka import Consumer, Message, Producer, TopicPartition

from onefold.landing.cuts import OffsetRange
from onefold.landing.earlier_landings import EarlierLanding
from onefold.landing.live import Read
from onefold.landing.manifest import Hole
from onefold.offsets import Range, merged
from tests.support.reader import what_is_there
from tests.support.topics import Topics


class Client:
    """A producer that writes down the offsets that the broker acknowledges."""

    def __init__(self, t: Topics, **config: Any) -> None:
        self.t, self.offsets = t, set[int]()
        base = {"bootstrap.servers": t.servers, "linger.ms": 20, "log_level": 0}
        self.producer = Producer(base | {name.replace("_", "."): value for name, value in config.items()})

    @classmethod
    def in_transaction(cls, t: Topics, **config: Any) -> Client:
        made = cls(t, transactional_id=uuid.uuid4().hex, **config)
        made.producer.init_transactions(30)
        made.producer.begin_transaction()
        return made

    def send(self, keys: Iterable[str], pad: int = 100) -> set[int]:
        """Send a record a key in one batch, if they fit, and return their offsets."""
        acknowledged: set[int] = set()

        def delivered(error: object, message: Message) -> None:
            assert error is None, error
            acknowledged.add(cast(int, message.offset()))

        for key in keys:
            self.producer.produce(self.t.names[0], b"v" * pad, key, 0, callback=delivered)
        assert self.producer.flush(30) == 0
        self.offsets |= acknowledged
        return acknowledged

    def end(self, *, commit: bool) -> None:
        """End the transaction, and wait for its marker: it is written after the answer."""
        (self.producer.commit_transaction if commit else self.producer.abort_transaction)(30)


def end_of(t: Topics) -> int:
    """Where the log ends, markers included."""
    config = {"group.id": "measuring", "isolation.level": "read_uncommitted", "log_level": 0}
    consumer = Consumer({"bootstrap.servers": t.servers} | config)
    _, end = consumer.get_watermark_offsets(TopicPartition(t.names[0], 0), timeout=30)
    consumer.close()
    return int(end)


def wait_for_end(t: Topics, end: int) -> None:
    deadline = time.monotonic() + 30
    while end_of(t) < end:
        assert time.monotonic() < deadline
    assert end_of(t) == end


def read_offsets(t: Topics) -> set[int]:
    """The offsets that an independent consumer reads."""
    return {row["offset"] for row in what_is_there(t.servers, *t.names)}


def read(t: Topics, without: Iterable[int] = ()) -> Read:
    """Reads as Spark does, but by another consumer, and leaves some offsets out."""

    def read_them(ranges: list[OffsetRange], _: list[EarlierLanding], __: object, uri: str) -> dict[str, list[Range]]:
        place = Path(uri.removeprefix("file://"))
        place.mkdir(parents=True)
        (place / "records.parquet").touch()  # it is not opened here
        there = read_offsets(t) - set(without)
        return {
            range_.topic_partition.key: merged(
                (offset, offset + 1) for offset in there if range_.start <= offset < range_.end
            )
            for range_ in ranges
        }

    return read_them


def kinds(holes: list[Hole]) -> dict[int, str]:
    """The kind of each offset; it has one."""
    by_offset = [(offset, hole.kind) for hole in holes for offset in range(hole.start, hole.end)]
    assert len(dict(by_offset)) == len(by_offset)
    return dict(by_offset)
