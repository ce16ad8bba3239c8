"""`onefold replay`: quarantined records, after a fix."""

from __future__ import annotations

from typing import Annotated

import typer

from onefold.cli.app import AsJson, Batch, Name, app, open_dataset, position_of
from onefold.cli.console import note, print_json
from onefold.cli.decide_commands import DryRun, Who, carry_out
from onefold.decisions.who import Decider


@app.command()
def replay(
    name: Name,
    batch: Batch,
    key: Annotated[str | None, typer.Option("--key", metavar="JSON", help="Only records with this Kafka key")] = None,
    position: Annotated[
        list[str] | None,
        typer.Option(
            "--position",
            metavar="TOPIC-PARTITION@OFFSET",
            help="Only these (or CLUSTER/TOPIC/INCARNATION/PARTITION/OFFSET); may be repeated",
        ),
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="What was mended; it is recorded")] = "",
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Fold quarantined records of a batch again, after a fix: what is rejected again stays where it is."""
    from onefold.operations.replay import plan_replay, replay

    lake, dataset = open_dataset(name)
    found = plan_replay(lake, dataset, batch, key, {position_of(text) for text in position or ()})
    if found.tried:
        note(f"{name}: {found.tried} stay in quarantine: this code has rejected them again already")
    if found.unplaced:
        note(f"{name}: {found.unplaced} lines have no position and stay in quarantine: read their export again")
    if found.plan.empty:
        note(f"{name}: nothing of batch {batch} is in quarantine that could be replayed")
        if as_json:
            print_json({"batch": None, "state": "nothing", "replays": batch, "records": 0})
        return
    reasons = ", ".join(f"{count} {why}" for why, count in found.reasons.items())
    note(f"{name}: {found.plan.records} records of batch {batch} ({reasons}) as batch {found.plan.batch}")
    made = replay(lake, dataset, found.plan, Decider.asserted(who), reason, dry_run=dry_run)
    carry_out(lake, dataset, made, dry_run=dry_run, as_json=as_json)
