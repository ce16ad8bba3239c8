"""`onefold`: the commands, their help, their exit codes.

0 done or nothing to do · 2 bad dataset or usage · 3 gate red · 4 data loss found · 5 another writer won too
often · 1 anything else.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.status import Status

from onefold import __version__
from onefold.cli.console import NOTES, note, print_json, print_rows
from onefold.dataset import Dataset, dataset_files, find_dataset, load_dataset
from onefold.errors import OnefoldError, UsageError
from onefold.lake import Lake, as_json
from onefold.settings import load_settings

app = typer.Typer(
    help="Fold every message that a Kafka export holds more than once into one row, and prove it.\n\n"
    "Exit codes: 0 done or nothing to do, 2 bad dataset or usage, 3 gate red, 4 data loss found, "
    "5 another writer won too often, 1 anything else.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="DATASET", help="Name of a dataset: its file is datasets/DATASET.yaml")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table")]
Batch = Annotated[str, typer.Option("--batch", help="Batch id, as `onefold batches` lists it")]
WRONG_USAGE: Any = typer.BadParameter.__mro__[2]
"""ClickException: click's own, or that of the copy which newer releases of typer bring along."""


def main() -> None:
    """Run the command line; every error of Onefold's own is one sentence and an exit code."""
    try:
        code = app(standalone_mode=False)
    except OnefoldError as error:
        note(f"error: {error}")
        code = error.exit_code
    except typer.Abort:
        code = 130
    except WRONG_USAGE as error:
        error.show()
        code = 2
    sys.exit(code if isinstance(code, int) else 0)


def _lake() -> Lake:
    return Lake(load_settings())


def _open(name: str) -> tuple[Lake, Dataset]:
    lake = _lake()
    return lake, find_dataset(lake.settings.datasets_folder, name)


@app.callback(invoke_without_command=True)
def version(
    ctx: typer.Context, show: Annotated[bool, typer.Option("--version", help="Print the version")] = False
) -> None:
    """Fold every message that a Kafka export holds more than once into one row, and prove it."""
    if show:
        typer.echo(f"onefold {__version__}")
        raise typer.Exit
    del ctx


@app.command()
def validate(
    names: Annotated[list[str] | None, typer.Argument(metavar="[DATASET]...", help="Default: all")] = None,
    as_json: AsJson = False,
) -> None:
    """Check dataset files and their quality suites."""
    from onefold.quality.suites import load_suite

    settings = load_settings()
    folder = settings.datasets_folder
    files = [folder / f"{name}.yaml" for name in names] if names else dataset_files(folder)
    if not files:
        raise UsageError(f"no dataset files in {folder}")
    rows = []
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
    if as_json:
        print_json(rows)
    else:
        print_rows("datasets", [{**row, "ok": "yes" if row["ok"] else "NO"} for row in rows])
    if not all(row["ok"] for row in rows):
        raise typer.Exit(2)


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

    lake, dataset = _open(name)
    if export and (start or end):
        raise UsageError("--export and --from/--to exclude each other")
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
    objects = getattr(plan, "objects", [])
    return {
        "batch": plan.batch,
        "interval": plan.interval.model_dump(mode="json") if plan.interval else None,
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

    lake, dataset = _open(name)
    print_json(as_json(one_step(lake, dataset, step_name, batch, attempt, start, end, export)))


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

    lake, dataset = _open(name)
    rows = rows_of(lake, dataset, at, limit or (None if as_json else 20))
    print_json(rows) if as_json else print_rows(dataset.target.table, rows)


@app.command()
def batches(name: Name, as_json: AsJson = False) -> None:
    """Batches, their counts, their gate."""
    from onefold.report.ledger import batches_of

    lake, dataset = _open(name)
    rows = batches_of(lake, dataset)
    if as_json:
        print_json(rows)
        return
    shown = [
        {
            "batch": row["batch"],
            "landed": row["landed"],
            "verdicts": ", ".join(f"{verdict} {count}" for verdict, count in row["verdicts"].items()),
            "gate": row["gate"],
            "published": "yes" if row["published"] else "no",
        }
        for row in rows
    ]
    print_rows(name, shown)


@app.command()
def verdicts(
    name: Name,
    batch: Batch,
    reason: Annotated[str | None, typer.Option(help="Only this reason")] = None,
    limit: Annotated[int | None, typer.Option(help="At most so many (default: 50 in a table, all in JSON)")] = None,
    as_json: AsJson = False,
) -> None:
    """What became of each record of a batch."""
    from onefold.report.ledger import verdicts_of

    lake, dataset = _open(name)
    rows, published = verdicts_of(lake, dataset, batch, reason, limit or (None if as_json else 50))
    if not published:
        note(f"batch {batch} is not published: this is what its newest attempt would do")
    if as_json:
        names = ("topic", "partition", "offset", "verdict", "reason", "scope", "survivor")
        print_json([{key: row[key] for key in names} for row in rows])
        return
    shown = [{**row, "survivor": _place(row["survivor"])} for row in rows]
    print_rows(f"{name} {batch}", shown, "no such verdicts")


def _place(survivor: dict[str, Any] | None) -> str:
    return f"{survivor['topic']}-{survivor['partition']}@{survivor['offset']}" if survivor else ""


@app.command(name="explain")
def explain_key(
    name: Name,
    key: Annotated[str, typer.Option("--key", help='The key as JSON: \'{"account_id": "a-1"}\'')],
    as_json: AsJson = False,
) -> None:
    """Every published record that touched a key, in order, with its verdict."""
    from onefold.records.key import digest_of_key
    from onefold.report.ledger import explain

    lake, dataset = _open(name)
    try:
        parts = json.loads(key)
    except json.JSONDecodeError as error:
        raise UsageError(f"--key {key!r} is not JSON: {error}") from None
    if not isinstance(parts, dict):
        raise UsageError(f"--key {key!r} is no JSON object")
    rows = explain(lake, dataset, digest_of_key(dataset, parts))
    if as_json:
        print_json(rows)
        return
    shown = [{**row, "survivor": _place(row["survivor"]), "won": "won" if row["won"] else ""} for row in rows]
    print_rows(f"{name} {key}", shown, "no published record touched this key")


@app.command()
def offsets(name: Name, as_json: AsJson = False) -> None:
    """Covered ranges, holes and quarantined offsets per partition."""
    from onefold.report.ledger import offsets_of

    lake, dataset = _open(name)
    rows = offsets_of(lake, dataset)
    if as_json:
        print_json(rows)
        return
    shown = [{key: _ranges(value) if isinstance(value, list) else value for key, value in row.items()} for row in rows]
    print_rows(name, shown)


def _ranges(value: list[Any]) -> str:
    def one(item: Any) -> str:
        start, end = (item["start"], item["end"]) if isinstance(item, dict) else item
        kind = f" {item['kind']}" if isinstance(item, dict) else ""
        return f"[{start}, {end}){kind}"

    return ", ".join(one(item) for item in value)


@app.command()
def demo(
    views: Annotated[int, typer.Option(help="Page views to generate")] = 200_000,
    folder: Annotated[Path, typer.Option(help="Where the demo keeps its lake; it is emptied first")] = Path(".demo"),
) -> None:
    """The main job on the shipped sample export, start to report."""
    from onefold.cli.demo import run_demo

    run_demo(load_settings(), folder, views)
