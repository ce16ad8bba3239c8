"""`onefold init` as a process: a file drafted from the shipped exports is valid, and runs as it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
    drafted = (project.home / "datasets/entries.yaml").read_text()
    assert "# perhaps, too: business_key: [transfer_id, account_id] (it would fold 12 of 326 records" in drafted
    judged = project.onefold("validate", "entries", "--sample", "1000", "--json")
    assert judged.code == 0, judged.out + judged.err
    (row,) = judged.json
    assert (row["ok"], row["mode"], row["identity"]) == (True, "append", "message_id")
    counts: dict[str, int] = {}
    for entry in row["sample"]:
        counts[entry["verdict"]] = counts.get(entry["verdict"], 0) + entry["records"]
    assert counts["applied"] > 200
    assert counts["rejected"] < 0.07 * sum(counts.values()), "the drafted limit holds"


def kcat(project: Project, name: str, lines: list[dict[str, Any]]) -> None:
    """An export of these records, one a second, in `<name>/`."""
    folder = project.home / name
    folder.mkdir()
    position = {"topic": f"shop.{name}", "partition": 0, "tstype": "create", "broker": 1, "key": None}
    rows = (position | {"offset": n, "ts": 1_772_323_200_000 + 1_000 * n} | line for n, line in enumerate(lines))
    (folder / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def drafted_and_run(project: Project, name: str) -> dict[str, int]:
    """The verdicts of all records under the draft as it is."""
    done = project.onefold("init", name, "--export", name)
    assert done.code == 0, done.err
    ran = project.onefold("run", name, "--json")
    assert ran.code == 0, ran.err
    verdicts: dict[str, int] = ran.json[0]["verdicts"]
    return verdicts


@pytest.mark.nightly(reason="tests/unit/test_draft_identity.py drafts topics without ids, and two drafts run by day")
def test_every_event_of_a_topic_without_ids_is_a_row_under_its_draft(project: Project) -> None:
    """150 readings of three devices, each with the status that it always has."""
    payloads = [json.dumps({"device_id": f"d{n % 3}", "status": "up"}) for n in range(150)]
    kcat(project, "pulses", [{"payload": payload} for payload in payloads])
    assert drafted_and_run(project, "pulses") == {"applied": 150}


@pytest.mark.nightly(reason="tests/unit/test_draft_identity.py drafts message ids, and two drafts run by day")
def test_what_is_sent_again_under_its_message_id_is_folded_at_the_rate_that_the_draft_says(project: Project) -> None:
    """120 tickets, of which 30 are sent again, one of these with other content, and two lines without an id."""

    def ticket(n: int, **change: int) -> dict[str, Any]:
        return {"payload": json.dumps({"seat": n % 7} | change), "headers": ["message-id", f"t-{n}"]}

    lines = [ticket(n) for n in [*range(120), *range(29)]]
    kcat(project, "tickets", [*lines, ticket(29, seat=9), *({"payload": '{"seat": 1}'} for _ in range(2))])
    done = project.onefold("init", "tickets", "--export", "tickets", "--json")
    why = {row["key"]: row["why"] for row in done.json["choices"]}
    assert why["quality.max_duplicate_rate"].startswith("29 of 152 records in the sample are duplicates")
    file = project.home / "datasets/tickets.yaml"
    file.write_text(file.read_text().replace("max_conflicts: 0", "max_conflicts: 1"))
    ran = project.onefold("run", "tickets", "--json")
    assert ran.code == 0, ran.err
    assert ran.json[0]["verdicts"] == {"applied": 120, "duplicate": 29, "conflict": 1, "rejected": 2}


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
