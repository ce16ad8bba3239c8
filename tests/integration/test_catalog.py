"""The compare-and-set that publishes: requirements decide, not who else touched the table in that moment."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pytest

from onefold.dataset import Dataset
from onefold.errors import ForeignCommitError, LakeUnavailableError
from onefold.iceberg.commits import RECORD_PROPERTY, ROOT, Head, MainMovedError
from onefold.iceberg.connection import open_catalog
from onefold.iceberg.state_table import StateTable, find_state
from onefold.lake import Lake
from onefold.maintenance.attempts import old_branches
from onefold.tables.names import state_name

MakeDataset = Callable[..., Dataset]
ROWS = pa.table({"id": ["a"]})


@pytest.fixture(params=["sqlite", "postgres", "rest"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, lake_in: Callable[[Path], Lake]) -> Lake:
    """A lake in a folder, with each kind of catalog."""
    made = lake_in(tmp_path)
    if request.param == "sqlite":
        return made
    if request.param == "rest":
        catalog = request.getfixturevalue("rest_catalog")
    else:
        catalog = request.getfixturevalue("postgres").database(f"test_{secrets.token_hex(6)}")
    return Lake(made.settings.model_copy(update={"catalog": catalog}))


@pytest.fixture
def things(dataset: MakeDataset, lake: Lake) -> Dataset:
    """A dataset whose state table has its empty first snapshot."""
    made = dataset()
    catalog = open_catalog(lake)
    catalog.create_namespace(made.target.namespace)
    table = catalog.create_table((made.target.namespace, state_name(made)), ROWS.schema)
    table.append(ROWS.slice(0, 0), snapshot_properties={RECORD_PROPERTY: ROOT})
    return made


def merged(lake: Lake, things: Dataset, name: str) -> tuple[int, int]:
    """A branch with a row of its own: (base, head)."""
    state = StateTable(lake, things)
    base = state.main.snapshot
    state.cut_branch(name, base)
    state.table.append(ROWS, snapshot_properties={RECORD_PROPERTY: name}, branch=name)
    head = StateTable(lake, things).ref(name)
    assert head is not None
    assert head.record == name
    return base, head.snapshot


def test_publishing_moves_main_and_removes_the_branch(lake: Lake, things: Dataset) -> None:
    base, head = merged(lake, things, "one")
    StateTable(lake, things).publish("one", head, base)
    state = StateTable(lake, things)
    assert (state.main.snapshot, state.main.record) == (head, "one")
    assert state.ref("one") is None
    assert state.snapshot_of("one") == head
    assert state.snapshot_of("two") is None


def test_main_moves_only_from_the_base(lake: Lake, things: Dataset) -> None:
    first, second = merged(lake, things, "one"), merged(lake, things, "two")
    StateTable(lake, things).publish("one", first[1], first[0])
    with pytest.raises(MainMovedError):
        StateTable(lake, things).publish("two", second[1], second[0])
    state = StateTable(lake, things)
    assert state.main.record == "one"
    assert state.ref("two") is not None, "the loser's branch is kept"


def test_main_moves_only_to_the_audited_head(lake: Lake, things: Dataset) -> None:
    base, head = merged(lake, things, "one")
    StateTable(lake, things).table.append(ROWS, snapshot_properties={RECORD_PROPERTY: "one"}, branch="one")
    with pytest.raises(MainMovedError):
        StateTable(lake, things).publish("one", head, base)
    assert StateTable(lake, things).main.record == ROOT


def test_a_stale_handle_cannot_publish(lake: Lake, things: Dataset) -> None:
    first, second = merged(lake, things, "one"), merged(lake, things, "two")
    stale = StateTable(lake, things)
    StateTable(lake, things).publish("one", first[1], first[0])
    with pytest.raises(MainMovedError):
        stale.publish("two", second[1], second[0])


def test_other_branches_that_move_at_once_hinder_no_publish(lake: Lake, things: Dataset) -> None:
    """The catalog's own check is by table: without trying again, all but one of these would be refused."""
    base, head = merged(lake, things, "one")
    start = Barrier(6)

    def cut(number: int) -> None:
        state = StateTable(lake, things)
        start.wait()
        state.cut_branch(f"other_{number}", base)

    def publish() -> None:
        state = StateTable(lake, things)
        start.wait()
        state.publish("one", head, base)

    with ThreadPoolExecutor(6) as pool:
        done = [*(pool.submit(cut, number) for number in range(5)), pool.submit(publish)]
        assert [future.exception() for future in done] == [None] * 6
    state = StateTable(lake, things)
    assert state.main.record == "one"
    assert all(state.ref(f"other_{number}") for number in range(5))


def test_one_of_many_publishes_from_one_base_wins(lake: Lake, things: Dataset) -> None:
    heads = [(f"b{number}", *merged(lake, things, f"b{number}")) for number in range(4)]
    start = Barrier(4)

    def publish(prepared: tuple[str, int, int]) -> bool:
        state, (name, base, head) = StateTable(lake, things), prepared
        start.wait()
        try:
            state.publish(name, head, base)
        except MainMovedError:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(publish, heads))
    assert won.count(True) == 1
    assert StateTable(lake, things).main.record == heads[won.index(True)][0]


def rolled_back(lake: Lake, things: Dataset) -> tuple[Head, int]:
    """Two published batches: the first one's head, and the second one's snapshot."""
    heads = []
    for name in ("one", "two"):
        base, head = merged(lake, things, name)
        StateTable(lake, things).publish(name, head, base)
        heads.append(StateTable(lake, things).main)
    return heads[0], heads[1].snapshot


def test_L1_behind_a_rollback_nothing_is_published_from_the_snapshot_that_it_leads_to(
    lake: Lake, things: Dataset
) -> None:
    first, last = rolled_back(lake, things)
    state = StateTable(lake, things)
    state.cut_branch("waits", first.snapshot)
    state.roll_back(first, last)
    main = StateTable(lake, things).main
    assert (main.record, main.snapshot in (first.snapshot, last)) == ("one", False)
    assert len(StateTable(lake, things).table.scan(snapshot_id=main.snapshot).to_arrow()) == 1
    assert StateTable(lake, things).branches().keys() == {"waits"}
    with pytest.raises(MainMovedError):
        StateTable(lake, things).publish("waits", first.snapshot, first.snapshot)


def test_other_branches_that_move_at_once_hinder_no_rollback(lake: Lake, things: Dataset) -> None:
    first, last = rolled_back(lake, things)
    start = Barrier(6)

    def cut(number: int) -> None:
        state = StateTable(lake, things)
        start.wait()
        for turn in range(4):
            state.cut_branch(f"other_{number}_{turn}", last)

    def back() -> None:
        state = StateTable(lake, things)
        start.wait()
        state.roll_back(first, last)

    with ThreadPoolExecutor(6) as pool:
        for future in [*(pool.submit(cut, number) for number in range(5)), pool.submit(back)]:
            future.result()
    assert StateTable(lake, things).main.record == "one"


def test_a_rollback_gives_way_to_what_was_published_meanwhile(lake: Lake, things: Dataset) -> None:
    first, last = rolled_back(lake, things)
    stale = StateTable(lake, things)
    base, head = merged(lake, things, "three")
    StateTable(lake, things).publish("three", head, base)
    with pytest.raises(MainMovedError):
        stale.roll_back(first, last)
    assert StateTable(lake, things).main.record == "three"
    assert StateTable(lake, things).branches() == {}


def test_a_refused_rollback_leaves_the_branch_that_another_has_cut_meanwhile(
    lake: Lake, things: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, last = rolled_back(lake, things)
    state, publish = StateTable(lake, things), StateTable.publish

    def late(own: StateTable, branch: str, head: int, base: int) -> None:
        other = StateTable(lake, things)
        other.drop_branch(branch)
        other.cut_branch(branch, last)
        publish(own, branch, head, base)

    monkeypatch.setattr(StateTable, "publish", late)
    with pytest.raises(MainMovedError):
        state.roll_back(first, last)
    table = StateTable(lake, things)
    assert [table.ref(name) for name in table.branches()] == [Head(last, "two")]
    assert old_branches(table, set(), timedelta(0)) == list(table.branches()), "if its owner was killed, maintenance"


def test_a_branch_is_cut_once(lake: Lake, things: Dataset) -> None:
    state = StateTable(lake, things)
    state.cut_branch("one", state.main.snapshot)
    with pytest.raises(MainMovedError):
        state.cut_branch("one", state.main.snapshot)
    state.drop_branch("one")
    state.drop_branch("one")
    assert StateTable(lake, things).ref("one") is None


def test_a_snapshot_without_a_commit_record_is_foreign(lake: Lake, things: Dataset) -> None:
    StateTable(lake, things).table.append(ROWS)
    with pytest.raises(ForeignCommitError, match="was not written by Onefold"):
        _ = StateTable(lake, things).main


def test_before_the_first_batch_there_is_no_state(lake: Lake, dataset: MakeDataset) -> None:
    assert find_state(lake, dataset()) is None


def test_a_catalog_that_cannot_be_opened_is_said(lake: Lake, dataset: MakeDataset) -> None:
    place = lake.settings.path("lake")
    place.write_text("no folder")
    with pytest.raises(LakeUnavailableError, match="catalog"):
        find_state(lake, dataset())


def test_many_open_a_new_catalog_at_once(lake: Lake, dataset: MakeDataset) -> None:
    start = Barrier(6)

    def look(_: int) -> object:
        start.wait()
        return find_state(lake, dataset())

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(look, range(6))) == [None] * 6
