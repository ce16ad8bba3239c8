"""`onefold forget`: what was landed of keys counts for nothing from now on."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from onefold.cli.app import AsJson, Name, app, key_of, open_dataset
from onefold.cli.console import note, print_json
from onefold.cli.decide_commands import DryRun, Keys, Reason, Who, carry_out
from onefold.decisions.who import Decider
from onefold.errors import UsageError
from onefold.instants import duration


@app.command()
def forget(
    name: Name,
    reason: Reason,
    keys: Keys = None,
    deleted_before: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="All keys whose row has been deleted for so long, by its record's time: 90d"),
    ] = None,
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Let all that was landed of some keys count for nothing, and each later copy of it: only what is newer counts.

    The landed bytes stay (`onefold erase`).
    """
    from onefold.operations import forget as forgetting
    from onefold.operations.erase import comes_back

    lake, dataset = open_dataset(name)
    before = _before(deleted_before) if deleted_before else None
    wanted = [key_of(key, dataset) for key in keys or []]
    made, found = forgetting.forget(lake, dataset, wanted, before, Decider.asserted(who), reason, dry_run=dry_run)
    if made is None:
        note(
            f"{name}: the table has nothing of what is named: there is nothing to forget. Batches that wait are not "
            "looked at (`onefold erase` does)"
        )
        if as_json:
            print_json([] if dry_run else None)
        return
    states = ", ".join(f"{count} {state}" for state, count in found.states.items()) or "no rows any more"
    note(f"{name}: {found.keys} {'key' if found.keys == 1 else 'keys'} ({states}), as batch {made.batch}")
    if returns := comes_back(dataset):
        note(f"{name}: {returns}")
    carry_out(lake, dataset, made, dry_run=dry_run, as_json=as_json)


def _before(age: str) -> datetime:
    try:
        return (datetime.now(UTC) - duration(age)).replace(microsecond=0)
    except ValueError as error:
        raise UsageError(f"--deleted-before {age!r}: {error}") from None
