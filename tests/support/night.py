"""What waits for the night, and why: `python -m tests.support.night [WORD…]`.

A table of the tests that `make test` leaves to `make test-nightly`: all that are marked `nightly`, and those of which
only the cases that `by_day` names run by day. WORD chooses files or tests whose name contains it. It reads the marks
and imports no test.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
NO_REASON = "takes minutes on its own"
"""As the marker's description has it, where a mark gives no reason."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A test of which all cases wait, or all but those that are named; or a module's tests, where `test` is empty."""

    file: str
    test: str
    by_day: tuple[str, ...]
    reason: str

    def row(self) -> str:
        cases = "; ".join(f"`{case}`" for case in self.by_day)
        return f"| `{self.file}` | {self.test or 'all tests'} | {cases or '-'} | {self.reason} |"


def waiting(words: Iterable[str] = ()) -> list[Waiting]:
    """All of them, by file and in the order of each file."""
    found = [test for file in sorted(TESTS.rglob("test_*.py")) for test in _of_file(file)]
    words = list(words)
    return [test for test in found if not words or any(word in f"{test.file}::{test.test}" for word in words)]


def _of_file(file: Path) -> Iterator[Waiting]:
    name = file.relative_to(TESTS).as_posix()
    for statement in ast.parse(file.read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="pytestmark")], value=marks):
                test, given = "", marks.elts if isinstance(marks, ast.List | ast.Tuple) else [marks]
            case ast.FunctionDef(name=test, decorator_list=given):
                pass
            case _:
                continue
        for mark in given:
            yield from _of_mark(name, test, mark)


def _of_mark(file: str, test: str, mark: ast.expr) -> Iterator[Waiting]:
    written = ast.unparse(mark.func if isinstance(mark, ast.Call) else mark)
    said = {word.arg: word.value for word in mark.keywords} if isinstance(mark, ast.Call) else {}
    match written:
        case "pytest.mark.nightly":
            yield Waiting(file, test, (), _text(said.get("reason")))
        case "pytest.mark.by_day" if isinstance(mark, ast.Call):
            yield Waiting(file, test, tuple(_text(case) for case in mark.args), _text(said.get("why")))
        case "pytest.mark.parametrize" | "pytest.fixture" if "mark.nightly" in ast.unparse(mark):
            yield Waiting(file, test, ("some",), NO_REASON)


def _text(value: ast.expr | None) -> str:
    return str(value.value) if isinstance(value, ast.Constant) else NO_REASON


def table(tests: Iterable[Waiting]) -> str:
    """One row a test."""
    return "\n".join(
        ["| file | test | cases by day | why |", "| --- | --- | --- | --- |", *(test.row() for test in tests)]
    )


if __name__ == "__main__":
    print(table(waiting(sys.argv[1:])))
