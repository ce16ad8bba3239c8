"""Airflow's four services on this machine, as processes in a folder of their own, and a client of their API.

For what wants a whole Airflow for a while, as the demo does: the database is SQLite, and everything that is started is
stopped, by process id.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

import psutil  # type: ignore[import-untyped]

from onefold.errors import UsageError
from onefold.orchestration.api import Api

USER = "admin"
SERVICES: dict[str, list[str]] = {
    "api-server": ["api-server", "--workers", "1"],
    "scheduler": ["scheduler", "--skip-serve-logs"],
    "dag-processor": ["dag-processor"],
    "triggerer": ["triggerer", "--skip-serve-logs"],
}
"""The services by name: what each adds to `airflow`."""
START_SECONDS = 180
STOP_SECONDS = 10
_AIRFLOW = [sys.executable, "-m", "airflow"]


class Airflow:
    """The four services in a folder of their own, and a client of their API.

    `roles` are those of the other users than `USER`, by name; `more` goes over the settings.
    """

    def __init__(
        self,
        project: Path,
        home: Path,
        port: int,
        roles: Mapping[str, str] = MappingProxyType({}),
        more: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.home = home
        self.passwords = {user: secrets.token_urlsafe(12) for user in (USER, *roles)}
        users = ",".join(f"{user}:{role}" for user, role in {USER: "admin", **roles}.items())
        self.environ = {**os.environ, **environment(project, home, port, users), **more}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.api = Api(f"http://localhost:{port}")

    def prepare(self) -> None:
        """The folder, the database and the password."""
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        for name in SERVICES:
            self.log(name).unlink(missing_ok=True)
        passwords = self.home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps(self.passwords))
        with self.log("database").open("wb") as log:
            command = [*_AIRFLOW, "db", "migrate"]
            done = subprocess.run(command, env=self.environ, stdout=log, stderr=log, check=False)
        if done.returncode:
            raise UsageError(f"airflow db migrate failed: see {self.log('database')}")

    def start(self, *names: str) -> None:
        """Start the services, or those named; each with a log file."""
        for name in names or SERVICES:
            with self.log(name).open("ab") as log:
                self.processes[name] = subprocess.Popen(
                    [*_AIRFLOW, *SERVICES[name]],
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
        for process in alive:  # tasks that were running: their children started later are below them
            with contextlib.suppress(psutil.NoSuchProcess):
                for child in process.children(recursive=True):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        child.kill()
                process.kill()
        for process in self.processes.values():
            process.wait()
        self.api.close()

    def health(self) -> dict[str, bool]:
        """Which services answer or have a heartbeat."""
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise UsageError(f"{name} ended with {process.returncode}: see {self.log(name)}")
        return self.api.health()

    def log(self, name: str) -> Path:
        """What a service says."""
        return self.home / "logs" / f"{name}.log"


def environment(project: Path, home: Path, port: int, users: str) -> dict[str, str]:
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
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users,
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


def free_port(wanted: int) -> int:
    """`wanted`, or another port where it is taken."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return int(probe.getsockname()[1])
    raise UsageError("no free port")


@contextlib.contextmanager
def running(airflow: Airflow, dags: Iterable[str], say: Callable[[str], None]) -> Iterator[None]:
    """The services up and the DAGs read, and everything stopped at the end whatever happens.

    `say` hears what is waited for, once a second.

    Raises:
        UsageError: a service ended, or something was not there in time; where its log lies.
    """
    say("the database")
    airflow.prepare()
    try:
        airflow.start()
        for missing in _missing(airflow, set(dags)):
            say(", ".join(missing))
            time.sleep(1)
        yield
    finally:
        airflow.stop()


def _missing(airflow: Airflow, dags: set[str]) -> Iterator[list[str]]:
    """What is not there yet, until nothing is missing."""
    deadline = time.monotonic() + START_SECONDS
    logged_in = False
    while True:
        missing = [name for name, up in airflow.health().items() if not up]
        if not missing:
            if not logged_in:
                airflow.api.log_in(USER, airflow.passwords[USER])
                logged_in = True
            missing = [f"the DAG {dag}" for dag in sorted(dags) if not airflow.api.has(dag)]
        if not missing:
            return
        if time.monotonic() > deadline:
            raise UsageError(f"not there after {START_SECONDS} s: {', '.join(missing)}; see {airflow.home / 'logs'}")
        yield missing
