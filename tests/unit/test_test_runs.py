"""How the tests run: what fails a run in CI, what a test module may import, and which tests a package has."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.night import NO_REASON, waiting
from tests.support.packages import PACKAGES, TESTS_OF, files_of

PROJECT = Path(__file__).parents[2]
TESTS = PROJECT / "tests"
WARNING = "__import__('warnings').warn_explicit('old', UserWarning, 'a.py', 1, "


@pytest.mark.parametrize(
    ("test", "ci", "code"),
    [
        ("def test_it(): pass", "true", 0),
        ("def test_it(): __import__('pytest').skip('no such program')", "true", 1),
        ("def test_it(): __import__('pytest').skip('no such program')", "", 0),
        ("__import__('pytest').importorskip('no_such_package')", "true", 1),
        (f"def test_it(): {WARNING}module='onefold.lake')", "", 1),
        (f"def test_it(): {WARNING}module='pyspark.sql')", "", 0),
    ],
    ids=["passes", "skipped-in-ci", "skipped", "module-skipped-in-ci", "warns", "another-package-warns"],
)
def test_a_skip_fails_ci_and_a_warning_any_run(tmp_path: Path, test: str, ci: str, code: int) -> None:
    (tmp_path / "test_it.py").write_text(test)
    (tmp_path / "test_more.py").write_text("def test_more(): pass")
    words = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "pyproject.toml"]
    words += ["--numprocesses", "2"] if "importorskip" in test else []  # a worker's own collection is not reported
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *words, str(tmp_path)],
        cwd=PROJECT,
        env=os.environ | {"CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    assert ("this fails the run" in done.stdout) == (code == 1 and WARNING not in test)


def test_a_test_module_imports_no_other_test_module() -> None:
    other = re.compile(r"^\s*(?:from|import) tests\.(?!support\b)", re.MULTILINE)
    found = [str(file.relative_to(TESTS)) for file in TESTS.rglob("*.py") if other.search(file.read_text())]
    assert found == []


def test_every_package_has_tests_and_every_test_file_a_package() -> None:
    assert set(TESTS_OF) == set(PACKAGES)
    listed = {file for package in PACKAGES for file in files_of(package)}
    assert {str(file.relative_to(TESTS)) for file in TESTS.rglob("test_*.py")} - listed == set()


def test_what_holds_a_claim_by_day_runs_by_day() -> None:
    """A reason that names a test, or a file of which all tests wait for the night, would be none."""
    asleep = {(test.file, test.test) for test in waiting() if not test.by_day}
    awake = {
        (str(file.relative_to(TESTS)), test)
        for file in TESTS.rglob("test_*.py")
        for test in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    awake = {(file, test) for file, test in awake if not {(file, ""), (file, test)} & asleep}
    wrong = []
    for test in waiting():
        for place, word in re.findall(r"\b(?:tests/(\w+)/)?(test_\w+)", test.reason):
            others = awake - {(test.file, test.test)}
            of_file = [
                file for file, _ in others if file == f"{place}/{word}.py" or (not place and Path(file).stem == word)
            ]
            if not of_file and not any(name.startswith(word) for _, name in others):
                wrong.append(f"{test.file}::{test.test}: {word}")
    assert wrong == []


def test_what_holds_a_claim_by_day_exists() -> None:
    """The files and tests that the reasons of what waits for the night name."""
    files = {file.stem: file.read_text() for file in TESTS.rglob("test_*.py")}
    tests = {name for text in files.values() for name in re.findall(r"^def (test_\w+)", text, re.MULTILINE)}
    listed = waiting()
    reasons = {test.reason for test in listed}
    places = {place for reason in reasons for place in re.findall(r"tests/[\w/]+", reason)}
    assert {
        place for place in places if not ((PROJECT / place).is_dir() or (PROJECT / f"{place}.py").is_file())
    } == set()
    named = {name for reason in reasons for name in re.findall(r"(?<!/)\btest_\w+", reason)} - files.keys()
    assert {name for name in named if not any(test.startswith(name) for test in tests)} == set()
    assert len(listed) > 200
    assert {test.by_day for test in waiting(["spark/test_compare.py::test_between"])} == {
        ("append, sent_at excepted", "upsert, sent_at excepted")
    }
    assert [test.reason for test in waiting(["process/test_recovery.py"])] == [NO_REASON]
