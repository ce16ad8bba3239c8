"""Batches of kcat files through the real steps: plan, land, dedup, upsert, gate, publish, in one session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from onefold.dataset import Dataset
from onefold.iceberg.commits import RECORD_PROPERTY
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.landing.plan import find_plan
from onefold.operations.accept_gap import accept_gap
from onefold.operations.in_process import InSession
from onefold.operations.run import BatchRun, run_batch
from onefold.proof.decode import decode_again
from onefold.records import envelope as E
from onefold.tables.names import state_table
from onefold.values.decode import decode
from sample import kcat
from tests.support.oracle import Decoded

Kinds = dict[str, str]


@dataclass(frozen=True, slots=True)
class Sent:
    """A record as it was sent; `value` None is a tombstone, text that is no object cannot be decoded."""

    partition: int
    offset: int
    at: int
    id: str
    version: int
    message_id: str
    value: dict[str, Any] | str | None
    topic: str = "t"

    def line(self) -> bytes:
        """The record as kcat prints it."""
        value = self.value if isinstance(self.value, str) else json.dumps(self.value)
        return kcat.line(
            kcat.Record(
                topic=self.topic,
                partition=self.partition,
                offset=self.offset,
                ts=self.at,
                broker=1,
                headers=(("m", self.message_id.encode()), ("v", str(self.version).encode())),
                key=json.dumps({"id": self.id}).encode(),
                value=None if self.value is None else value.encode(),
            )
        )

    def decoded(self, dataset: Dataset) -> Decoded:
        """The record as the oracle takes it; append's deciding identity is the id in the value."""
        upsert = dataset.apply.mode == "upsert"
        usable = self.value is None or isinstance(self.value, dict)
        return Decoded(
            position=("c", self.topic, 1, self.partition, self.offset),
            timestamp=self.at,
            key=self.id,
            content=json.dumps(self.value, sort_keys=True),
            version=self.version if upsert else None,
            message_id=self.message_id,
            deleted=self.value is None,
            rejected=None if usable else "undecodable",
        )


def accounts(dataset: Callable[..., Dataset], tie: str = "conflict", guard: str = "newer", **more: Any) -> Dataset:
    """Upsert by version; a tombstone deletes."""
    version = {"from": "long(header.v)", "guard": guard, "tie": tie}
    return dataset(
        "accounts",
        key={"format": "json"},
        value={"fields": {"owner": "string", "credit": "decimal(18,2)?"}},
        apply={"mode": "upsert", "key": ["key.id"], "version": version, "delete_when": "tombstone"},
        **{"identity": {"message_id": "header.m"}, **more},
    )


def entries(dataset: Callable[..., Dataset], **more: Any) -> Dataset:
    """Append by the id in the value; message ids are narrower."""
    return dataset(
        "entries",
        value={"fields": {"id": "string", "credit": "decimal(18,2)?"}},
        identity={"message_id": "header.m", "business_key": ["id"]},
        **more,
    )


def chained(dataset: Callable[..., Dataset], **more: Any) -> Dataset:
    """Accounts whose versions count from 1; a tombstone deletes."""
    version = {"from": "long(header.v)", "guard": "contiguous"}
    return dataset(
        "accounts",
        **{
            "key": {"format": "json"},
            "value": {"fields": {"owner": "string"}},
            "identity": {"message_id": "header.m"},
            "apply": {"mode": "upsert", "key": ["key.id"], "version": version, "delete_when": "tombstone"},
            "target": {"table": "tests.accounts", "buckets": 2},
        }
        | more,
    )


def increments(dataset: Callable[..., Dataset], fields: Kinds, add: Kinds, **more: Any) -> Dataset:
    """Increments by the id in the record's key."""
    return dataset(
        "stock",
        key={"format": "json"},
        value={"fields": fields},
        identity={"message_id": "header.m"},
        apply={"mode": "increment", "key": ["key.id"], "add": add},
        **more,
    )


def moved(offset: int, article: str, message: str, delta: Any, worth: str = "0", at: int | None = None) -> Sent:
    """A movement; its timestamp is its offset unless given."""
    return Sent(0, offset, offset if at is None else at, article, 0, message, {"delta": delta, "worth": worth})


def export(folder: Path, records: Iterable[Sent], files: int = 1) -> Path:
    """A folder of export files; the records go to them in turns."""
    folder.mkdir(parents=True)
    lines = [record.line() for record in records]
    for number in range(files):
        (folder / f"t-{number}.jsonl").write_bytes(b"".join(lines[number::files]))
    return folder


def run(session: SparkSession, lake: Lake, dataset: Dataset, folder: Path) -> BatchRun:
    """One batch of everything that a folder holds, from plan to report."""
    return run_batch(lake, dataset, plan_batch(lake, dataset, export=str(folder)), InSession(lake, session))


def mend(patch: pytest.MonkeyPatch, letters: str) -> None:
    """Installs other decoders, of runs and of proofs: values that begin with one of some letters are read behind it."""

    def behind(of: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def decoded(records: DataFrame, dataset: Dataset, **more: Any) -> DataFrame:
            value = F.col(E.VALUE_BYTES)
            marked = F.substring(value, 1, 1).isin(*(F.lit(letter.encode()) for letter in letters))
            read = F.when(marked, F.expr(f"substring({E.VALUE_BYTES}, 2)")).otherwise(value)
            return of(records.withColumn(E.VALUE_BYTES, read), dataset, **more)

        return decoded

    patch.setattr("spark_jobs.dedup.decode", behind(decode))
    patch.setattr("onefold.proof.claims.decode_again", behind(decode_again))
    for room in ("dedup.code_digest", "dedup.staging", "publish.publish"):
        patch.setattr(f"onefold.{room}.code_digest", lambda: f"mended {letters}")


def accept(session: SparkSession, lake: Lake, made: Dataset, key: str | dict[str, str], version: int) -> BatchRun:
    named = {"id": key} if isinstance(key, str) else key
    decision = accept_gap(lake, made, named, version, "mia", "the outbox was truncated")
    plan = find_plan(lake, made, decision.batch)
    return run_batch(lake, made, plan, InSession(lake, session), rebuilding=True)


def tampered(session: SparkSession, lake: Lake, dataset: Dataset, *statements: str) -> None:
    """Statements on the state table, `t`, whose commits take Onefold's own name: no check of commits can tell."""
    record = StateTable(lake, dataset).main.record
    for statement in statements:
        session.conf.set(f"spark.sql.iceberg.snapshot-property.{RECORD_PROPERTY}", record)
        try:
            session.sql(statement.format(t=state_table(dataset)))
        finally:
            session.conf.unset(f"spark.sql.iceberg.snapshot-property.{RECORD_PROPERTY}")
