"""The DAG of a lake that only an Airflow connection opens: its keys reach every client, and are shown nowhere."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest

from tests.support.airflow_process import Probe
from tests.support.batches import Export, values
from tests.support.cluster import Cluster
from tests.support.project import THINGS, Project
from tests.support.s3_faults import Faulty
from tests.support.s3_servers import moto

pytestmark = [
    pytest.mark.airflow,
    pytest.mark.s3,
    pytest.mark.timeout(1800),
    pytest.mark.usefixtures("airflow_database"),
]
DONE = dict.fromkeys(("plan", "land", "dedup", "upsert", "gate", "publish", "report"), "success")
LOGS = THINGS.replace("things", "logs").replace("kcat", "segments").replace("exports/logs/", "s3://exports/logs/")
USER, SECRET, TOKEN = "AKIA-of-the-connection", "s3cr3t-key-never-shown", "s3cr3t-token-never-shown"
SPARK_SUBMIT = f"""\
#!{sys.executable}
import json, os, pathlib, sys
with (pathlib.Path(__file__).parent / "arguments.jsonl").open("a") as kept:
    print(json.dumps(sys.argv[1:]), file=kept)
os.execv({str(Path(sys.executable).with_name("spark-submit"))!r}, sys.argv)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A project of one dataset, whose log segments Python reads in Spark's workers."""
    Project(tmp_path).write_dataset("logs", LOGS)
    (tmp_path / "datasets" / "things.yaml").unlink()
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Faulty]:
    """An S3 server with the exports in a bucket, and all that it is asked for."""
    segments = Export(home / "made" / "logs")
    segments.write(0, values(0, '{"id": "a", "n": 1}', '{"id": "b", "n": 2}', '{"id": "b", "n": 2}'))
    with moto() as address, Faulty(address) as proxy:
        client = client_of(address)
        for bucket in ("lake", "exports"):
            client.create_bucket(Bucket=bucket)
        for file in (home / "made").rglob("*.*"):
            client.upload_file(str(file), "exports", str(file.relative_to(home / "made")))
        yield proxy


def client_of(address: str) -> Any:
    login = {"aws_access_key_id": "other", "aws_secret_access_key": "other", "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=address, **login)


@pytest.fixture
def where(home: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str | None]:
    """An environment that leads to no bucket, with a spark-submit that keeps what it is given."""
    found = [name for name in os.environ if name.startswith("AWS_")]
    for name in found:
        monkeypatch.delenv(name)
    program = home / "bin" / "spark-submit"
    program.parent.mkdir()
    program.write_text(SPARK_SUBMIT)
    program.chmod(0o755)
    return {
        **dict.fromkeys(found),
        "HOME": str(home),
        "AWS_EC2_METADATA_DISABLED": "true",
        "PATH": os.pathsep.join((str(program.parent), os.environ["PATH"])),
        "ONEFOLD_HOME": str(home),
        "ONEFOLD_LAKE": f"s3a://lake/{home.name}",  # servers of one process share what they hold,
        "ONEFOLD_CATALOG": f"sqlite:///{home}/catalog.db",
        "ONEFOLD_S3_CONNECTION": "s3_lake",
    }


@pytest.fixture(params=[pytest.param(master, marks=pytest.mark.nightly) for master in ("one host", "cluster")])
def master(request: pytest.FixtureRequest, home: Path, where: dict[str, str | None]) -> Iterator[str]:
    """Where Spark runs; a cluster's worker knows no bucket either."""
    del where  # it has taken this process's own variables away
    if request.param == "one host":
        yield "local[2]"
        return
    with Cluster(home, workers=1) as cluster:
        yield cluster.master
        assert cluster.executors() == ["worker-0"]


def test_keys_endpoint_and_region_of_the_connection_reach_every_client_and_are_shown_nowhere(
    probe: Probe,
    home: Path,
    store: Faulty,
    where: dict[str, str | None],
    master: str,
    airflow_environ: dict[str, str],
) -> None:
    extra = {"aws_session_token": TOKEN, "endpoint_url": store.address, "region_name": "eu-central-1"}
    connection = {"conn_type": "aws", "login": USER, "password": SECRET, "extra": extra}
    where["AIRFLOW_CONN_S3_LAKE"] = json.dumps(connection)
    events = home / "events"
    events.mkdir()
    logged = {"enabled": "true", "dir": events.as_uri(), "compress": "false"}
    conf = {f"spark.eventLog.{name}": value for name, value in logged.items()}
    where["ONEFOLD_SPARK_CONF"] = json.dumps(conf | {"spark.executor.memory": "700m"})

    where["AIRFLOW_CONN_SPARK_DEFAULT"] = json.dumps({"conn_type": "spark", "host": master})
    found = probe("run", "logs", "{}", **where)
    pages = probe("pages", "/onefold/", "/onefold/datasets/logs", **where)

    assert (found["state"], found["tasks"]) == ("success", DONE), found["log"][-5000:]
    (event,) = found["events"]
    assert event["extra"]["counts"] == {"applied": {"insert": 2}, "duplicate": {"message_id": 1}}
    assert list(pages["admin"].values()) == [200, 200]
    asked = [
        (request.headers["authorization"], request.headers.get("x-amz-security-token")) for request in store.requests
    ]
    signed = {(words.split("Credential=")[1].split("/")[0], words.split("/")[2], token) for words, token in asked}
    assert signed == {(USER, "eu-central-1", TOKEN)}
    assert {"Boto3" in request.headers["user-agent"] for request in store.requests} == {True, False}, "Spark's own, too"

    arguments = (home / "bin" / "arguments.jsonl").read_text()
    assert [json.loads(line)[-5] for line in arguments.splitlines()] == ["logs"] * 3, "dedup, upsert, gate"
    assert USER not in arguments
    shown = {"log": found["log"] + pages["log"], "xcoms": json.dumps(found["xcoms"], default=str)}
    shutil.copytree(airflow_environ["AIRFLOW_HOME"], home / "airflow")  # its database has the rendered templates
    for file in home.rglob("*"):
        if file.is_file():
            shown[str(file)] = file.read_bytes().decode(errors="replace")
    client = client_of(f"http://{store._target}")
    for entry in client.list_objects_v2(Bucket="lake")["Contents"]:
        shown[entry["Key"]] = client.get_object(Bucket="lake", Key=entry["Key"])["Body"].read().decode(errors="replace")
    assert any("SparkListenerEnvironmentUpdate" in text for text in shown.values()), "what Spark's pages show"
    if master != "local[2]":
        assert any("Executor Command" in text for text in shown.values()), "what an executor is started with"
    assert any('"attempt"' in text for name, text in shown.items() if name.endswith("airflow.db"))
    assert [name for name, text in shown.items() if SECRET in text or TOKEN in text] == []


def test_a_missing_connection_is_named_before_anything_starts_and_not_tried_again(
    probe: Probe, where: dict[str, str | None]
) -> None:
    found = probe("run", "logs", "{}", **where)

    assert found["tasks"]["plan"] == "failed"
    assert "there is no Airflow connection 's3_lake', which s3_connection names" in found["log"]
    assert "AIRFLOW_CONN_S3_LAKE" in found["log"]


def test_a_connection_says_a_login_or_what_is_wrong_with_it(probe: Probe) -> None:
    keys = {"login": USER, "password": SECRET}
    place = {"endpoint_url": "http://s3:7070", "region_name": "eu-central-1"}
    given: list[tuple[dict[str, Any], Any]] = [
        (keys | {"extra": place}, {"aws_access_key_id": USER, "aws_secret_access_key": SECRET, **place}),
        (
            {"extra": {"aws_access_key_id": USER, "aws_secret_access_key": SECRET}},
            {"aws_access_key_id": USER, "aws_secret_access_key": SECRET},
        ),
        ({"extra": place}, place),
        ({}, {}),
        (keys | {"host": "http://s3:7070"}, "it names a host, but an endpoint belongs in its extra"),
        (keys | {"extra": {"role_arn": "arn:…"}}, "role_arn is not of a login to S3, which has aws_access_key_id, "),
        ({"login": USER}, "an access key and its secret key belong together"),
        ({"extra": {"aws_session_token": TOKEN}}, "a session token to both"),
    ]
    connections = [json.dumps({"conn_type": "generic"} | connection) for connection, _ in given]

    found = probe("logins", *connections, ONEFOLD_S3_CONNECTION="s3_lake")["found"]

    for login, (_, wanted) in zip(found, given, strict=True):
        if isinstance(wanted, str):
            assert login.startswith("the Airflow connection 's3_lake', which s3_connection names: ")
            assert wanted in login
            assert SECRET not in login
        else:
            assert login == wanted
