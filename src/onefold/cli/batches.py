"""Batches as commands tell of them: what one would read, at which step it is, how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rich.status import Status

from onefold.cli.console import NOTES, note
from onefold.landing.plan import Plan

if TYPE_CHECKING:
    from onefold.cli.run import BatchRun

Say = Callable[[str], None]


def say_step(status: Status, name: str, number: int, total: int) -> Say:
    """Says at which step which of how many batches is."""

    def say(step: str) -> None:
        status.update(f"{name}: batch {number} of {total}: {step}")
        if not NOTES.is_terminal:
            note(f"{name}: batch {number} of {total}: {step}")

    return say


def planned(plan: Plan) -> dict[str, Any]:
    """What a plan would read, as a row."""
    told = {"batch": plan.batch, "interval": plan.interval.model_dump(mode="json") if plan.interval else None}
    if plan.kind == "ranges":
        return told | {
            "partitions": len({one.topic_partition.key for one in plan.ranges}),
            "offsets": sum(one.end - one.start for one in plan.ranges),
            "notes": plan.notes,
        }
    if plan.kind == "replay":
        return told | {"replays": plan.origin, "records": plan.records}
    if plan.kind == "gap":
        return told | {"accepts": {"key": plan.key, "version": plan.version}}
    objects = plan.objects
    return told | {
        "objects": len(objects),
        "bytes": sum(one.size for one in objects),
        "ignored": len(getattr(plan, "ignored", [])),
    }


def ended(one: BatchRun) -> dict[str, Any]:
    """How a batch ended, as a row."""
    published = one.published
    counts = published.counts if published else {}
    state = "red" if published is None else ("already published" if published.already else "published")
    return {
        "batch": one.batch,
        "state": state,
        "attempt": published.attempt if published else None,
        "verdicts": {verdict: sum(reasons.values()) for verdict, reasons in counts.items()},
        "report": one.report,
    }
