"""What every client asks of S3 on a batch's whole way: boto3, pyiceberg, Spark and the Python of its workers.

Over TLS, with an authority that only the settings name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import boto3
import pytest

from onefold.lake import Lake
from onefold.settings import Settings
from onefold.storage import LocalStorage, S3Storage
from onefold.storage.s3 import WHOLE
from tests.support.batches import Export, values
from tests.support.certificates import certificate_in
from tests.support.cluster import Cluster
from tests.support.jvm import short_lived
from tests.support.project import PROJECT, THINGS, Project, thing
from tests.support.s3_faults import Faulty, Request
from tests.support.s3_servers import environment, moto

pytestmark = [pytest.mark.s3, pytest.mark.process]
KEY = "arn:aws:kms:eu-west-1:123456789012:key/onefold"
LAKE = "s3a://lake/onefold"
LOGS = THINGS.replace("things", "logs").replace("kcat", "segments")
POLICY = json.loads((PROJECT / "deploy" / "s3" / "steps.json").read_text())["Statement"]
"""Of the role that runs batches."""
Asked = tuple[str, str, str | None]
"""An action, of what, and the prefix that a listing names"""


@pytest.fixture(
    scope="module",
    params=[pytest.param(addressing, marks=pytest.mark.nightly) for addressing in ("one host", "cluster")],
)
def requests(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Request]]:
    """All that was asked while batches of two layouts were run, a table was tidied and large objects were landed."""
    home = tmp_path_factory.mktemp("home")
    project = Project(home)
    project.write_dataset("logs", LOGS)
    project.put("things/0.jsonl", [thing(0, "a"), thing(1, "b"), thing(1, "b")])
    segments = Export(home / "exports" / "logs")
    segments.write(0, values(0, '{"id": "a", "n": 1}', '{"id": "b", "n": 2}'))
    authority, certificate = certificate_in(home)
    own = {"s3_encryption": "aws:kms", "s3_kms_key": KEY, "s3_requester_pays": True, "s3_ca_bundle": str(authority)}
    with moto() as address, pytest.MonkeyPatch.context() as patch:
        for name, value in environment(address).items():
            patch.setenv(name, value)
        store = boto3.client("s3")
        for bucket in ("lake", "exports"):
            store.create_bucket(Bucket=bucket)
        for file in (home / "exports").rglob("*.*"):
            store.upload_file(str(file), "exports", f"topics/{file.relative_to(home / 'exports')}")
        store.put_object(Bucket="exports", Key="topics/large", Body=b"x" * (WHOLE + 1))
        with Faulty(address, certificate) as proxy:
            patch.setenv("AWS_ENDPOINT_URL", proxy.address)
            if request.param == "cluster":
                with Cluster(home) as cluster:
                    conf = json.dumps({"spark.executor.memory": "700m", "spark.ui.enabled": "false"})
                    run(home, own | {"spark_master": cluster.master, "spark_conf": conf})
            else:
                run(home, own)
            land_large(Lake(Settings.model_validate({"home": home, "lake": LAKE, **own})), home)
            yield proxy.requests


def run(home: Path, own: dict[str, Any]) -> None:
    settings = {f"ONEFOLD_{name.upper()}": str(value) for name, value in own.items()}
    settings |= {"ONEFOLD_HOME": str(home), "ONEFOLD_LAKE": LAKE, "ONEFOLD_CATALOG": f"sqlite:///{home}/catalog.db"}
    settings["ONEFOLD_JARS"] = str(PROJECT / ".jars")
    settings["ONEFOLD_EXPORTS_BELOW"] = json.dumps(["s3://exports/topics"])
    words = ["things=s3://exports/topics/things/", "logs=s3://exports/topics/logs/", "maintain=things"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.arrivals", *words],
        cwd=PROJECT,
        env=os.environ | short_lived() | settings,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    things, logs, _ = (json.loads(line) for line in done.stdout.splitlines())
    assert [things["red"], logs["red"]] == [None, None]


def land_large(lake: Lake, scratch: Path) -> None:
    """In parts: from the other bucket, and from a folder."""
    assert isinstance(lake.storage, S3Storage)
    export, folder = lake.store_at("s3://exports/topics"), LocalStorage(scratch / "large")
    folder.write("large", b"x" * (WHOLE + 1))
    for source, name in ((export, "copied"), (folder, "sent")):
        found = source.stat("large")
        assert found
        lake.storage.copy_from(source, found, name)
    lake.storage.write("warehouse/folder/a", b"")
    lake.storage.remove_below("warehouse/folder/")


def client_of(request: Request) -> str:
    return "boto3" if "Boto3" in request.headers["user-agent"] else "Spark"


def test_every_object_is_written_with_the_encryption_asked_for(requests: list[Request]) -> None:
    """Parts of an object are as its upload was begun."""
    wanted = {"x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": KEY}
    begun = [
        request
        for request in requests
        if request.method in ("PUT", "POST") and not {"uploadId", "delete"} & set(request.query)
    ]
    assert [request for request in begun if not wanted.items() <= request.headers.items()] == []
    ways = {(client_of(request), request.method, "x-amz-copy-source" in request.headers) for request in begun}
    assert ways == {
        *(("boto3", "PUT", False), ("boto3", "PUT", True), ("boto3", "POST", False)),  # put, copy, begin in parts
        ("Spark", "PUT", False),
    }


def test_every_request_says_who_pays(requests: list[Request]) -> None:
    assert [request for request in requests if request.headers.get("x-amz-request-payer") != "requester"] == []
    assert {(request.method, bool(request.key)) for request in requests if request.bucket == "exports"} == {
        ("HEAD", True),
        ("GET", False),
    }


def test_the_policy_allows_what_was_asked_and_little_more(requests: list[Request]) -> None:
    asked = {asked_for for request in requests for asked_for in actions(request)}
    assert {asked_for for asked_for in asked if not allowed(POLICY, *asked_for)} == set()
    for number, statement in enumerate(POLICY):
        if statement["Effect"] == "Deny":
            continue
        less = [*POLICY[:number], *POLICY[number + 1 :]]
        for action in statement["Action"]:
            if action.startswith("s3:") and action != "s3:AbortMultipartUpload":  # asked when one fails
                rest = {**statement, "Action": [other for other in statement["Action"] if other != action]}
                assert not all(allowed([*less, rest], *asked_for) for asked_for in asked), (
                    f"{statement['Sid']}: {action} is idle"
                )


def actions(request: Request) -> Iterator[Asked]:
    """What a request needs the right to. Only a client that may list learns that an object is not there."""
    bucket = f"arn:aws:s3:::{request.bucket}"
    resource = f"{bucket}/{request.key}"
    query = set(request.query)
    match request.method:
        case "GET" if not request.key and "list-type" in query:
            yield "s3:ListBucket", bucket, request.query.get("prefix", "")
        case "GET" | "HEAD" if request.key and not query:
            yield from (("s3:GetObject", resource, None), ("s3:ListBucket", bucket, None))
        case "PUT" | "POST" if request.key and query <= {"uploads", "uploadId", "partNumber"}:
            yield "s3:PutObject", resource, None
            if source := request.headers.get("x-amz-copy-source"):
                yield "s3:GetObject", f"arn:aws:s3:::{source.lstrip('/')}", None
        case "DELETE" if request.key and not query:
            yield "s3:DeleteObject", resource, None
        case "DELETE" if query == {"uploadId"}:
            yield "s3:AbortMultipartUpload", resource, None
        case "POST" if query == {"delete"}:
            for key in request.body.decode().split("<Key>")[1:]:
                yield "s3:DeleteObject", f"{bucket}/{key.partition('</Key>')[0]}", None
        case _:
            yield f"unknown: {request}", resource, None


def allowed(policy: Iterable[dict[str, Any]], action: str, resource: str, prefix: str | None) -> bool:
    effects = set()
    for statement in policy:
        if action in statement["Action"] and any(fnmatchcase(resource, place) for place in statement["Resource"]):
            only = statement.get("Condition", {}).get("StringLikeIfExists", {}).get("s3:prefix", "*")
            if prefix is None or fnmatchcase(prefix, only):
                effects.add(statement["Effect"])
    return effects == {"Allow"}
