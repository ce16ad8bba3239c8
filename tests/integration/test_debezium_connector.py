"""A real database, a real connector: the published table is the database's, whatever happens on the way."""

from __future__ import annotations

import json
import random
import string
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg2
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from pyspark.sql import SparkSession

from onefold.dataset import Dataset, load_dataset
from onefold.dataset.sections import Registry
from onefold.draft import Asked, Topics, draft_dataset, text_of
from onefold.draft.topics import newest_of_topics
from onefold.errors import NoDraftError, UnknownTopicError
from onefold.kafka.cluster import Cluster
from onefold.kafka.connection import client_settings
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.prove import prove
from onefold.report.ledger import rows_of, verdicts_of
from onefold.schemas.client import open_registry
from sample.broker import Broker
from tests.support.captured import PARTITIONS, Captured, Sent, Writer, fold, sent_to
from tests.support.connect_worker import ConnectWorker
from tests.support.mariadb import MariaDb
from tests.support.postgres import Postgres
from tests.support.registry_server import RegistryServer

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.spark,
    pytest.mark.nightly(reason="hand-made changes go by day: tests/spark/test_debezium.py"),
    pytest.mark.timeout(2_400),
]
ITEMS = (
    "id int PRIMARY KEY, name varchar(99), qty bigint NOT NULL, price numeric(9,2), at {at}, local {local}, day date, "
    "flag boolean NOT NULL"
)
SIGNALS = "CREATE TABLE signals (id varchar(99) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(999))"
JSON, AVRO = "org.apache.kafka.connect.json.JsonConverter", "io.apicurio.registry.utils.converter.AvroConverter"
REGISTRY = Registry(connection="registry_default")
CUTS = 4
"""Batches of the same records, cut anywhere: inside what is sent again, too."""


@pytest.fixture(scope="module")
def registry() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    with Postgres(wal_level="logical") as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDb]:
    with MariaDb() as server:
        yield server


def of_postgres(server: Postgres, name: str) -> Captured:
    uri = server.database(name).replace("postgresql+psycopg2", "postgresql")
    made = Captured(
        lambda: psycopg2.connect(uri),
        {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "database.dbname": name,
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "onefold",
            "database.password": server.password,
            "plugin.name": "pgoutput",
            "publication.name": "changes",
            "publication.autocreate.mode": "disabled",
        },
        "public",
        "ON CONFLICT (id) DO UPDATE SET name = excluded.name, qty = excluded.qty, price = excluded.price",
    )
    made.do(
        f"CREATE TABLE items ({ITEMS.format(at='timestamptz', local='timestamp')})",
        SIGNALS,
        "CREATE PUBLICATION changes FOR TABLE items, signals",
    )
    return made


def of_mariadb(server: MariaDb, name: str, folder: Path) -> Captured:
    server.create(name)
    made = Captured(
        lambda: server.connect(name),
        {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.include.list": name,
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": server.user,
            "database.password": server.password,
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(folder / "history"),
        },
        name,
        "ON DUPLICATE KEY UPDATE name = VALUES(name), qty = VALUES(qty), price = VALUES(price)",
    )
    made.do(f"CREATE TABLE items ({ITEMS.format(at='timestamp(6) NULL', local='datetime(6)')})", SIGNALS)
    return made


def connectors(captured: Captured, name: str, registry: RegistryServer) -> dict[str, dict[str, str]]:
    """By the form that they send."""

    def converted(by: str, **more: str) -> dict[str, str]:
        sides = ("key", "value")
        given = {
            f"{side}.converter.{setting.replace('__', '.')}": text for side in sides for setting, text in more.items()
        }
        return {f"{side}.converter": by for side in sides} | given

    flat = {
        "transforms": "flat",
        "transforms.flat.type": "io.debezium.transforms.ExtractNewRecordState",
        "transforms.flat.delete.tombstone.handling.mode": "rewrite-with-tombstone",
        "transforms.flat.add.fields": "op,source.lsn,source.sequence,source.file,source.pos,source.row,"
        "source.server_id,source.ts_ms,source.name,source.table",
    }
    avro = {
        "apicurio.registry.url": registry.url.partition("/apis/")[0] + "/apis/registry/v2",
        "apicurio.registry.auto-register": "true",
        "apicurio.registry.find-latest": "true",
        "apicurio.registry.as-confluent": "true",
        "apicurio.registry.use-id": "contentId",
        "apicurio.registry.headers.enabled": "false",
    }
    forms = {
        "whole": converted(JSON, schemas__enable="false") | {"decimal.handling.mode": "string"},
        "flat": converted(JSON, schemas__enable="false") | {"decimal.handling.mode": "string"} | flat,
        "bytes": converted(JSON, schemas__enable="false"),
        "schemas": converted(JSON, schemas__enable="true"),
        "avro": converted(AVRO, **avro) | {"schema.name.adjustment.mode": "avro"},
    }
    return {
        form: {
            **captured.settings,
            **converters,
            "topic.prefix": f"{form}_{name}",
            "slot.name": f"slot_{form}_{name}",
            "database.server.id": str(5_000 + number),
            "table.include.list": f"{captured.schema}.items,{captured.schema}.signals",
            "signal.data.collection": f"{captured.schema}.signals",
            "incremental.snapshot.chunk.size": "10",
            "skipped.operations": "none",
            "topic.creation.default.partitions": str(PARTITIONS),
            "topic.creation.default.replication.factor": "1",
        }
        for number, (form, converters) in enumerate(forms.items())
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["postgresql", "mariadb"])
def test_the_table_is_the_databases_after_crashes_snapshots_and_lost_offsets(
    broker: Broker,
    registry: RegistryServer,
    lake: Lake,
    session: SparkSession,
    tmp_path: Path,
    draw: random.Random,
    kind: str,
    request: pytest.FixtureRequest,
) -> None:
    """In each form that the connector can send, by the file that `init` drafts of the topic; and by the position of the
    connector as the version. Then the same records in batches that are cut anywhere."""
    name = f"inv{draw.randrange(10**9)}"
    if kind == "postgresql":
        captured = of_postgres(request.getfixturevalue("postgres"), name)
    else:
        captured = of_mariadb(request.getfixturevalue("mariadb"), name, tmp_path)
    writer = Writer(captured, draw)
    writer.write(100)
    made_of = connectors(captured, name, registry)
    topics = {form: f"{form}_{name}.{captured.schema}.items" for form in made_of}
    lake = Lake(
        lake.settings.model_copy(
            update={
                "kafka": {"kafka_default": {"bootstrap.servers": broker.bootstrap}},
                "registry": {"registry_default": {"url": registry.url}},
            }
        )
    )
    if kind == "mariadb":
        for form, connector in made_of.items():
            connector["schema.history.internal.file.filename"] = str(tmp_path / f"{form}.history")
    made: dict[str, Dataset] = {}

    def wait() -> None:
        writer.wait_until_sent(broker.bootstrap, topics.values())

    with ConnectWorker(broker.bootstrap, made_of) as worker:
        writer.write(200)
        wait()
        for form, topic in topics.items():
            made[form] = drafted(lake, form, topic, tmp_path)
            by_position = tmp_path / f"{form}_by_position.yaml"
            by_position.write_text(
                changed(tmp_path / f"{form}.yaml", by_position.stem, apply={"version": {"from": "debezium"}})
            )
            made[by_position.stem] = load_dataset(by_position)
        expect(session, lake, made, captured.rows())

        for kind_of_snapshot in ("incremental", "blocking"):
            captured.snapshot(kind_of_snapshot)
            writer.write(100)
            wait()
            expect(session, lake, made, captured.rows())
        expect_no_drafts(lake, [f"{topic.removesuffix('items')}signals" for topic in topics.values()], tmp_path)

        # What was sent since the offsets were stored is sent again.
        worker.stop()
        worker.start()
        writer.write(100)
        wait()
        worker.kill()
        writer.write(50)
        if kind == "mariadb":
            captured.do("FLUSH LOGS")
        writer.write(100)
        worker.start()
        wait()
        done = expect(session, lake, made, captured.rows())
        for name_, ran in done.items():
            assert ran.published
            assert sum(ran.published.counts.get("duplicate", {}).values()) > 30, (name_, ran.published.counts)

        # Without its offsets the connector begins with a snapshot, whose reads have other positions. No record says
        # that a row was deleted meanwhile.
        writer.write(100)
        wait()
        worker.kill(lose_offsets=True)
        before = {row["id"] for row in captured.rows()}
        writer.write(100)
        worker.start()
        wait()
        rows = captured.rows()
        for name_, dataset in made.items():
            ran = run(session, lake, dataset)
            if kind == "postgresql" and name_.endswith("by_position"):
                assert ran.red, name_
                assert "no versions that cannot be compared" in str(ran.red), name_
                assert "a new replication slot" in str(ran.red), name_
                continue
            assert ran.published, (name_, ran.red or ran.error)
            found = published(lake, dataset)
            deleted = {row["id"] for row in found} - {row["id"] for row in rows}
            assert [row for row in found if row["id"] not in deleted] == rows, name_
            assert deleted <= before
            assert prove(session, lake, dataset).holds
    assert writer.written > 900

    for form, topic in topics.items():
        records = sent_to(broker.bootstrap, topic)
        draw_cuts = sorted(draw.sample(range(1, len(records)), CUTS - 1))
        file = tmp_path / f"{form}_cut.yaml"
        source = {"exports": {"path": str(tmp_path / "cut" / form), "layout": "parquet", "origin": {"cluster": "cut"}}}
        file.write_text(changed(tmp_path / f"{form}.yaml", file.stem, source=source))
        cut = load_dataset(file)
        schemas = AvroSchemas(registry)
        for number, (low, high) in enumerate(zip([0, *draw_cuts], [*draw_cuts, len(records)], strict=True)):
            folder = tmp_path / "cut" / form / str(number)
            write(folder, topic, records[low:high])
            ran = run(session, lake, cut, export=str(folder))
            assert ran.published, (form, number, ran.red or ran.error)
            assert published(lake, cut) == fold(records[:high], schemas), (form, number)
        assert fold(records, schemas) == published(lake, made[form])


def test_a_large_text_that_an_update_leaves_unchanged_is_rejected_until_the_table_logs_whole_rows(
    broker: Broker,
    registry: RegistryServer,
    postgres: Postgres,
    lake: Lake,
    session: SparkSession,
    tmp_path: Path,
    draw: random.Random,
) -> None:
    name = f"inv{draw.randrange(10**9)}"
    captured = of_postgres(postgres, name)
    lake = Lake(lake.settings.model_copy(update={"kafka": {"kafka_default": {"bootstrap.servers": broker.bootstrap}}}))
    text = "".join(draw.choices(string.ascii_letters, k=20_000))  # too long to be stored in the row
    captured.do(
        "CREATE TABLE docs (id int PRIMARY KEY, n int, body text)",
        f"INSERT INTO docs SELECT id, 0, '{text}' || id FROM generate_series(1, 5) AS id",
        "ALTER PUBLICATION changes ADD TABLE docs",
    )
    connector = connectors(captured, name, registry)["whole"] | {"table.include.list": "public.docs,public.signals"}
    topic = f"whole_{name}.public.docs"

    def run_behind(count: int) -> BatchRun:
        deadline = time.monotonic() + 60
        while len(sent_to(broker.bootstrap, topic)) < count:
            assert time.monotonic() < deadline
        ran = run(session, lake, made)
        assert ran.published, ran.red or ran.error
        return ran

    with ConnectWorker(broker.bootstrap, {"whole": connector}):
        deadline = time.monotonic() + 60
        while not (tmp_path / "whole.yaml").exists():
            assert time.monotonic() < deadline
            with suppress(NoDraftError, UnknownTopicError):
                drafted(lake, "whole", topic, tmp_path)
        file = tmp_path / "tolerant.yaml"
        file.write_text(changed(tmp_path / "whole.yaml", "tolerant", quality={"max_rejected_rate": 1}))
        made = load_dataset(file)
        run_behind(5)
        captured.do("UPDATE docs SET n = 1 WHERE id < 4", f"UPDATE docs SET n = 1, body = '{text}' WHERE id = 4")
        ran = run_behind(9)
        assert ran.published
        assert ran.published.counts["rejected"] == {"unavailable_value": 3}
        found, _ = verdicts_of(lake, made, ran.batch, "unavailable_value")
        assert all("body" in row["detail"] and "REPLICA IDENTITY FULL" in row["detail"] for row in found)
        assert sorted((row["id"], row["n"]) for row in rows_of(lake, made)) == [(1, 0), (2, 0), (3, 0), (4, 1), (5, 0)]

        captured.do("ALTER TABLE docs REPLICA IDENTITY FULL")
        captured.do("UPDATE docs SET n = 2")
        run_behind(14)
        rows = sorted((row["id"], row["n"], row["body"]) for row in rows_of(lake, made))
        assert rows == [(id_, 2, text if id_ == 4 else f"{text}{id_}") for id_ in range(1, 6)]


class AvroSchemas(dict[int, Any]):
    """Schemas of a registry, by their ids."""

    def __init__(self, registry: RegistryServer) -> None:
        super().__init__()
        self._registry = registry

    def __missing__(self, id_: int) -> Any:
        self[id_] = json.loads(self._registry.ask(f"/schemas/ids/{id_}")["schema"])
        return self[id_]


def drafted(lake: Lake, form: str, topic: str, folder: Path) -> Dataset:
    """The dataset that `init` drafts, as it is; but decimals that are bytes without a schema are declared."""
    cluster = Cluster("kafka_default", client_settings(lake.settings, "kafka_default"))
    asked = Asked("registry_default", lambda: open_registry(lake.settings, REGISTRY))
    sample = newest_of_topics(form, cluster, [topic], 1_000)
    draft = draft_dataset(form, Topics("kafka_default", (topic,)), sample, None, asked)
    file = folder / f"{form}.yaml"
    file.write_text(text_of(draft))
    if form == "bytes":  # no record says what the bytes mean
        given = yaml.safe_load(file.read_text())
        given["value"]["fields"]["price"] = "decimal(9,2,base64)?"
        file.write_text(yaml.safe_dump(given))
    return load_dataset(file)


def expect_no_drafts(lake: Lake, topics: list[str], folder: Path) -> None:
    """That of none of the topics, which are of signal tables, a dataset is drafted."""
    for topic in topics:
        with pytest.raises(NoDraftError, match="its signal table"):
            drafted(lake, "signals", topic, folder)


def changed(file: Path, name: str, **sections: dict[str, Any]) -> str:
    """The text of a dataset's file under another name, with other entries of sections; a source is another one."""
    given = yaml.safe_load(file.read_text())
    given["name"], given["target"]["table"] = name, f"other.{name}"
    for section, entries in sections.items():
        given[section] = (given[section] if section != "source" else {}) | entries
    return yaml.safe_dump(given)


def expect(
    session: SparkSession, lake: Lake, made: dict[str, Dataset], rows: list[dict[str, Any]]
) -> dict[str, BatchRun]:
    done = {}
    for name, dataset in made.items():
        done[name] = run(session, lake, dataset)
        assert done[name].published, (name, done[name].red or done[name].error)
        assert published(lake, dataset) == rows, name
    return done


def run(session: SparkSession, lake: Lake, made: Dataset, export: str | None = None) -> BatchRun:
    plan = plan_batch(lake, made, export=export)
    return run_batch(lake, made, plan, InSession(lake, session))


def published(lake: Lake, made: Dataset) -> list[dict[str, Any]]:
    names = ["id", "name", "qty", "price"]
    rows = [{name: row[name] for name in names} for row in rows_of(lake, made)]  # decimals are text
    return sorted(rows, key=lambda row: row["id"])


def write(folder: Path, topic: str, records: list[Sent]) -> None:
    """Records of a topic, in a file of their own."""
    folder.mkdir(parents=True)
    table = pa.table(
        {
            "topic": pa.array([topic] * len(records)),
            "partition": pa.array([record.partition for record in records], pa.int32()),
            "offset": pa.array([record.offset for record in records], pa.int64()),
            "timestamp": pa.array([record.timestamp for record in records], pa.timestamp("ms", "UTC")),
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
        }
    )
    pq.write_table(table, folder / "part-0.parquet")
