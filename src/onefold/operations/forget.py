"""Forget keys: a recorded decision that what the table has of them counts for nothing from now on.

It is a batch of its own without a record (`own_batch`): upsert finds the records and removes the keys' rows, the gate
judges it, the commit record keeps it, and a proof obeys it, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from onefold.dataset import Dataset
from onefold.decisions import Decider, Forget, checked_reason
from onefold.errors import UsageError
from onefold.generation import check_generation
from onefold.iceberg.commits import ROOT
from onefold.iceberg.state_table import StateTable, find_state
from onefold.lake import Lake
from onefold.landing.land import land_batch
from onefold.landing.plan import ForgetPlan
from onefold.operations.own_batch import record_own_batch
from onefold.tables.key_digest import digest_of_key, digest_of_sum
from onefold.vocabulary import RowState

MOST = 100_000
"""Keys of one mark: every later batch that overlaps what they were made of reads it."""


@dataclass(frozen=True, slots=True)
class Found:
    """What the table has now of keys that are to be forgotten."""

    keys: int
    """Those of which the table has a row, or a delivery in the ledger of messages"""
    states: dict[str, int]
    """Their rows by state, without the ledger of messages"""


def forget(
    lake: Lake,
    dataset: Dataset,
    keys: Sequence[dict[str, Any]],
    deleted_before: datetime | None,
    who: Decider,
    reason: str,
    *,
    dry_run: bool = False,
    erases: bool = False,
) -> tuple[Forget | None, Found]:
    """Record that keys shall be forgotten, and make it a landed batch: its steps, or any run of the dataset, carry it
    out. None: the table has nothing of them. Asked again before anything is published, it finds itself on record.
    `erases`: every landed record of the keys is meant, also where the table has no row.

    Raises:
        UsageError: no reason, no key, a key that is not of the dataset's kind, or too many of them.
    """
    reason = checked_reason(reason)
    if not keys and deleted_before is None:
        raise UsageError("say which keys: --key, or --deleted-before")
    check_generation(lake, dataset)
    digests = sorted({digest for key in keys for digest in digests_of(dataset, key)})
    table = find_state(lake, dataset)
    if table is None and not erases:
        return None, Found(0, {})
    found = _found(dataset, table, digests, deleted_before) if table else Found(0, {})
    if found.keys > MOST:
        raise UsageError(
            f"{dataset.name}: {found.keys:,} keys are more than one mark may hold ({MOST:,}). Nothing was decided. "
            "Forget those that were deleted longest ago first (a larger --deleted-before), then the next."
        )
    if not (found.keys or erases):
        return None, found
    plan = ForgetPlan(
        source=dataset.source_id,
        dataset=dataset.name,
        keys=[digest.hex() for digest in digests],
        deleted_before=deleted_before,
        behind=table.main.record if table else ROOT,
        erases=erases,
    )

    def details() -> dict[str, Any]:
        rows = sum(found.states.values())
        return {"keys": plan.keys, "deleted_before": deleted_before, "found": found.keys, "rows": rows}

    decision = record_own_batch(lake, dataset, plan, Forget, who, reason, details, dry_run=dry_run)
    if not dry_run:
        land_batch(lake, dataset, plan.batch)
    return decision, found


def digests_of(dataset: Dataset, key: dict[str, Any]) -> list[bytes]:
    """The digests of a key: in mode increment a message's, or that of the sum it is added to.

    Raises:
        UsageError: it is no key of the dataset.
    """
    if dataset.apply.names_a_group(dataset, key):
        both = set(key) == set(dataset.key_names)
        return [digest_of_sum(dataset, key), *([digest_of_key(dataset, key)] if both else [])]
    return [digest_of_key(dataset, key)]


def _found(dataset: Dataset, table: StateTable, digests: list[bytes], deleted_before: datetime | None) -> Found:
    more = ["_entries"] if dataset.apply.KEEPS_ENTRIES else []
    rows = list(table.chain_of(digests, "_key", "_state", *more)) if digests else []
    if deleted_before:
        named = {row["_key"] for row in rows}
        before = deleted_before.astimezone(UTC).timestamp() * 1000
        held = {row["_key"] for row in table.held("_key")} if dataset.apply.HOLDS else set()
        rows += [
            {"_key": row["_key"], "_state": RowState.DELETED}
            for row in table.deleted("_key", "_order")
            if 0 <= row["_order"]["timestamp"] < before and row["_key"] not in named | held
        ]
    states: dict[str, int] = {}
    for row in rows:
        if row["_state"] == RowState.MESSAGE:
            continue
        states[row["_state"]] = states.get(row["_state"], 0) + 1
        if entries := row.get("_entries"):  # of a sum
            states[RowState.ENTRY] = states.get(RowState.ENTRY, 0) + entries
    return Found(len({row["_key"] for row in rows}), dict(sorted(states.items())))
