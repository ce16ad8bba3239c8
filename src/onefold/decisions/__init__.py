"""What people decided of batches: recorded once each, in order, and obeyed by every step from then on."""

from onefold.decisions.documents import (
    OWN_BATCH,
    AcceptGap,
    Decision,
    Discard,
    Erasure,
    Forget,
    Mark,
    Release,
    Replay,
    RolledBack,
    Skip,
    Standing,
    Waiver,
    checked_reason,
)
from onefold.decisions.log import erasures_of, every_decision, log_of, record, standing

__all__ = [
    "OWN_BATCH",
    "AcceptGap",
    "Decision",
    "Discard",
    "Erasure",
    "Forget",
    "Mark",
    "Release",
    "Replay",
    "RolledBack",
    "Skip",
    "Standing",
    "Waiver",
    "checked_reason",
    "erasures_of",
    "every_decision",
    "log_of",
    "record",
    "standing",
]
