"""`onefold replay`: quarantined records, after a fix."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from onefold.cli.app import AsJson, Batch, Name, app, open_dataset
from onefold.cli.console import note, print_json
from onefold.cli.decide import DryRun, Who, carry_out, user
from onefold.errors import UsageError

if TYPE_CHECKING:
    from onefold.publish.replay import Position

_POSITION = re.compile(
    r"(?P<topic>[^/@]+)(?:/(?P<partition>\d+)/(?P<offset>\d+)|-(?P<partition_>\d+)@(?P<offset_>\d+))"
)
_IN_LOG = re.compile(r"(?P<cluster>[^/]+)/(?P<topic>[^/@]+)/(?P<incarnation>\d+)/(?P<partition>\d+)/(?P<offset>\d+)")


@app.command()
def replay(
    name: Name,
    batch: Batch,
    key: Annotated[str | None, typer.Option("--key", metavar="JSON", help="Only records with this Kafka key")] = None,
    position: Annotated[
        list[str] | None,
        typer.Option(
            "--position",
            metavar="TOPIC/PARTITION/OFFSET",
            help="Only these (or CLUSTER/TOPIC/INCARNATION/PARTITION/OFFSET); may be repeated",
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What was mended; it is recorded")] = "",
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Fold quarantined records of a batch again, after a fix: what is rejected again stays where it is."""
    from onefold.publish.replay import plan_replay, replay

    lake, dataset = open_dataset(name)
    found = plan_replay(lake, dataset, batch, key, {place_of(one) for one in position or ()})
    if found.tried:
        note(f"{name}: {found.tried} stay in quarantine: this code has rejected them again already")
    if found.unplaced:
        note(f"{name}: {found.unplaced} lines have no position and stay in quarantine: read their export again")
    if found.plan.empty:
        note(f"{name}: nothing of batch {batch} is in quarantine that could be replayed")
        if as_json:
            print_json({"batch": None, "state": "nothing", "replays": batch, "records": 0})
        return
    told = ", ".join(f"{count} {why}" for why, count in found.reasons.items())
    note(f"{name}: {found.plan.records} records of batch {batch} ({told}) as batch {found.plan.batch}")
    made = replay(lake, dataset, found.plan, who or user(), reason, dry_run=dry_run)
    carry_out(lake, dataset, made, dry_run=dry_run, as_json=as_json)


def place_of(text: str) -> Position:
    """A position as a person typed it, with or without its cluster and incarnation.

    Raises:
        UsageError: it is none.
    """
    from onefold.publish.replay import Position

    if one := _IN_LOG.fullmatch(text):
        return Position(
            one["topic"], int(one["partition"]), int(one["offset"]), one["cluster"], int(one["incarnation"])
        )
    found = _POSITION.fullmatch(text)
    if not found:
        raise UsageError(
            f"--position {text!r} is no TOPIC/PARTITION/OFFSET, such as payments.entries/0/17, and no "
            "CLUSTER/TOPIC/INCARNATION/PARTITION/OFFSET"
        )
    partition, offset = found["partition"] or found["partition_"], found["offset"] or found["offset_"]
    return Position(found["topic"], int(partition), int(offset))
