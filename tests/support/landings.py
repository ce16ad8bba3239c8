"""Landings that are published, made without Spark: a manifest, objects, and a chain of commit records."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.iceberg.commits import RECORD_PROPERTY
from onefold.iceberg.connection import open_catalog
from onefold.lake import Lake
from onefold.landing.manifest import LandedObject, Manifest
from onefold.landing.plan import ObjectsPlan, PinnedObject, put_plan, take_plan
from onefold.offsets import Coverage
from onefold.tables.names import state_name
from onefold.upsert.commit_record import CommitRecord

NOW = datetime.now(UTC)


def landed(lake: Lake, dataset: Dataset, ages: Sequence[timedelta]) -> list[str]:
    """Published batches of two objects each, landed so long ago."""
    catalog = open_catalog(lake)
    catalog.create_namespace_if_not_exists(dataset.target.namespace)
    table = catalog.create_table((dataset.target.namespace, state_name(dataset)), pa.schema([("_state", pa.string())]))
    batches, parent = [], "root"
    for number, age in enumerate(ages):
        pinned = [PinnedObject(name=f"{number}-{part}.jsonl", size=3, etag="e") for part in range(2)]
        plan = ObjectsPlan(source=dataset.source_id, place="exports", objects=pinned)
        put_plan(lake, plan)
        take_plan(lake, dataset.name, plan)
        objects = []
        for object_ in pinned:
            place = lake_keys.landed(plan.source, plan.batch, "a", object_.name)
            lake.storage.write(place, b"{}\n")
            objects.append(LandedObject(name=object_.name, key=place, size=3, sha256="0"))
        key = lake_keys.manifest(plan.source, plan.batch)
        lake.put_first(key, Manifest(batch=plan.batch, source=plan.source, attempt="a", objects=objects))
        at = (NOW - age).timestamp()
        os.utime(lake.storage.path_or_uri(key), (at, at))
        name = f"attempt{number}"
        commit = CommitRecord(
            name=name, parent=parent, dataset=dataset.name, generation=dataset.generation, batch=plan.batch,
            interval=None, attempt=name, staging="s", verdicts="v", landed=0, counts={}, coverage=Coverage(),
            written=NOW,
        )  # fmt: skip
        lake.put_first(lake_keys.record(dataset, name), commit)
        table.append(pa.table({"_state": pa.array([], pa.string())}), snapshot_properties={RECORD_PROPERTY: name})
        batches, parent = [*batches, plan.batch], name
    return batches


def bytes_of(lake: Lake, dataset: Dataset) -> set[str]:
    """The batches that have landed bytes."""
    return {info.key.split("/")[3] for info in lake.storage.list(f"sources/{dataset.source_id}/landed/")}
