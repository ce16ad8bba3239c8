"""The main job with the lake in a bucket: on one host; with Postgres and a Spark cluster; with a REST catalog."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from onefold.catalog import key_below_warehouse, open_catalog
from onefold.dataset import find_dataset
from onefold.lake import Lake
from onefold.maintenance.recovery import find_lost
from onefold.report.ledger import rows_of
from onefold.settings import Settings
from onefold.storage import s3_of_spark
from tests.integration.cluster import Cluster, python_without_onefold
from tests.integration.s3_faults import Faulty
from tests.integration.s3_servers import SERVERS, environment
from tests.jvm import short_lived
from tests.process.project import SETTINGS
from tests.rest_server import RestServer

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

    told: list[dict[str, Any]]
    lake: Lake


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the shipped datasets and the sample."""
    made = tmp_path_factory.mktemp("project")
    for name in ("datasets", "expectations", "sample"):
        (made / name).symlink_to(PROJECT / name)
    (made / "onefold.toml").write_text(SETTINGS)
    return made


@pytest.fixture(scope="module", params=["moto", pytest.param("versitygw", marks=pytest.mark.nightly)])
def s3(request: pytest.FixtureRequest) -> Iterator[dict[str, str]]:
    """An S3 server with the bucket `lake`: the environment that leads there, for this process too."""
    with SERVERS[request.param]() as address, pytest.MonkeyPatch.context() as patch:
        given = environment(address)
        for name, value in given.items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="lake")
        yield given


def rows_in(lake: Lake) -> Rows:
    names = sorted({name for name, _ in WAY})
    found = {name: rows_of(lake, find_dataset(lake.settings.datasets_folder, name)) for name in names}
    return {name: sorted(rows, key=str) for name, rows in found.items()}


def run(home: Path, lake: str, catalog: str, **more: str) -> Ran:
    """Send the exports through a lake in a process of its own."""
    settings = {"ONEFOLD_HOME": str(home), "ONEFOLD_LAKE": lake, "ONEFOLD_CATALOG": catalog}
    settings["ONEFOLD_JARS"] = str(PROJECT / ".jars")
    words = [*(f"{name}={folder}" for name, folder in (*WAY, AGAIN, RED)), "maintain=accounts"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.arrivals", *words],
        cwd=PROJECT,
        env=os.environ | short_lived() | settings | more,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return Ran(told, Lake(Settings(home=home, lake=lake, catalog=catalog)))


def check(ran: Ran) -> None:
    _, following, overlap, entries, again, red, maintained = ran.told
    assert [one["already"] for one in ran.told[:-1]] == [False, False, False, False, True, None]
    assert (again["batch"], again["main"]) == (overlap["batch"], overlap["main"]), "run again: nothing has moved"
    assert "conflicts: found 1, wanted at most 0" in red["red"]
    assert red["main"] == overlap["main"] != following["main"]
    assert entries["red"] is None
    assert maintained["tables"]
    assert maintained["files_rewritten"] > 0
    listed = [one.key for one in ran.lake.storage.list()]
    assert [key for key in listed if key.startswith("warehouse/") and key.endswith(".parquet")]
    assert f"reports/accounts/{red['batch']}.html" in listed


@pytest.fixture(scope="module")
def on_one_host(home: Path, s3: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """The catalog in a file, Spark in the driver's process."""
    catalog = tmp_path_factory.mktemp("catalog") / "catalog.db"
    return run(home, "s3a://lake/with-sqlite", f"sqlite:///{catalog}")


def test_a_lake_in_a_bucket_serves_the_main_job(on_one_host: Ran) -> None:
    check(on_one_host)
    rows = rows_in(on_one_host.lake)
    assert len(rows["accounts"]) > 20
    assert len({row["account_id"] for row in rows["accounts"]}) == len(rows["accounts"])
    assert len({(row["transfer_id"], row["account_id"]) for row in rows["account_entries"]}) == len(
        rows["account_entries"]
    )


@pytest.mark.nightly  # of a cluster `test_stack.py` tells, too
def test_a_catalog_on_postgres_and_a_cluster_change_no_row(
    home: Path, on_one_host: Ran, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The workers' Python has no Onefold but the one that the driver ships."""
    catalog = request.getfixturevalue("postgres").database(f"test_{secrets.token_hex(6)}")
    with Cluster(tmp_path) as cluster:
        ran = run(
            home,
            "s3a://lake/with-postgres",
            catalog,
            ONEFOLD_SPARK_MASTER=cluster.master,
            ONEFOLD_SPARK_CONF=json.dumps({"spark.executor.memory": "700m"}),
            PYSPARK_PYTHON=str(python_without_onefold(tmp_path)),
        )
        assert cluster.executors() == ["worker-0", "worker-1"]
    check(ran)
    assert rows_in(ran.lake) == rows_in(on_one_host.lake)


@pytest.mark.nightly
def test_a_store_without_conditional_puts_changes_no_row(
    home: Path, on_one_host: Ran, s3: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Faulty(s3["AWS_ENDPOINT_URL"], forget=["if-none-match"]) as proxy:
        monkeypatch.setenv("AWS_ENDPOINT_URL", proxy.address)
        told_by = {"ONEFOLD_S3_PUT_IF_ABSENT": "catalog"}
        ran = run(home, "s3a://lake/without-conditions", f"sqlite:///{tmp_path}/catalog.db", **told_by)
        assert [one for one in proxy.requests if "if-none-match" in one.headers] == []
        check(ran)
        assert rows_in(ran.lake) == rows_in(on_one_host.lake)


def test_a_rest_catalog_changes_no_row(home: Path, on_one_host: Ran, tmp_path: Path) -> None:
    """Who opens it shows a credential, and every table lies in the lake, not where the server would put it."""
    place = "s3a://lake/with-rest"
    own = s3_of_spark(Lake(Settings(lake=place)).storage)
    hadoop = {name.removeprefix("spark.hadoop."): value for name, value in own.items() if ".hadoop." in name}
    with RestServer(tmp_path, hadoop) as server:
        ran = run(home, place, server.uri, ONEFOLD_CATALOG_PROPERTIES=json.dumps({"credential": "onefold:s3cr3t"}))
        check(ran)
        assert rows_in(ran.lake) == rows_in(on_one_host.lake)
        catalog = open_catalog(ran.lake)
        spaces = [name for space in catalog.list_namespaces() for name in catalog.list_tables(space)]
        assert {key_below_warehouse(ran.lake, catalog.load_table(name).location()) for name in spaces} == {
            f"warehouse/{'/'.join(name)}" for name in spaces
        }
        assert find_lost(ran.lake) == []
