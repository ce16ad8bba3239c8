"""Accepted gaps and held rows without Spark: what may be accepted, once, and what it is to the rest (L1, L5)."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from onefold import lake_keys
from onefold.cli import app
from onefold.dataset import Dataset
from onefold.decisions import AcceptGap, log_of, standing
from onefold.decisions.accepted_gaps import Link, links_of
from onefold.errors import UsageError
from onefold.faults import fault_point
from onefold.lake import Lake
from onefold.landing.land import manifest_of
from onefold.landing.manifest import Accepted
from onefold.landing.plan import GapPlan, find_plan, put_plan, taken_plans
from onefold.maintenance.landings import old_landings
from onefold.operations import decide
from onefold.operations.accept_gap import accept_gap
from onefold.operations.run import land_decided, unfinished
from onefold.quality.documents import CheckResult
from onefold.quality.waivers import under
from onefold.report.decisions import decisions_of
from onefold.report.ledger import batches_of
from onefold.tables.key_digest import digest_of_key
from onefold.upsert.commit_record import CommitRecord
from tests.support.held_versions import VERSION, chained, publish

MakeDataset = Callable[..., Dataset]


@pytest.fixture
def made(lake: Lake, dataset: MakeDataset) -> Dataset:
    """Published: a at 1 with 3, 6 and 7 held; b with 2 held; c at 4."""
    made = chained(dataset)
    rows = [("a", 1, "live"), ("a", 3, "held"), ("a", 6, "held"), ("a", 7, "held"), ("b", 2, "held"), ("c", 4, "live")]
    publish(lake, made, rows)
    return made


def accept(lake: Lake, made: Dataset, key: Any = "a", version: int = 6, **more: Any) -> AcceptGap:
    return accept_gap(lake, made, {"id": key}, version, "mia", "the outbox was truncated", **more)


# What may be accepted


def test_a_held_version_is_accepted_with_what_is_missing_below_it(lake: Lake, made: Dataset) -> None:
    found = accept(lake, made)
    assert (found.key, found.version, found.missing) == ({"id": "a"}, 6, [(2, 3), (4, 6)])
    assert accept(lake, made, "b", 2).missing == [(1, 2)]
    assert found.sentence == 'gap before version 6 of {"id": "a"} accepted by mia: the outbox was truncated'


@pytest.mark.parametrize(
    ("key", "version", "said"),
    [
        ({"id": "a"}, 5, r'version 5 of \{"id": "a"\} is not held: held are 3, 6, 7\. Nothing was decided'),
        ({"id": "a"}, 1, r"version 1 of .* is not held"),
        ({"id": "c"}, 4, r"nothing of it is held"),
        ({"id": "z"}, 2, r"nothing of it is held"),
        ({"name": "a"}, 6, r'the key of accounts is \{"id": …\}'),
    ],
)
def test_anything_else_is_refused(lake: Lake, made: Dataset, key: dict[str, Any], version: int, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        accept_gap(lake, made, key, version, "mia", "lost")
    assert (decisions_of(lake, made), taken_plans(lake, "accounts")) == ([], [])


def test_only_versions_without_gaps_have_some(lake: Lake, dataset: MakeDataset) -> None:
    newer = chained(dataset, version={"from": "long(header.v)"})
    with pytest.raises(UsageError, match="guard: contiguous"):
        accept(lake, newer)
    with pytest.raises(UsageError, match="needs a reason"):
        accept_gap(lake, chained(dataset), {"id": "a"}, 6, "mia", " ")
    with pytest.raises(UsageError, match="nothing of it is held"):
        accept(lake, chained(dataset, "nothing_yet"))


# Once


def test_it_is_recorded_once_and_lands_no_bytes(lake: Lake, made: Dataset) -> None:
    first = accept(lake, made)
    assert accept_gap(lake, made, {"id": "a"}, 6, "noa", "again") == first
    assert log_of(lake, "accounts", first.batch) == [first]
    assert standing([first]) == first
    manifest = manifest_of(lake, made, first.batch)
    assert (manifest.accepts, manifest.objects) == (Accepted(key={"id": "a"}, version=6), [])
    assert [plan.batch for plan in unfinished(lake, made)] == [first.batch], "any run would carry it out"
    assert not list(lake.storage.list("sources/" + manifest.source + "/landed/"))


def test_a_dry_run_writes_nothing(lake: Lake, made: Dataset) -> None:
    before = [info.key for info in lake.storage.list("")]
    assert accept(lake, made, dry_run=True).number == 1
    assert [info.key for info in lake.storage.list("")] == before


@pytest.mark.parametrize("point", ["before_decision", "after_decision", "before_manifest", "after_land"])
def test_killed_anywhere_the_same_command_ends_it_once(
    lake: Lake, made: Dataset, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    class KilledError(BaseException):
        pass

    def killed(process: int, sign: int) -> None:
        assert (process, sign) == (os.getpid(), signal.SIGKILL)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setenv("ONEFOLD_FAULT", point)
        patch.setattr(os, "kill", killed)
        with pytest.raises(KilledError):
            accept(lake, made)
    there = log_of(
        lake, "accounts", GapPlan(source=made.source_id, dataset="accounts", key={"id": "a"}, version=6).batch
    )
    assert len(there) == (point != "before_decision")
    if there:
        land_decided(lake, made)
        assert [plan.batch for plan in unfinished(lake, made)] == [there[0].batch], "any run ends it, too"
    found = accept(lake, made)
    assert [plan.batch for plan in unfinished(lake, made)] == [found.batch]
    assert len(log_of(lake, "accounts", found.batch)) == 1
    assert there in ([], [found])
    fault_point("after_land")  # no fault any more


# To the rest


def test_it_waives_nothing_and_cannot_be_skipped(lake: Lake, made: Dataset) -> None:
    found = accept(lake, made)
    rate = CheckResult(id="conflicts", title="conflicts", by="great_expectations", status="failed", observed="1")
    assert under([rate], found) == [rate]
    with pytest.raises(UsageError, match="accepts a gap and holds no record"):
        decide.skip(lake, made, found.batch, "mia", "no")


def test_it_is_listed_with_its_key_and_other_datasets_of_the_source_do_not_see_it(
    lake: Lake, made: Dataset, dataset: MakeDataset
) -> None:
    found = accept(lake, made)
    [row] = decisions_of(lake, made)
    accepted = {"key": {"id": "a"}, "version": 6}
    assert (row["decision"], row["state"], row["accepts"]) == ("accept-gap", "waiting", accepted)
    [batch] = [row for row in batches_of(lake, made) if row["batch"] == found.batch]
    assert (batch["landed"], batch["accepts"], batch["published"]) == (0, accepted, False)
    other = chained(dataset, "other")
    put_plan(lake, GapPlan(source=made.source_id, dataset="accounts", key={"id": "b"}, version=2))  # killed behind that
    assert batches_of(lake, other) == [], "it reads the same source"


def test_the_retention_of_landings_leaves_it_alone(lake: Lake, made: Dataset) -> None:
    """It has no bytes; were it cleared, a rebuild would miss them."""
    found = accept(lake, made)
    plan = find_plan(lake, made, found.batch)
    record = lake.get(lake_keys.record(made, "cafe"), CommitRecord)
    assert record
    lake.storage.write(
        lake_keys.record(made, "cafe"), record.model_copy(update={"batch": found.batch}).model_dump_json().encode()
    )
    assert old_landings(lake, plan.source, [made], timedelta(0)) == []


def test_a_gap_of_another_key_or_guard_links_nothing(dataset: MakeDataset) -> None:
    gap, made = Accepted(key={"id": "a"}, version=6), chained(dataset)
    assert links_of(made, [gap]) == [Link(digest_of_key(made, {"id": "a"}), 6)]
    assert links_of(made, [], gap) == [Link(digest_of_key(made, {"id": "a"}), 6, own=True)]
    renamed = chained(dataset, apply={"mode": "upsert", "key": ["key.number"], "version": VERSION})
    assert links_of(renamed, [gap]) == []
    assert links_of(chained(dataset, version={"from": "long(header.v)"}), [gap]) == []


def test_a_link_of_a_key_with_a_period_names_it(dataset: MakeDataset) -> None:
    made = chained(dataset, identity={"message_id": "header.m", "within": "month(day)"})
    key = {"id": "a", "day": "2026-03-09"}
    assert links_of(made, [Accepted(key=key, version=6)]) == [Link(digest_of_key(made, key), 6, "2026-03-01")]


# The command


def test_the_command_says_what_would_be_decided(
    lake: Lake, made: Dataset, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("onefold.cli.gaps.open_dataset", lambda name: (lake, made))
    words = ["accept-gap", "accounts", "--to", "6", "--reason", "lost", "--who", "mia", "--dry-run", "--json", "--key"]
    app([*words, '{"id": "a"}'], standalone_mode=False)
    printed = capsys.readouterr()
    [row] = json.loads(printed.out)
    assert (row["state"], row["accepts"]) == ("not recorded", {"key": {"id": "a"}, "version": 6})
    assert 'accounts: {"id": "a"} goes on at version 6 without 2, 4 to 5' in " ".join(printed.err.split())
    assert decisions_of(lake, made) == []
    for wrong in ("a", '["a"]'):
        with pytest.raises(UsageError, match=r'(is not JSON|is no JSON object)\. The key of accounts is {"id": …}'):
            app([*words, wrong], standalone_mode=False)
