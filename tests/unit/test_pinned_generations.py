"""Generations and source ids are digests that users' lakes already hold: no release may change them by accident.

If a generation changes, every published table refuses its dataset until `onefold rebuild`. Only a new number of the
rules (`RULES`) or of the tables' layout may do that, and then it changes all generations; a new number of the ledger of
messages (`MESSAGE_LEDGER`) changes only generations in which a delivery decides. If a source id changes, a dataset
looks for its landed batches where there are none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onefold.dataset import Dataset
from onefold.dataset.load import dataset_files, load_dataset

SHIPPED = Path(__file__).parents[2] / "datasets"
SHIPPED_GENERATIONS = {
    "account_entries": "85b438ab4b00",
    "accounts": "0c11a923f295",
    "orders": "dea033c8e246",
    "page_views": "fc7bbc3738f0",
}
SHIPPED_SOURCES = {
    "account_entries": "connect-8c160efe",
    "accounts": "kcat-8d35f4db",
    "orders": "shop_orders_stores-9ddff393",
    "page_views": "page_views-7fc43842",
}

UPSERT: dict[str, Any] = {"mode": "upsert", "key": ["key.account_id"]}
NEWER = {"from": "long(header.version)", "guard": "newer"}
CHAIN = {"from": "long(header.version)", "guard": "contiguous"}
MODES: dict[str, tuple[dict[str, Any], str]] = {
    "append": ({"mode": "append"}, "45d565671534"),
    "append, compared without a field": ({"mode": "append", "compare": {"except": ["note"]}}, "ff4281ffb0ca"),
    "upsert": ({**UPSERT, "version": NEWER}, "10ce96c8ec7e"),
    "upsert, defaults left out": ({**UPSERT, "version": {"from": "long(header.version)"}}, "10ce96c8ec7e"),
    "upsert, tie last": ({**UPSERT, "version": {**NEWER, "tie": "last"}}, "9af5f5b59c75"),
    "upsert, tie first": ({**UPSERT, "version": {**NEWER, "tie": "first"}}, "5a46cb160ac0"),
    "upsert, deletes by tombstone": ({**UPSERT, "version": NEWER, "delete_when": "tombstone"}, "743470131fda"),
    "upsert, deletes by a condition": ({**UPSERT, "version": NEWER, "delete_when": "note = 'gone'"}, "96e0a41e2591"),
    "upsert, version of two parts": ({**UPSERT, "version": {"from": ["long(header.epoch)", "amount"]}}, "5a3435e0beed"),
    "upsert, versions without gaps": ({**UPSERT, "version": CHAIN}, "488d71fe513b"),
    "upsert, versions without gaps from 0": ({**UPSERT, "version": {**CHAIN, "first": 0}}, "33aac847b778"),
    "upsert, expected version": (
        {**UPSERT, "version": {"expected": "long(header.v)", "guard": "contiguous"}},
        "991498d5cfff",
    ),
    "increment": ({"mode": "increment", "key": ["key.account_id"], "add": {"balance": "amount"}}, "a0fa111eb25b"),
}
"""A mode's section of the file, and the generation of a dataset with it."""

ORIGIN = {"cluster": "prod", "incarnation": 2}
COLUMNS = {"topic": "kafka_topic", "value": "payload", "headers": None}
EXPORT: dict[str, Any] = {"path": "exports/entries/", "origin": ORIGIN}
LAYOUTS: dict[str, tuple[dict[str, Any], str, str]] = {
    "kcat": ({"exports": {**EXPORT, "layout": "kcat"}}, "45d565671534", "entries-c772b86c"),
    "kcat, transactional": (
        {"exports": {**EXPORT, "layout": "kcat", "holes": "transactional"}},
        "cff7b8eaf923",
        "entries-c772b86c",
    ),
    "connect": ({"exports": {**EXPORT, "layout": "connect"}}, "eaea7f7a996b", "entries-59dc566e"),
    "aiven": ({"exports": {**EXPORT, "layout": "aiven"}}, "401cda91a4c3", "entries-5ebe840b"),
    "aiven, encoded": (
        {"exports": {**EXPORT, "layout": "aiven", "encoding": {"value": "base64"}}},
        "91b4178fb97e",
        "entries-5ebe840b",
    ),
    "parquet": ({"exports": {**EXPORT, "layout": "parquet"}}, "98f80b15633a", "entries-b92d80a2"),
    "parquet, columns": (
        {"exports": {**EXPORT, "layout": "parquet", "columns": COLUMNS}},
        "b2dd2e1328a7",
        "entries-b92d80a2",
    ),
    "segments": ({"exports": {**EXPORT, "layout": "segments"}}, "ee8c68a08a64", "entries-858c2295"),
    "segments, compacted": (
        {"exports": {**EXPORT, "layout": "segments", "holes": "compacted"}},
        "93e7eb1d26b0",
        "entries-7b0806c4",
    ),
    "kafka": (
        {"kafka": {"connection": "prod", "topics": ["orders", "^returns.*"]}},
        "9bdcd77ba9f0",
        "returns-43cabcb2",
    ),
}
"""A source, the generation of a dataset that reads it, and the source's id."""


def dataset(**sections: Any) -> Dataset:
    """A dataset of the same fields, with some sections."""
    given: dict[str, Any] = {
        "name": "entries",
        "source": LAYOUTS["kcat"][0],
        "key": {"format": "json"},
        "value": {"fields": {"note": "string?", "amount": "long"}},
        "identity": {"message_id": "header.message-id"},
        "apply": {"mode": "append"},
        "target": {"table": "bank.entries", "buckets": 4},
    }
    return Dataset.model_validate(given | sections)


def test_each_shipped_dataset_keeps_its_generation_and_its_source() -> None:
    shipped = [load_dataset(file) for file in dataset_files(SHIPPED)]
    assert {dataset.name: dataset.generation for dataset in shipped} == SHIPPED_GENERATIONS
    assert {dataset.name: dataset.source_id for dataset in shipped} == SHIPPED_SOURCES


@pytest.mark.parametrize("name", MODES)
def test_each_mode_keeps_its_generation(name: str) -> None:
    section, generation = MODES[name]
    assert dataset(apply=section).generation == generation


@pytest.mark.parametrize("name", LAYOUTS)
def test_each_layout_keeps_its_generation_and_its_source(name: str) -> None:
    source, generation, source_id = LAYOUTS[name]
    exports = source.get("exports", {})
    compacted = {"apply": {**UPSERT, "version": NEWER}} if exports.get("holes") == "compacted" else {}
    made = dataset(source=source, **compacted)
    assert (made.generation, made.source_id) == (generation, source_id)
