"""A decision that is a batch of its own: recorded once, whichever process asks first, and carried out by any run.

The batch has a plan and no landed records. Its steps are the ordinary ones, and every later batch, a rebuild and a
run after a rollback obey it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

from onefold.dataset import Dataset
from onefold.decisions import AcceptGap, Decider, Decision, Forget, Replay, log_of, record
from onefold.errors import DecidedMeanwhileError
from onefold.lake import Lake
from onefold.landing.plan import Plan, put_plan

Own = TypeVar("Own", AcceptGap, Forget, Replay)


def record_own_batch(
    lake: Lake,
    dataset: Dataset,
    plan: Plan,
    kind: type[Own],
    who: Decider,
    reason: str,
    details: Callable[[], dict[str, Any]],
    *,
    dry_run: bool = False,
) -> Own:
    """Write a plan and the decision that makes it; the one on record, where another process was first.

    Args:
        lake: where both are kept.
        dataset: whose batch it is.
        plan: what the batch does.
        kind: of decision.
        who: who decided it.
        reason: kept with it.
        details: the fields of this kind of decision; called only where none is on record.
        dry_run: write nothing.
    """
    log = log_of(lake, dataset.name, plan.batch)
    if recorded := _of_kind(log, kind):
        return recorded
    decision = kind(
        dataset=dataset.name,
        batch=plan.batch,
        number=len(log) + 1,
        who=who,
        reason=reason.strip(),
        at=datetime.now(UTC),
        **details(),
    )
    if dry_run:
        return decision
    put_plan(lake, plan)
    try:
        record(lake, decision)
    except DecidedMeanwhileError:  # another process has just recorded the same
        recorded = _of_kind(log_of(lake, dataset.name, plan.batch), kind)
        if recorded is None:
            raise
        return recorded
    return decision


def _of_kind(log: list[Decision], kind: type[Own]) -> Own | None:
    return next((decision for decision in log if isinstance(decision, kind)), None)
