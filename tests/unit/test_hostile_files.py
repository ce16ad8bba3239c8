"""S2: a dataset file or a suite harms no other, whatever is in it."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.hostile_files import RIGHT, WRONG, WRONG_SUITES, problems, write_files


def _limit() -> None:
    """Of the process that reads them: 2 GB of addresses, and a minute of one core."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
    resource.setrlimit(resource.RLIMIT_CPU, (60, 60))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with every hostile file."""
    home = tmp_path_factory.mktemp("project")
    write_files(home / "datasets", home / "expectations")
    return home


def _run(home: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ONEFOLD")}
    command = (sys.executable, *command)
    return subprocess.run(
        command, cwd=home, env=environ, capture_output=True, text=True, check=False, preexec_fn=_limit
    )


@pytest.fixture(scope="module")
def said(home: Path) -> dict[str, str]:
    """What `onefold validate` says of each file, in a process with limits."""
    done = _run(home, str(Path(sys.executable).with_name("onefold")), "validate", "--json")
    assert done.returncode == 2, (done.returncode, done.stderr[-3000:])
    return problems(done.stdout)


def test_s2_every_file_is_judged_though_others_would_end_their_reader(said: dict[str, str]) -> None:
    assert {*said} == {*RIGHT, *WRONG, *WRONG_SUITES, "pipe"}
    assert [name for name, problem in said.items() if not problem] == sorted(RIGHT)


@pytest.mark.parametrize(
    ("name", "problem"), [(name, problem) for name, (_, problem) in (WRONG | WRONG_SUITES).items()]
)
def test_s2_what_is_wrong_with_a_file_is_its_own_error(said: dict[str, str], name: str, problem: str) -> None:
    assert problem in said[name]
    assert f"{name}.yaml" in said[name]
    assert len(said[name]) < 3_000, "an error does not repeat the file"


def test_s2_a_pipe_is_no_dataset_file(said: dict[str, str]) -> None:
    assert "no dataset 'pipe'" in said["pipe"] or "no plain file" in said["pipe"]


_OVERVIEW = """
from datetime import UTC, datetime
from onefold.dataset import dataset_files
from onefold.lake import Lake
from onefold.settings import load_settings
from onefold.ui.histories import Histories
from onefold.ui.overview import overview_of

lake = Lake(load_settings())
names = {file.stem for file in dataset_files(lake.settings.datasets_folder)}
histories = Histories()
pages = [overview_of(lake, histories, names, "", page, datetime.now(UTC)) for page in (1, 2)]
print(*sorted(row.name for page in pages for row in page.rows))
"""


def test_s2_the_overview_in_airflow_shows_every_dataset(home: Path) -> None:
    done = _run(home, "-c", _OVERVIEW)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {*done.stdout.split()} >= {*RIGHT, *WRONG_SUITES}
