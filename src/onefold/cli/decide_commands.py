"""The commands by which an operator decides a red batch: release, discard, skip; and the list of decisions."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from onefold.cli.app import AsJson, app, find_settled, launching, leave_out, open_dataset, open_published
from onefold.cli.batches import ended, say_step
from onefold.cli.console import NOTES, answer, note, print_json, print_rows
from onefold.dataset import Dataset, dataset_files
from onefold.decisions import Decider, Decision
from onefold.errors import UsageError
from onefold.lake import Lake
from onefold.landing.plan import taken_plans
from onefold.settings import load_settings

Words = Annotated[
    list[str], typer.Argument(metavar="[DATASET] BATCH", help="The batch id; with its dataset where several have it")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; it is recorded and shown")]
Who = Annotated[str | None, typer.Option("--who", metavar="NAME", help="Who decides [default: you]")]
Keys = Annotated[
    list[str] | None,
    typer.Option("--key", metavar="JSON", help='A key: \'{"account_id": "a-1"}\'; may be given more than once'),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be decided; change nothing")]


def find_batch(words: list[str]) -> tuple[Lake, Dataset, str]:
    """The lake, the dataset and the batch that `[DATASET] BATCH` names.

    Raises:
        UsageError: no dataset has the batch, or several have.
        InvalidDatasetError: the file of the dataset that has it cannot be used.
    """
    if len(words) == 2:
        return *open_dataset(words[0]), words[1]
    if len(words) != 1:
        raise UsageError("name one batch, and its dataset before it where several have it")
    [batch] = words
    lake = Lake(load_settings())
    names = [file.stem for file in dataset_files(lake.settings.datasets_folder)]
    # Found by the marks in the lake: a dataset file that cannot be read hides no batch.
    having = [name for name in names if any(plan.batch == batch for plan in taken_plans(lake, name))]
    if len(having) == 1:
        return *open_dataset(having[0]), batch
    if not having:
        raise UsageError(f"no dataset has a batch {batch!r} (see `onefold batches DATASET`)")
    raise UsageError(f"batch {batch} is of {', '.join(having)}: name the dataset before it")


@app.command()
def release(
    words: Words,
    reason: Reason,
    waive: Annotated[
        list[str] | None,
        typer.Option("--waive", metavar="CHECK=VALUE", help="A red check by its id, with what it found"),
    ] = None,
    who: Who = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Publish a red batch: its red checks are waived by id and value, and audited again."""
    from onefold.operations import decide

    lake, dataset, batch = find_batch(words)
    made = decide.release(lake, dataset, batch, waive or [], Decider.asserted(who), reason, dry_run=dry_run)
    if made.carried:
        waivers = ", ".join(f"{waiver.check} = {waiver.value}" for waiver in made.carried)
        note(f"{dataset.name}: waived by the release before, and still: {waivers}")
    carry_out(lake, dataset, made, dry_run=dry_run, as_json=as_json)


@app.command()
def skip(words: Words, reason: Reason, who: Who = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Cover a batch without using a record of it: each gets the verdict skipped, and no row changes."""
    from onefold.operations import decide

    lake, dataset, batch = find_batch(words)
    made = decide.skip(lake, dataset, batch, Decider.asserted(who), reason, dry_run=dry_run)
    carry_out(lake, dataset, made, dry_run=dry_run, as_json=as_json)


@app.command()
def discard(words: Words, reason: Reason, who: Who = None, dry_run: DryRun = False, as_json: AsJson = False) -> None:
    """Return a batch to landed: its attempts are removed, and the next run processes it again."""
    from onefold.operations import decide
    from onefold.report import report_batch

    lake, dataset, batch = find_batch(words)
    made = decide.discard(lake, dataset, batch, Decider.asserted(who), reason, dry_run=dry_run)
    if made and not dry_run:
        report_batch(lake, dataset, batch)
    if made is None:
        note(f"{dataset.name}: batch {batch} is landed and nothing more: there is nothing to discard")
    rows = [decided(made, "recorded")] if made else []
    title = f"{dataset.name}: {'would discard' if dry_run else 'discarded'}"
    answer(title, rows, as_json, _cells, "nothing")


def carry_out(lake: Lake, dataset: Dataset, made: Decision, *, dry_run: bool, as_json: bool) -> None:
    """Run the batch's steps under the decision that is on record, and say how it ended."""
    if dry_run:
        answer(f"{dataset.name}: would decide", [decided(made, "not recorded")], as_json, _cells)
        return
    from onefold.landing.plan import find_plan
    from onefold.operations.decide import check_carried_out
    from onefold.operations.job_size import all_small
    from onefold.operations.run import run_batch

    plan = find_plan(lake, dataset, made.batch)
    small = all_small(lake, dataset, [plan])
    with launching(lake, small) as spark, NOTES.status(f"{dataset.name} {made.batch}") as status:
        say = say_step(status, dataset.name, 1, 1)
        end = run_batch(lake, dataset, plan, spark, say, rebuilding=True)
    row = ended(end) | {"decision": made.model_dump(mode="json")}
    if as_json:
        print_json(row)
    else:
        print_rows(f"{dataset.name}: {made.sentence}", [ended(end)])
    if end.red:
        raise end.red
    check_carried_out(lake, made, end.published)


@app.command()
def decisions(
    name: Annotated[str | None, typer.Argument(metavar="[DATASET]", help="Default: all")] = None,
    as_json: AsJson = False,
) -> None:
    """Recorded decisions: releases, discards, skips, replays, gaps accepted, keys forgotten or erased, rollbacks."""
    from onefold.report.decisions import decisions_of

    lake = Lake(load_settings())
    found, wrong = ([open_published(name, rebuilding=True)[1]], []) if name else find_settled(lake)
    rows = [row for dataset in found for row in decisions_of(lake, dataset)]
    rows.sort(key=lambda row: row["at"])
    answer(name or "decisions", rows, as_json, _cells, "nothing was decided")
    leave_out(wrong)


def decided(made: Decision, state: str) -> dict[str, Any]:
    """A decision as `onefold decisions` lists it."""
    from onefold.report.decisions import row_of

    return row_of(made, state)


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    waived = "; ".join(f"{waiver['check']} = {waiver['value']}" for waiver in row["waived"])
    accepts = row.get("accepts")
    decision = row["decision"]
    if accepts:
        decision += f": {json.dumps(accepts['key'])} to {accepts['version']}"
    others = {name: value for name, value in row.items() if name not in ("accepts", "who")}
    by = Decider(**row["who"]).words
    return {**others, "decision": decision, "by": by, "at": row["at"][:19], "waived": waived}
