"""The state of a batch, as reports and lists name it."""

from __future__ import annotations

from typing import Literal

from onefold.decisions import Decision, Discard, Undone
from onefold.quality.documents import GateResult

Status = Literal["published", "rolled_back", "discarded", "red", "unpublished"]
"""`discarded`: a rebuild has taken it out of the table. `unpublished`: steps are missing."""


def status_of(decision: Decision | None, gate: GateResult | None, *, published: bool) -> Status:
    """The state of a batch.

    Args:
        decision: the last one on it that counts.
        gate: the judgement of its newest attempt.
        published: whether its commit record is in the chain of the table.
    """
    if published:
        return "published"
    if isinstance(decision, Undone):
        return "rolled_back"
    if isinstance(decision, Discard) and decision.rebuilt:
        return "discarded"
    return "red" if gate and not gate.green else "unpublished"
