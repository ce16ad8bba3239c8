"""What people decided, as it is listed and shown."""

from __future__ import annotations

from typing import Any

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import (
    OWN_BATCH,
    AcceptGap,
    Again,
    Clearing,
    Decision,
    Discard,
    Release,
    RolledBack,
    Skip,
    Undone,
    erasures_of,
    every_decision,
    log_of,
    table_decisions,
)
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.quality.waivers import by_id
from onefold.upsert.commit_record import chain
from onefold.upsert.documents import Upserted


def in_force(lake: Lake, dataset: Dataset, batch: str, latest: Upserted | None) -> Decision | None:
    """The last decision on a batch that is not published; a discard or `again` only until the batch is judged again."""
    log = log_of(lake, dataset.name, batch)
    last = log[-1] if log else None
    settled = isinstance(last, Again) or (isinstance(last, Discard) and not last.rebuilt)
    return None if last and settled and latest and latest.decided >= last.number else last


def decisions_of(lake: Lake, dataset: Dataset) -> list[dict[str, Any]]:
    """Every decision on the dataset's batches and table, oldest first.

    The state of a release or a skip is `published`, `waiting` or `overruled` by a later decision, of a replay,
    an accepted gap or forgotten keys `published` or `waiting`, of erased keys `done` or `waiting`. A batch that is
    rolled back is `waiting` until a later decision, which makes it `done`; `overruled` if `main` was not moved. Others
    are `done`.
    """
    table = find_state(lake, dataset)
    records = list(chain(lake, dataset, table.main.record)) if table else []
    published = {(record.batch, record.decision.number) for record in records if record.decision}
    there = {record.batch for record in records}
    made = list(every_decision(lake, dataset.name))
    last = {decision.batch: decision.number for decision in made}
    rows = []
    for decision in made:
        newest = decision.number == last[decision.batch]
        if isinstance(decision, Undone):
            state = "done" if not newest else ("overruled" if decision.batch in there else "waiting")
        elif (decision.batch, decision.number) in published or (
            decision.batch in there and _brought(decision, newest=newest)
        ):
            state = "published"
        elif not newest and not isinstance(decision, OWN_BATCH):
            state = "done" if isinstance(decision, Again) else "overruled"
        else:
            state = "done" if isinstance(decision, Discard | Again) else "waiting"
        rows.append(row_of(decision, state))
    return sorted([*rows, *_of_table(lake, dataset), *_erasures(lake, dataset)], key=lambda row: str(row["at"]))


def _brought(decision: Decision, *, newest: bool) -> bool:
    """Whether a published batch carries out a decision that its commit record does not name by this number."""
    return isinstance(decision, OWN_BATCH) or (newest and isinstance(decision, Release | Skip))


def row_of(decision: Decision, state: str) -> dict[str, Any]:
    """A decision as a row."""
    own, carried = (decision.waivers, decision.carried) if isinstance(decision, Release) else ([], [])
    waived = [(by_id(waiver), False) for waiver in own] + [(by_id(waiver), True) for waiver in carried]
    return {
        "dataset": decision.dataset,
        "batch": decision.batch,
        "decision": decision.kind,
        **decision.attribution,
        "at": decision.at.isoformat(),
        "waived": [waiver.model_dump(exclude={"digest"}) | {"carried": kept} for waiver, kept in waived],
        "state": state,
    } | ({"accepts": {"key": decision.key, "version": decision.version}} if isinstance(decision, AcceptGap) else {})


def _of_table(lake: Lake, dataset: Dataset) -> list[dict[str, Any]]:
    return [
        {
            "dataset": made.dataset,
            "batch": made.source if isinstance(made, Clearing) else made.to,
            "decision": made.kind,
            **made.attribution,
            "at": made.at.isoformat(),
            "waived": [],
            "state": _state_of(lake, made),
        }
        | ({"clears": made.landings} if isinstance(made, Clearing) else {})
        for made in table_decisions(lake, dataset.name)
    ]


def _state_of(lake: Lake, made: RolledBack | Clearing) -> str:
    if isinstance(made, RolledBack):
        return "done" if made.undone else "overruled"
    begun = all(lake.storage.stat(lake_keys.cleared(made.source, batch)) for batch in made.landings)
    return "done" if begun else "waiting"


def _erasures(lake: Lake, dataset: Dataset) -> list[dict[str, Any]]:
    return [
        {
            "dataset": erasure.dataset,
            "batch": erasure.name,
            "decision": "erase",
            **erasure.attribution,
            "at": erasure.at.isoformat(),
            "waived": [],
            "state": "done" if erasure.ended else "waiting",
        }
        for erasure in erasures_of(lake, dataset.name)
    ]
