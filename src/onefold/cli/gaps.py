"""`onefold accept-gap` and `onefold held`: versions that wait for a missing version."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from onefold.cli.app import AsJson, Name, app, key_of, open_dataset, open_published
from onefold.cli.console import answer, note
from onefold.cli.decide_commands import DryRun, Reason, Who, carry_out
from onefold.decisions.who import Decider
from onefold.offsets import Position


@app.command(name="accept-gap")
def accept_gap(
    name: Name,
    key: Annotated[str, typer.Option("--key", metavar="JSON", help='The key: \'{"account_id": "a-1"}\'')],
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The held version at which the row goes on")],
    reason: Reason,
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Guard contiguous: go on at a held version of a key; those before it that are missing will never come."""
    from onefold.operations import accept_gap as gaps
    from onefold.report.held import in_words

    lake, dataset = open_dataset(name)
    made = gaps.accept_gap(lake, dataset, key_of(key, dataset), to, Decider.asserted(who), reason, dry_run=dry_run)
    missing = ", ".join(in_words(gap) for gap in made.missing)
    note(f"{name}: {key} goes on at version {to} without {missing}, as batch {made.batch}")
    carry_out(lake, dataset, made, dry_run=dry_run, as_json=as_json)


@app.command()
def held(
    name: Name,
    limit: Annotated[int | None, typer.Option(help="At most so many (default: 50 in a table, all in JSON)")] = None,
    as_json: AsJson = False,
) -> None:
    """Guard contiguous: the records that wait for a version before them, the oldest first.

    A missing version that was received all the same (rejected, filtered, skipped, in a red batch) is named.
    """
    from onefold.report.attempts import red_batches
    from onefold.report.held import held_of

    lake, dataset = open_published(name)
    rows = held_of(lake, dataset, limit or (None if as_json else 50), red_batches(lake, dataset))
    answer(f"{name}: held", rows, as_json, _waiting, "nothing is held")


def _waiting(row: dict[str, Any]) -> dict[str, Any]:
    from onefold.report.held import in_words, seen_in_words

    details = [f" ({other['detail']})" if other["detail"] else "" for other in row["seen"]]
    since = row["since"] or {"batch": "", "at": ""}
    return {
        "key": json.dumps(row["key"], ensure_ascii=False),
        "version": row["version"],
        "waits for": ", ".join(in_words((start, end)) for start, end in row["missing"]),
        "seen": "; ".join(seen_in_words(other) + text for other, text in zip(row["seen"], details, strict=True)),
        "since": f"{since['at'][:19]} {since['batch']}".strip(),
        "position": str(Position.of(row)),
    }
