"""The CPU seconds of reading each file of `dags/` with many dataset files.

    python -m benchmarks.parsing [--datasets 200]

Airflow's DAG processor reads every file of the DAGs folder repeatedly, each in its own process. Before it forks that
process, it imports the modules of Airflow that the file names, once. This benchmark does the same.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROJECT = Path(__file__).parents[1]
READ = """
import importlib, sys, time
from airflow.utils.file import iter_airflow_imports
for module in iter_airflow_imports(f"dags/{sys.argv[1]}.py"):
    importlib.import_module(module)
start = time.process_time()
importlib.import_module("dags." + sys.argv[1])
print(time.process_time() - start)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", type=int, default=200)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        write_datasets(Path(home), args.datasets)
        print(f"{args.datasets} dataset files, CPU seconds:")
        for file in sorted((PROJECT / "dags").glob("*.py")):
            print(f"  {file.name:32} {seconds_of(file.stem, home):6.2f}")


def write_datasets(home: Path, number: int) -> None:
    given = (PROJECT / "datasets" / "accounts.yaml").read_text()
    (home / "datasets").mkdir()
    for number_ in range(number):
        name = f"accounts_{number_}"
        text = given.replace("name: accounts", f"name: {name}").replace("payments.accounts", f"payments.{name}")
        (home / "datasets" / f"{name}.yaml").write_text(text)


def seconds_of(file: str, home: str) -> float:
    airflow = {"AIRFLOW_HOME": f"{home}/airflow", "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins")}
    paths = os.pathsep.join(str(PROJECT / folder) for folder in ("src", "."))
    environ = os.environ | airflow | {"ONEFOLD_HOME": home, "PYTHONPATH": paths}
    done = subprocess.run(
        [sys.executable, "-c", READ, file], env=environ, cwd=PROJECT, capture_output=True, text=True, check=True
    )
    return float(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
