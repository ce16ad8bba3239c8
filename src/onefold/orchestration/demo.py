"""Airflow with the sample's DAGs on this machine: `python -m onefold.orchestration.demo [--exit] [--port N]`.

Starts the four services, runs the sample's exports folder by folder, shows the runs and the page to open, and
stays until Ctrl-C (or stops after the runs with `--exit`). Everything it writes lies in `.airflow/`; everything
it starts it stops, by process id.
"""

from __future__ import annotations

import argparse
import signal
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from rich.console import Console
from rich.live import Live
from rich.table import Table

from onefold.errors import OnefoldError, UsageError
from onefold.orchestration.services import USER, Airflow, free_port, running

RUNS = {"accounts": "sample/exports/kcat", "account_entries": "sample/exports/connect"}
"""The DAGs that are run, each over the folders of a place, by name. The last folder holds a conflict."""
RUNS_SECONDS = 3600
COLOURS = {"success": "green", "failed": "red", "running": "cyan", "queued": "dim"}


@dataclass(slots=True)
class Run:
    """One run of the demo."""

    dag: str
    folder: str
    id: str = ""
    state: str = "waiting"
    seconds: float = 0
    expected: str = "success"

    @property
    def finished(self) -> bool:
        """Whether it has ended."""
        return self.state in ("success", "failed")


def sample_runs(project: Path) -> list[Run]:
    """A run a folder of the sample, in order; each DAG's last is meant to be red."""
    runs = []
    for dag, place in RUNS.items():
        folders = sorted(folder.name for folder in (project / place).iterdir() if folder.is_dir())
        found = [Run(dag, f"{place}/{name}") for name in folders]
        found[-1].expected = "failed"
        runs += found
    return runs


def table_of(runs: list[Run]) -> Table:
    """The runs, as they are now."""
    table = Table("dataset", "export folder", "state", "seconds", box=None, pad_edge=False)
    for run in runs:
        state = f"[{COLOURS.get(run.state, 'default')}]{run.state}[/]"
        note = " (meant to be red)" if run.state == run.expected == "failed" else ""
        table.add_row(
            run.dag,
            run.folder.removeprefix("sample/exports/"),
            state + note,
            f"{run.seconds:.0f}" if run.seconds else "",
        )
    return table


def trigger(airflow: Airflow, run: Run) -> None:
    """Start a run without a date over an export folder."""
    started = airflow.api.trigger(run.dag, {"export": run.folder})
    run.id, run.state = started["dag_run_id"], started["state"]


def refresh(airflow: Airflow, run: Run) -> None:
    """Ask for a run's state."""
    if found := airflow.api.run(run.dag, run.id):
        run.state, run.seconds = found["state"], found["duration"] or 0


def run_all(airflow: Airflow, runs: list[Run], console: Console) -> None:
    """Trigger every run, each dataset's in order (a dataset has one run at a time), and watch them end."""
    deadline = time.monotonic() + RUNS_SECONDS
    with Live(table_of(runs), console=console, refresh_per_second=2, transient=True) as live:
        while not all(run.finished for run in runs):
            if time.monotonic() > deadline:
                raise UsageError(f"the runs have not ended after {RUNS_SECONDS} s")
            airflow.health()
            for dag in RUNS:
                current = next((run for run in runs if run.dag == dag and not run.finished), None)
                if current and current.id:
                    refresh(airflow, current)
                    if current.finished and not console.is_terminal:
                        console.print(f"{dag} {current.folder}: {current.state} in {current.seconds:.0f} s")
                elif current:
                    trigger(airflow, current)
            live.update(table_of(runs))
            time.sleep(1)
    console.print(table_of(runs))


def main(argv: list[str] | None = None) -> int:
    """Entry point of `make airflow-demo`; 0 where every run ended as it was meant to."""
    parser = argparse.ArgumentParser(prog="airflow-demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exit", action="store_true", help="stop after the runs")
    parser.add_argument("--port", type=int, default=8080, help="of the UI; another port is taken if it is in use")
    parser.add_argument("--project", type=Path, default=Path.cwd(), help="the project's folder")
    parser.add_argument("--home", type=Path, help="where everything is written (default: .airflow in the project)")
    args = parser.parse_args(argv)
    project = args.project.absolute()
    console = Console()
    for name in (signal.SIGINT, signal.SIGTERM):  # SIGINT too: a background job starts with it ignored
        signal.signal(name, _interrupt)
    try:
        runs = sample_runs(project)
        airflow = Airflow(project, (args.home or project / ".airflow").absolute(), free_port(args.port))
        console.print(f"Airflow in {airflow.home} (logs in {airflow.home / 'logs'})")
        with ExitStack() as ends:
            with console.status("starting") as status:
                ends.enter_context(running(airflow, RUNS, lambda missing: status.update(f"waiting for {missing}")))
            ends.callback(console.print, "Stopping Airflow.")
            console.print(f"Open {airflow.api.url} - user [b]{USER}[/], password [b]{airflow.passwords[USER]}[/].")
            run_all(airflow, runs, console)
            if not args.exit:
                console.print("The menu entry Data quality holds the reports. Ctrl-C stops everything.")
                signal.pause()
    except KeyboardInterrupt:
        return 0
    except (OnefoldError, httpx.HTTPError, OSError) as error:
        console.print(f"[red]{error}[/]")
        return 1
    return 0 if all(run.state == run.expected for run in runs) else 1


def _interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    raise SystemExit(main())
