"""Airflow for tests: a home and a database of the session's own, always in another process.

No other test gets airflow imported by these: everything runs in `airflow_probe.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.files import EXPORTS_BELOW
from tests.support.jvm import short_lived

PROJECT = Path(__file__).parents[2]
SPARK_HERE = {"ONEFOLD_TEST_SPARK": "here"}
"""The environment of a probe that runs Spark steps in its own process: for claims that are not about spark-submit."""
PROBE = PROJECT / "tests" / "support" / "airflow_probe.py"
READ_AT_IMPORT = ("AIRFLOW_HOME", "AIRFLOW__", "PYTHON")
"""How settings begin that Airflow or Python reads once."""
Probe = Callable[..., Any]
Ask = Callable[[Sequence[str], dict[str, str]], tuple[int, str, str]]


@pytest.fixture(scope="session")
def airflow_environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The settings of an Airflow with the project's DAGs, and of a lake, below a temporary folder."""
    home = tmp_path_factory.mktemp("airflow")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "ONEFOLD"))}
    return (
        kept
        | short_lived()
        | {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "0",  # a test changes files sooner than in 30 seconds
            "AIRFLOW__API_AUTH__JWT_SECRET": "0" * 128,
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
            "ONEFOLD_HOME": str(PROJECT),
            "ONEFOLD_EXPORTS_BELOW": json.dumps(EXPORTS_BELOW),
            "ONEFOLD_LAKE": str(home / "lake"),
            "ONEFOLD_JARS": os.environ.get("ONEFOLD_JARS", str(PROJECT / ".jars")),
            "PYTHONPATH": os.pathsep.join(str(PROJECT / folder) for folder in ("src", ".")),
        }
    )


@pytest.fixture(scope="session")
def airflow_database(airflow_environ: dict[str, str]) -> None:
    """The metadata database, migrated once."""
    command = [sys.executable, "-m", "airflow", "db", "migrate"]
    done = subprocess.run(command, env=airflow_environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.fixture(scope="session")
def fork(airflow_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ask]:
    """Runs a function of the probe in a fork of a process that has Airflow imported; its exit code and outputs."""
    out, err = (tmp_path_factory.mktemp("probe") / name for name in ("out", "err"))
    with subprocess.Popen(
        [sys.executable, str(PROBE), "forked"],
        env=airflow_environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as forking:
        assert forking.stdin
        assert forking.stdout
        questions, codes = forking.stdin, forking.stdout

        def ask(call: Sequence[str], environ: dict[str, str]) -> tuple[int, str, str]:
            for file in (out, err):
                file.unlink(missing_ok=True)
            question = {"call": call, "environ": environ, "out": str(out), "err": str(err)}
            print(json.dumps(question), file=questions, flush=True)
            code = codes.readline()
            assert code, "the process that has Airflow imported has ended; its last words are above"
            return int(code), out.read_text(), err.read_text()

        yield ask
        questions.close()


@pytest.fixture(scope="session")
def probe(airflow_environ: dict[str, str], fork: Ask) -> Probe:
    """Runs a function of `airflow_probe.py` in a process of its own; what it printed as JSON."""

    def run(function: str, *words: str, **environ: str | None) -> Any:
        changed = {name: value for name, value in (airflow_environ | environ).items() if value is not None}
        if any(name.startswith(READ_AT_IMPORT) for name in environ):
            command = [sys.executable, str(PROBE), function, *words]
            done = subprocess.run(command, env=changed, capture_output=True, text=True, check=False)
            code, out, err = done.returncode, done.stdout, done.stderr
        else:
            code, out, err = fork([function, *words], changed)
        assert code == 0, out[-5000:] + err[-5000:]
        answer = out.rpartition("\nanswer: ")[2].splitlines()[0]
        return json.loads(answer) | {"log": out + err}

    return run


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
