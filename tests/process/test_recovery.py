"""A catalog that is lost, a bucket that is older than its catalog, a branch that is gone: each is got over."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable
from onefold.landing.plan import find_plan
from onefold.maintenance.recovery import find_lost, register
from onefold.operations.in_process import InSession
from onefold.operations.run import run_batch
from onefold.proof.prove import prove
from onefold.report.ledger import records_of, rows_of
from onefold.upsert.state import ensure_views
from tests.support.project import ACCOUNTS, Project, account

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from onefold.lake import Lake

pytestmark = [pytest.mark.nightly, pytest.mark.process, pytest.mark.spark, pytest.mark.timeout(1200)]


def put(project: Project, number: int) -> None:
    """New records of five keys, and one delete."""
    lines = [account(10 * number + key, f"k-{key}", {"n": number}) for key in range(5)]
    project.put(f"accounts/{number}.jsonl", [*lines, account(10 * number + 5, "k-0", None)])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One lake for all tests here, in their order."""
    made = Project(tmp_path_factory.mktemp("recovery"))
    made.write_dataset("accounts", ACCOUNTS.replace("max_rejected_rate: 1.0", "max_rejected_rate: 0.4, min_records: 1"))
    return made


@pytest.fixture
def opened(project: Project, session_on: Callable[[Lake], SparkSession]) -> Callable[[], SparkSession]:
    """Opens a session with a connection of its own: what was lost may be held open by an older one."""
    return lambda: session_on(project.lake)


def rows(project: Project) -> dict[str, int]:
    return {row["id"]: row["n"] for row in rows_of(project.lake, project.dataset("accounts"))}


def tables(project: Project) -> list[tuple[str, ...]]:
    catalog = open_catalog(project.lake)
    return sorted(table for space in catalog.list_namespaces() for table in catalog.list_tables(space))


def lose_catalog(project: Project) -> None:
    for file in (project.home / ".lake").glob("catalog.db*"):
        file.unlink()


def check_again(project: Project, session: SparkSession) -> None:
    """The table is what was landed, and every batch again changes nothing."""
    dataset, before = project.dataset("accounts"), rows(project)
    assert prove(session, project.lake, dataset).holds
    launcher = InSession(project.lake, session)
    for record in records_of(project.lake, dataset):
        end = run_batch(project.lake, dataset, find_plan(project.lake, dataset, record.batch), launcher)
        assert end.published
        assert end.published.already
    assert rows(project) == before


def test_a_lost_catalog_is_given_back_with_rows_and_what_waits(
    project: Project, opened: Callable[[], SparkSession]
) -> None:
    session = opened()
    for number in range(3):
        put(project, number)
        assert [run.red for run in project.run(session, "accounts")] == [None]
    project.put("accounts/3.jsonl", [account(30, "k-1", {"n": 99}), account(31, "k-1", "no JSON")])
    (red,) = project.run(session, "accounts")
    assert red.red
    before, known = rows(project), tables(project)
    lose_catalog(project)
    assert rows_of(project.lake, project.dataset("accounts")) == []

    dry = project.onefold("recover", "--dry-run", "--json")
    assert (dry.code, tables(project)) == (0, [])
    project.write_dataset("mistaken", "name: mistaken\n")
    refused = project.onefold("recover")
    assert (refused.code, tables(project)) == (2, []), "all or nothing: a second call would make no view"
    assert "mistaken.yaml" in refused.err
    (project.home / "datasets" / "mistaken.yaml").unlink()
    done = project.onefold("recover", "--json")

    assert (done.code, done.json) == (0, dry.json), done.err
    assert sorted(row["table"] for row in done.json) == [".".join(table) for table in known]
    assert (rows(project), tables(project)) == (before, known)
    session = opened()
    check_again(project, session)
    assert session.table("onefold.shop.accounts").count() == len(before)
    assert session.table("onefold.shop.accounts__quarantine").count() == 0, "it is there, and the red batch is not"
    assert project.onefold("recover", "--json").json == []
    released = project.onefold("release", "accounts", red.batch, "--reason", "seen", "--waive", "rejected_rate=0.5")
    assert released.code == 0, released.err
    assert records_of(project.lake, project.dataset("accounts"))[0].batch == red.batch


def test_a_bucket_that_is_older_than_its_catalog_goes_on_from_what_it_has(
    project: Project, opened: Callable[[], SparkSession], tmp_path: Path
) -> None:
    lake = project.home / ".lake"
    kept = Path(shutil.copytree(lake, tmp_path / "backup", ignore=shutil.ignore_patterns("catalog.db*")))
    before = rows(project)
    put(project, 4)
    assert [run.red for run in project.run(opened(), "accounts")] == [None]
    after = rows(project)
    assert after != before
    for place in lake.iterdir():
        if not place.name.startswith("catalog.db"):
            shutil.rmtree(place) if place.is_dir() else place.unlink()
    shutil.copytree(kept, lake, dirs_exist_ok=True)

    found = find_lost(project.lake)
    for table in found:
        register(project.lake, table)

    state = {table.table[1].partition("__")[2].partition("_")[0]: table for table in found if not table.gone}
    assert set(state) == {"state", "verdicts"}
    assert all("metadata that is not there" in table.why for table in found)
    assert len([table for table in found if table.gone]) == 2, "staging and actions of the batch that is lost"
    assert rows(project) == before
    session = opened()
    ensure_views(session, project.lake, project.dataset("accounts"))
    check_again(project, session)
    assert [run.red for run in project.run(session, "accounts")] == [None]
    assert rows(project) == after
    assert find_lost(project.lake) == []


def test_no_table_is_given_up_while_the_warehouse_is_away(project: Project) -> None:
    warehouse, before = project.home / ".lake" / "warehouse", tables(project)
    away = warehouse.rename(warehouse.with_name("not-mounted"))
    done = project.onefold("recover")
    away.rename(warehouse)
    assert (done.code, tables(project)) == (2, before)
    assert f"the catalog knows {len(before)} tables, and nothing lies in" in done.err


def test_a_table_of_which_no_state_is_whole_is_named(project: Project) -> None:
    half = project.home / ".lake/warehouse/shop/gone/metadata/00000-half.metadata.json"
    half.parent.mkdir(parents=True)
    half.write_bytes(b"{")
    done = project.onefold("recover", "--dry-run", "--json")
    half.unlink()
    assert done.code == 1
    assert [(row["table"], row["metadata"]) for row in done.json] == [("shop.gone", None)]
    assert "shop.gone cannot be recovered" in done.err
    assert half.name in done.err


def test_a_state_that_lacks_a_file_is_passed_over_for_the_one_before(
    project: Project, opened: Callable[[], SparkSession]
) -> None:
    dataset = project.dataset("accounts")
    head = StateTable(project.lake, dataset).table.current_snapshot()
    assert head
    place = Path(StateTable(project.lake, dataset).table.metadata_location.removeprefix("file:"))
    half = place.with_name("09999-half.metadata.json")  # the newest by its number, and cut off
    half.write_bytes(place.read_bytes()[:200])
    Path(head.manifest_list.removeprefix("file:")).unlink()
    lose_catalog(project)
    found = find_lost(project.lake)
    (state,) = [table for table in found if "__state_" in table.table[1]]
    assert state.missing
    assert half.name in state.missing
    half.unlink()
    found = find_lost(project.lake)
    (state,) = [table for table in found if "__state_" in table.table[1]]
    assert state.metadata
    assert state.missing
    assert Path(head.manifest_list).name in state.missing
    for table in found:
        register(project.lake, table)
    check_again(project, opened())


def test_a_red_batch_whose_branch_is_gone_is_judged_again(project: Project, opened: Callable[[], SparkSession]) -> None:
    session, dataset = opened(), project.dataset("accounts")
    project.run(session, "accounts")
    project.put("accounts/5.jsonl", [account(50, "k-1", {"n": 7}), account(51, "k-1", "no JSON")])
    *_, red = project.run(session, "accounts")
    assert red.red
    table = StateTable(project.lake, dataset)
    for branch in table.branches():
        table.drop_branch(branch)
    before = rows(project)
    discarded = project.onefold("discard", "accounts", red.batch, "--reason", "its branch is gone")
    assert discarded.code == 0, discarded.err
    *_, again = project.run(session, "accounts")
    assert (again.batch, str(again.red), rows(project)) == (red.batch, str(red.red), before)
    assert StateTable(project.lake, dataset).branches()
