"""A decision as somebody asks for it before it is made: shown first, and made only as it was shown."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from onefold.dataset import Dataset
from onefold.decisions import Decider, Decision, Release, Waiver
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.operations.decide import discard, release, skip, take_up
from onefold.operations.rebuild import foresee_without
from onefold.operations.replay import plan_replay, replay

Kind = Literal["release", "discard", "skip", "replay", "again", "without"]


class Request(BaseModel):
    """What somebody asks to be decided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    batch: str
    decision: Kind
    reason: str
    waivers: tuple[str, ...] = Field(
        default=(), description="Of a release: red checks, `check=value` each, by id or title"
    )


class Shown(BaseModel):
    """What a request comes to, as it was shown to the approver."""

    model_config = ConfigDict(frozen=True)

    batch: str = Field(description="The batch that is decided; of a replay the one that folds the records again")
    number: int = Field(description="The decision's, within its batch")
    waivers: tuple[Waiver, ...] = Field(default=(), description="Of a release, with the digests of what was shown")

    @classmethod
    def of(cls, decision: Decision) -> Shown:
        """What is shown of a decision before it is made."""
        waivers = decision.in_force if isinstance(decision, Release) else ()
        return cls(batch=decision.batch, number=decision.number, waivers=tuple(waivers))


def foresee(lake: Lake, dataset: Dataset, request: Request, who: Decider) -> Decision | None:
    """The decision that a request comes to; nothing is written. None: there is nothing to discard, or to replay.

    Raises:
        OnefoldError: what `release`, `skip`, `discard` or `plan_replay` refuse.
    """
    return _make(lake, dataset, request, who, dry_run=True)


def carry(lake: Lake, dataset: Dataset, request: Request, who: Decider, shown: Shown) -> Decision:
    """Record what a request comes to, if that is still what was shown. Recorded once, however often it is asked for.
    What takes a batch out is recorded by the rebuild, when its table is ready.

    Raises:
        UsageError: somebody has decided since, or the quarantine or the code has changed.
    """
    made = foresee(lake, dataset, request, who)
    if made is None or Shown.of(made) != shown:
        raise UsageError(
            f"{dataset.name}: batch {request.batch} is not any more what was shown and approved. Nothing was decided. "
            f"Look at onefold decisions {dataset.name}, and ask again if it is still needed."
        )
    recorded = _make(lake, dataset, request, who, dry_run=False)
    assert recorded is not None
    return recorded


def _make(lake: Lake, dataset: Dataset, request: Request, who: Decider, *, dry_run: bool) -> Decision | None:
    batch, reason = request.batch, request.reason
    if request.waivers and request.decision != "release":
        raise UsageError(f"waivers belong to a release; a {request.decision} has none. Nothing was decided.")
    if request.decision == "release":
        return release(lake, dataset, batch, request.waivers, who, reason, dry_run=dry_run)
    if request.decision == "skip":
        return skip(lake, dataset, batch, who, reason, dry_run=dry_run)
    if request.decision == "discard":
        return discard(lake, dataset, batch, who, reason, dry_run=dry_run)
    if request.decision == "again":
        return take_up(lake, dataset, batch, who, reason, dry_run=dry_run)
    if request.decision == "without":
        return foresee_without(lake, dataset, batch, who, reason)
    found = plan_replay(lake, dataset, batch)
    return None if found.plan.empty else replay(lake, dataset, found.plan, who, reason, dry_run=dry_run)
