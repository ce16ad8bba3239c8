"""Who decided: recorded with how that is known, and read from documents of earlier releases."""

from __future__ import annotations

import json
import os
import pwd
import socket
from datetime import UTC, datetime

import pytest

from onefold import lake_keys
from onefold.decisions import Decider, Erasure, RolledBack, Skip, Undone, log_of, record
from onefold.errors import UsageError
from onefold.lake import Lake, as_bytes
from onefold.publish.rolled_back import overrule_decisions
from onefold.report.decisions import row_of
from onefold.ui.histories import Histories

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
ADA = Decider(id="7", name="Ada", how="airflow", host="worker-1")


def test_s8_the_name_on_the_command_line_is_recorded_as_asserted_with_the_account_and_host() -> None:
    made = Decider.asserted("mia")
    account = pwd.getpwuid(os.getuid()).pw_name
    assert made.model_dump() == {"id": account, "name": "mia", "how": "cli", "host": socket.gethostname()}
    assert made.words == "mia (asserted)"


def test_without_a_name_it_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "noa")
    assert (Decider.asserted(None).name, Decider.asserted(None).how) == ("noa", "cli")


def test_an_account_without_a_name_is_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 3_999_999_999)
    assert Decider.asserted("mia").id == "3999999999"
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=r"say --who\. Nothing was decided"):
        Decider.asserted(None)


def test_a_user_of_airflow_is_recorded_by_id_and_name() -> None:
    assert Decider.of_airflow("7", "Ada").words == "Ada (Airflow)"
    assert Decider.of_airflow("7", "").name == "7"
    assert Decider.of_airflow("7", "Ada").host == socket.gethostname()


def test_a_decision_is_kept_with_who_made_it(lake: Lake) -> None:
    record(lake, Skip(dataset="d", batch="b", number=1, who=ADA, reason="known", at=NOON))
    kept = json.loads(lake.storage.read(lake_keys.decision_of("d", "b", 1)) or b"")
    assert kept["who"] == {"id": "7", "name": "Ada", "how": "airflow", "host": "worker-1"}
    assert "by" not in kept
    [decision] = log_of(lake, "d", "b")
    assert decision.sentence == "skipped by Ada (Airflow): known"
    row = row_of(decision, "waiting")
    assert (row["by"], row["who"], row["reason"]) == ("Ada", kept["who"], "known")


EARLIER = b'{"dataset": "d", "batch": "b", "number": 1, "by": "mia", "reason": "no", "at": "2026-03-09T12:00:00Z", %s}'


@pytest.mark.parametrize("kind", ["skip", "discard", "again"])
def test_a_document_with_a_plain_name_is_read_and_shown(lake: Lake, kind: str) -> None:
    key = lake_keys.decision_of("d", "b", 1)
    lake.storage.put_if_absent(key, EARLIER % f'"kind": "{kind}"'.encode())
    [decision] = log_of(lake, "d", "b")
    assert decision.who == Decider(id="mia", name="mia", how=None, host="")
    assert "by mia: no" in decision.sentence, "nothing is said of how it is known"
    assert row_of(decision, "done")["by"] == "mia"
    [shown], unreadable = Histories().decisions(lake, "d")
    assert (shown.who.words, unreadable) == ("mia", 0)


def test_rollbacks_and_erasures_of_an_earlier_release_are_read() -> None:
    said = '"dataset": "d", "by": "mia", "reason": "no", "at": "2026-03-09T12:00:00Z"'
    rollback = RolledBack.model_validate_json(f'{{{said}, "to": "a", "undone": ["b"], "snapshot": 1}}')
    erasure = Erasure.model_validate_json(f'{{{said}, "name": "erase_1", "keys": ["0a"]}}')
    assert rollback.who == erasure.who == Decider.earlier("mia")
    assert RolledBack.model_validate_json(as_bytes(rollback)) == rollback


def test_what_a_rollback_overrules_is_recorded_under_the_same_decider(lake: Lake) -> None:
    rollback = RolledBack(dataset="d", to="a", undone=["b"], snapshot=1, who=ADA, reason="wrong", at=NOON)
    overrule_decisions(lake, rollback)
    [undone] = log_of(lake, "d", "b")
    assert isinstance(undone, Undone)
    assert undone.who == ADA
