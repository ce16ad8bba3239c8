"""Roll the published table back to an earlier batch: an operator's decision; `main` moves once, coverage with it."""

from __future__ import annotations

from datetime import UTC, datetime

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import Decider, RolledBack
from onefold.decisions.marks import pin_marks
from onefold.errors import ContentionError, UsageError
from onefold.faults import fault_point
from onefold.generation import check_generation
from onefold.iceberg.commits import Head, MainMovedError
from onefold.iceberg.state_table import StateTable, find_state
from onefold.lake import Lake, new_attempt
from onefold.landing.land import check_not_cleared
from onefold.landing.plan import find_plan
from onefold.publish.rolled_back import overrule_decisions, restore_decisions
from onefold.upsert.commit_record import chain, published_chain


def roll_back(
    lake: Lake, dataset: Dataset, batch: str, who: Decider, reason: str, *, dry_run: bool = False
) -> RolledBack:
    """Move `main` back to the rows of a published batch. Later batches are `rolled_back`, and wait for an operator.

    What was decided of these counts no more. Their bytes stay landed, and forgotten keys stay forgotten.

    Raises:
        UsageError: the batch is not published, or its snapshot has expired.
        LandingClearedError: the landed bytes of a later batch are gone: it could not be run again.
        ContentionError: another writer moved `main` meanwhile.
    """
    check_generation(lake, dataset)
    table = find_state(lake, dataset)
    records = list(chain(lake, dataset, table.main.record)) if table else []
    place = next((number for number, record in enumerate(records) if record.batch == batch), None)
    if table is None or place is None:
        raise UsageError(f"{dataset.name}: batch {batch} is not published (see `onefold batches {dataset.name}`)")
    to = table.head_of(records[place].name)
    if to is None:
        raise UsageError(f"{dataset.name}: the snapshot of batch {batch} has expired: roll back to a later one")
    for record in records[:place]:
        plan = find_plan(lake, dataset, record.batch)
        check_not_cleared(lake, plan.source, plan.landing)
    decision = RolledBack(
        dataset=dataset.name,
        to=batch,
        undone=[record.batch for record in records[:place]],
        snapshot=to.snapshot,
        who=who,
        reason=reason,
        at=datetime.now(UTC),
    )
    if decision.undone and not dry_run:
        pin_marks(lake, dataset.name, records[0].forgotten)
        _move(lake, dataset, table, decision, to)
    return decision


def _move(lake: Lake, dataset: Dataset, table: StateTable, decision: RolledBack, to: Head) -> None:
    key = lake_keys.decision(dataset, f"{decision.at:%Y%m%dT%H%M%SZ}-rollback-{new_attempt()}")
    lake.put(key, decision)  # first: what an operator decided is on record, whatever happens next
    overrule_decisions(lake, decision)
    fault_point("before_rollback")
    try:
        table.roll_back(to, table.main.snapshot)
    except MainMovedError:
        lake.put(key, decision.model_copy(update={"undone": []}))
        restore_decisions(lake, dataset, published_chain(lake, dataset))
        raise ContentionError(dataset.target.table, decision.to, 1) from None
    fault_point("after_rollback")
