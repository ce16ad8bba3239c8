"""How Spark and pyiceberg reach a bucket: as boto3 does, which found its endpoint and region.

Credentials are passed on only where the settings hold them, and late: else Spark looks for them where it runs, in
environment, profile, web identity or the machine's role.
"""

from __future__ import annotations

from onefold.storage.access import PROPERTY, S3Access
from onefold.storage.objects import Storage
from onefold.storage.s3 import S3Storage

_CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_KEYS = {
    "aws_access_key_id": "fs.s3a.access.key",
    "aws_secret_access_key": "fs.s3a.secret.key",
    "aws_session_token": "fs.s3a.session.token",
}
"""boto3's names in s3a's."""
_FILES = "onefold.iceberg.bucket_files.BucketIO"
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
        "spark.hadoop.fs.s3a.aws.credentials.provider": _provider(access),
        "spark.hadoop.fs.s3a.endpoint.region": store.region,
        "spark.executorEnv.AWS_REGION": store.region,
        "spark.executorEnv.AWS_DEFAULT_REGION": store.region,
        **{name: value for name, value in own.items() if store.endpoint and value},
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in asked.items() if value},
    }


def s3_secrets(store: Storage) -> dict[str, str]:
    """Hadoop's settings for a store that no command line may show: the keys, where a login has them."""
    login = store.access.login if isinstance(store, S3Storage) else {}
    return {_KEYS[name]: value for name, value in login.items() if name in _KEYS}


def _provider(access: S3Access) -> str:
    if "aws_access_key_id" not in access.login:
        return _CREDENTIALS
    kind = "Temporary" if "aws_session_token" in access.login else "Simple"
    return f"org.apache.hadoop.fs.s3a.{kind}AWSCredentialsProvider"


def s3_of_pyiceberg(store: Storage) -> dict[str, str]:
    """pyiceberg's properties for a store: none for a folder."""
    if not isinstance(store, S3Storage):
        return {}
    return {"py-io-impl": _FILES, PROPERTY: store.access.as_json()}
