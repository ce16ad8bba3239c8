"""Airflow with the sample's DAGs on this machine: `python -m onefold.orchestration.demo [--exit] [--port N]`.

Starts the four services, runs the sample's exports folder by folder, shows the runs and the page to open, and
stays until Ctrl-C (or stops after the runs with `--exit`). Everything it writes lies in `.airflow/`; everything
it starts it stops, by process id.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
from rich.console import Console
from rich.live import Live
from rich.table import Table

from onefold.errors import OnefoldError, UsageError
from onefold.orchestration.api import Api

USER = "admin"
SERVICES: dict[str, list[str]] = {
    "api-server": ["api-server", "--workers", "1"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
"""The services by name: what each adds to `airflow`."""
RUNS = {"accounts": "sample/exports/kcat", "account_entries": "sample/exports/connect"}
"""The DAGs that are run, each over the folders of a place, by name. The last folder holds a conflict."""
START_SECONDS = 180
RUNS_SECONDS = 3600
STOP_SECONDS = 10
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


class Airflow:
    """The four services in a folder of their own, and a client of their API."""

    def __init__(self, project: Path, home: Path, port: int) -> None:
        self.home, self.port = home, port
        self.password = secrets.token_urlsafe(12)
        self.environ = os.environ | environment(project, home, port)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.api = Api(f"http://localhost:{port}")

    def prepare(self) -> None:
        """The folder, the database and the password."""
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        passwords = self.home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({USER: self.password}))
        with self._log("database").open("wb") as log:
            command = [*_AIRFLOW, "db", "migrate"]
            done = subprocess.run(command, env=self.environ, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise UsageError(f"airflow db migrate failed: see {self._log('database')}")

    def start(self) -> None:
        """Start the services, each with a log file."""
        for name, words in SERVICES.items():
            with self._log(name).open("wb") as log:
                self.processes[name] = subprocess.Popen(
                    [*_AIRFLOW, *words],
                    env=self.environ,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,  # Ctrl-C is for us: we stop them in order
                )

    def stop(self) -> None:
        """Stop what was started and whatever that has started, politely first."""
        ours: list[psutil.Process] = []
        for process in self.processes.values():
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = psutil.Process(process.pid)
                ours += [parent, *parent.children(recursive=True)]
        for process in self.processes.values():
            process.terminate()
        _, alive = psutil.wait_procs(ours, timeout=STOP_SECONDS)
        for one in alive:  # tasks that were running: their children started later are below them
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in one.children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
                one.kill()
        for process in self.processes.values():
            process.wait()
        self.api.close()

    def health(self) -> dict[str, bool]:
        """Which services answer or have a heartbeat."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise UsageError(f"{name} ended with {process.returncode}: see {self._log(name)}")
        return self.api.health()

    def trigger(self, run: Run) -> None:
        """Start a run without a date over an export folder."""
        started = self.api.trigger(run.dag, {"export": run.folder})
        run.id, run.state = started["dag_run_id"], started["state"]

    def refresh(self, run: Run) -> None:
        """Ask for a run's state."""
        if found := self.api.run(run.dag, run.id):
            run.state, run.seconds = found["state"], found["duration"] or 0

    def _log(self, name: str) -> Path:
        return self.home / "logs" / f"{name}.log"


_AIRFLOW = [sys.executable, "-m", "airflow"]


def environment(project: Path, home: Path, port: int) -> dict[str, str]:
    """The settings of Airflow and of Onefold; secrets are new at every start."""
    scripts = sysconfig.get_path("scripts")
    return {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__DAGS_FOLDER": str(project / "dags"),
        "AIRFLOW__CORE__PLUGINS_FOLDER": str(project / "plugins"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__EXECUTOR": "LocalExecutor",
        "AIRFLOW__CORE__PARALLELISM": "2",  # a Spark step a core is enough for a demo
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"http://localhost:{port}/execution/",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__FERNET_KEY": "",
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{home / 'airflow.db'}",
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": f"http://localhost:{port}",
        "AIRFLOW__API__SECRET_KEY": secrets.token_hex(32),
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(64),
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(home / "logs"),
        "AIRFLOW__USAGE_DATA_COLLECTION__ENABLED": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "ONEFOLD_HOME": str(project),
        "ONEFOLD_LAKE": str(home / "lake"),
        "ONEFOLD_JARS": os.environ.get("ONEFOLD_JARS", str(project / ".jars")),
        "PATH": f"{scripts}{os.pathsep}{os.environ.get('PATH', '')}",
    }


def sample_runs(project: Path) -> list[Run]:
    """A run a folder of the sample, in order; each DAG's last is meant to be red."""
    runs = []
    for dag, place in RUNS.items():
        folders = sorted(one.name for one in (project / place).iterdir() if one.is_dir())
        found = [Run(dag, f"{place}/{name}") for name in folders]
        found[-1].expected = "failed"
        runs += found
    return runs


def table_of(runs: list[Run]) -> Table:
    """The runs, as they stand."""
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


def free_port(wanted: int) -> int:
    """`wanted`, or another one where it is taken."""
    for port in (wanted, 0):
        with socket.socket() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                one.bind(("127.0.0.1", port))
                return int(one.getsockname()[1])
    raise UsageError("no free port")


@contextlib.contextmanager
def running(airflow: Airflow, console: Console) -> Iterator[None]:
    """The services up, and stopped at the end whatever happens."""
    console.print(f"Airflow in {airflow.home} (logs in {airflow.home / 'logs'})")
    with console.status("database"):
        airflow.prepare()
    try:
        airflow.start()
        with console.status("starting") as status:
            deadline = time.monotonic() + START_SECONDS
            while not all((beats := airflow.health()).values()):
                if time.monotonic() > deadline:
                    raise UsageError(f"not up after {START_SECONDS} s: {beats}; see {airflow.home / 'logs'}")
                status.update("waiting for " + ", ".join(name for name, up in beats.items() if not up))
                time.sleep(1)
            airflow.api.log_in(USER, airflow.password)
            while not all(airflow.api.has(dag) for dag in RUNS):
                if time.monotonic() > deadline:
                    raise UsageError(f"the DAGs were not read after {START_SECONDS} s; see {airflow.home / 'logs'}")
                status.update("waiting for the DAGs")
                time.sleep(1)
        yield
    finally:
        console.print("Stopping Airflow.")
        airflow.stop()


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
                    airflow.refresh(current)
                    if current.finished and not console.is_terminal:
                        console.print(f"{dag} {current.folder}: {current.state} in {current.seconds:.0f} s")
                elif current:
                    airflow.trigger(current)
            live.update(table_of(runs))
            time.sleep(1)
    console.print(table_of(runs))


def main(argv: list[str] | None = None) -> int:
    """Entry point of `make airflow-demo`; 0 where every run ended as it was meant to."""
    parser = argparse.ArgumentParser(prog="airflow-demo", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--exit", action="store_true", help="stop after the runs")
    parser.add_argument("--port", type=int, default=8080, help="of the UI; another one is taken if it is in use")
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
        with running(airflow, console):
            console.print(f"Open {airflow.api.url} - user [b]{USER}[/], password [b]{airflow.password}[/].")
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
