"""What people decided of batches: recorded once each, in order, and obeyed by every step from then on."""

from onefold.decisions.documents import Decision, Discard, Release, Replay, Skip, Waiver
from onefold.decisions.log import every_decision, log_of, record, standing

__all__ = [
    "Decision",
    "Discard",
    "Release",
    "Replay",
    "Skip",
    "Waiver",
    "every_decision",
    "log_of",
    "record",
    "standing",
]
