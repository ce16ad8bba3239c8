"""Landed bytes are cleared by a recorded decision only, and none that is younger than the least age."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from onefold import lake_keys
from onefold.dataset import Dataset, find_dataset
from onefold.decisions import Clearable, Clearing, Decider, RolledBack, table_decisions
from onefold.errors import UsageError
from onefold.lake import Lake, as_bytes
from onefold.landing.manifest import Cleared
from onefold.maintenance.keep import Keep, keep_of
from onefold.operations.clear import clear, find_clearable
from onefold.report.decisions import decisions_of
from onefold.settings import load_settings
from onefold.ui.histories import Histories
from tests.support.landings import bytes_of, landed
from tests.support.project import THINGS

NOW = datetime.now(UTC)
DAY = timedelta(days=1)
MONTH = 30 * DAY
ADA = Decider(id="7", name="Ada", how="airflow", host="worker-1")


@pytest.fixture
def things(lake: Lake) -> Dataset:
    folder = lake.settings.datasets_folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "things.yaml").write_text(THINGS)
    return find_dataset(folder, "things")


def test_s8_what_would_be_cleared_is_said_and_recorded_before_it_is_deleted(lake: Lake, things: Dataset) -> None:
    old, older, young = landed(lake, things, [40 * DAY, 50 * DAY, 29 * DAY])
    [part], unread = find_clearable(lake, things, MONTH)
    assert (part.landings, part.objects, part.bytes, unread) == ([older, old], 4, 12, [])
    assert (NOW - part.oldest).days == 50
    assert (NOW - part.newest).days == 40
    assert bytes_of(lake, things) == {old, older, young}, "nothing is deleted by looking"

    [made] = clear(lake, things, [part], MONTH, ADA, " the disk is full ")

    assert bytes_of(lake, things) == {young}
    assert table_decisions(lake, "things") == [made]
    assert (made.who, made.reason, made.landings, made.older_than) == (ADA, "the disk is full", [older, old], MONTH)
    cleared = lake.get(lake_keys.cleared(things.source_id, old), Cleared)
    assert cleared
    assert Clearing.model_validate_json(lake.storage.read(cleared.decision) or b"") == made
    [row] = decisions_of(lake, things)
    assert (row["decision"], row["batch"], row["clears"]) == ("clear", things.source_id, [older, old])
    assert (row["by"], row["who"], row["state"]) == ("Ada", ADA.model_dump(), "done")
    [shown], unreadable = Histories().decisions(lake, "things")
    assert (shown.kind, shown.who, unreadable) == ("clear", ADA, 0)


def test_s8_nothing_younger_than_the_least_age_is_cleared(lake: Lake, things: Dataset) -> None:
    batches = landed(lake, things, [29 * DAY, 31 * DAY])
    for age in (timedelta(0), 29 * DAY, MONTH - timedelta(seconds=1)):
        with pytest.raises(UsageError, match=r"kept for 30d at least \(setting landing_min_age\).*Nothing was cleared"):
            find_clearable(lake, things, age)
        part = Clearable(source=things.source_id, landings=batches, objects=4, bytes=12, oldest=NOW, newest=NOW)
        with pytest.raises(UsageError, match="landing_min_age"):
            clear(lake, things, [part], age, ADA, "now")
    assert bytes_of(lake, things) == set(batches)
    assert decisions_of(lake, things) == []


def test_s8_without_a_reason_nothing_is_cleared(lake: Lake, things: Dataset) -> None:
    batches = landed(lake, things, [40 * DAY])
    parts, _ = find_clearable(lake, things, MONTH)
    with pytest.raises(UsageError, match="a decision needs a reason"):
        clear(lake, things, parts, MONTH, ADA, " ")
    assert (bytes_of(lake, things), decisions_of(lake, things)) == (set(batches), [])


def test_only_what_was_approved_is_cleared(lake: Lake, things: Dataset) -> None:
    """One landing that was shown is gone since, and another has come of age."""
    old, other = landed(lake, things, [40 * DAY, 50 * DAY])
    [part], _ = find_clearable(lake, things, MONTH)
    shown = part.model_copy(update={"landings": [old, "export_gone"]})
    [made] = clear(lake, things, [shown], MONTH, ADA, "full")
    assert (made.landings, made.objects) == ([old], 2)
    assert bytes_of(lake, things) == {other}
    assert clear(lake, things, [shown], MONTH, ADA, "full") == [], "there is nothing left of it"


def test_killed_between_decision_and_deletion_the_next_call_goes_on(
    lake: Lake, things: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, _ = landed(lake, things, [40 * DAY, 50 * DAY])
    parts, _ = find_clearable(lake, things, MONTH)

    class KilledError(Exception):
        pass

    def kill(*_: object) -> None:
        raise KilledError

    monkeypatch.setattr("onefold.operations.clear.clear_landing", kill)
    with pytest.raises(KilledError):
        clear(lake, things, parts, MONTH, ADA, "full")
    assert old in bytes_of(lake, things)
    [row] = decisions_of(lake, things)
    assert row["state"] == "waiting", "it is on record before anything goes"
    monkeypatch.undo()
    clear(lake, things, find_clearable(lake, things, MONTH)[0], MONTH, ADA, "full")
    assert bytes_of(lake, things) == set()
    assert [row["state"] for row in decisions_of(lake, things)] == ["done", "done"]


def test_a_clearing_is_distinguished_from_a_rollback(lake: Lake, things: Dataset) -> None:
    rollback = RolledBack(dataset="things", to="a", undone=[], snapshot=1, who=ADA, reason="no", at=NOW)
    lake.storage.put_if_absent(lake_keys.decision(things, "1-rollback-a"), as_bytes(rollback))
    landed(lake, things, [40 * DAY])
    clear(lake, things, find_clearable(lake, things, MONTH)[0], MONTH, ADA, "full")
    assert {type(made) for made in table_decisions(lake, "things")} == {RolledBack, Clearing}
    assert {row["decision"] for row in decisions_of(lake, things)} == {"rollback", "clear"}


def test_s8_the_setting_has_a_limit_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONEFOLD_HOME", str(tmp_path))
    assert load_settings().landing_min_age == MONTH
    monkeypatch.setenv("ONEFOLD_LANDING_MIN_AGE", "1d")
    assert load_settings().landing_min_age == DAY
    for age in ("0s", "23h"):
        monkeypatch.setenv("ONEFOLD_LANDING_MIN_AGE", age)
        with pytest.raises(UsageError, match="landing_min_age"):
            load_settings()


@pytest.mark.parametrize("name", ["snapshots", "generations", "orphans"])
def test_s8_what_readers_go_back_to_is_kept_for_a_day_at_least(name: str) -> None:
    assert getattr(keep_of({name: "1d"}), name) == DAY
    for age in ("0s", "23h"):
        with pytest.raises(UsageError, match=rf"{name} are kept for 1d at least; .* is less\. Nothing was changed"):
            keep_of({name: age})
    assert keep_of({"attempts": "0s"}) == Keep(attempts=timedelta(0))
