"""How Spark and pyiceberg reach a bucket: its endpoint and region as boto3 found them. Credentials are not passed on.

Each of them looks for credentials as boto3 does, where it runs: environment, profile, web identity, the machine's role.
"""

from __future__ import annotations

from onefold.storage.objects import Storage
from onefold.storage.s3 import S3Storage

_CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"


def s3_of_spark(store: Storage) -> dict[str, str]:
    """Spark's settings for a store: none for a folder."""
    if not isinstance(store, S3Storage):
        return {}
    own = {
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.executorEnv.AWS_ENDPOINT_URL": store.endpoint,
    }
    return {
        "spark.hadoop.fs.s3a.aws.credentials.provider": _CREDENTIALS,
        "spark.hadoop.fs.s3a.endpoint.region": store.region,
        "spark.executorEnv.AWS_REGION": store.region,
        "spark.executorEnv.AWS_DEFAULT_REGION": store.region,
        **{name: value for name, value in own.items() if store.endpoint and value},
    }


def s3_of_pyiceberg(store: Storage) -> dict[str, str]:
    """pyiceberg's properties for a store: none for a folder."""
    if not isinstance(store, S3Storage):
        return {}
    return {"s3.region": store.region} | ({"s3.endpoint": store.endpoint} if store.endpoint else {})
