"""A store without conditional puts, where the catalog's database tells who is first: on a file and on Postgres."""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from onefold.catalog import catalog_at
from onefold.errors import LakeUnavailableError
from onefold.lake import Lake
from onefold.settings import Settings
from onefold.storage import S3Storage
from tests.support.s3_faults import Fault, Faulty
from tests.support.s3_servers import environment, moto

pytestmark = [pytest.mark.s3, pytest.mark.process]
KEYS = [f"plans/{number}" for number in range(25)]
WRITER = """
import json, sys
from onefold.lake import Lake
from onefold.settings import load_settings
store = Lake(load_settings()).storage
store.stat("nothing")
print("ready", flush=True)
name, *keys = sys.stdin.readline().split()
print(json.dumps([key for key in keys if store.put_if_absent(key, name.encode())]))
"""


@pytest.fixture(scope="module")
def proxy() -> Iterator[Faulty]:
    """An S3 server that knows no conditional puts."""
    with moto() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(address).items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="lake")
        with Faulty(address, forget=["if-none-match"]) as made:
            patch.setenv("AWS_ENDPOINT_URL", made.address)
            yield made


@pytest.fixture(params=["sqlite", "postgres"])
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.db"
    return str(request.getfixturevalue("postgres").database(f"claims_{secrets.token_hex(6)}"))


@pytest.fixture
def own(proxy: Faulty, catalog: str, tmp_path: Path) -> Iterator[dict[str, str]]:
    """The settings of all drivers of one lake."""
    yield {
        "ONEFOLD_HOME": str(tmp_path),
        "ONEFOLD_LAKE": f"s3a://lake/{tmp_path.name}-{secrets.token_hex(4)}",
        "ONEFOLD_CATALOG": catalog,
        "ONEFOLD_S3_PUT_IF_ABSENT": "catalog",
    }
    assert proxy.left == [], "every fault was met"


def driver(own: dict[str, str]) -> S3Storage:
    """The store as another driver opens it, impatient."""
    settings = {name.removeprefix("ONEFOLD_").lower(): value for name, value in own.items()}
    lake = Lake(Settings.model_validate(settings))
    store = lake.storage
    assert isinstance(store, S3Storage)
    client = boto3.client("s3", config=Config(retries={"total_max_attempts": 2, "mode": "standard"}))
    return S3Storage(store.bucket, store.prefix, client, claims=lake.claims)


def start(own: dict[str, str], **more: str) -> subprocess.Popen[str]:
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    process = subprocess.Popen([sys.executable, "-c", WRITER], env=os.environ | own | more, **pipes)
    assert process.stdout
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.by_day("sqlite", why="what a killed driver has claimed is tried on both by day")
def test_one_of_three_processes_puts_each_object_and_it_is_kept(own: dict[str, str]) -> None:
    names = ["one", "two", "three"]
    processes = [start(own) for _ in names]
    for process, name in zip(processes, names, strict=True):
        assert process.stdin
        process.stdin.write(" ".join([name, *KEYS]) + "\n")
        process.stdin.flush()
    won = {name: json.loads(process.communicate()[0]) for name, process in zip(names, processes, strict=True)}
    assert Counter(key for keys in won.values() for key in keys) == dict.fromkeys(KEYS, 1)
    store = driver(own)
    assert {key: store.read(key) for key in KEYS} == {key: name.encode() for name in names for key in won[name]}


def test_one_of_eight_threads_wins(own: dict[str, str]) -> None:
    store = driver(own)
    written = [f"driver {number}".encode() for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        won = list(pool.map(lambda data: store.put_if_absent("plan", data), written))
    assert won.count(True) == 1
    assert store.read("plan") == written[won.index(True)]


@pytest.mark.parametrize("point", ["after_claim", "after_claimed_put"])
def test_what_a_killed_driver_has_claimed_is_carried_out(own: dict[str, str], point: str) -> None:
    killed = start(own, ONEFOLD_FAULT=point)
    killed.communicate("killed plan\n")
    assert killed.returncode == -signal.SIGKILL
    store = driver(own)
    assert not store.put_if_absent("plan", b"mine")
    assert store.read("plan") == b"killed"
    assert store.put_if_absent("other", b"mine")


def test_a_put_that_comes_late_changes_nothing(proxy: Faulty, own: dict[str, str]) -> None:
    """Here a lock that ends with its holder would let two be the first."""
    proxy.late.clear()
    proxy.spoil("PUT", Fault.LATE)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(driver(own).put_if_absent, "plan", b"slow")
        while proxy.left:
            time.sleep(0.01)
        assert not driver(own).put_if_absent("plan", b"mine")
        assert driver(own).read("plan") == b"slow"
        assert not driver(own).put_if_absent("plan", b"mine, again")
        proxy.late.set()
        assert slow.result()
    assert driver(own).read("plan") == b"slow"


def test_a_put_that_fails_for_good_is_not_another_ones(proxy: Faulty, own: dict[str, str]) -> None:
    """It may still be on its way, so it counts as made."""
    proxy.spoil("PUT", Fault.CUT, Fault.CUT)
    with pytest.raises(LakeUnavailableError):
        driver(own).put_if_absent("plan", b"first")
    assert not driver(own).put_if_absent("plan", b"mine")
    assert driver(own).read("plan") == b"first"


@pytest.mark.parametrize("folder", [True, False])
def test_what_was_removed_does_not_come_back(own: dict[str, str], folder: bool) -> None:
    killed = start(own, ONEFOLD_FAULT="after_claimed_put")
    killed.communicate("killed a/b\n")
    store = driver(own)
    store.remove_below("a/") if folder else store.remove("a/b")
    assert store.put_if_absent("a/b", b"mine")
    assert store.read("a/b") == b"mine"


def test_claims_go_when_the_object_is_there_and_folders_are_distinguished(catalog: str, own: dict[str, str]) -> None:
    claims = catalog_at(catalog, {}).claims()
    assert claims
    for place in ("s3a://b/x_y/1", "s3a://b/xzy/1", "s3a://b/X_y/1"):
        assert claims.claim(place, b"first") == b"first"
    claims.drop_below("s3a://b/x_y/")
    assert [claims.claim(f"s3a://b/{name}/1", b"second") for name in ("x_y", "xzy", "X_y")] == [
        b"second",
        b"first",
        b"first",
    ]
    store = driver(own)
    assert store.put_if_absent("a", b"1")
    assert claims.claim(store.uri_of("a"), b"2") == b"2"


def test_a_driver_without_the_setting_is_refused_and_overwrites_nothing(own: dict[str, str]) -> None:
    assert driver(own).put_if_absent("plan", b"1")
    other = driver({**own, "ONEFOLD_S3_PUT_IF_ABSENT": "store"})
    with pytest.raises(LakeUnavailableError, match="or set s3_put_if_absent to catalog"):
        other.put_if_absent("plan", b"2")
    assert driver(own).read("plan") == b"1"


def test_a_database_that_does_not_answer_is_reported(own: dict[str, str]) -> None:
    away = driver({**own, "ONEFOLD_CATALOG": "postgresql+psycopg2://onefold:s3cr3t@127.0.0.1:9/catalog"})
    with pytest.raises(LakeUnavailableError, match="Connection refused") as raised:
        away.put_if_absent("plan", b"1")
    assert "s3cr3t" not in str(raised.value)
