"""The commands that do something: validate, run, step, rebuild, rollback, demo."""

from __future__ import annotations

import getpass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from onefold.cli.app import AsJson, Name, app, open_dataset
from onefold.cli.console import NOTES, answer, note, print_json, print_rows
from onefold.dataset import Dataset, dataset_files, find_dataset, load_dataset
from onefold.dataset.model import duration
from onefold.errors import OnefoldError, UsageError
from onefold.lake import Lake, as_json
from onefold.settings import load_settings


@app.command()
def validate(
    names: Annotated[list[str] | None, typer.Argument(metavar="[DATASET]...", help="Default: all")] = None,
    sample: Annotated[
        int, typer.Option(metavar="N", help="Decode and judge about the newest N records, too; write nothing")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Check dataset files and their quality suites."""
    from onefold.quality.suites import load_suite

    settings = load_settings()
    folder = settings.datasets_folder
    files = [folder / f"{name}.yaml" for name in names] if names else dataset_files(folder)
    if not files:
        raise UsageError(f"no dataset files in {folder}")
    rows: list[dict[str, Any]] = []
    for file in files:
        problem = ""
        try:
            dataset = load_dataset(file) if file.is_file() else find_dataset(folder, file.stem)
            load_suite(settings.expectations_folder, dataset)
            told: dict[str, str | None] = {
                "mode": dataset.apply.mode,
                "identity": dataset.deciding,
                "generation": dataset.generation,
            }
        except OnefoldError as error:
            problem, told = str(error), {"mode": None, "identity": None, "generation": None}
        rows.append({"dataset": file.stem, "ok": not problem, **told, "problem": problem})
    samples = _samples(Lake(settings), [row["dataset"] for row in rows if row["ok"]], sample) if sample > 0 else {}
    if as_json:
        print_json([{**row, **({"sample": samples.get(row["dataset"])} if sample else {})} for row in rows])
    else:
        print_rows("datasets", [{**row, "ok": "yes" if row["ok"] else "NO"} for row in rows])
        for name, found in samples.items():
            print_rows(f"{name}: the newest records", found, "no records")
    if not all(row["ok"] for row in rows):
        raise typer.Exit(2)


def _samples(lake: Lake, names: list[str], count: int) -> dict[str, list[dict[str, Any]]]:
    from onefold.cli.process import InProcess

    spark = InProcess(lake)
    try:
        with NOTES.status("reading the newest records") as status:
            found = {}
            for name in names:
                status.update(f"{name}: reading the newest records")
                found[name] = spark.sample(find_dataset(lake.settings.datasets_folder, name), count)
            return found
    finally:
        spark.close()


@app.command()
def run(
    name: Name,
    start: Annotated[datetime | None, typer.Option("--from", help="Start of the first interval, UTC")] = None,
    end: Annotated[datetime | None, typer.Option("--to", help="End of the last interval, UTC")] = None,
    export: Annotated[
        str | None, typer.Option(help="Read all of this folder instead of what is new or was left unfinished")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be read; write nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Plan, land, dedup, upsert, gate, publish and report: everything new, intervals, or an export folder."""
    from onefold.cli.intervals import intervals_between
    from onefold.cli.run import unfinished
    from onefold.landing.land import plan_batch
    from onefold.upsert.generation import check_generation

    lake, dataset = open_dataset(name)
    if export and (start or end):
        raise UsageError("--export and --from/--to exclude each other")
    check_generation(lake, dataset)
    intervals = intervals_between(dataset, start, end) if start or end else [None]
    begun = [] if export or start or end else unfinished(lake, dataset)
    plans = [*begun, *(plan_batch(lake, dataset, interval, export, dry_run=dry_run) for interval in intervals)]
    wanted = [plan for plan in plans if not plan.empty]
    if dry_run:
        rows = [_planned(plan) for plan in plans]
        print_json(rows) if as_json else print_rows(f"{name}: would read", rows)
        return
    if not wanted:
        note(f"{name}: nothing new")
        if as_json:
            print_json([])
        return
    ends = _run_all(lake, dataset, wanted)
    if as_json:
        print_json([_ended(one) for one in ends])
    else:
        print_rows(name, [_ended(one) for one in ends])
    for one in ends:
        if one.red:
            raise one.red


def _run_all(lake: Lake, dataset: Dataset, plans: list[Any]) -> list[Any]:
    from onefold.cli.process import InProcess
    from onefold.cli.run import run_batch

    spark = InProcess(lake)
    ends = []
    try:
        for number, plan in enumerate(plans, 1):
            with NOTES.status(f"{dataset.name} {plan.batch}") as status:
                ends.append(run_batch(lake, dataset, plan, spark, _say(status, dataset.name, number, len(plans))))
    finally:
        spark.close()
    return ends


def _say(status: Status, name: str, number: int, total: int) -> Any:
    def say(step: str) -> None:
        status.update(f"{name}: batch {number} of {total}: {step}")
        if not NOTES.is_terminal:
            note(f"{name}: batch {number} of {total}: {step}")

    return say


def _planned(plan: Any) -> dict[str, Any]:
    told = {"batch": plan.batch, "interval": plan.interval.model_dump(mode="json") if plan.interval else None}
    if plan.kind == "ranges":
        return told | {
            "partitions": len({one.topic_partition.key for one in plan.ranges}),
            "offsets": sum(one.end - one.start for one in plan.ranges),
            "notes": plan.notes,
        }
    objects = plan.objects
    return told | {
        "objects": len(objects),
        "bytes": sum(one.size for one in objects),
        "ignored": len(getattr(plan, "ignored", [])),
    }


def _ended(one: Any) -> dict[str, Any]:
    counts = one.published.counts if one.published else {}
    state = "red" if one.red else ("already published" if one.published.already else "published")
    return {
        "batch": one.batch,
        "state": state,
        "attempt": one.published.attempt if one.published else None,
        "verdicts": {verdict: sum(reasons.values()) for verdict, reasons in counts.items()},
        "report": one.report,
    }


@app.command()
def step(
    step_name: Annotated[
        str, typer.Argument(metavar="NAME", help="plan, land, dedup, upsert, gate, publish or report")
    ],
    name: Name,
    batch: Annotated[str | None, typer.Option("--batch", help="Batch id; all steps but plan need it")] = None,
    attempt: Annotated[str | None, typer.Option(help="Attempt; default: a new one for upsert, else the newest")] = None,
    start: Annotated[datetime | None, typer.Option("--from", help="plan: start of the interval, UTC")] = None,
    end: Annotated[datetime | None, typer.Option("--to", help="plan: end of the interval, UTC")] = None,
    export: Annotated[str | None, typer.Option(help="plan: read all of this folder")] = None,
) -> None:
    """One step alone, as an Airflow task runs it; prints the step's document as JSON."""
    from onefold.cli.steps import one_step

    lake, dataset = open_dataset(name)
    print_json(as_json(one_step(lake, dataset, step_name, batch, attempt, start, end, export)))


@app.command()
def rebuild(
    name: Name,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be folded; write nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Fold all landed bytes anew, as a changed dataset file says, beside the published table; then swap."""
    from onefold.cli.process import InProcess
    from onefold.cli.rebuild import landed_plans
    from onefold.cli.rebuild import rebuild as run_rebuild

    lake, dataset = open_dataset(name)
    plans = landed_plans(lake, dataset)
    if dry_run:
        answer(f"{name}: would fold", [_planned(plan) for plan in plans], as_json)
        return
    spark = InProcess(lake)
    try:
        with NOTES.status(f"{name}: {len(plans)} landed batches") as status:
            done = run_rebuild(lake, dataset, spark, _counting(status, name, len(plans)))
    finally:
        spark.close()
    if not done.changed:
        note(f"{name}: the dataset file is the published one: nothing to rebuild")
    answer(f"{name}: rebuilt", [_ended(one) for one in done.batches], as_json, empty="no batches")
    if done.swapped:
        changed = ", ".join(done.changed)
        note(f"{name}: readers of {dataset.target.table} see generation {dataset.generation} (changed: {changed})")
    elif done.batches and (red := done.batches[-1].red):
        raise red


def _counting(status: Status, name: str, total: int) -> Any:
    """Says which of how many batches is at which step: each begins with land."""
    begun = 0

    def say(step: str) -> None:
        nonlocal begun
        begun += step == "land"
        _say(status, name, begun, max(begun, total))(step)

    return say


@app.command()
def rollback(
    name: Name,
    to: Annotated[str, typer.Option("--to", metavar="BATCH", help="The batch that readers see again as the last one")],
    reason: Annotated[str, typer.Option(help="Why; it is recorded")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be undone; change nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Lead readers back to an earlier batch. Later batches stay landed: the next run takes them up again."""
    from onefold.publish.rollback import roll_back

    lake, dataset = open_dataset(name)
    done = roll_back(lake, dataset, to, getpass.getuser(), reason, dry_run=dry_run)
    if as_json:
        print_json(done.model_dump(mode="json"))
    else:
        title = f"{name}: {'would undo' if dry_run else 'undone'}"
        print_rows(title, [{"batch": one} for one in done.undone], "nothing")


def _age(text: str) -> timedelta:
    try:
        return duration(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


@app.command()
def maintain(
    names: Annotated[list[str] | None, typer.Argument(metavar="[DATASET]...", help="Default: all")] = None,
    attempts: Annotated[str, typer.Option(metavar="AGE", help="Keep what attempts left that are over")] = "1d",
    snapshots: Annotated[str, typer.Option(metavar="AGE", help="Keep snapshots, for rollback and `show --at`")] = "7d",
    generations: Annotated[str, typer.Option(metavar="AGE", help="Keep a table after its rebuild")] = "7d",
    landing: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Clear landed bytes that every dataset of their source has published [default: keep them for ever: "
            "without them there is no rebuild, and no rollback behind them]",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would go; change nothing")] = False,
    as_json: AsJson = False,
) -> None:
    """Clear away what is over, compact tables, expire snapshots, remove orphan files; safe beside running batches."""
    from onefold.cli.process import InProcess
    from onefold.maintenance.keep import Keep

    lake = Lake(load_settings())
    folder = lake.settings.datasets_folder
    wanted = [find_dataset(folder, name) for name in names or (file.stem for file in dataset_files(folder))]
    ages = {"attempts": attempts, "snapshots": snapshots, "generations": generations}
    keep = Keep(**{name: _age(text) for name, text in ages.items()}, landing=_age(landing) if landing else None)
    spark = InProcess(lake)
    done = []
    try:
        with NOTES.status("maintain") as status:
            for dataset in wanted:
                status.update(f"maintain {dataset.name}")
                done.append(spark.maintain(dataset, keep, dry_run=dry_run).model_dump())
    finally:
        spark.close()
    answer("would go" if dry_run else "maintained", done, as_json, _counted)


def _counted(row: dict[str, Any]) -> dict[str, Any]:
    return {key: len(value) if isinstance(value, list) else value for key, value in row.items()}


@app.command()
def demo(
    views: Annotated[int, typer.Option(help="Page views to generate")] = 200_000,
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its lake; it is emptied first")] = Path(".demo"),
) -> None:
    """The main job on the shipped sample export, start to report."""
    from onefold.cli.demo import run_demo

    run_demo(load_settings(), folder, views)
