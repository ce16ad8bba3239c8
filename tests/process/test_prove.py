"""`onefold prove` as a process: 0 where the table is right, 3 and the rows where it is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from onefold.iceberg.commits import RECORD_PROPERTY
from onefold.iceberg.state_table import StateTable
from tests.support.project import ACCOUNTS, Project, account

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]


@pytest.mark.nightly(
    reason="tests/spark/test_proof.py names each kind of wrong row, and tests/unit/test_cli.py has the exit codes"
)
def test_a_table_is_proved_until_somebody_takes_its_rows_away(tmp_path: Path) -> None:
    project = Project(tmp_path / "project")
    project.write_dataset("accounts", ACCOUNTS)
    project.put("accounts/0.jsonl", [account(0, "a", {"n": 1}), account(1, "b", {"n": 2}), account(2, "c", "#")])
    [first] = project.onefold("run", "accounts", "--json").json
    proved = project.onefold("prove", "accounts")
    assert (proved.code, "accounts: 2 rows of 2 landed records (1 batches, all keys): proved" in proved.out) == (
        0,
        True,
    )
    assert proved.out.splitlines()[-1] == "accounts: not looked at: 1 quarantined record"

    state = StateTable(project.lake, project.dataset("accounts"))
    state.table.delete("true", snapshot_properties={RECORD_PROPERTY: state.main.record})
    wrong = project.onefold("prove", "accounts", "--json")
    assert wrong.code == 3
    assert "accounts is not what its landed bytes say: 2 missing, of 2 rows" in wrong.err
    assert {name: wrong.json[name] for name in ("batch", "batches", "share", "records", "rows", "differences")} == {
        "batch": first["batch"], "batches": 1, "share": 1.0, "records": 2, "rows": 2, "differences": {"missing": 2},
    }  # fmt: skip
    assert sorted((row["columns"]["id"], row["kind"], row["landed"], row["stands"]) for row in wrong.json["shown"]) == [
        ("a", "missing", "accounts-0@0", None), ("b", "missing", "accounts-0@1", None)
    ]  # fmt: skip
    kept = sorted((project.lake.settings.path(project.lake.settings.lake) / "datasets/accounts/proofs").iterdir())
    assert len(kept) == 2
    assert kept[-1].stem == wrong.json["name"]
