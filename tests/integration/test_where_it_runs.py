"""The main job wherever it runs: {folder, moto, versitygw} x {SQLite, Postgres, REST} x {one process, a cluster}.

By day one of them, with fewer exports; at night all.
"""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import boto3
import pytest

from onefold.dataset import find_dataset
from onefold.iceberg.connection import key_below_warehouse, open_catalog
from onefold.lake import Lake
from onefold.maintenance.recovery import find_lost
from onefold.report.ledger import rows_of
from onefold.settings import Settings
from tests.support.arrivals import arrive
from tests.support.cluster import Cluster, python_without_onefold
from tests.support.files import EXPORTS_BELOW
from tests.support.jvm import short_lived
from tests.support.launchers import OnSharedSession
from tests.support.project import SETTINGS
from tests.support.rest_server import RestServer
from tests.support.s3_faults import Faulty
from tests.support.s3_servers import SERVERS, environment

pytestmark = [pytest.mark.s3, pytest.mark.process]
PROJECT = Path(__file__).parents[2]
KCAT, CONNECT = "sample/exports/kcat", "sample/exports/connect"
WAY = (
    ("accounts", f"{KCAT}/1-first"),
    ("accounts", f"{KCAT}/3-next"),
    ("accounts", f"{KCAT}/2-overlap"),
    ("account_entries", f"{CONNECT}/1-first"),
)
"""Exports of one topic of which two overlap, and one whose objects are read by Python in Spark's workers."""
AGAIN, RED = ("accounts", f"{KCAT}/2-overlap"), ("accounts", f"{KCAT}/5-conflict")
Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a process said of each arrival, and the lake as it left it."""

    answers: list[dict[str, Any]]
    lake: Lake


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the shipped datasets and the sample."""
    made = tmp_path_factory.mktemp("project")
    for name in ("datasets", "expectations", "sample"):
        (made / name).symlink_to(PROJECT / name)
    (made / "onefold.toml").write_text(SETTINGS)
    return made


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Below which lakes lie: a folder, or a bucket on a server of its own, to which this process' environment leads."""
    if request.param == "folder":
        yield str(tmp_path_factory.mktemp("lakes"))
        return
    with SERVERS[request.param]() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(address).items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="lake")
        yield "s3a://lake"


def rows_in(lake: Lake) -> Rows:
    names = sorted({name for name, _ in WAY})
    found = {name: rows_of(lake, find_dataset(lake.settings.datasets_folder, name)) for name in names}
    return {name: sorted(rows, key=str) for name, rows in found.items()}


SHORT = (WAY[0], WAY[2])
"""By day, what overlaps."""


def words_of(way: Iterable[tuple[str, str]]) -> list[str]:
    return [*(f"{name}={folder}" for name, folder in way), "maintain=accounts"]


WORDS, BY_DAY = words_of((*WAY, AGAIN, RED)), words_of(SHORT)


def run(home: Path, lake: str, words: list[str] = WORDS, **more: str) -> Ran:
    """Send the exports through a lake in a process of its own; `more` are settings."""
    settings = {"ONEFOLD_HOME": str(home), "ONEFOLD_LAKE": lake, "ONEFOLD_JARS": str(PROJECT / ".jars")}
    settings["ONEFOLD_EXPORTS_BELOW"] = json.dumps(EXPORTS_BELOW)
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.arrivals", *words],
        cwd=PROJECT,
        env=os.environ | short_lived() | settings | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    return Ran(answers, Lake(Settings(home=home, lake=lake, catalog=more["ONEFOLD_CATALOG"])))


def check(ran: Ran) -> None:
    _, following, overlap, entries, again, red, maintained = ran.answers
    assert [answer["already"] for answer in ran.answers[:-1]] == [False, False, False, False, True, None]
    assert (again["batch"], again["main"]) == (overlap["batch"], overlap["main"]), "run again: nothing has moved"
    assert "conflicts: found 1, wanted at most 0" in red["red"]
    assert red["main"] == overlap["main"] != following["main"]
    assert entries["red"] is None
    assert maintained["tables"]
    assert maintained["files_rewritten"] > 0
    listed = [object_.key for object_ in ran.lake.storage.list()]
    assert [key for key in listed if key.startswith("warehouse/") and key.endswith(".parquet")]
    assert f"reports/accounts/{red['batch']}.html" in listed


def arrived(home: Path, folder: Path, words: list[str]) -> Ran:
    """What a laptop makes of exports: a folder, SQLite, one process (this one)."""
    catalog = f"sqlite:///{folder}/catalog.db"
    lake = Lake(Settings(home=home, lake=str(folder / "lake"), catalog=catalog, exports_below=EXPORTS_BELOW))
    return Ran(list(arrive(lake, OnSharedSession(lake), words)), lake)


@pytest.fixture(scope="module")
def at_home(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Rows:
    """The rows as a laptop has them."""
    ran = arrived(home, tmp_path_factory.mktemp("laptop"), WORDS)
    check(ran)
    rows = rows_in(ran.lake)
    assert len(rows["accounts"]) > 20
    assert len({row["account_id"] for row in rows["accounts"]}) == len(rows["accounts"])
    assert len({(row["transfer_id"], row["account_id"]) for row in rows["account_entries"]}) == len(
        rows["account_entries"]
    )
    return rows


@contextmanager
def catalog_of(kind: str, lake: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """The settings of a catalog of its own. To a REST server one shows a credential; its own place is no lake's."""
    if kind == "sqlite":
        yield {"ONEFOLD_CATALOG": f"sqlite:///{folder}/catalog.db"}
    elif kind == "postgres":
        server = request.getfixturevalue("postgres")
        yield {"ONEFOLD_CATALOG": server.database(f"test_{secrets.token_hex(6)}")}
    else:
        own = Lake(Settings(lake=lake)).storage.spark_settings
        hadoop = {name.removeprefix("spark.hadoop."): value for name, value in own.items() if ".hadoop." in name}
        with RestServer(folder, hadoop) as server:
            credential = json.dumps({"credential": "onefold:s3cr3t"})
            yield {"ONEFOLD_CATALOG": server.uri, "ONEFOLD_CATALOG_PROPERTIES": credential}


@contextmanager
def spark_of(kind: str, folder: Path) -> Iterator[dict[str, str]]:
    """The settings of Spark. The Python of a cluster's workers has no Onefold but the one that the driver ships."""
    if kind == "one process":
        yield {}
        return
    with Cluster(folder) as cluster:
        yield {
            "ONEFOLD_SPARK_MASTER": cluster.master,
            "ONEFOLD_SPARK_CONF": json.dumps({"spark.executor.memory": "700m"}),
            "PYSPARK_PYTHON": str(python_without_onefold(folder)),
        }
        assert cluster.executors() == ["worker-0", "worker-1"]


PLACES, CATALOGS, SPARKS = ("folder", "moto", "versitygw"), ("sqlite", "postgres", "rest"), ("one process", "cluster")


@pytest.mark.nightly(reason="test_s3_access folds a batch in a bucket by day, test_secrets one under a REST catalog")
@pytest.mark.parametrize("place", ["moto"], indirect=True)
def test_a_bucket_and_a_rest_catalog_change_no_row(
    home: Path, place: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    here = arrived(home, tmp_path / "here", BY_DAY)
    with catalog_of("rest", f"{place}/by-day", tmp_path, request) as named:
        there = run(home, f"{place}/by-day", BY_DAY, **named)
        assert [answer["red"] for answer in there.answers[:-1]] == [None] * len(SHORT)
        assert there.answers[-1]["files_rewritten"] > 0
        assert rows_in(there.lake) == rows_in(here.lake)
        assert len(rows_in(there.lake)["accounts"]) > 20
        assert find_lost(there.lake) == []


@pytest.mark.nightly(reason="by day a bucket with a REST catalog, and what arrives is less")
@pytest.mark.parametrize(("place", "catalog", "spark"), product(PLACES, CATALOGS, SPARKS), indirect=["place"])
def test_where_it_runs_changes_no_row(
    home: Path, at_home: Rows, place: str, catalog: str, spark: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    lake = f"{place}/{catalog}-{spark.replace(' ', '-')}"
    with catalog_of(catalog, lake, tmp_path, request) as named, spark_of(spark, tmp_path) as started:
        ran = run(home, lake, **named, **started)
        check(ran)
        assert rows_in(ran.lake) == at_home
        # Every table lies in the lake, not where a server would put it, and the catalog knows each.
        opened = open_catalog(ran.lake)
        spaces = [name for space in opened.list_namespaces() for name in opened.list_tables(space)]
        assert {key_below_warehouse(ran.lake, opened.load_table(name).location()) for name in spaces} == {
            f"warehouse/{'/'.join(name)}" for name in spaces
        }
        assert find_lost(ran.lake) == []


@pytest.mark.nightly
@pytest.mark.parametrize("place", ["moto", "versitygw"], indirect=True)
def test_a_store_without_conditional_puts_changes_no_row(
    home: Path, at_home: Rows, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Faulty(os.environ["AWS_ENDPOINT_URL"], forget=["if-none-match"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        by_catalog = {"ONEFOLD_S3_PUT_IF_ABSENT": "catalog", "ONEFOLD_CATALOG": f"sqlite:///{tmp_path}/catalog.db"}
        ran = run(home, f"{place}/without-conditions", **by_catalog)
        assert [request for request in proxy.requests if "if-none-match" in request.headers] == []
        check(ran)
        assert rows_in(ran.lake) == at_home
