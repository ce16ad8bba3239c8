"""The list of fault points is the truth: every name is used once, and nothing else is."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onefold.faults import FAULT_POINTS, fault_point

PROJECT = Path(__file__).parents[2]


def test_every_fault_point_is_passed_at_exactly_one_place() -> None:
    sources = [*(PROJECT / "src").rglob("*.py"), *(PROJECT / "spark_jobs").glob("*.py")]
    used = [name for file in sources for name in re.findall(r'fault_point\("(\w+)"\)', file.read_text())]
    assert sorted(used) == sorted(FAULT_POINTS)


def test_an_unknown_place_cannot_be_passed() -> None:
    with pytest.raises(AssertionError, match="nowhere"):
        fault_point("nowhere")


@pytest.mark.parametrize(("named", "code"), [("after_land", -signal.SIGKILL), ("after_gate", 0), ("", 0)])
def test_the_process_dies_only_at_the_place_that_is_named(named: str, code: int) -> None:
    program = "from onefold.faults import fault_point; fault_point('after_land')"
    done = subprocess.run([sys.executable, "-c", program], env={"ONEFOLD_FAULT": named}, check=False)
    assert done.returncode == code
