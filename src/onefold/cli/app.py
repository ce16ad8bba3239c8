"""`onefold`: the commands, their help, their exit codes.

0 done or nothing to do · 2 bad dataset or usage · 3 gate red · 4 data loss found · 5 another writer won too
often · 130 interrupted, or not confirmed · 1 anything else.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Annotated, Any

import typer

from onefold import __version__
from onefold.cli.console import note
from onefold.dataset import Dataset, find_valid
from onefold.errors import ChangedDatasetError, InvalidDatasetError, OnefoldError, UsageError
from onefold.lake import Lake
from onefold.offsets import Position
from onefold.operations.in_process import InProcess
from onefold.processes import end_soon
from onefold.settings import load_settings

if TYPE_CHECKING:
    from onefold.operations.launcher import Launcher, OpenLauncher

app = typer.Typer(
    help="Fold every message that a Kafka export holds more than once into one row, and prove it.\n\n"
    "Exit codes: 0 done or nothing to do, 2 bad dataset or usage, 3 gate red, 4 data loss found, "
    "5 another writer won too often, 130 interrupted or not confirmed, 1 anything else.",
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

_OPEN_LAUNCHER: ContextVar[OpenLauncher] = ContextVar("open_launcher", default=InProcess)


@contextmanager
def launching(lake: Lake, small: bool = False) -> Iterator[Launcher]:
    """Who runs Spark for a command: what was handed to `run_command`. It is closed at the end.

    `small`: every batch and the table are small (`onefold.operations.job_size`).
    """
    launcher = _OPEN_LAUNCHER.get()(lake, small)
    try:
        yield launcher
    finally:
        launcher.close()


def open_dataset(name: str) -> tuple[Lake, Dataset]:
    """The lake of the settings, and a dataset by its name."""
    lake = Lake(load_settings())
    from onefold.generation import open_dataset as find

    return lake, find(lake, name)


def open_published(name: str, *, rebuilding: bool = False) -> tuple[Lake, Dataset]:
    """The lake, and a dataset whose file describes the table that readers see: its generation is published; or
    (`rebuilding`, with a note) the table that a rebuild folds.

    Raises:
        ChangedDatasetError: the file is another, so its table is not what readers see.
    """
    from onefold.generation import check_generation

    lake, dataset = open_dataset(name)
    try:
        check_generation(lake, dataset)
    except ChangedDatasetError as changed:
        if not rebuilding:
            raise
        check_generation(lake, dataset, rebuilding=True)
        note(f"{name}: this is of a rebuild that has not ended: readers still see generation {changed.published}")
    return lake, dataset


def find_settled(
    lake: Lake, names: Sequence[str] = ()
) -> tuple[list[Dataset], list[InvalidDatasetError | ChangedDatasetError]]:
    """The datasets of these names (default: all), as the lake has them, and why others cannot be looked at.

    Raises:
        UnknownDatasetError: there is no file of a name.
    """
    from onefold.generation import check_generation, settle

    valid, invalid = find_valid(lake.settings.datasets_folder, names)
    found: list[Dataset] = []
    wrong: list[InvalidDatasetError | ChangedDatasetError] = [*invalid]
    for dataset in (settle(lake, declared) for declared in valid):
        try:
            check_generation(lake, dataset)
        except ChangedDatasetError as changed:
            wrong.append(changed)
        else:
            found.append(dataset)
    return found, wrong


def leave_out(wrong: Sequence[InvalidDatasetError | ChangedDatasetError]) -> None:
    """Name the datasets that a command left out; if it left any out, it ends with 2.

    Raises:
        typer.Exit: a dataset was left out.
    """
    for error in wrong:
        advice = f" {error.advice}" if isinstance(error, ChangedDatasetError) else ""
        note(f"error: {error.complaint}. The dataset was left out.{advice}")
    if wrong:
        raise typer.Exit(2)


def position_of(text: str) -> Position:
    """A position as a person typed it.

    Raises:
        UsageError: it is none.
    """
    try:
        return Position.parse(text)
    except ValueError as error:
        raise UsageError(f"--position {error}") from None


def key_of(text: str, dataset: Dataset) -> dict[str, Any]:
    """A key as a person typed it.

    Raises:
        UsageError: it is no JSON object.
    """
    try:
        parts = json.loads(text, parse_float=str)  # a decimal is what was typed
    except json.JSONDecodeError:
        raise UsageError(f"--key {text!r} is not JSON. {_wanted(dataset)}") from None
    if not isinstance(parts, dict):
        raise UsageError(f"--key {text!r} is no JSON object. {_wanted(dataset)}")
    return parts


def _wanted(dataset: Dataset) -> str:
    if not dataset.key_names:
        return f"{dataset.name} has no key but the position"
    names = ", ".join(f'"{name}": …' for name in dict.fromkeys(dataset.key_names))
    return f"The key of {dataset.name} is {{{names}}}"


def run_command(words: Sequence[str], open_launcher: OpenLauncher = InProcess) -> int:
    """Run a command of words; its exit code. Each error of Onefold's own is one sentence on standard error."""
    before = _OPEN_LAUNCHER.set(open_launcher)
    try:
        code = app(list(words), prog_name="onefold", standalone_mode=False)
    except OnefoldError as error:
        note(f"error: {error}")
        code = error.exit_code
    except typer.Abort:
        code = 130
    except WRONG_USAGE as error:
        error.show()
        code = 2
    finally:
        _OPEN_LAUNCHER.reset(before)
    return code if isinstance(code, int) else 0


def main() -> None:
    """The program `onefold`."""
    end_soon()
    sys.exit(run_command(sys.argv[1:]))


@app.callback(invoke_without_command=True)
def version(
    ctx: typer.Context, show: Annotated[bool, typer.Option("--version", help="Print the version")] = False
) -> None:
    """Fold every message that a Kafka export holds more than once into one row, and prove it."""
    if show:
        typer.echo(f"onefold {__version__}")
        raise typer.Exit
    del ctx
