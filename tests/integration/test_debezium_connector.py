"""A real database, a real connector: the published table is the database's, whatever happens on the way."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition
from pyspark.sql import SparkSession

from onefold.dataset import Dataset, load_dataset
from onefold.draft import Topics, draft_dataset, text_of
from onefold.draft.topics import newest_of_topics
from onefold.kafka.cluster import Cluster
from onefold.kafka.connection import client_settings
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of
from sample.broker import Broker
from tests.support.connect_worker import ConnectWorker
from tests.support.postgres import Postgres

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly(reason="hand-made changes go by day: tests/spark/test_debezium.py"),
]
TABLE = """
CREATE TABLE items (
    id int PRIMARY KEY, name text, qty bigint NOT NULL, price numeric(9,2), at timestamptz, local timestamp, day date,
    flag boolean NOT NULL
);
ALTER TABLE items REPLICA IDENTITY DEFAULT;
CREATE PUBLICATION changes FOR TABLE items;
"""
FORMS = {
    "whole": {},
    "flat": {
        "transforms": "flat",
        "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.flat.delete.tombstone.handling.mode": "rewrite-with-tombstone",
        "transforms.flat.add.fields": "op,source.lsn,source.sequence,source.ts_ms,source.name,source.table",
    },
    "schemas": {"key.converter.schemas.enable": "true", "value.converter.schemas.enable": "true"},
}
"""Connectors by name, each with its settings next to the common ones."""


@pytest.fixture(scope="module")
def database() -> Iterator[Postgres]:
    with Postgres(wal_level="logical") as server:
        yield server


def connector(name: str, server: Postgres, database: str, **more: str) -> dict[str, str]:
    json = "org.apache.kafka.connect.json.JsonConverter"
    converters = {f"{side}.converter": json for side in ("key", "value")}
    converters |= {f"{side}.converter.schemas.enable": "false" for side in ("key", "value")}
    return {
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": "127.0.0.1",
        "database.port": str(server.port),
        "database.user": "onefold",
        "database.password": server.password,
        "database.dbname": database,
        "topic.prefix": f"{name}_{database}",
        "slot.name": f"slot_{name}_{database}",
        "plugin.name": "pgoutput",
        "publication.name": "changes",
        "publication.autocreate.mode": "disabled",
        "table.include.list": "public.items",
        "skipped.operations": "none",
        "decimal.handling.mode": "string",
        "topic.creation.default.partitions": "3",
        "topic.creation.default.replication.factor": "1",
        **converters,
        **more,
    }


class Writer:
    """Changes a table at random, in two transactions that interleave."""

    def __init__(self, uri: str, draw: random.Random) -> None:
        self._uri, self._draw = uri, draw

    def write(self, count: int) -> None:
        with closing(psycopg2.connect(self._uri)) as first, closing(psycopg2.connect(self._uri)) as second:
            both = [first.cursor(), second.cursor()]
            for _ in range(count):
                side = self._draw.randrange(2)
                # Each side has keys of its own: else they would wait for each other.
                self._change(both[side], self._draw.randrange(20) * 2 + side)
                if self._draw.random() < 0.3:
                    (first, second)[side].commit() if self._draw.random() < 0.8 else (first, second)[side].rollback()
            first.commit()
            second.commit()

    def _change(self, cursor: Any, id_: int) -> None:
        draw = self._draw
        row = (f"n{draw.randrange(99)}", draw.randrange(-(2**60), 2**60), f"{draw.randrange(99_999) / 100:.2f}")
        match draw.randrange(6):
            case 0:
                cursor.execute("DELETE FROM items WHERE id = %s", (id_,))
            case 1:  # a key change: the other side's keys are odd where these are even
                cursor.execute(
                    "UPDATE items SET id = %s WHERE id = %s AND NOT EXISTS (SELECT 1 FROM items WHERE id = %s)",
                    (id_ + 100, id_, id_ + 100),
                )
            case _:
                cursor.execute(
                    "INSERT INTO items VALUES (%s, %s, %s, %s, now(), localtimestamp, current_date, true) "
                    "ON CONFLICT (id) DO UPDATE SET name = excluded.name, qty = excluded.qty, price = excluded.price",
                    (id_, *row),
                )

    def mark(self) -> str:
        """Write a row that no other change writes; its text."""
        word = f"mark {self._draw.randrange(10**12)}"
        with closing(psycopg2.connect(self._uri)) as connection, connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO items VALUES (999, %s, 0, 0, now(), localtimestamp, current_date, true) "
                "ON CONFLICT (id) DO UPDATE SET name = excluded.name",
                (word,),
            )
            connection.commit()
        return word

    def rows(self) -> list[dict[str, Any]]:
        with closing(psycopg2.connect(self._uri)) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, name, qty, price::text, flag FROM items ORDER BY id")
            names = [column.name for column in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]


def wait_until_sent(servers: str, topics: Iterable[str], writer: Writer) -> None:
    """Until each topic has what is committed: a row that is written now is the last of it."""
    word, missing = writer.mark().encode(), set(topics)
    deadline = time.monotonic() + 120
    settings = {"bootstrap.servers": servers, "group.id": "marks", "enable.auto.commit": False}
    with closing(Consumer(settings)) as consumer:
        consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for topic in missing for number in range(3)])
        while missing:
            assert time.monotonic() < deadline, f"not sent: {missing}"
            record = consumer.poll(1)
            if record is not None and record.error() is None and word in (record.value() or b""):
                missing.discard(str(record.topic()))
    time.sleep(1)  # other partitions


def test_the_table_is_the_databases_after_crashes_and_lost_offsets(
    broker: Broker, database: Postgres, lake: Lake, session: SparkSession, tmp_path: Path, draw: random.Random
) -> None:
    """In each form that the connector can send, by the file that `init` drafts of the topic."""
    name = f"inv{draw.randrange(10**9)}"
    uri = database.database(name).replace("postgresql+psycopg2", "postgresql")
    with closing(psycopg2.connect(uri)) as connection, connection.cursor() as cursor:
        cursor.execute(TABLE)
        connection.commit()
    writer = Writer(uri, draw)
    writer.write(60)
    connectors = {form: connector(form, database, name, **more) for form, more in FORMS.items()}
    topics = {form: f"{form}_{name}.public.items" for form in FORMS}
    lake = Lake(lake.settings.model_copy(update={"kafka": {"kafka_default": {"bootstrap.servers": broker.bootstrap}}}))
    made: dict[str, Dataset] = {}
    with ConnectWorker(broker.bootstrap, connectors) as worker:
        writer.write(150)
        wait_until_sent(broker.bootstrap, topics.values(), writer)
        for form, topic in topics.items():
            made[form] = drafted(lake, form, topic, tmp_path)
            run(session, lake, made[form])
            assert published(lake, made[form]) == writer.rows(), form

        # What was sent since the offsets were stored is sent again.
        begin = time.time()
        writer.write(10)
        worker.wait_until_stored(begin)
        writer.write(100)
        wait_until_sent(broker.bootstrap, topics.values(), writer)
        worker.kill()
        writer.write(50)
        worker.start()
        wait_until_sent(broker.bootstrap, topics.values(), writer)
        for made_ in made.values():
            done = run(session, lake, made_)
            assert done.published
            assert sum(done.published.counts["duplicate"].values()) > 50
            assert published(lake, made_) == writer.rows(), made_.name

        # Without its offsets the connector begins with a snapshot, whose reads have other positions. No record says
        # that a row was deleted meanwhile.
        writer.write(50)
        wait_until_sent(broker.bootstrap, topics.values(), writer)
        worker.kill(lose_offsets=True)
        before = {row["id"] for row in writer.rows()}
        writer.write(50)
        worker.start()
        wait_until_sent(broker.bootstrap, topics.values(), writer)
        rows = writer.rows()
        for made_ in made.values():
            run(session, lake, made_)
            found = published(lake, made_)
            deleted = {row["id"] for row in found} - {row["id"] for row in rows}
            assert [row for row in found if row["id"] not in deleted] == rows, made_.name
            assert deleted <= before
            assert prove(session, lake, made_).holds


def drafted(lake: Lake, form: str, topic: str, folder: Path) -> Dataset:
    """The dataset that `init` drafts, as it is."""
    cluster = Cluster("kafka_default", client_settings(lake.settings, "kafka_default"))
    draft = draft_dataset(form, Topics("kafka_default", (topic,)), newest_of_topics(form, cluster, [topic], 1_000))
    file = folder / f"{form}.yaml"
    file.write_text(text_of(draft))
    return load_dataset(file)


def run(session: SparkSession, lake: Lake, made: Dataset) -> BatchRun:
    plan = plan_batch(lake, made)
    done = run_batch(lake, made, plan, InSession(lake, session))
    assert done.published, (made.name, done.red or done.error)
    return done


def published(lake: Lake, made: Dataset) -> list[dict[str, Any]]:
    """Without a schema nothing says that the connector's number is a day."""
    names = ["id", "name", "qty", "price", "flag"]
    rows = [{name: row[name] for name in names} for row in rows_of(lake, made)]  # decimals are text
    return sorted(rows, key=lambda row: row["id"])
