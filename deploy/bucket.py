"""Create the lake's bucket if there is none, and the users of its roles: `python deploy/bucket.py BUCKET`.

Each role of `ROLES` is a file of `deploy/s3`. Its user has the access key and the secret key of the variables
`S3_<ROLE>_ACCESS_KEY` and `S3_<ROLE>_SECRET_KEY`. The statements about the bucket become the bucket's policy.
"""

import json
import os
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import boto3
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest

ROLES = ("steps", "operator", "pages")
FOLDER = Path(__file__).parent / "s3"
EXISTS = 409


def policy_of(bucket: str, users: dict[str, str]) -> dict[str, Any]:
    """The bucket's policy: each role's statements about the bucket, for the access key of its user."""
    statements = []
    for role, user in users.items():
        for statement in json.loads((FOLDER / f"{role}.json").read_text())["Statement"]:
            if all(place.partition("/")[0] == f"arn:aws:s3:::{bucket}" for place in statement["Resource"]):
                named = {"Sid": f"{role.title()}{statement['Sid']}", "Principal": {"AWS": [user]}}
                statements.append({**statement, **named})
    return {"Version": "2012-10-17", "Statement": statements}


def create_user(store: Any, user: str, secret: str) -> None:
    """Create a user of versitygw, whose permissions come from policies. An existing user gets the secret."""
    given = f"<Secret>{escape(secret)}</Secret><Role>user</Role>"
    try:
        _ask(store, "create-user", f"<Account><Access>{escape(user)}</Access>{given}</Account>")
    except urllib.error.HTTPError as error:
        if error.code != EXISTS:
            raise
        _ask(store, f"update-user?access={user}", f"<MutableProps>{given}</MutableProps>")


def _ask(store: Any, path: str, body: str) -> None:
    url = f"{store.meta.endpoint_url}/{path}"
    request = AWSRequest("PATCH", url, data=body.encode())
    S3SigV4Auth(boto3.Session().get_credentials(), "s3", store.meta.region_name).add_auth(request)
    prepared = request.prepare()
    asked = urllib.request.Request(url, prepared.body, dict(prepared.headers), method="PATCH")
    urllib.request.urlopen(asked, timeout=30).close()


def main(bucket: str) -> None:
    """Create bucket, users and policy."""
    store = boto3.client("s3")
    with suppress(store.exceptions.BucketAlreadyOwnedByYou, store.exceptions.BucketAlreadyExists):
        store.create_bucket(Bucket=bucket)
    print(f"bucket {bucket} at {os.environ['AWS_ENDPOINT_URL']}")
    server = store.head_bucket(Bucket=bucket)["ResponseMetadata"]["HTTPHeaders"].get("server", "")
    if "versity" not in server.lower():
        print(f"no users: {server} is not versitygw, and every service has all rights")
        return
    users = {role: os.environ[f"S3_{role.upper()}_ACCESS_KEY"] for role in ROLES}
    for role, user in users.items():
        create_user(store, user, os.environ[f"S3_{role.upper()}_SECRET_KEY"])
    store.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy_of(bucket, users)))
    print(f"users of {', '.join(ROLES)}, by the bucket's policy")


if __name__ == "__main__":
    main(sys.argv[1])
