"""Airflow for tests: a home and a database of the session's own, always in another process."""

from __future__ import annotations

import contextlib
import functools
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.airflow_process import PROJECT, Fork, Probe, asked, forking, settings


@pytest.fixture(scope="session")
def airflow_environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of an Airflow with the project's DAGs, and of a lake, below a temporary folder."""
    return settings(tmp_path_factory.mktemp("airflow"))


@pytest.fixture(scope="session")
def airflow_database(airflow_environ: dict[str, str]) -> None:
    """The metadata database, migrated once."""
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=airflow_environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.fixture(scope="session")
def fork(airflow_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fork]:
    """Runs a function of the probe in a fork of a process that has Airflow imported; its exit code and outputs."""
    with forking(airflow_environ, tmp_path_factory.mktemp("probe")) as fork:
        yield fork


@pytest.fixture(scope="session")
def probe(airflow_environ: dict[str, str], fork: Fork) -> Probe:
    """Runs a function of `airflow_probe.py` in a process of its own; what it printed as JSON."""
    return functools.partial(asked, fork, airflow_environ)


@pytest.fixture
def statsd() -> Iterator[tuple[dict[str, str], Callable[[], dict[str, float]]]]:
    """Airflow's settings for a StatsD server, and what that server has received of Onefold's gauges."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as server:
        server.bind(("127.0.0.1", 0))
        server.setblocking(False)
        where = {"STATSD_ON": "True", "STATSD_HOST": "127.0.0.1", "STATSD_PORT": str(server.getsockname()[1])}

        def received() -> dict[str, float]:
            said: list[str] = []
            with contextlib.suppress(BlockingIOError):
                while True:
                    said += server.recv(65536).decode().splitlines()
            gauges = (line.split(":") for line in said if line.startswith("airflow.onefold.") and line.endswith("|g"))
            return {name.removeprefix("airflow.onefold."): float(value.split("|")[0]) for name, value in gauges}

        yield {f"AIRFLOW__METRICS__{name}": value for name, value in where.items()}, received


@pytest.fixture
def datasets(tmp_path: Path) -> Path:
    """A copy of the dataset files, to add to."""
    return Path(shutil.copytree(PROJECT / "datasets", tmp_path / "datasets"))
