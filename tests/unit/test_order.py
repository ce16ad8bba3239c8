"""The order of the tests where time is limited: no file is always the last."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conftest import PROJECT, begin_elsewhere

SHARED = ["--dist", "loadfile", "--no-loadscope-reorder"]


@dataclass(frozen=True)
class Item:
    path: Path
    name: str


def items() -> list[Any]:
    files = ["spark/a", "dags/a", "process/a", "process/b", "integration/a", "integration/b", "unit/a"]
    return [Item(PROJECT / "tests" / f"{file}.py", name) for file in files for name in ("one", "two")]


def order(seed: int) -> list[str]:
    return [f"{item.path.relative_to(PROJECT / 'tests')} {item.name}" for item in begin_elsewhere(items(), seed)]


def test_by_its_seed_a_run_begins_at_another_file_and_leaves_the_laws_first_and_unit_tests_last() -> None:
    runs = [order(seed) for seed in range(4)]

    assert [run[4] for run in runs] == [
        "process/a.py one",
        "process/b.py one",
        "integration/a.py one",
        "integration/b.py one",
    ]
    for run in runs:
        assert sorted(run) == sorted(order(0))
        assert (run[:4], run[-2:]) == (order(0)[:4], order(0)[-2:])
        assert [name.endswith("one") for name in run] == [True, False] * 7, "a file's tests stay together, in order"
    assert order(5) == order(1)


def test_both_processes_of_a_run_collect_one_order(tmp_path: Path) -> None:
    environment = {**os.environ, "ONEFOLD_TEST_UNTIL": "0"}
    environment.pop("ONEFOLD_TEST_SEED", None)
    files = ["tests/process/test_full_disks.py", "tests/integration/test_claims.py", "tests/integration/test_holes.py"]
    words = ["-q", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'own'}", "--numprocesses", "2", *SHARED]

    command = [sys.executable, "-m", "pytest", *words, *files]
    done = subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-2000:]
    assert "skipped" in done.stdout
    assert "passed" not in done.stdout, "the time of this run was over before it began"
