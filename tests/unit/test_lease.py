"""A table's lease, on each kind of catalog: one holder a table, freed when its process dies, waited for in bounds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.publish.lease import lease
from onefold.settings import Settings

MakeDataset = Callable[..., Dataset]
HOLDER = """
import sys, time
from onefold.dataset import find_dataset
from onefold.lake import Lake
from onefold.publish.lease import lease
from onefold.settings import load_settings
lake = Lake(load_settings())
with lease(lake, find_dataset(lake.settings.datasets_folder, "things")) as got:
    print(got, flush=True)
    sys.stdin.read()
"""
THINGS = """
name: things
source: {exports: {path: e/, layout: kcat, origin: {cluster: c, incarnation: 1}}}
value: {fields: {id: string}}
identity: {message_id: id}
apply: {mode: append}
target: {table: tests.things, buckets: 2}
"""


@pytest.fixture(params=["file", "postgres", "rest"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """A lake whose leases are waited for half a second."""
    catalog = None
    if request.param == "postgres":
        catalog = request.getfixturevalue("postgres").database(f"lease_{os.getpid()}_{tmp_path.name}")
    if request.param == "rest":  # it is not asked
        catalog = "http://127.0.0.1:9/catalog"
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "things.yaml").write_text(THINGS)
    (tmp_path / ".lake").mkdir()
    return Lake(Settings(home=tmp_path, catalog=catalog, lease_wait=0.5))


@pytest.fixture
def holder(lake: Lake) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lease of `things` until its standard input ends."""
    own = {"ONEFOLD_HOME": str(lake.settings.home)} | (
        {"ONEFOLD_CATALOG": lake.settings.catalog} if lake.settings.catalog else {}
    )
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER], env=os.environ | own, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    assert process.stdout.readline() == "True\n"
    yield process
    process.kill()
    process.communicate()


def test_what_another_process_holds_is_waited_for_in_bounds(
    lake: Lake, dataset: MakeDataset, holder: subprocess.Popen[str]
) -> None:
    said: list[str] = []
    with lease(lake, dataset(), said.append) as got:
        assert not got, "the batch goes on at the same time"
    assert said == ["waiting for another batch of tests.things"]
    assert holder.poll() is None


def test_another_table_has_a_lease_of_its_own(lake: Lake, dataset: MakeDataset, holder: subprocess.Popen[str]) -> None:
    said: list[str] = []
    with lease(lake, dataset(target={"table": "tests.others", "buckets": 2}), said.append) as got:
        assert got
    assert said == []
    assert holder.poll() is None


def test_a_killed_process_holds_nothing(lake: Lake, dataset: MakeDataset, holder: subprocess.Popen[str]) -> None:
    patient = Lake(lake.settings.model_copy(update={"lease_wait": 60.0}))
    waits = Event()
    with ThreadPoolExecutor(1) as pool:

        def take() -> bool:
            with lease(patient, dataset(), lambda _: waits.set()) as got:
                return got

        taken = pool.submit(take)
        assert waits.wait(30)
        holder.send_signal(signal.SIGKILL)
        assert taken.result(60)


def test_a_holder_that_gives_a_lease_back_may_take_it_again(lake: Lake, dataset: MakeDataset) -> None:
    said: list[str] = []
    for _ in range(3):
        with lease(lake, dataset(), said.append) as got:
            assert got
    assert said == []
