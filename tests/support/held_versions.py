"""A published table of guard contiguous, with held versions, made without Spark."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.iceberg.commits import RECORD_PROPERTY
from onefold.iceberg.connection import open_catalog
from onefold.lake import Lake
from onefold.offsets import Coverage
from onefold.tables.key_digest import digest_of_key
from onefold.tables.names import state_name
from onefold.upsert.commit_record import CommitRecord
from tests.support.orders import ORDER, flat

MakeDataset = Callable[..., Dataset]
NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
STATE = pa.schema(
    [("_key", pa.binary()), ("_version", pa.int64()), *ORDER, ("_state", pa.string()), ("id", pa.string())]
)
VERSION = {"from": "long(header.v)", "guard": "contiguous"}
KEYS: dict[str, Any] = {
    "key": {"format": "json"},
    "value": {"fields": {"owner": "string", "day": "date"}},
    "identity": {"message_id": "header.m"},
}


def chained(dataset: MakeDataset, name: str = "accounts", version: Any = None, **more: Any) -> Dataset:
    apply = {"mode": "upsert", "key": ["key.id"], "version": version or VERSION}
    return dataset(name, **(KEYS | {"apply": apply} | more))


def publish(lake: Lake, made: Dataset, rows: list[tuple[str, int, str]]) -> None:
    """One batch, behind which the table has rows of (id, version, state); offsets count them."""
    place = {"cluster": "c", "topic": "t", "incarnation": 1, "partition": 0}
    table = [
        {
            "_key": digest_of_key(made, {"id": key}),
            "_version": version,
            **flat(timestamp=1_000 * offset, **place, offset=offset),
            "_state": state,
            "id": key,
        }
        for offset, (key, version, state) in enumerate(rows)
    ]
    catalog = open_catalog(lake)
    catalog.create_namespace(made.target.namespace)
    state = catalog.create_table((made.target.namespace, state_name(made)), STATE)
    record = CommitRecord(
        name="cafe", parent="root", dataset=made.name, generation=made.generation, batch="export_1", interval=None,
        attempt="cafe", staging="s", verdicts="v", landed=6, counts={}, coverage=Coverage(), written=NOON,
    )  # fmt: skip
    lake.put_first(lake_keys.record(made, "cafe"), record)
    state.append(pa.Table.from_pylist(table, STATE), snapshot_properties={RECORD_PROPERTY: "cafe"})
