"""What a plan would read, for whoever asks before anything is written."""

from __future__ import annotations

from typing import Any

from onefold.landing.plan import Plan


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
    if plan.kind == "forget":
        return told | {"forgets": plan.told}
    objects = plan.objects
    return told | {
        "objects": len(objects),
        "bytes": sum(one.size for one in objects),
        "ignored": len(getattr(plan, "ignored", [])),
        "notes": plan.notes,
    }
