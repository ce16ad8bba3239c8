"""Named places at which a test kills the process, to prove that a rerun ends right.

Nothing happens unless `ONEFOLD_FAULT` names a place.
"""

from __future__ import annotations

import os
import signal

RUN_POINTS = (
    "after_plan",
    "before_manifest",
    "after_land",
    "before_staged",
    "after_dedup",
    "before_merge",
    "amid_merge",
    "after_merge",
    "after_upsert",
    "after_gate",
    "before_commit",
    "after_commit",
    "after_publish",
)
REBUILD_POINTS = ("before_swap", "after_swap")
ROLLBACK_POINTS = ("before_rollback", "after_rollback")
DECISION_POINTS = ("before_decision", "after_decision")
DISCARD_POINTS = (*DECISION_POINTS, "after_drop")
ERASE_POINTS = (
    "before_forgotten",
    "before_erased",
    "before_new_manifest",
    "before_old_objects",
    "before_tables",
    "before_samples",
)
"""Behind the decision; the forget mark's own steps are those of any batch."""
CLAIM_POINTS = ("after_claim", "after_claimed_put")
FAULT_POINTS = RUN_POINTS + REBUILD_POINTS + ROLLBACK_POINTS + DISCARD_POINTS + ERASE_POINTS + CLAIM_POINTS


def fault_point(name: str) -> None:
    """Kill this process here, without any clean-up, if `ONEFOLD_FAULT` says so."""
    assert name in FAULT_POINTS, name
    if os.environ.get("ONEFOLD_FAULT") == name:
        os.kill(os.getpid(), signal.SIGKILL)
