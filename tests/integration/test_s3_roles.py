"""S10: what each role may do in the bucket, by the policies of `deploy/s3`, on the S3 server of the compose file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from deploy.bucket import ROLES
from tests.support.project import PROJECT
from tests.support.s3_servers import environment, versitygw

pytestmark = pytest.mark.s3
KEPT = ("decisions/b_1/0001-release.json", "erasures/e.json", "forgotten/b_1/a_1.json", "g_1/records/a_1.json")
"""Documents of a dataset that no role deletes."""
DECISIONS = KEPT[:2]
AGED = ("warehouse/t/data/0.parquet", "sources/s/landed/b_1/a_1/0", "datasets/d/results/b_1/a_1-gate.json")
"""What ages, and is deleted by steps and operators."""
ATTEMPT = "datasets/d/g_1/batches/b_1/attempts/a_1/upsert.json"
PLAN = "sources/s/plans/b_1.json"
OBJECTS = (*(f"datasets/d/{name}" for name in KEPT), *AGED, ATTEMPT, PLAN)


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A client of each role, and of the administrator, who has put every object."""
    with versitygw(tmp_path_factory.mktemp("users")) as address:
        given = environment(address)
        for role in ROLES:
            given |= {f"S3_{role.upper()}_ACCESS_KEY": f"user-{role}", f"S3_{role.upper()}_SECRET_KEY": "earlier"}
        for secret in ("earlier", "now"):  # a second start with another secret
            given |= {name: secret for name in given if name.startswith("S3_") and "SECRET" in name}
            words = [sys.executable, str(PROJECT / "deploy" / "bucket.py"), "lake"]
            subprocess.run(words, env=os.environ | given, check=True)
        admin = client_of(given["AWS_ACCESS_KEY_ID"], given["AWS_SECRET_ACCESS_KEY"], address)
        for name in OBJECTS:
            admin.put_object(Bucket="lake", Key=f"onefold/{name}", Body=b"1")
        admin.put_object(Bucket="lake", Key="other/a", Body=b"1")
        yield {"admin": admin, **{role: client_of(f"user-{role}", "now", address) for role in ROLES}}


def client_of(key: str, secret: str, address: str) -> Any:
    login = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": "us-east-1"}
    return boto3.client("s3", endpoint_url=address, **login)


def allowed(client: Any, action: str, *names: str) -> list[str]:
    """The names, below the lake, of which an action is allowed; it changes nothing that counts here."""
    done = []
    for name in names:
        where = {"Bucket": "lake", "Key": f"onefold/{name}"}
        try:
            getattr(client, f"{action}_object")(**where, **({"Body": b"1"} if action == "put" else {}))
        except ClientError as error:
            if error.response["Error"]["Code"] != "AccessDenied":
                raise
        else:
            done.append(name)
    return done


@pytest.mark.parametrize("role", ROLES)
def test_s10_no_role_deletes_decisions_records_or_plans(clients: dict[str, Any], role: str) -> None:
    kept = (*(f"datasets/d/{name}" for name in KEPT), PLAN)
    assert allowed(clients[role], "get", *kept) == [*kept]
    assert allowed(clients[role], "delete", *kept) == []
    many = {"Objects": [{"Key": f"onefold/{name}"} for name in kept]}
    refused = clients[role].delete_objects(Bucket="lake", Delete=many).get("Errors", [])
    assert [error["Code"] for error in refused] == ["AccessDenied"] * len(kept)
    assert allowed(clients["admin"], "get", *kept) == [*kept]


def test_s10_the_pages_only_read_the_lake(clients: dict[str, Any]) -> None:
    pages = clients["pages"]
    assert allowed(pages, "get", *OBJECTS) == [*OBJECTS]
    assert allowed(pages, "put", *OBJECTS, "histories/d.json") == []
    assert allowed(pages, "delete", *OBJECTS) == []
    assert pages.list_objects_v2(Bucket="lake", Prefix="onefold/")["KeyCount"] == len(OBJECTS)


def test_s10_steps_write_and_delete_what_ages_and_decide_nothing(clients: dict[str, Any]) -> None:
    decisions = [f"datasets/d/{name}" for name in DECISIONS]
    others = [name for name in OBJECTS if name not in decisions]
    assert allowed(clients["steps"], "put", *OBJECTS) == others
    assert allowed(clients["steps"], "delete", *AGED, ATTEMPT) == [*AGED]
    assert allowed(clients["admin"], "put", *AGED) == [*AGED]


def test_s10_an_operator_also_decides_and_takes_attempts_back(clients: dict[str, Any]) -> None:
    assert allowed(clients["operator"], "put", *OBJECTS) == [*OBJECTS]
    assert allowed(clients["operator"], "delete", *AGED, ATTEMPT) == [*AGED, ATTEMPT]
    assert allowed(clients["admin"], "put", *AGED, ATTEMPT) == [*AGED, ATTEMPT]


@pytest.mark.parametrize("role", ROLES)
def test_s10_no_role_reaches_anything_else(clients: dict[str, Any], role: str) -> None:
    client = clients[role]
    for ask in (
        lambda: client.get_object(Bucket="lake", Key="other/a"),
        lambda: client.list_objects_v2(Bucket="lake", Prefix="other/"),
        lambda: client.put_bucket_policy(Bucket="lake", Policy=json.dumps({"Version": "2012-10-17", "Statement": []})),
        lambda: client.delete_bucket(Bucket="lake"),
        lambda: client.create_bucket(Bucket="another"),
    ):
        with pytest.raises(ClientError) as refused:
            ask()
        assert refused.value.response["Error"]["Code"] == "AccessDenied"


def test_s10_roles_have_statements_of_their_files_only() -> None:
    folder = PROJECT / "deploy" / "s3"
    assert {file.stem for file in folder.glob("*.json")} == set(ROLES)
    for role in ROLES:
        for statement in json.loads(Path(folder / f"{role}.json").read_text())["Statement"]:
            assert not any("*" in action for action in statement["Action"])
