"""Databases whose changes a real connector captures: what is written to them, and what a fold makes of what was sent.

The fold knows nothing of Onefold: of each key the first delivery of each position counts, in its partition's order.
"""

from __future__ import annotations

import io
import json
import random
import time
from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import fastavro
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

PARTITIONS = 3
KEYS = 20
"""Keys of each of two writers."""
POSITION = ("lsn", "sequence", "file", "pos", "row", "gtid", "snapshot", "op")


@dataclass(frozen=True)
class Captured:
    """A database with its tables `items` and `signals`, and what its connector has to know."""

    connect: Callable[[], Any]
    settings: Mapping[str, str]
    """Of the connector, without its name and its converters."""
    schema: str
    """What is before a table's name in the connector's settings and in the names of topics."""
    upsert: str
    """The end of an INSERT, which sets `name`, `qty` and `price` of a row that is there."""

    def do(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            connection.commit()

    def snapshot(self, kind: str) -> None:
        """Ask the connectors to read the table again: `incremental` or `blocking`."""
        wanted = json.dumps({"data-collections": [f"{self.schema}.items"], "type": kind})
        self.do(f"INSERT INTO signals VALUES ('{kind}-{time.time()}', 'execute-snapshot', '{wanted}')")

    def rows(self) -> list[dict[str, Any]]:
        """The table, by its key."""
        with closing(self.connect()) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, name, qty, price FROM items ORDER BY id")
            names = [column[0] for column in cursor.description]
            found = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        return [row | {"price": None if row["price"] is None else str(row["price"])} for row in found]


@dataclass
class Writer:
    """Changes the table at random, in two transactions that interleave."""

    database: Captured
    draw: random.Random
    written: int = field(default=0, init=False)

    def write(self, count: int) -> None:
        """So many changes."""
        with closing(self.database.connect()) as first, closing(self.database.connect()) as second:
            both = [first.cursor(), second.cursor()]
            for _ in range(count):
                side = self.draw.randrange(2)
                # Each side has keys of its own: else they would wait for each other.
                self._change(both[side], self.draw.randrange(KEYS) * 2 + side)
                if self.draw.random() < 0.3:
                    (first, second)[side].commit() if self.draw.random() < 0.8 else (first, second)[side].rollback()
            first.commit()
            second.commit()
        self.written += count

    def _change(self, cursor: Any, id_: int) -> None:
        draw = self.draw
        row = (f"n{draw.randrange(99)}", draw.randrange(-(2**60), 2**60), f"{draw.randrange(99_999) / 100:.2f}")
        match draw.randrange(6):
            case 0:
                cursor.execute("DELETE FROM items WHERE id = %s", (id_,))
            case 1:  # a key change: the other side's keys are odd where these are even
                cursor.execute("SELECT 1 FROM items WHERE id = %s", (id_ + 100,))
                if cursor.fetchone() is None:
                    cursor.execute("UPDATE items SET id = %s WHERE id = %s", (id_ + 100, id_))
            case _:
                self._insert(cursor, id_, *row)

    def _insert(self, cursor: Any, id_: int, name: str, qty: int, price: str) -> None:
        cursor.execute(
            "INSERT INTO items (id, name, qty, price, at, local, day, flag) VALUES "
            f"(%s, %s, %s, %s, current_timestamp, localtimestamp, current_date, true) {self.database.upsert}",
            (id_, name, qty, price),
        )

    def mark(self) -> str:
        """Write a row that no other change writes; its text."""
        word = f"mark {self.draw.randrange(10**12)}"
        with closing(self.database.connect()) as connection, connection.cursor() as cursor:
            self._insert(cursor, 999, word, 0, "0.00")
            connection.commit()
        return word

    def wait_until_sent(self, servers: str, topics: Iterable[str]) -> None:
        """Until each topic has what is committed: a row that is written now is the last of it."""
        word, missing = self.mark().encode(), set(topics)
        deadline = time.monotonic() + 120
        with closing(Consumer(_settings(servers))) as consumer:
            consumer.assign(
                [TopicPartition(topic, number, OFFSET_BEGINNING) for topic in missing for number in range(PARTITIONS)]
            )
            while missing:
                assert time.monotonic() < deadline, f"not sent: {missing}"
                record = consumer.poll(1)
                if record is not None and record.error() is None and word in (record.value() or b""):
                    missing.discard(str(record.topic()))
        time.sleep(1)  # other partitions


@dataclass(frozen=True)
class Sent:
    """A record of a topic; `timestamp` in milliseconds."""

    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None


def sent_to(servers: str, topic: str) -> list[Sent]:
    """All records of a topic: those of each partition in its order, the partitions as they came."""
    places = [TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(PARTITIONS)]
    found: list[Sent] = []
    with closing(Consumer(_settings(servers))) as consumer:
        left = {place.partition: consumer.get_watermark_offsets(place, timeout=30)[1] for place in places}
        consumer.assign(places)
        while any(left.values()):
            record = consumer.poll(10)
            assert record is not None, f"{topic}: no record after {len(found)}"
            assert record.error() is None, record.error()
            of, at = record.partition(), record.offset()
            assert of is not None
            assert at is not None
            found.append(Sent(of, at, record.timestamp()[1], record.key(), record.value()))
            if at + 1 >= left[of]:
                left[of] = 0
    return found


def _settings(servers: str) -> dict[str, Any]:
    return {"bootstrap.servers": servers, "group.id": "captured", "enable.auto.commit": False}


def fold(records: Sequence[Sent], schemas: Mapping[int, Any]) -> list[dict[str, Any]]:
    """The rows that records leave, by their key. `schemas`: those of Avro messages, by id."""
    rows: dict[int, dict[str, Any]] = {}
    seen: set[tuple[Any, ...]] = set()
    for record in records:
        key, change = _read(record.key, schemas), _read(record.value, schemas)
        if change is None:
            continue
        id_, whole = key["id"], "source" in change
        said = (
            change["source"] | {"op": change["op"]}
            if whole
            else {
                name.removeprefix("__").removeprefix("source_"): change[name]
                for name in change
                if name.startswith("__")
            }
        )
        position = (id_, *(said.get(name) for name in POSITION))
        if position in seen:
            continue
        seen.add(position)
        if said["op"] == "d":
            rows.pop(id_, None)
            continue
        row = change["after"] if whole else change
        rows[id_] = {name: row[name] for name in ("id", "name", "qty")}
        rows[id_]["price"] = None if row["price"] is None else str(row["price"])
    return [rows[id_] for id_ in sorted(rows)]


def _read(data: bytes | None, schemas: Mapping[int, Any]) -> Any:
    if data is None:
        return None
    if data[:1] == b"\x00":
        schema = schemas[int.from_bytes(data[1:5], "big")]
        return fastavro.schemaless_reader(io.BytesIO(data[5:]), schema, None)
    found = json.loads(data)
    change = found["payload"] if found and found.keys() == {"schema", "payload"} else found
    for row in (change, change.get("after")) if change else ():
        if row and "." not in (row.get("price") or "."):  # Base64, of a column with two digits behind the point
            cents = int.from_bytes(b64decode(row["price"]), "big", signed=True)
            row["price"] = f"{cents / 100:.2f}"
    return change
