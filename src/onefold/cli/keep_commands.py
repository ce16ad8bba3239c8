"""The commands that look after what is published: prove, rebuild, rollback, maintain, recover."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.status import Status

from onefold import lake_keys
from onefold.cli.app import AsJson, Name, app, find_settled, launching, leave_out, open_dataset
from onefold.cli.batches import ended, note_other_topics, raise_first, say_step
from onefold.cli.console import NOTES, answer, note, print_json, print_line, print_rows
from onefold.cli.decide_commands import Who
from onefold.dataset import Dataset, dataset_files
from onefold.decisions import checked_reason
from onefold.decisions.who import NOT_YET, Decider
from onefold.errors import ChangedDocumentError, NotProvedError, NotRecoveredError, OnefoldError, UsageError
from onefold.lake import Lake
from onefold.operations.launcher import Say
from onefold.settings import load_settings

_SHOWN = 5
"""Reused identities that `maintain` names, a dataset."""


@app.command()
def prove(
    name: Name,
    share: Annotated[
        float, typer.Option(metavar="SHARE", min=0.0, max=1.0, help="Compare this share of the keys: 0.01 is 1 %")
    ] = 1.0,
    of_chain: Annotated[
        bool,
        typer.Option("--chain", help="Compare commit records, manifests and decisions with their SHA-256; read no row"),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Fold the landed bytes of all published batches again, in another way, and compare the table row by row."""
    from onefold.proof.documents import KINDS

    lake, dataset = open_dataset(name)
    if of_chain:
        _prove_chain(lake, dataset, as_json)
        return
    if not share:
        raise UsageError("--share 0 compares nothing: say 0.01 for one key of a hundred")
    with launching(lake) as spark, NOTES.status(f"{name}: proof") as status:
        found = spark.prove(dataset, share, lambda said: status.update(f"{name}: proof, {said}"))
    if as_json:
        print_json(found.model_dump(mode="json"))
    else:
        shown = [{**difference.model_dump(), "kind": KINDS[difference.kind]} for difference in found.shown]
        of = "all keys" if found.share >= 1 else f"{found.share:.4%} of the keys"
        said = f"{found.rows} rows of {found.records} landed records ({found.batches} batches, {of})"
        print_rows(f"{name}: {said}", shown, "proved" if found.holds else "")
        print_line(f"{name}: {found.not_looked_at}")
    if not found.holds:
        said = ", ".join(f"{count} {kind}" for kind, count in found.differences.items())
        document = lake.where(lake_keys.proof(name, found.name))
        raise NotProvedError(name, dataset.target.table, f"{said}, of {found.rows} rows", document)


def _prove_chain(lake: Lake, dataset: Dataset, as_json: bool) -> None:
    from onefold.proof.chain import verify_chain

    found = verify_chain(lake, dataset)
    if as_json:
        print_json(asdict(found))
    else:
        if found.unlinked:
            note(f"{dataset.name}: {found.unlinked} commit records of an earlier release name no digests")
        for key in found.erased:
            note(f"{dataset.name}: {key}: an erasure has changed which objects it names")
        right = "" if found.problems else ": each is what it was when it was published"
        print_line(f"{dataset.name}: {found.records} commit records, {found.documents} documents with a digest{right}")
    if found.problems:
        raise ChangedDocumentError(dataset.name, tuple(found.problems))


@app.command()
def rebuild(
    name: Name,
    without: Annotated[
        list[str] | None,
        typer.Option("--without", metavar="BATCH", help="Take a published batch out; may be repeated"),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Fold an unchanged dataset file, too; batches in the order of the log")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why, with --without; it is recorded and shown")] = "",
    who: Annotated[str | None, typer.Option(metavar="NAME", help="Who decides, with --without [default: you]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be folded; write nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Fold all landed bytes again, as a changed dataset file says or without a batch, into a new table; then swap."""
    from onefold.errors import take_up_by
    from onefold.operations.rebuild import check_without, landed_plans, taken_out
    from onefold.operations.rebuild import rebuild as run_rebuild
    from onefold.report import report_batch

    lake, dataset = open_dataset(name)
    if (reason or who) and not without:
        raise UsageError("--reason and --who belong to --without. Nothing was changed.")
    left_out = check_without(lake, dataset, without or [], reason)
    plans = landed_plans(lake, dataset, left_out)
    note_other_topics(lake, dataset)
    if dry_run:
        rows = [plan.preview for plan in plans]
        if not left_out:
            answer(f"{name}: would fold", rows, as_json)
            return
        removed = taken_out(lake, dataset, left_out)
        if as_json:
            print_json({"fold": rows, "take_out": removed})
            return
        print_rows(f"{name}: would take out", removed)
        print_rows(f"{name}: would fold", rows, "nothing")
        return
    decider = Decider.asserted(who) if left_out else NOT_YET
    with launching(lake) as spark, NOTES.status(f"{name}: {len(plans)} landed batches") as status:
        say = _counting(status, name, len(plans))
        done = run_rebuild(lake, dataset, spark, say, without=without or [], who=decider, reason=reason, again=again)
    if without and not left_out:
        note(f"{name}: readers see the table without {', '.join(without)} already")
    elif not done.changed:
        note(f"{name}: the dataset file is that of the published table: nothing to rebuild without --again")
    answer(f"{name}: rebuilt", [ended(batch) for batch in done.batches], as_json, empty="no batches")
    if done.swapped:
        changed, (_, swapped) = ", ".join(done.changed), open_dataset(name)
        note(f"{name}: readers of {dataset.target.table} see generation {swapped.generation} (changed: {changed})")
        for batch in left_out:
            report_batch(lake, swapped, batch)
            note(f"{name}: batch {batch} is discarded. {take_up_by(name, batch)}")
        raise_first(batch for batch in done.batches if batch.failed)  # readers saw nothing of them before, either
    else:
        raise_first(done.batches[-1:])


def _counting(status: Status, name: str, total: int) -> Say:
    """Says which of how many batches is at which step: each begins with land."""
    begun = 0

    def say(step: str) -> None:
        nonlocal begun
        begun += step == "land"
        say_step(status, name, begun, max(begun, total))(step)

    return say


@app.command()
def rollback(
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="BATCH", help="The batch that readers see again as the last")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded")] = "",
    who: Who = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be undone; change nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Roll the published table back to an earlier batch. Later batches are landed, and wait for an operator."""
    from onefold.errors import take_up_by
    from onefold.operations.rollback import roll_back
    from onefold.report import report_batch

    lake, dataset = open_dataset(name)
    done = roll_back(lake, dataset, to, Decider.asserted(who), reason, dry_run=dry_run)
    waiting = [
        {"batch": batch, "state": "rolled_back", "take_up": f"onefold run {name} --again {batch}"}
        for batch in reversed(done.undone)
    ]
    for batch in [] if dry_run else done.undone:
        report_batch(lake, dataset, batch)
    if as_json:
        print_json(done.model_dump(mode="json") | {"waiting": waiting})
        return
    print_rows(f"{name}: {'would undo' if dry_run else 'undone'}", waiting, "nothing")
    if waiting:
        waits = "would wait" if dry_run else "wait"
        note(
            f"{name}: these batches {waits} for an operator: no run takes them up by itself, and what was decided of "
            f"them counts no more. {take_up_by(name, 'BATCH')}"
        )


@app.command()
def maintain(
    names: Annotated[list[str] | None, typer.Argument(metavar="[DATASET]...", help="Default: all")] = None,
    attempts: Annotated[str, typer.Option(metavar="AGE", help="Keep what finished attempts left")] = "1d",
    snapshots: Annotated[str, typer.Option(metavar="AGE", help="Keep snapshots, for rollback and `show --at`")] = "7d",
    generations: Annotated[str, typer.Option(metavar="AGE", help="Keep a table after its rebuild")] = "7d",
    landing: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Clear landed bytes that every dataset of their source has published [default: keep them for ever: "
            "without them there is no rebuild, and no rollback to before them]",
        ),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, with --landing; it is recorded and shown")] = "",
    who: Annotated[str | None, typer.Option(metavar="NAME", help="Who decides, with --landing [default: you]")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Prove that no key has two rows, remove what has expired, compact; safe while batches run."""
    from onefold.maintenance.keep import keep_of

    lake = Lake(load_settings())
    keep = keep_of({"attempts": attempts, "snapshots": snapshots, "generations": generations})
    clear_landings = _clearing(lake, landing, reason, who, dry_run=dry_run)
    wanted, wrong = find_settled(lake, names or ())
    done, failed = [], list[OnefoldError]()
    with launching(lake) as spark, NOTES.status("maintain") as status:
        for dataset in wanted:
            status.update(f"maintain {dataset.name}")
            try:
                maintained = spark.maintain(dataset, keep, dry_run=dry_run).model_dump()
                done.append(maintained | clear_landings(dataset))
            except OnefoldError as error:
                note(f"error: {error}")
                failed.append(error)
    answer("would go" if dry_run else "maintained", done, as_json, _counted)
    for row in done:
        for reused in row["reused"][:_SHOWN]:
            note(
                f"{row['dataset']}: {reused['level']} {reused['identity']} is shared by {reused['records']} rows: "
                f"{reused['first']}, {reused['last']}"
            )
        for moved in row["moved"][:_SHOWN]:
            note(
                f"{row['dataset']}: {moved['identity']} has rows in {' and '.join(moved['periods'])}: "
                f"{moved['first']}, {moved['last']}. identity.within promises that its field never changes"
            )
        for found in (row["reused"], row["moved"]):
            if (more := len(found) - _SHOWN) > 0:
                note(f"{row['dataset']}: and {more} more identities (--json has them)")
    unread = sorted({file for row in done for file in row["unread"]})
    if unread:
        note(f"landed bytes were kept: it is unknown what these dataset files read: {', '.join(unread)}")
    if failed:
        raise typer.Exit(failed[0].exit_code)
    leave_out(wrong)
    if unread:
        raise typer.Exit(2)


def _clearing(
    lake: Lake, landing: str | None, reason: str, who: str | None, *, dry_run: bool
) -> Callable[[Dataset], dict[str, list[str]]]:
    """What clears a dataset's landings, or says which would go; checked before anything starts.

    Raises:
        UsageError: the age is none or too small, or --reason or --who are missing or not needed.
    """
    from onefold.maintenance.keep import age_of
    from onefold.operations.clear import check_age, clear, find_clearable

    if landing is None:
        if reason or who:
            raise UsageError("--reason and --who belong to --landing. Nothing was changed.")
        return lambda _: {"landings": [], "unread": []}
    age = age_of(landing)
    check_age(lake.settings, age)
    given = reason if dry_run else checked_reason(reason)
    decider = NOT_YET if dry_run else Decider.asserted(who)

    def clear_landings(dataset: Dataset) -> dict[str, list[str]]:
        found, unread = find_clearable(lake, dataset, age)
        if not dry_run:
            clear(lake, dataset, found, age, decider, given)
        return {"landings": [batch for part in found for batch in part.landings], "unread": unread}

    return clear_landings


def _counted(row: dict[str, Any]) -> dict[str, Any]:
    return {key: len(value) if isinstance(value, list) else value for key, value in row.items()}


@app.command()
def recover(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be registered; change nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Register again the tables that the catalog has lost, from the files in the lake. Nothing may be running."""
    from onefold.generation import open_dataset as find
    from onefold.iceberg.state_table import find_state
    from onefold.maintenance.recovery import find_lost, register

    lake = Lake(load_settings())
    with NOTES.status("recover: looking through the warehouse"):
        lost = find_lost(lake)
    whole = [lost_table for lost_table in lost if lost_table.metadata or lost_table.gone]
    documents = [asdict(lost_table) | {"table": ".".join(lost_table.table)} for lost_table in lost]
    if whole and not dry_run:
        # A dataset file that cannot be read stops here, while all is lost yet: only lost tables get views again.
        datasets = [find(lake, file.stem) for file in dataset_files(lake.settings.datasets_folder)]
        with launching(lake) as spark:
            if lake.claims:  # those of killed drivers, from before the bucket was restored
                lake.claims.drop_below(lake.storage.uri_of(""))
            for lost_table in whole:
                register(lake, lost_table)
            for dataset in datasets:
                if find_state(lake, dataset):
                    spark.ensure_views(dataset)
    answer("would be recovered" if dry_run else "recovered", documents, as_json, empty="the catalog has lost nothing")
    if broken := [lost_table for lost_table in lost if not (lost_table.metadata or lost_table.gone)]:
        raise NotRecoveredError(".".join(broken[0].table), str(broken[0].missing), len(broken))
    if whole and not dry_run:
        note("next, of each dataset: `onefold prove`, then `onefold run`, which takes up what the table does not cover")
