"""The planted faults: each law, exit code and fault point has one, and the docs list them."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from onefold.cli.app import app
from onefold.faults import FAULT_POINTS
from onefold.vocabulary import OUTCOMES, Finding
from tests.support.planted.__main__ import SITE, caught_together, main, table
from tests.support.planted.faults import FAULTS, Fault
from tests.support.planted.plant import NoSuchFunctionError, NotInPlaceError, module_of, planted

PROJECT = Path(__file__).parents[2]
REASONS = {f"{verdict}/{reason}" for verdict, reason in OUTCOMES}
LAWS = {f"L{number}" for number in range(1, 9)}


def test_each_law_exit_code_fault_point_verdict_and_reason_is_broken() -> None:
    codes = {
        f"exit code {code}" for code in re.findall(r"\b(\d+) (?=[a-z])", str(app.info.help).partition("codes:")[2])
    }
    assert len(codes) == 7
    assert {fault.breaks for fault in FAULTS.values()} == LAWS | codes | set(FAULT_POINTS) | REASONS | set(Finding)


@pytest.mark.parametrize("name", FAULTS)
def test_the_function_and_the_test_of_a_fault_exist(name: str) -> None:
    fault = FAULTS[name]
    module_of(fault.function)
    file, _, test = fault.test.partition("::")
    assert f"def {test.partition('[')[0]}(" in (PROJECT / file).read_text()


def test_what_a_fault_of_a_law_a_verdict_or_a_reason_is_caught_by_runs_by_day() -> None:
    """Those of fault points and of exit codes may wait for the night, which kills at each point."""
    wanted = {fault.test for fault in FAULTS.values() if fault.breaks in LAWS | REASONS | set(Finding)}
    files = sorted({test.partition("::")[0] for test in wanted})
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *files],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    by_day = {*listed, *(test.partition("[")[0] for test in listed)}
    assert wanted - by_day == set()


def test_a_name_that_no_module_or_several_define_is_refused() -> None:
    for name in ("no_such_function", "run"):
        with pytest.raises(NoSuchFunctionError, match=name):
            module_of(name)


def test_a_fault_reaches_every_process_that_python_starts() -> None:
    program = "from onefold.operations.stuck_batches import waits_for_a_person as found; print(found.__module__)"
    path = os.pathsep.join(map(str, (SITE, PROJECT / "src", PROJECT)))
    planted = {"PYTHONPATH": path, "PLANTED_FAULT": "a green batch waits for an operator"}
    for more, module in (({}, "onefold.operations.stuck_batches"), (planted, "tests.support.planted.faults")):
        done = subprocess.run(
            [sys.executable, "-c", program], env=os.environ | more, capture_output=True, text=True, check=True
        )
        assert done.stdout == f"{module}\n"


def test_a_fault_is_planted_for_a_while_wherever_its_function_was_imported_to(monkeypatch: pytest.MonkeyPatch) -> None:
    from onefold.operations import stuck_batches
    from onefold.operations.stuck_batches import waits_for_a_person

    code, seen = waits_for_a_person.__code__, inspect.signature(waits_for_a_person)
    with planted("a green batch waits for an operator"):
        assert waits_for_a_person is stuck_batches.waits_for_a_person
        assert waits_for_a_person.__code__ is not code
        assert inspect.signature(waits_for_a_person) == seen
    assert waits_for_a_person.__code__ is code
    monkeypatch.setitem(FAULTS, "decorated", Fault("L1", "StateTable.size", "", "", lambda original: original))
    with pytest.raises(NotInPlaceError, match="size"):
        planted("decorated").__enter__()


def test_what_is_caught_in_a_process_that_goes_on_was_clean_before(capfd: pytest.CaptureFixture[str]) -> None:
    names = ["no offset is missing between batches", "exit code 3 is lost"]
    caught = caught_together(names)
    assert caught.keys() == {*names}, "in the order in which they are caught"
    assert all(caught.values())
    assert "caught: exit code 3 is lost" in capfd.readouterr().out


def test_a_test_that_passes_with_a_fault_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tests.support.planted.__main__.caught_together", lambda names: {})
    monkeypatch.setattr("tests.support.planted.__main__.run_test", lambda test, fault="": (0, "1 passed"))
    assert main(["L5"]) == 1
    assert "NOT CAUGHT" in capsys.readouterr().out
    assert main(["no such fault"]) == 2


def test_the_docs_list_them() -> None:
    assert table() in (PROJECT / "docs" / "planted-faults.md").read_text()
