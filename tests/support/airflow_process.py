"""Airflow for tests: its settings, and a process that has it imported and answers questions about it.

No test process imports airflow by these: everything runs in `airflow_probe.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.support.files import EXPORTS_BELOW
from tests.support.jvm import short_lived

PROJECT = Path(__file__).parents[2]
SPARK_HERE = {"ONEFOLD_TEST_SPARK": "here"}
"""The environment of a probe that runs Spark steps in its own process: for claims that are not about spark-submit."""
_PROBE = PROJECT / "tests" / "support" / "airflow_probe.py"
_READ_AT_IMPORT = ("AIRFLOW_HOME", "AIRFLOW__", "PYTHON")
"""How settings begin that Airflow or Python reads once."""
Probe = Callable[..., Any]
"""Runs a function of `airflow_probe.py`, with more settings by name; what it printed as JSON, and its `log`."""
Fork = Callable[[Sequence[str], dict[str, str]], tuple[int, str, str]]
"""Runs a function of `airflow_probe.py` with an environment; its exit code and outputs."""


def settings(home: Path) -> dict[str, str]:
    """The environment of an Airflow with the project's DAGs, and of a lake, below a folder."""
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


@contextlib.contextmanager
def forking(environ: dict[str, str], folder: Path) -> Iterator[Fork]:
    """Functions of the probe in forks of one process that has Airflow imported; their outputs go through a folder."""
    out, err = folder / "out", folder / "err"
    with subprocess.Popen(
        [sys.executable, str(_PROBE), "forked"],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        questions, codes = process.stdin, process.stdout

        def ask(call: Sequence[str], changed: dict[str, str]) -> tuple[int, str, str]:
            for file in (out, err):
                file.unlink(missing_ok=True)
            question = {"call": call, "environ": changed, "out": str(out), "err": str(err)}
            print(json.dumps(question), file=questions, flush=True)
            code = codes.readline()
            assert code, "the process that has Airflow imported has ended; its last words are above"
            return int(code), out.read_text(), err.read_text()

        yield ask
        questions.close()


def asked(fork: Fork, environ: dict[str, str], function: str, *words: str, **more: str | None) -> Any:
    """What a function of the probe prints as JSON, in a process of its own where a setting is read at import."""
    changed = {name: value for name, value in (environ | more).items() if value is not None}
    if any(name.startswith(_READ_AT_IMPORT) for name in more):
        command = [sys.executable, str(_PROBE), function, *words]
        done = subprocess.run(command, env=changed, capture_output=True, text=True, check=False)
        code, out, err = done.returncode, done.stdout, done.stderr
    else:
        code, out, err = fork([function, *words], changed)
    assert code == 0, out[-5000:] + err[-5000:]
    answer = out.rpartition("\nanswer: ")[2].splitlines()[0]
    return json.loads(answer) | {"log": out + err}
