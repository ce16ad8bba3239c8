"""The commands that check and run: validate, run, step, demo."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from onefold.cli.app import AsJson, Name, app, launching, open_dataset
from onefold.cli.batches import (
    ended,
    ended_in_json,
    note_other_topics,
    note_waiting,
    raise_first,
    say_step,
    waits_in_json,
)
from onefold.cli.console import NOTES, answer, note, print_json, print_rows
from onefold.dataset import Dataset, dataset_files, find_dataset, load_dataset
from onefold.dataset.advice import notes_of
from onefold.dataset.masks import check_mask_key
from onefold.dataset.yaml_file import describe_error
from onefold.decisions.who import Decider
from onefold.errors import BatchesWaitError, OnefoldError, UsageError
from onefold.lake import Lake, as_json
from onefold.settings import load_settings


@app.command()
def validate(
    names: Annotated[list[str] | None, typer.Argument(metavar="[DATASET]...", help="Default: all")] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", help="Decode and judge about the newest N records, too; write nothing")
    ] = 0,
    registry: Annotated[
        bool, typer.Option("--registry", help="Compare with the newest schemas of schema registries, too")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Check dataset files and their quality suites."""
    from onefold.quality.suites import load_suite
    from onefold.schemas.newest import notes_of_registry

    settings = load_settings()
    folder = settings.datasets_folder
    files = [folder / f"{name}.yaml" for name in names] if names else dataset_files(folder)
    if not files:
        raise UsageError(f"no dataset files in {folder}")
    rows: list[dict[str, Any]] = []
    no_facts: dict[str, str | None] = {"mode": None, "identity": None, "generation": None}
    for file in files:
        problem, notes = "", list[str]()
        try:
            dataset = load_dataset(file) if file.is_file() else find_dataset(folder, file.stem)
            check_mask_key(dataset.with_mask_key(settings.mask_key_bytes))
            load_suite(settings.expectations_folder, dataset)
            notes = notes_of(dataset) + (notes_of_registry(Lake(settings), dataset) if registry else [])
            facts: dict[str, str | None] = {
                "mode": dataset.apply.title,
                "identity": dataset.deciding,
                "generation": dataset.generation,
            }
        except OnefoldError as error:
            problem, facts = str(error), no_facts
        except Exception as error:  # a check that met what it does not know; the other files are checked all the same
            problem, facts = f"{file}: cannot be checked: {describe_error(error)}", no_facts
        rows.append({"dataset": file.stem, "ok": not problem, **facts, "problem": problem, "notes": notes})
    wanted = [row["dataset"] for row in rows if row["ok"]] if sample > 0 else []
    samples, failed = _samples(Lake(settings), wanted, sample) if wanted else ({}, [])
    if as_json:
        print_json([{**row, **({"sample": samples.get(row["dataset"])} if sample else {})} for row in rows])
    else:
        shown = [{name: cell for name, cell in row.items() if name != "notes"} for row in rows]
        print_rows("datasets", [{**row, "ok": "yes" if row["ok"] else "NO"} for row in shown])
        for row in rows:
            for text in row["notes"]:
                note(f"{row['dataset']}: {text}")
        for name, found in samples.items():
            print_rows(f"{name}: the newest records", found, "no records")
    if not all(row["ok"] for row in rows):
        raise typer.Exit(2)
    if failed:
        raise typer.Exit(failed[0].exit_code)


def _samples(lake: Lake, names: list[str], count: int) -> tuple[dict[str, list[dict[str, Any]]], list[OnefoldError]]:
    found, failed = {}, list[OnefoldError]()
    with launching(lake) as spark, NOTES.status("reading the newest records") as status:
        for name in names:
            status.update(f"{name}: reading the newest records")
            try:
                found[name] = spark.sample(find_dataset(lake.settings.datasets_folder, name), count)
            except OnefoldError as error:
                note(f"error: {error}")
                failed.append(error)
    return found, failed


@app.command()
def run(
    name: Name,
    start: Annotated[datetime | None, typer.Option("--from", help="Start of the first interval, UTC")] = None,
    end: Annotated[datetime | None, typer.Option("--to", help="End of the last interval, UTC")] = None,
    export: Annotated[
        str | None, typer.Option(help="Read all of this folder instead of what is new or was left unfinished")
    ] = None,
    again: Annotated[
        list[str] | None,
        typer.Option("--again", metavar="BATCH", help="Judge a batch again that was rolled back; may be repeated"),
    ] = None,
    reason: Annotated[str, typer.Option(help="Why, with --again; it is recorded")] = "",
    who: Annotated[str | None, typer.Option(metavar="NAME", help="Who decides, with --again [default: you]")] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="End with 3 while an earlier batch waits for an operator")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be read; write nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Plan, land, dedup, upsert, gate, publish and report: everything new, intervals, or an export folder."""
    from onefold.generation import check_generation
    from onefold.operations.freshness import check_fresh
    from onefold.operations.intervals import intervals_between
    from onefold.operations.run import land_decided, plan_all
    from onefold.operations.stuck_batches import waiting_batches

    lake, dataset = open_dataset(name)
    if bool(export) + bool(start or end) + bool(again) > 1:
        raise UsageError("--export, --from/--to and --again exclude each other. Nothing was run.")
    if (reason or who) and not again:
        raise UsageError("--reason and --who belong to --again. Nothing was run.")
    check_generation(lake, dataset)
    check_mask_key(dataset)
    if again:
        _run_again(lake, dataset, again, Decider.asserted(who), reason, dry_run=dry_run, strict=strict, as_json=as_json)
        return
    plain = not (export or start or end)
    intervals = intervals_between(dataset, start, end) if start or end else [None]
    if not dry_run:
        land_decided(lake, dataset)
    planned = plan_all(lake, dataset, intervals, export, dry_run=dry_run)
    plans = [*planned.begun, *planned.new]
    wanted = [plan for plan in plans if not plan.empty]
    if plain:
        note_other_topics(lake, dataset)
    if dry_run:
        note_waiting(waiting_batches(lake, dataset) if plain else [])
        rows = [plan.preview for plan in plans]
        answer(f"{name}: would read", rows, as_json, _would_read)
    else:
        for text in dict.fromkeys(text for plan in planned.new for text in plan.notes):
            note(f"{name}: {text}")
        if not wanted:
            note(f"{name}: nothing new")
        _run_and_tell(lake, dataset, wanted, named=plain or strict, strict=strict, as_json=as_json)
    if planned.error:
        raise planned.error
    for plan in [] if dry_run else planned.new:
        check_fresh(lake, dataset, plan)


def _run_again(
    lake: Lake,
    dataset: Dataset,
    batches: list[str],
    who: Decider,
    reason: str,
    *,
    dry_run: bool,
    strict: bool,
    as_json: bool,
) -> None:
    """Take up batches that were rolled back; nothing is recorded if one of them cannot be taken up."""
    from onefold.landing.plan import find_plan
    from onefold.operations.decide import take_up

    names = list(dict.fromkeys(batches))
    for batch in names:
        take_up(lake, dataset, batch, who, reason, dry_run=True)
    plans = [find_plan(lake, dataset, batch) for batch in names]
    if dry_run:
        answer(f"{dataset.name}: would take up", [plan.preview for plan in plans], as_json, _would_read)
        return
    for batch in names:
        take_up(lake, dataset, batch, who, reason)
    _run_and_tell(lake, dataset, plans, named=strict, strict=strict, as_json=as_json)


def _run_and_tell(lake: Lake, dataset: Dataset, plans: list[Any], *, named: bool, strict: bool, as_json: bool) -> None:
    """Run plans, list how each ended, and raise the first error.

    `named`: the batches of earlier runs that wait for an operator are named, too; `strict`: they are an error.
    """
    from onefold.operations.stuck_batches import waiting_batches

    ends = _run_all(lake, dataset, plans) if plans else []
    for end in ends:
        for text in end.warnings:
            note(f"{dataset.name}: batch {end.batch}: warning: {text}")
    batches = {end.batch for end in ends}
    waiting = [batch for batch in waiting_batches(lake, dataset) if batch.batch not in batches] if named else []
    if as_json:
        print_json([*map(ended_in_json, ends), *(waits_in_json(lake, batch) for batch in waiting)])
    elif ends:
        print_rows(dataset.name, [ended(end) for end in ends])
    note_waiting(waiting)
    raise_first(ends)
    if strict and waiting:
        raise BatchesWaitError(dataset.name, tuple(batch.batch for batch in waiting))


def _would_read(row: dict[str, Any]) -> dict[str, Any]:
    """A plan as cells: an interval as its two ends, notes as lines."""
    cells = row | {"interval": " to ".join(row["interval"].values()) if row["interval"] else ""}
    return cells | ({"notes": "\n".join(row["notes"])} if "notes" in row else {})


def _run_all(lake: Lake, dataset: Dataset, plans: list[Any]) -> list[Any]:
    from onefold.operations.job_size import all_small
    from onefold.operations.run import try_batch

    ends = []
    with launching(lake, all_small(lake, dataset, plans)) as spark:
        for number, plan in enumerate(plans, 1):
            with NOTES.status(f"{dataset.name} {plan.batch}") as status:
                ends.append(try_batch(lake, dataset, plan, spark, say_step(status, dataset.name, number, len(plans))))
    return ends


@app.command()
def step(
    step_name: Annotated[
        str, typer.Argument(metavar="NAME", help="plan, land, dedup, upsert, gate, publish or report")
    ],
    name: Name,
    batch: Annotated[str | None, typer.Option("--batch", help="Batch id; all steps but plan need it")] = None,
    attempt: Annotated[
        str | None, typer.Option(help="Attempt; default: a new attempt for upsert, else the newest")
    ] = None,
    start: Annotated[datetime | None, typer.Option("--from", help="plan: start of the interval, UTC")] = None,
    end: Annotated[datetime | None, typer.Option("--to", help="plan: end of the interval, UTC")] = None,
    export: Annotated[str | None, typer.Option(help="plan: read all of this folder")] = None,
) -> None:
    """One step alone, as an Airflow task runs it; prints the step's document as JSON."""
    from onefold.operations.step import one_step

    lake, dataset = open_dataset(name)
    print_json(as_json(one_step(lake, dataset, step_name, batch, attempt, start, end, export, launching)))


@app.command()
def demo(
    views: Annotated[int, typer.Option(help="Page views to generate")] = 200_000,
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its lake; it is emptied first")] = Path(".demo"),
) -> None:
    """The main job on the shipped sample and on two live topics, start to report."""
    from onefold.cli.demo import run_demo

    run_demo(load_settings(), folder, views)
