"""`onefold init` as a process: a file drafted from the shipped exports is valid, and runs as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.project import PROJECT, Project

pytestmark = pytest.mark.process
EXPORTS = PROJECT / "sample" / "exports"


@pytest.fixture
def sample(project: Project) -> Path:
    """The shipped exports, below the project's folder."""
    (project.home / "sample").symlink_to(EXPORTS)
    return project.home / "sample"


@pytest.mark.usefixtures("sample")
def test_a_draft_of_the_kcat_sample_runs_green_without_edits(project: Project) -> None:
    done = project.onefold("init", "accounts", "--export", "sample/kcat/1-first", "--json")
    assert done.code == 0, done.err
    choices = {row["key"]: row["drafted"] for row in done.json["choices"]}
    assert choices["source.exports.layout"] == "kcat"
    assert choices["key"] == "{format: json}"
    assert choices["identity.message_id"] == "header.message-id"
    assert (choices["apply.mode"], choices["apply.key"]) == ("upsert", "[key.account_id]")
    assert choices["apply.version.from"] == "long(header.version)"
    assert choices["apply.delete_when"] == "tombstone"
    assert (project.home / "datasets/accounts.yaml").read_text() == done.json["text"]
    ran = project.onefold("run", "accounts", "--json")
    assert ran.code == 0, ran.err
    assert ran.json[0]["state"] == "published"
    assert ran.json[0]["verdicts"]["applied"] == 40


@pytest.mark.usefixtures("sample")
def test_a_draft_of_the_connect_sample_is_valid_and_judges_its_records(project: Project) -> None:
    done = project.onefold("init", "entries", "--export", "sample/connect", "--table", "payments.entries")
    assert done.code == 0, done.err
    assert "[transfer_id, account_id]" in done.out
    judged = project.onefold("validate", "entries", "--sample", "1000", "--json")
    assert judged.code == 0, judged.out + judged.err
    (row,) = judged.json
    assert (row["ok"], row["mode"], row["identity"]) == (True, "append", "business_key")
    counts: dict[str, int] = {}
    for one in row["sample"]:
        counts[one["verdict"]] = counts.get(one["verdict"], 0) + one["records"]
    assert counts["applied"] > 200
    assert counts["rejected"] < 0.07 * sum(counts.values()), "the drafted limit holds"


@pytest.mark.usefixtures("sample")
def test_a_file_that_is_there_is_left_as_it_is(project: Project) -> None:
    before = (project.home / "datasets/things.yaml").read_text()
    done = project.onefold("init", "things", "--export", "sample/kcat")
    assert (done.code, done.out) == (2, "")
    assert "was left as it is" in done.err
    assert "--force" in done.err
    shown = project.onefold("init", "things", "--export", "sample/kcat", "--dry-run")
    assert shown.code == 0
    assert shown.out.startswith("# Drafted by `onefold init` from 246 records: payments.accounts")
    assert (project.home / "datasets/things.yaml").read_text() == before
    assert project.onefold("init", "things", "--export", "sample/kcat", "--force").code == 0
    assert (project.home / "datasets/things.yaml").read_text() == shown.out
