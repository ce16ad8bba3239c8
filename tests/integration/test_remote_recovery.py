"""A lake in a bucket with its catalog on Postgres: the database is lost, the bucket is older, a branch is gone."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.settings import Settings
from tests.support.jvm import short_lived
from tests.support.postgres import Postgres
from tests.support.project import ACCOUNTS, PROJECT, SETTINGS, Project, account
from tests.support.s3_servers import environment, moto

pytestmark = [pytest.mark.nightly, pytest.mark.s3, pytest.mark.process, pytest.mark.timeout(2400)]
Objects = dict[str, bytes]


@pytest.fixture(scope="module")
def database() -> str:
    return f"recovery_{secrets.token_hex(6)}"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres, database: str) -> Iterator[Project]:
    """One lake for all tests here, in their order."""
    home = tmp_path_factory.mktemp("recovery")
    with moto() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(address).items():
            patch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="lake")
        made = Project(home)
        place, catalog = "s3a://lake/onefold", postgres.database(database)
        (home / "onefold.toml").write_text(f'lake = "{place}"\ncatalog = "{catalog}"\n{SETTINGS}')
        limits = "max_rejected_rate: 0.4, min_records: 1"
        made.write_dataset("accounts", ACCOUNTS.replace("max_rejected_rate: 1.0", limits))
        made.lake = Lake(Settings(home=home, lake=place, catalog=catalog))
        yield made


def put(project: Project, number: int, *, red: bool = False) -> str:
    """New records of five keys, one of them a delete; red: half of them cannot be read. The folder."""
    if red:
        lines = [account(10 * number, "k-1", {"n": 99}), account(10 * number + 1, "k-1", "no JSON")]
    else:
        lines = [account(10 * number + key, f"k-{key}", {"n": number}) for key in range(5)]
        lines.append(account(10 * number + 5, "k-0", None))
    return str(project.put(f"accounts/{number}/0.jsonl", lines))


def arrive(project: Project, *folders: str) -> list[dict[str, Any]]:
    """Send folders through the lake, in a process of its own."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("ONEFOLD_")}
    own = {"ONEFOLD_HOME": str(project.home), "ONEFOLD_JARS": str(PROJECT / ".jars")}
    words = [sys.executable, "-m", "tests.support.arrivals", *(f"accounts={folder}" for folder in folders)]
    given = keep | short_lived() | own
    done = subprocess.run(words, cwd=PROJECT, env=given, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def run_json(project: Project, *words: str) -> Any:
    """A command in a process of its own: the tests' session has no jars for Postgres and a bucket."""
    done = project.process(*words, "--json")
    assert done.code == 0, done.err
    return done.json


def rows(project: Project) -> dict[str, int]:
    """Read without Spark."""
    shown = project.onefold("show", "accounts", "--json")
    assert shown.code == 0, shown.err
    return {row["id"]: row["n"] for row in shown.json}


def proved(project: Project) -> bool:
    found = run_json(project, "prove", "accounts")
    return bool(found["rows"]) and not any(found["differences"].values())


def objects() -> Objects:
    """What lies in the bucket."""
    client = boto3.client("s3")
    pages = client.get_paginator("list_objects_v2").paginate(Bucket="lake")
    keys = [found["Key"] for page in pages for found in page.get("Contents", [])]
    return {key: client.get_object(Bucket="lake", Key=key)["Body"].read() for key in keys}


def bring_back(kept: Objects) -> None:
    """The bucket as it was."""
    client = boto3.client("s3")
    for key in objects().keys() - kept.keys():
        client.delete_object(Bucket="lake", Key=key)
    for key, data in kept.items():
        client.put_object(Bucket="lake", Key=key, Body=data)


def test_a_lost_database_is_made_again_from_the_bucket(project: Project, postgres: Postgres, database: str) -> None:
    first, second, red = arrive(project, put(project, 0), put(project, 1), put(project, 2, red=True))
    assert [run["red"] is None for run in (first, second, red)] == [True, True, False]
    before = rows(project)
    assert before == {f"k-{key}": 1 for key in range(1, 5)}
    postgres.drop(database)
    postgres.database(database)
    assert rows(project) == {}

    dry = run_json(project, "recover", "--dry-run")
    assert rows(project) == {}
    assert run_json(project, "recover") == dry
    assert [table for table in dry if table["missing"]] == []

    assert rows(project) == before
    assert proved(project)
    (again,) = arrive(project, str(project.home / "exports/accounts/1"))
    assert (again["already"], again["main"]) == (True, second["main"])
    reasons = ["--reason", "seen", "--waive", "rejected_rate=0.5"]
    assert project.process("release", "accounts", red["batch"], *reasons).code == 0, "what waited can be decided"
    assert rows(project) == before | {"k-1": 99}


def test_a_bucket_that_is_older_than_its_database_goes_on_from_what_it_has(project: Project) -> None:
    before, kept = rows(project), objects()
    (late,) = arrive(project, put(project, 3))
    after = rows(project)
    assert after != before
    bring_back(kept)

    found = run_json(project, "recover")

    assert found
    assert all("metadata that is not there" in table["why"] for table in found)
    assert rows(project) == before
    assert proved(project)
    old, again = arrive(project, str(project.home / "exports/accounts/1"), str(project.home / "exports/accounts/3"))
    assert (old["already"], again["already"], again["batch"]) == (True, False, late["batch"])
    assert rows(project) == after
    assert run_json(project, "recover") == []


def test_a_red_batch_whose_branch_is_gone_is_judged_again(project: Project) -> None:
    before, folder = rows(project), put(project, 4, red=True)
    (red,) = arrive(project, folder)
    table = StateTable(project.lake, project.dataset("accounts"))
    assert table.branches()
    for branch in table.branches():
        table.drop_branch(branch)
    discarded = project.onefold("discard", "accounts", red["batch"], "--reason", "its branch is gone")
    assert discarded.code == 0, discarded.err
    (again,) = arrive(project, folder)
    assert (again["batch"], again["red"], rows(project)) == (red["batch"], red["red"], before)
    assert StateTable(project.lake, project.dataset("accounts")).branches()
