"""The commands that only read: show, changes, batches, verdicts, quarantine, explain, offsets. They start no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from onefold.cli.app import AsJson, Batch, Name, app, key_of, open_published, position_of
from onefold.cli.batches import note_rolled_back
from onefold.cli.console import answer, note, print_json_rows, print_rows, with_ranges
from onefold.decisions import Decider
from onefold.errors import UsageError, nearest
from onefold.offsets import Position
from onefold.vocabulary import OUTCOMES, Reason


@app.command()
def show(
    name: Name,
    at: Annotated[str | None, typer.Option("--at", metavar="BATCH", help="As of a published batch")] = None,
    limit: Annotated[
        int | None, typer.Option(help="At most so many rows (default: 20 in a table, all in JSON)")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Published rows."""
    from onefold.report.ledger import rows_of

    lake, dataset = open_published(name)
    rows = rows_of(lake, dataset, at, limit or (None if as_json else 20))
    if at is None:
        note_rolled_back(lake, dataset)
    answer(dataset.target.table, rows, as_json)


@app.command()
def changes(
    name: Name,
    since: Annotated[
        str | None, typer.Option(metavar="BATCH", help="The batch or the snapshot that was read last; default: none")
    ] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many rows in the table (default: 50)")] = None,
    as_json: AsJson = False,
) -> None:
    """Rows inserted, updated and deleted since a batch, and the mark to continue from."""
    from onefold.report.changes import difference

    lake, dataset = open_published(name)
    rows = difference(lake, dataset, since)
    start, until = (mark and mark.plain() for mark in (rows.since, rows.until))
    if as_json:
        print_json_rows(rows.rows(), {"since": start, "until": until})
        return
    first = rows.first(limit or 50)
    print_rows(f"{dataset.target.table}: {first.count} changes", map(_change_cells, first.rows), "no rows")
    if until:
        note(f"up to batch {until['batch']}, snapshot {until['snapshot']}: go on with --since {until['snapshot']}")


def _change_cells(change: dict[str, Any]) -> dict[str, Any]:
    """A change as a line; no column's name begins with _, so `_change` is free where the rows have a `change`."""
    row = change["row"]
    return {"_change" if "change" in row else "change": change["change"], **row}


@app.command()
def batches(name: Name, as_json: AsJson = False) -> None:
    """Batches, their counts, their gate."""
    from onefold.report.ledger import batches_of

    lake, dataset = open_published(name)
    answer(name, batches_of(lake, dataset), as_json, _batch_cells)


def _batch_cells(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "batch": row["batch"],
        "landed": _landed(row),
        "verdicts": ", ".join(f"{verdict} {count}" for verdict, count in row["verdicts"].items()),
        "rows": ", ".join(f"{count} {change}" for change, count in (row["rows"] or {}).items() if count),
        "gate": row["gate"],
        "published": "yes" if row["published"] else row.get("state", "no"),
        "decision": _decision_in_words(row["decision"]) if "decision" in row else "",
    }


def _decision_in_words(decision: dict[str, Any]) -> str:
    return f"{decision['kind']} by {Decider(**decision['who']).words}"


def _landed(row: dict[str, Any]) -> Any:
    if row.get("accepts"):
        return "a gap accepted"
    if row.get("forgets"):
        return "keys forgotten"
    return f"{row['replayed']} replayed" if row.get("replays") else row["landed"]


@app.command()
def verdicts(
    name: Name,
    batch: Batch,
    reason: Annotated[str | None, typer.Option(help="Only this reason")] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many (default: 50 in a table, all in JSON)")] = None,
    as_json: AsJson = False,
) -> None:
    """The verdict of each record of a batch."""
    from onefold.report.attempts import red_batch
    from onefold.report.ledger import VERDICT, each_verdict

    _check_reason(reason, Reason)
    lake, dataset = open_published(name, rebuilding=True)
    columns = ("verdict", "reason", "scope", "survivor") if as_json else VERDICT
    rows, published = each_verdict(lake, dataset, batch, reason, limit or (None if as_json else 50), columns)
    if not published:
        red = red_batch(lake, dataset, batch)
        note(red.sentence if red else f"not published: batch {batch}. Its verdicts are what its last attempt found.")
    if as_json:
        names = ("topic", "partition", "offset", *columns)
        rows = ({key: row[key] for key in names} for row in rows)
    answer(f"{name} {batch}", rows, as_json, _verdict_cells, "no such verdicts")


def _check_reason(reason: str | None, known: Iterable[Reason]) -> None:
    if reason is not None and reason not in [*known]:
        raise UsageError(f"--reason: there is no reason {reason!r} here{nearest(reason, known)}")


def _verdict_cells(row: dict[str, Any]) -> dict[str, Any]:
    cells = {name: value for name, value in row.items() if name not in ("cluster", "incarnation")}
    return cells | {"survivor": _place(row["survivor"])}


def _place(survivor: dict[str, Any] | None) -> str:
    if not survivor:
        return ""
    place = str(Position.of(survivor))
    log = [f"{name} {survivor[name]}" for name in ("cluster", "incarnation") if name in survivor]
    return f"{place} ({', '.join(log)})" if log else place


@app.command()
def quarantine(
    name: Name,
    batch: Annotated[str | None, typer.Option("--batch", help="Only of this published batch")] = None,
    reason: Annotated[str | None, typer.Option(help="Only this reason")] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many (default: 50 in a table, all in JSON)")] = None,
    as_json: AsJson = False,
) -> None:
    """Rejected records of published batches, with their bytes."""
    from onefold.report.quarantine import each_quarantined

    _check_reason(reason, [outcome.reason for outcome in OUTCOMES.values() if outcome.quarantined])
    lake, dataset = open_published(name)
    rows = each_quarantined(lake, dataset, batch, reason, limit or (None if as_json else 50))
    if as_json:
        print_json_rows(rows)
        return
    shown = list(rows)
    answer(f"{dataset.target.table}__quarantine", shown, False, _quarantine_cells(shown), "nothing is quarantined")


def _quarantine_cells(rows: list[dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What is shown of each row; cluster and incarnation where the answer has several."""
    several = _several(rows)

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        place = str(Position.of(row) or "")
        log = {name: row[name] for name in several}
        cells = {"batch": row["batch"], **log, "position": place, "reason": row["reason"], "detail": row["detail"]}
        return {**cells, "value": (row["value_text"] or row["value"] or "")[:200], "object": row["object"]}

    return shown


@app.command(name="explain")
def explain_key(
    name: Name,
    key: Annotated[str | None, typer.Option("--key", help='The key as JSON: \'{"account_id": "a-1"}\'')] = None,
    at: Annotated[
        str | None, typer.Option("--position", metavar="TOPIC-PARTITION@OFFSET", help="A position, in place of a key")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Every record that touched a key (or the key of a position), in order: verdict, batch, and the row.

    Also those that the filter, a skip or their own rejection took out, where their key can be read. Records of a red
    batch are marked as not published.
    """
    from onefold.report.attempts import red_batches
    from onefold.report.explain import explain, explain_position, explain_sum
    from onefold.tables.key_digest import digest_of_key, period_of_key

    lake, dataset = open_published(name)
    if (key is None) == (at is None):
        raise UsageError("name a key (--key) or a position (--position)")
    red = red_batches(lake, dataset)
    if at is not None:
        rows = explain_position(lake, dataset, position_of(at), red)
        none = "no record of a published or red batch is at this position"
    else:
        assert key is not None
        parts = key_of(key, dataset)
        if dataset.apply.names_a_group(dataset, parts):
            rows = explain_sum(lake, dataset, parts, red)
        else:
            rows = explain(lake, dataset, digest_of_key(dataset, parts), period_of_key(dataset, parts), red)
        none = (
            "no record of a published or red batch touched this key (a rejected record whose key cannot be read is "
            f"found by its position, or by onefold quarantine {name})"
        )
    unpublished = {row["batch"] for row in rows if not row["published"]}
    for batch in red:
        if batch.batch in unpublished or not batch.kept:
            note(batch.sentence)
    note_rolled_back(lake, dataset)
    answer(f"{name} {at or key}", rows, as_json, _touched(rows), none)


def _touched(rows: list[dict[str, Any]]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """What is shown of each row; cluster and incarnation where the answer has several, and what is not published."""
    several = _several(rows)
    hidden = ("key", "row", "cluster", "topic", "incarnation", "partition", "offset", "published", "waits")

    def shown(row: dict[str, Any]) -> dict[str, Any]:
        at = {name: row[name] for name in ("topic", "partition", "offset")} if row["topic"] is not None else None
        place = {name: row[name] for name in several} | {"position": _place(at)}
        cells = _verdict_cells({name: value for name, value in row.items() if name not in hidden})
        left = row["row"]
        cells["detail"] = cells["detail"] or _wait_in_words(row.get("waits"))
        cells["batch"] += "" if row["published"] else " (not published)"
        return {**place, **cells, "won": "won" if row["won"] else "", "row": left["_state"] if left else ""}

    return shown


def _wait_in_words(waits: dict[str, Any] | None) -> str | None:
    """What a held record waits for, and where that was seen."""
    from onefold.report.held import in_words, seen_in_words

    if not waits:
        return None
    missing = ", ".join(in_words((start, end)) for start, end in waits["missing"])
    return "; ".join([f"waits for version {missing}", *map(seen_in_words, waits["seen"])])


def _several(rows: list[dict[str, Any]]) -> list[str]:
    """Those parts of their logs that differ between the rows."""
    return [name for name in ("cluster", "incarnation") if len({row[name] for row in rows} - {None}) > 1]


@app.command()
def offsets(name: Name, as_json: AsJson = False) -> None:
    """Covered ranges, holes and quarantined offsets per partition."""
    from onefold.report.ledger import offsets_of

    lake, dataset = open_published(name)
    answer(name, offsets_of(lake, dataset), as_json, with_ranges)
