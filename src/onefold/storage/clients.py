"""How Spark and pyiceberg reach a bucket: as boto3 does, which found its endpoint and region.

Credentials are not passed on: Spark looks for them where it runs, in environment, profile, web identity or the
machine's role.
"""

from __future__ import annotations

from onefold.storage.access import PROPERTY
from onefold.storage.objects import Storage
from onefold.storage.s3 import S3Storage

_CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_FILES = "onefold.storage.iceberg.BucketIO"
_ALGORITHMS = {"AES256": "AES256", "aws:kms": "SSE-KMS"}
"""S3's words in s3a's."""


def s3_of_spark(store: Storage) -> dict[str, str]:
    """Spark's settings for a store: none for a folder."""
    if not isinstance(store, S3Storage):
        return {}
    own = {
        "spark.hadoop.fs.s3a.endpoint": store.endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.executorEnv.AWS_ENDPOINT_URL": store.endpoint,
    }
    access = store.access
    asked = {
        "encryption.algorithm": _ALGORITHMS.get(access.encryption or ""),
        "encryption.key": access.kms_key,
        "requester.pays.enabled": "true" if access.requester_pays else None,
    }
    return {
        "spark.hadoop.fs.s3a.aws.credentials.provider": _CREDENTIALS,
        "spark.hadoop.fs.s3a.endpoint.region": store.region,
        "spark.executorEnv.AWS_REGION": store.region,
        "spark.executorEnv.AWS_DEFAULT_REGION": store.region,
        **{name: value for name, value in own.items() if store.endpoint and value},
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in asked.items() if value},
    }


def s3_of_pyiceberg(store: Storage) -> dict[str, str]:
    """pyiceberg's properties for a store: none for a folder."""
    if not isinstance(store, S3Storage):
        return {}
    return {"py-io-impl": _FILES, PROPERTY: store.access.as_json()}
