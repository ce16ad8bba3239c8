"""Accept a gap: a recorded decision that the versions of a key before one never come (guard contiguous).

It is a batch of its own without a record (`own_batch`): upsert wakes what was held, the gate judges it and the commit
record keeps it.
"""

from __future__ import annotations

import json
from typing import Any

from onefold.dataset import Dataset
from onefold.decisions import AcceptGap, Decider, checked_reason
from onefold.decisions.accepted_gaps import gaps_between, highest_forgotten
from onefold.decisions.marks import marks_named
from onefold.errors import UsageError
from onefold.generation import check_generation
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.land import land_batch
from onefold.landing.plan import GapPlan
from onefold.operations.own_batch import record_own_batch
from onefold.tables.key_digest import digest_of_key
from onefold.upsert.commit_record import chain
from onefold.vocabulary import RowState


def accept_gap(
    lake: Lake, dataset: Dataset, key: dict[str, Any], version: int, who: Decider, reason: str, *, dry_run: bool = False
) -> AcceptGap:
    """Record that a held version of a key waits no longer for those before it, and make it a landed batch: its steps,
    or any run of the dataset, carry it out.

    Raises:
        UsageError: the dataset holds nothing, the key is not of its kind, or the version is not held.
    """
    reason = checked_reason(reason)
    check_generation(lake, dataset)
    if not dataset.apply.HOLDS:
        raise UsageError(f"{dataset.name}: only versions without gaps (guard: contiguous) have gaps to accept")
    digest = digest_of_key(dataset, key)
    plan = GapPlan(source=dataset.source_id, dataset=dataset.name, key=key, version=version)

    def details() -> dict[str, Any]:
        return {"key": key, "version": version, "missing": _missing(lake, dataset, key, digest, version)}

    decision = record_own_batch(lake, dataset, plan, AcceptGap, who, reason, details, dry_run=dry_run)
    if not dry_run:
        land_batch(lake, dataset, plan.batch)
    return decision


def _missing(lake: Lake, dataset: Dataset, key: dict[str, Any], digest: bytes, version: int) -> list[tuple[int, int]]:
    """The missing versions between the head of a key and one that is held."""
    assert dataset.apply.version
    table = find_state(lake, dataset)
    rows = list(table.chain_of([digest], "_key", "_version", "_state")) if table else []
    held = sorted(int(row["_version"]) for row in rows if row["_state"] == RowState.HELD)
    heads = [int(row["_version"]) for row in rows if row["_state"] not in (RowState.HELD, RowState.MESSAGE)]
    if version not in held:
        there = f"held are {', '.join(map(str, held))}" if held else "nothing of it is held"
        raise UsageError(
            f"{dataset.name}: version {version} of {json.dumps(key, ensure_ascii=False)} is not held: {there}. Nothing "
            f"was decided (see `onefold held {dataset.name}`)."
        )
    record = next(iter(chain(lake, dataset, table.main.record)), None) if table else None
    marks = marks_named(lake, dataset.name, record.forgotten) if record else {}
    before_first = highest_forgotten(dataset, marks.values()).get(digest, dataset.apply.version.begins - 1)
    return gaps_between(max([*heads, before_first]), [lower for lower in held if lower <= version])
