"""`onefold replay` as processes, with another decoder installed: killed, pressed again, and pressed once more."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest

from onefold.report.ledger import records_of, rows_of
from tests.support.project import ACCOUNTS, PROJECT, Project, account

pytestmark = [pytest.mark.nightly, pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
READ = "text = text.removeprefix(BOM)\n"
MENDED = 'text = text.removeprefix(BOM).removeprefix("~")\n'


@pytest.fixture
def mended(tmp_path: Path) -> Path:
    """A copy of the code whose decoder knows the letter before a value: what a release would install."""
    folder = tmp_path / "mended"
    for package, source in (("onefold", PROJECT / "src" / "onefold"), ("spark_jobs", PROJECT / "spark_jobs")):
        shutil.copytree(source, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    decoder = folder / "onefold" / "values" / "columns.py"
    text = decoder.read_text()
    assert READ in text
    decoder.write_text(text.replace(READ, MENDED))
    return folder


def test_killed_it_is_pressed_again_and_pressed_once_more_it_does_nothing(
    tmp_path: Path, mended: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = Project(tmp_path / "project")
    project.write_dataset("accounts", ACCOUNTS)
    project.put("accounts/0.jsonl", [account(0, "a", {"n": 1}), account(1, "b", '~{"n": 2}'), account(2, "c", "#")])
    [first] = project.onefold("run", "accounts", "--json").json
    words = ("replay", "accounts", "--batch", first["batch"], "--reason", "decoder 2", "--who", "mia")
    monkeypatch.setenv("PYTHONPATH", str(mended))
    assert project.process(*words, fault="after_merge").code == -signal.SIGKILL

    done = project.process(*words, "--json")
    assert done.code == 0, done
    assert (done.json["state"], done.json["verdicts"]) == ("published", {"applied": 1, "rejected": 1})
    decision = done.json["decision"]
    assert (decision["kind"], decision["who"]["name"], decision["origin"], decision["records"]) == (
        "replay", "mia", first["batch"], 2
    )  # fmt: skip
    assert {row["id"]: row["n"] for row in rows_of(project.lake, project.dataset("accounts"))} == {"a": 1, "b": 2}

    again = project.process(*words, "--json")
    assert (again.code, again.json) == (
        0, {"batch": None, "state": "nothing", "replays": first["batch"], "records": 0}
    )  # fmt: skip
    assert "1 stay in quarantine: this code has rejected them again already" in again.err
    assert len(records_of(project.lake, project.dataset("accounts"))) == 2
    [row] = project.onefold("decisions", "accounts", "--json").json
    assert (row["decision"], row["by"], row["reason"], row["state"]) == ("replay", "mia", "decoder 2", "published")
    [left] = project.onefold("quarantine", "accounts", "--json").json
    assert (left["batch"], left["offset"]) == (first["batch"], 2)
