"""`onefold erase`: keys are forgotten, and nothing of what they were made of is left in the lake."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onefold.cli.app import AsJson, Name, app, key_of, launching, open_dataset, position_of
from onefold.cli.console import NOTES, note, print_json, print_rows
from onefold.cli.decide_commands import Keys, Reason, Who
from onefold.decisions.who import Decider
from onefold.errors import UsageError

if TYPE_CHECKING:
    from onefold.operations.erase import Meant


@app.command()
def erase(
    name: Name,
    reason: Reason,
    keys: Keys = None,
    position: Annotated[
        list[str] | None,
        typer.Option("--position", metavar="TOPIC-PARTITION@OFFSET", help="A record in quarantine; may be repeated"),
    ] = None,
    who: Who = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask: what is erased cannot be brought back")] = False,
    as_json: AsJson = False,
) -> None:
    """Erase keys for good: forget them, and take what they were made of out of landing, tables and reports.

    The topic or the export is not touched: erase there first, or the next export brings the bytes again.
    """
    from onefold.decisions import checked_reason
    from onefold.operations import erasure_scope as erasing
    from onefold.operations.erase import erase_keys, meant

    lake, dataset = open_dataset(name)
    wanted, places = [key_of(key, dataset) for key in keys or []], [position_of(text) for text in position or []]
    reason = checked_reason(reason)
    also = erasing.others(lake, dataset)
    if not (dry_run or yes):
        _check_can_ask()
    with launching(lake) as spark, NOTES.status(f"{name}: erase") as status:
        found = meant(lake, dataset, wanted, spark, places)
        document = asdict(found) | {"others": also}
        if not found:
            _name_unknown(name, found)
            note(f"{name}: neither table, landing nor a forget mark has what is named: there is nothing to erase")
            if as_json:
                print_json(document)
            return
        if dry_run:
            status.stop()
            _answer(name, found, document, as_json)
            _name_unknown(name, found)
            _warn(also)
            return
        status.stop()
        _name_unknown(name, found)
        if not yes:
            _ask(name, found)
        status.start()
        done = erase_keys(
            lake,
            dataset,
            wanted,
            Decider.asserted(who),
            reason,
            spark,
            lambda said: status.update(f"{name}: {said}"),
            places,
        )
    note(f"{name}: erased {done.records} landed records for good ({done.objects} objects rewritten), as {done.name}")
    if as_json:
        print_json(done.model_dump(mode="json") | {"others": also})
    _warn(also)


def _answer(name: str, found: Meant, document: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(document)
        return
    note(f"{name}: would erase {_counted(found)}, for good")
    rows = [{"object": key, "records": count} for key, count in found.objects.items()]
    print_rows("landed objects that would be rewritten", rows, "none")


def _check_can_ask() -> None:
    if not sys.stdin.isatty():
        raise UsageError("what is erased cannot be brought back: say --yes, or --dry-run to look. Nothing was erased.")


def _ask(name: str, found: Meant) -> None:
    asked = f"{name}: erase {_counted(found)}, for good? Snapshots before this one go, too"
    typer.confirm(asked, abort=True, err=True)


def _counted(found: Meant) -> str:
    states = ", ".join(f"{count} {state}" for state, count in found.rows.items())
    return f"{found.records} landed records, and {f'rows of the table: {states}' if states else 'no row of the table'}"


def _name_unknown(name: str, found: Meant) -> None:
    """Say what the erasure does not reach, or may not."""
    if found.unseen:
        counted = ", ".join(f"{count} {became}" for became, count in found.unseen.items())
        note(f"{name}: some of the landed records are no part of any row, and are erased, too: {counted}")
    if found.unreadable:
        from onefold.operations.erase import SHOWN

        places, more = ", ".join(found.unreadable_at), ", …" if len(found.unreadable_at) == SHOWN else ""
        note(
            f"{name}: {found.unreadable} landed records have no readable key, so they stay: {places}{more}. Those in "
            "quarantine can be erased by --position"
        )
    if found.unread:
        note(f"{name}: the landing of {', '.join(found.unread)} cannot be read, so what it holds stays")
    if found.comes_back:
        note(f"{name}: {found.comes_back}")


def _warn(others: Sequence[str]) -> None:
    if others:
        commands = ", ".join(f"onefold erase {other}" for other in others)
        note(f"The same landing is folded by {', '.join(others)}. Their tables may still hold it: run {commands}")
