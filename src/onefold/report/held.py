"""What waits in the table for a version that has not come (guard contiguous); read without a JVM."""

from __future__ import annotations

from typing import Any

from pyiceberg.expressions import And

from onefold.dataset import Dataset
from onefold.decisions.accepted_gaps import gaps_between
from onefold.iceberg.state_table import StateTable, find_state
from onefold.instants import stamped
from onefold.lake import Lake
from onefold.report.ledger import one_of, plain, position, records_of, verdict_rows
from onefold.vocabulary import RowState

_POSITION = ("topic", "partition", "offset")


def held_of(lake: Lake, dataset: Dataset, limit: int | None = None) -> list[dict[str, Any]]:
    """The held records, the oldest by their own timestamps first: `{key, version, missing, since, topic, partition,
    offset, timestamp}`. `missing` are the versions below it that have not come, as half-open ranges; `since` is the
    batch that brought it, and when its commit record was written.
    """
    table = find_state(lake, dataset) if dataset.apply.HOLDS else None
    if table is None:
        return []
    columns = {*dataset.fields, *(name for name, _ in dataset.key_columns)}
    names = [name for name in dict.fromkeys(dataset.key_names) if name in columns]
    held = sorted(table.held("_key", "_version", "_order", *names), key=_age)
    shown = held[:limit] if limit else held
    missing, since = _missing(dataset, table, shown), _since(lake, dataset, shown)
    return [
        {
            "key": plain({name: row[name] for name in names}),
            "version": row["_version"],
            "missing": [list(one) for one in missing[row["_key"], row["_version"]]],
            "since": since.get(_place(row["_key"].hex(), row["_order"])),
            **{name: row["_order"][name] for name in _POSITION},
            "timestamp": at.isoformat() if (at := stamped(row["_order"]["timestamp"])) else None,
        }
        for row in shown
    ]


def _age(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["_order"]["timestamp"], position(row["_order"]), row["_version"]


def _missing(
    dataset: Dataset, table: StateTable, held: list[dict[str, Any]]
) -> dict[tuple[bytes, int], list[tuple[int, int]]]:
    """By key and version: what is missing between the key's head and that version."""
    assert dataset.apply.version
    keys = sorted({row["_key"] for row in held})
    heads, above = dict.fromkeys(keys, dataset.apply.version.begins - 1), {key: list[int]() for key in keys}
    for row in table.chain_of(keys, "_key", "_version", "_state") if keys else ():
        if row["_state"] == RowState.HELD:
            above[row["_key"]].append(row["_version"])
        else:
            heads[row["_key"]] = row["_version"]
    return {
        (key, version): gaps_between(heads[key], sorted(one for one in above[key] if one <= version))
        for key in keys
        for version in above[key]
    }


def _since(lake: Lake, dataset: Dataset, held: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By key and position: the first published batch that had the record."""
    records = {one.attempt: one for one in records_of(lake, dataset)}
    oldest_first = {attempt: number for number, attempt in enumerate(reversed(records))}
    keys = sorted({row["_key"] for row in held})
    if not keys:
        return {}
    wanted = And(one_of("key", keys), one_of("attempt", list(records)))
    rows = verdict_rows(lake, dataset, wanted, ("key", "attempt", *_POSITION))
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for row in sorted(rows, key=lambda row: -oldest_first[row["attempt"]]):
        record = records[row["attempt"]]
        found[_place(row["key"], row)] = {"batch": record.batch, "at": record.written.isoformat()}
    return found


def _place(key: str, row: dict[str, Any]) -> tuple[Any, ...]:
    return key, *(row[name] for name in _POSITION)
