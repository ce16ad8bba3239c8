"""Maintenance clears away what has ended and keeps what may still be needed; rows and chain stay as they are."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from onefold import lake_keys
from onefold.errors import ChangedDatasetError, LandingClearedError, RepeatedKeysError, SparkStepError, UsageError
from onefold.generation import fix_generation, settle
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable
from onefold.lake import new_attempt
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.plan import find_plan
from onefold.maintenance.keep import Keep, Maintained
from onefold.maintenance.landings import clear_landing, clearable, sources_of
from onefold.maintenance.maintain import maintain
from onefold.operations.decide import take_up
from onefold.operations.in_process import InSession
from onefold.operations.rebuild import rebuild
from onefold.operations.rollback import roll_back
from onefold.operations.run import run_batch
from onefold.publish import publish_batch
from onefold.report.explain import explain
from onefold.report.ledger import records_of, rows_of
from onefold.spark.result import StepResult, result_key
from onefold.tables.key_digest import digest_of_key
from onefold.tables.names import STAGING, state_table
from onefold.upsert.documents import upserted_of
from spark_jobs import maintain as maintain_job
from tests.support.project import ACCOUNTS, THINGS, Project, account, line, thing

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]
BATCHES = 4
NOTHING = timedelta(0)
CLEAR = Keep(attempts=NOTHING, snapshots=NOTHING, generations=NOTHING, orphans=timedelta(days=3))


def put(project: Project, number: int) -> None:
    """Of ten keys each batch rewrites nine and deletes one: files with deletes for every bucket."""
    lines = [account(10 * number + key, f"k-{key}", None if key == number else {"n": number}) for key in range(10)]
    project.put(f"accounts/{number}.jsonl", lines)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all tests here, in their order: each goes on with what the one before left."""
    made = Project(tmp_path_factory.mktemp("maintain"))
    made.write_dataset("accounts", ACCOUNTS)
    return made


def tidy(project: Project, session: SparkSession, keep: Keep = CLEAR, **more: Any) -> Maintained:
    return maintain(session, project.lake, project.dataset("accounts"), keep, **more)


def rows(project: Project) -> dict[str, int]:
    return {row["id"]: row["n"] for row in rows_of(project.lake, project.dataset("accounts"))}


def scratch(project: Project) -> list[str]:
    return sorted(name for _, name in open_catalog(project.lake).list_tables(STAGING))


def delete_files(project: Project, session: SparkSession) -> int:
    """How many files name rows of `main` that are deleted."""
    return session.table(f"{state_table(project.dataset('accounts'))}.delete_files").count()


def test_what_is_young_stays_and_is_compacted(project: Project, session: SparkSession) -> None:
    for number in range(BATCHES):
        put(project, number)
        assert [run.red for run in project.run(session, "accounts")] == [None]
    project.put("accounts/red.jsonl", [account(90, "k-1", {"n": 7}), account(90, "k-1", {"n": 8})])
    [red] = project.run(session, "accounts")
    assert red.red
    was = rows(project)
    assert delete_files(project, session) > 0
    done = tidy(project, session, Keep())
    assert (rows(project), done.files_rewritten > 0, delete_files(project, session)) == (was, True, 0)
    assert (done.branches, done.tables, done.snapshots_expired, done.orphans_removed) == ([], [], 0, 0)
    assert len(scratch(project)) == 1 + 2 * (BATCHES + 1)


def test_rows_chain_and_what_waits_for_a_decision_survive(project: Project, session: SparkSession) -> None:
    """L1 and L6 across compaction and expiry."""
    dataset = project.dataset("accounts")
    wanted = {f"k-{key}": BATCHES - 1 for key in range(10) if key != BATCHES - 1}
    assert rows(project) == wanted
    explained = explain(project.lake, dataset, digest_of_key(dataset, {"id": "k-1"}))
    seen = tidy(project, session, dry_run=True)
    assert len(scratch(project)) == 1 + 2 * (BATCHES + 1), "a dry run changes nothing"
    done = tidy(project, session)
    assert (done.branches, done.tables) == (seen.branches, seen.tables)
    assert len(done.tables) == 2 * BATCHES
    assert done.snapshots_expired > 0
    assert len(scratch(project)) == 1 + 2, "the red batch keeps its staging and its actions"
    table = StateTable(project.lake, dataset)
    assert len(table.branches()) == 1, "and its branch"
    assert len(records_of(project.lake, dataset)) == BATCHES
    assert (rows(project), explain(project.lake, dataset, digest_of_key(dataset, {"id": "k-1"}))) == (wanted, explained)


def test_every_batch_again_changes_nothing(project: Project, session: SparkSession) -> None:
    before, head = rows(project), StateTable(project.lake, project.dataset("accounts")).main.snapshot
    for record in records_of(project.lake, project.dataset("accounts")):
        plan = find_plan(project.lake, project.dataset("accounts"), record.batch)
        launcher = InSession(project.lake, session)
        end = run_batch(project.lake, project.dataset("accounts"), plan, launcher)
        assert end.published
        assert end.published.already
    assert StateTable(project.lake, project.dataset("accounts")).main.snapshot == head
    same = (project.home / "exports/accounts/1.jsonl").read_bytes()
    [again] = project.run(session, "accounts", export=project.put("again/1.jsonl", [same]))
    assert again.published
    assert again.published.counts == {"duplicate": {"position": 10}}
    assert rows(project) == before


def test_a_compaction_is_no_foreign_commit(project: Project, session: SparkSession) -> None:
    dataset = project.dataset("accounts")
    table = StateTable(project.lake, dataset)
    record, name = table.main.record, ".".join(table.identifier)
    session.sql(f"CALL onefold.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    compacted = StateTable(project.lake, dataset)
    assert (compacted.main.record, compacted.carried) == (record, False)
    assert compacted.main.snapshot != table.main.snapshot
    compacted.carry_record()
    assert (compacted.main.record, compacted.carried) == (record, True)
    put(project, BATCHES)
    assert [run.red for run in project.run(session, "accounts")] == [None]


def test_a_batch_that_meets_a_compaction_behind_its_gate_is_published_all_the_same(
    project: Project, session: SparkSession
) -> None:
    dataset, launcher = project.dataset("accounts"), InSession(project.lake, session)
    put(project, BATCHES + 1)
    batch = plan_batch(project.lake, dataset).batch
    land_batch(project.lake, dataset, batch)
    launcher.run("dedup", dataset, batch)
    first = launcher.run("upsert", dataset, batch, new_attempt())
    launcher.run("gate", dataset, batch, first.attempt)
    assert tidy(project, session).files_rewritten > 0
    assert StateTable(project.lake, dataset).main.snapshot != first.base, "it was published under the batch's feet"

    done = publish_batch(project.lake, dataset, batch, first.attempt, launcher)
    assert (done.already, done.attempt != first.attempt) == (False, True)
    assert rows(project) == {f"k-{key}": BATCHES + 1 for key in range(10) if key != BATCHES + 1}


def test_files_that_no_snapshot_names_go_when_they_are_old(project: Project, session: SparkSession) -> None:
    place = Path(StateTable(project.lake, project.dataset("accounts")).table.location().removeprefix("file:")) / "data"
    wanted, old, young = rows(project), place / "old.parquet", place / "young.parquet"
    for stray in (old, young):
        stray.write_bytes(b"left by a writer that died")
    os.utime(old, (time.time() - 4 * 86_400,) * 2)
    assert tidy(project, session).orphans_removed == 1
    assert (old.exists(), young.exists(), rows(project)) == (False, True, wanted)


def test_a_batch_that_was_cleared_away_runs_again_after_a_rollback(project: Project, session: SparkSession) -> None:
    dataset, wanted = project.dataset("accounts"), rows(project)
    tidy(project, session, replace(CLEAR, snapshots=timedelta(days=1)))
    newest, before, *_ = (record.batch for record in records_of(project.lake, dataset))
    roll_back(project.lake, dataset, before, "me", "")
    assert rows(project) != wanted
    take_up(project.lake, dataset, newest, "me")
    assert [run.batch for run in project.run(session, "accounts") if not run.red] == [newest]
    assert rows(project) == wanted


def test_readers_cannot_be_led_back_to_what_has_expired(project: Project) -> None:
    first = records_of(project.lake, project.dataset("accounts"))[-1].batch
    with pytest.raises(UsageError, match="has expired: roll back to a later one"):
        roll_back(project.lake, project.dataset("accounts"), first, "me", "")


def judged(project: Project) -> set[str]:
    """The attempts that the verdict table holds."""
    [name] = [name for name in scratch(project) if "__verdicts_" in name]
    table = open_catalog(project.lake).load_table((STAGING, name))
    return set(table.scan(selected_fields=("attempt",)).to_arrow()["attempt"].to_pylist())


def test_verdicts_of_attempts_that_are_over_go(project: Project, session: SparkSession) -> None:
    """The red batch is judged twice more: of its attempts the newest waits, the others count for nothing."""
    dataset = project.dataset("accounts")
    launcher = InSession(project.lake, session)
    published = {record.attempt for record in records_of(project.lake, dataset)}
    [red] = landed(project) - {record.batch for record in records_of(project.lake, dataset)}
    explained = explain(project.lake, dataset, digest_of_key(dataset, {"id": "k-1"}))
    for _ in range(2):
        assert run_batch(project.lake, dataset, find_plan(project.lake, dataset, red), launcher).red
    over = judged(project) - published - {upserted_of(project.lake, dataset, red).attempt}
    assert over
    assert tidy(project, session, Keep()).verdicts == []
    assert set(tidy(project, session).verdicts) == over
    assert judged(project) == {*published, upserted_of(project.lake, dataset, red).attempt}
    assert explain(project.lake, dataset, digest_of_key(dataset, {"id": "k-1"})) == explained


def landed(project: Project) -> set[str]:
    """The batches that have landed bytes."""
    source = project.dataset("accounts").source_id
    return {info.key.split("/")[3] for info in project.lake.storage.list(f"sources/{source}/landed/")}


def test_what_a_failed_landing_left_goes(project: Project, session: SparkSession) -> None:
    source, before = project.dataset("accounts").source_id, landed(project)
    record, *_ = records_of(project.lake, project.dataset("accounts"))
    left = [lake_keys.landed(source, batch, "f" * 12, "") for batch in ("never", record.batch)]
    for folder in left:
        project.lake.storage.write(f"{folder}a.jsonl", b"half")
    assert tidy(project, session, Keep()).failed_landings == [], "an attempt may still be writing"
    assert tidy(project, session, dry_run=True).failed_landings == sorted(left)
    tidy(project, session)
    assert landed(project) == before


def test_what_spark_steps_left_for_their_drivers_goes(project: Project, session: SparkSession) -> None:
    left = result_key("accounts", "interval_1", "f" * 12, "gate")
    project.lake.put(left, StepResult(step="gate", document={}))
    assert tidy(project, session, Keep()).results == [], "its driver may still read it"
    assert tidy(project, session, dry_run=True).results == [left]
    assert project.lake.storage.stat(left)
    tidy(project, session)
    assert project.lake.storage.stat(left) is None


def test_landed_bytes_go_when_every_dataset_of_the_source_has_published_them(
    project: Project, session: SparkSession
) -> None:
    dataset, wanted = project.dataset("accounts"), rows(project)
    published = {record.batch for record in records_of(project.lake, dataset)}
    [red] = landed(project) - published

    def list_clearable(age: timedelta = NOTHING) -> tuple[set[str], list[str]]:
        manifests, unread = clearable(project.lake, sources_of(project.lake, dataset), age)
        return {manifest.batch for manifest in manifests}, [Path(file).name for file in unread]

    tidy(project, session)
    assert landed(project) == {*published, red}, "no maintenance clears them by itself"
    other = ACCOUNTS.replace("name: accounts", "name: others").replace("shop.accounts", "shop.others")
    project.write_dataset("others", other)
    assert list_clearable() == (set(), []), "another dataset of the source has not folded them"
    project.write_dataset("others", "name: others\n")
    assert list_clearable() == (set(), ["others.yaml"]), "what does it read?"
    (project.home / "datasets" / "others.yaml").unlink()
    assert list_clearable(timedelta(days=1)) == (set(), [])
    assert list_clearable() == (published, [])
    for manifest in clearable(project.lake, sources_of(project.lake, dataset), NOTHING)[0]:
        clear_landing(project.lake, manifest, "decision")
    assert landed(project) == {red}, "an operator may still release it"
    assert (list_clearable(), rows(project)) == ((set(), []), wanted)


@pytest.mark.nightly(reason="landed bytes go by day: the test before")
def test_landed_bytes_go_though_fields_were_changed_in_place(tmp_path: Path, session_on: Any) -> None:
    made = Project(tmp_path)
    session = session_on(made.lake)
    made.put("things/0.jsonl", [thing(0, "a", 1)])
    [first] = made.run(session)
    made.write_dataset("things", THINGS.replace("n: long,", 'n: long, more: "string?",'))
    made.put("things/1.jsonl", [thing(1, "b", 2)])
    changed = settle(made.lake, made.dataset())
    assert changed.shape
    plan = plan_batch(made.lake, changed)
    assert run_batch(made.lake, changed, plan, InSession(made.lake, session)).published  # type: ignore[arg-type]
    found, _ = clearable(made.lake, sources_of(made.lake, changed), NOTHING)
    assert {manifest.batch for manifest in found} == {first.batch, plan.batch}


def test_without_landed_bytes_a_batch_is_still_published_and_cannot_be_folded_again(
    project: Project, session: SparkSession
) -> None:
    dataset, wanted = project.dataset("accounts"), rows(project)
    newest, before, *_ = (record.batch for record in records_of(project.lake, dataset))
    launcher = InSession(project.lake, session)
    again = run_batch(project.lake, dataset, find_plan(project.lake, dataset, newest), launcher)
    assert again.published
    assert again.published.already
    with pytest.raises(LandingClearedError, match=f"{newest}: its landed bytes were cleared"):
        roll_back(project.lake, dataset, before, "me", "")
    project.write_dataset("accounts", ACCOUNTS.replace("buckets: 2", "buckets: 4"))
    with pytest.raises(LandingClearedError, match="cannot be folded again"):
        rebuild(project.lake, project.dataset("accounts"), launcher)
    project.write_dataset("accounts", ACCOUNTS)
    assert rows(project) == wanted


def test_a_duplicate_key_is_named_and_nothing_is_cleared_away(project: Project, session: SparkSession) -> None:
    """L3, asked of the whole table: a row of `main` is written once more, past Onefold."""
    dataset = project.dataset("accounts")
    live = session.table(state_table(dataset)).where("_state = 'live'")
    assert maintain_job.run(session, project.lake, dataset, dry_run=True).rows_proved == len(rows(project))
    live.where("id = 'k-1'").writeTo(state_table(dataset)).append()
    left = scratch(project)

    with pytest.raises(RepeatedKeysError, match="1 keys have more than one live row") as raised:
        maintain_job.run(session, project.lake, dataset, keep=CLEAR)

    assert raised.value.keys == ('{"id":"k-1"}',)
    assert scratch(project) == left


def test_what_spark_cannot_read_is_one_sentence(project: Project, session: SparkSession) -> None:
    dataset = project.dataset("accounts")
    for task in StateTable(project.lake, dataset).table.scan().plan_files():
        Path(task.file.file_path.removeprefix("file:")).write_bytes(b"spoilt")
    with pytest.raises(SparkStepError, match=r"accounts: the Spark step maintain failed: .*is as it was"):
        InSession(project.lake, session).maintain(dataset, CLEAR, dry_run=False)


def test_a_dataset_file_that_cannot_be_gone_by_keeps_no_other_dataset_from_being_maintained(
    session: SparkSession, tmp_path: Path
) -> None:
    """One has a mistake; one has changed, and its published table is not searched for duplicate keys."""
    made = Project(tmp_path)
    changed = ACCOUNTS.replace("name: accounts", "name: c3").replace("shop.accounts", "shop.c3")
    made.write_dataset("c3", changed)
    fix_generation(made.lake, made.dataset("c3"))
    made.write_dataset("c3", changed.replace("buckets: 2", "buckets: 4"))
    made.write_dataset("accounts", ACCOUNTS)
    made.write_dataset("b2", ACCOUNTS.replace("name: accounts", "name: b2").replace("offset", "offsets"))
    done = made.onefold("maintain", "--landing", "30d", "--dry-run", "--json")
    assert (done.code, [row["dataset"] for row in done.json]) == (2, ["accounts", "things"]), done.err
    assert "b2.yaml:5: apply.version.from" in done.err
    assert done.err.count("The dataset was left out.") == 2
    assert "c3: the dataset has changed in buckets:" in " ".join(done.err.split())
    with pytest.raises(ChangedDatasetError):  # as a task of Airflow's runs it
        maintain_job.run(session, made.lake, made.dataset("c3"))
    assert "landed bytes were kept" in done.err
    assert "Nothing was run" not in done.err


def test_it_names_identities_that_have_rows_in_two_periods(tmp_path: Path) -> None:
    made = Project(tmp_path)
    made.write_dataset("things", THINGS.replace("{message_id: id}", "{message_id: id, within: day(at)}"))
    for number, day in enumerate(("2026-01-01", "2026-01-02")):
        at = f"{day}T12:00:00Z"
        lines = [line(2 * number + n, {"id": id_, "n": 1, "at": at}) for n, id_ in enumerate(("a", f"b{number}"))]
        folder = made.put(f"things-{number}/x.jsonl", lines)
        done = made.onefold("run", "things", "--export", str(folder))
        assert done.code == 0, done.err
    done = made.onefold("maintain", "things", "--dry-run")
    assert done.code == 0, done.err
    assert 'things: {"id": "a"} has rows in 2026-01-01 and 2026-01-02: things-0@0, things-0@2.' in done.err
    assert "b0" not in done.err
    [row] = made.onefold("maintain", "things", "--dry-run", "--json").json
    assert [(entry["identity"], entry["periods"], entry["records"]) for entry in row["moved"]] == [
        ('{"id": "a"}', ["2026-01-01", "2026-01-02"], 2)
    ]
    assert row["reused"] == []
