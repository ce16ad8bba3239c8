"""Accept a gap: a person's word that the versions of a key before one will never come (guard contiguous).

It is a batch of its own without a record. Whatever follows is done by the ordinary steps: upsert wakes what was held,
the gate judges it, the commit record keeps it, and every later batch, a rebuild and a run behind a rollback obey it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from onefold.dataset import Dataset
from onefold.decisions import AcceptGap, log_of, record
from onefold.decisions.accepted_gaps import gaps_between
from onefold.errors import DecidedMeanwhileError, UsageError
from onefold.generation import check_generation
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.land import land_batch
from onefold.landing.plan import GapPlan, put_plan
from onefold.records.key import digest_of_key
from onefold.vocabulary import RowState


def accept_gap(
    lake: Lake, dataset: Dataset, key: dict[str, Any], version: int, by: str, reason: str, *, dry_run: bool = False
) -> AcceptGap:
    """Record that a held version of a key shall not wait for those before it any more, and make it a landed batch: its
    steps, or any run of the dataset, carry it out. Recorded once, whoever asks.

    Raises:
        UsageError: the dataset holds nothing, the key is not of its kind, or the version is not held.
    """
    if not reason.strip():
        raise UsageError("a decision needs a reason (--reason), which is kept with it")
    check_generation(lake, dataset)
    if not dataset.chained:
        raise UsageError(f"{dataset.name}: only versions without gaps (guard: contiguous) have gaps to accept")
    digest = digest_of_key(dataset, key)
    plan = GapPlan(source=dataset.source_id, dataset=dataset.name, key=key, version=version)
    log = log_of(lake, dataset.name, plan.batch)
    made = next((one for one in log if isinstance(one, AcceptGap)), None)
    if made is None:
        made = AcceptGap(
            dataset=dataset.name,
            batch=plan.batch,
            number=len(log) + 1,
            by=by,
            reason=reason.strip(),
            at=datetime.now(UTC),
            key=key,
            version=version,
            missing=_missing(lake, dataset, key, digest, version),
        )
        if dry_run:
            return made
        put_plan(lake, plan)
        try:
            record(lake, made)
        except DecidedMeanwhileError:  # somebody else has just asked for the same
            made = next(one for one in log_of(lake, dataset.name, plan.batch) if isinstance(one, AcceptGap))
    if not dry_run:
        land_batch(lake, dataset, plan.batch)
    return made


def _missing(lake: Lake, dataset: Dataset, key: dict[str, Any], digest: bytes, version: int) -> list[tuple[int, int]]:
    """The versions that have not come between the head of a key and one that is held."""
    assert dataset.apply.version
    table = find_state(lake, dataset)
    rows = list(table.chain_of([digest], "_key", "_version", "_state")) if table else []
    held = sorted(int(row["_version"]) for row in rows if row["_state"] == RowState.HELD)
    heads = [int(row["_version"]) for row in rows if row["_state"] != RowState.HELD]
    if version not in held:
        there = f"held are {', '.join(map(str, held))}" if held else "nothing of it is held"
        raise UsageError(
            f"{dataset.name}: version {version} of {json.dumps(key, ensure_ascii=False)} is not held: {there}. Nothing "
            f"was decided (see `onefold held {dataset.name}`)."
        )
    return gaps_between(max(heads, default=dataset.apply.version.begins - 1), [one for one in held if one <= version])
