"""How Spark reaches a bucket: as boto3 does, which found its endpoint and region.

Credentials are passed on only where the settings hold them, and in no command line: else Spark looks for them where it
runs, in environment, profile, web identity or the machine's role.
"""

from __future__ import annotations

from onefold.storage.access import S3Access

_CREDENTIALS = "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider"
_KEYS = {
    "aws_access_key_id": "spark.hadoop.fs.s3a.access.key",
    "aws_secret_access_key": "spark.hadoop.fs.s3a.secret.key",
    "aws_session_token": "spark.hadoop.fs.s3a.session.token",
}
"""boto3's names in Spark's for s3a."""
_ALGORITHMS = {"AES256": "AES256", "aws:kms": "SSE-KMS"}
"""S3's words in s3a's."""


def spark_settings(access: S3Access, endpoint: str | None, region: str) -> dict[str, str]:
    """Spark's settings for a bucket; `endpoint` is None where the server is Amazon's."""
    own_server = {
        "spark.hadoop.fs.s3a.endpoint": endpoint,
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.executorEnv.AWS_ENDPOINT_URL": endpoint,
    }
    requests = {
        "encryption.algorithm": _ALGORITHMS.get(access.encryption or ""),
        "encryption.key": access.kms_key,
        "requester.pays.enabled": "true" if access.requester_pays else None,
    }
    return {
        "spark.hadoop.fs.s3a.aws.credentials.provider": _provider(access),
        "spark.hadoop.fs.s3a.endpoint.region": region,
        "spark.executorEnv.AWS_REGION": region,
        "spark.executorEnv.AWS_DEFAULT_REGION": region,
        **{name: value for name, value in own_server.items() if endpoint and value},
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in requests.items() if value},
    }


def spark_secrets(access: S3Access) -> dict[str, str]:
    """Spark's settings that no command line may show: the keys, where a login has them."""
    return {_KEYS[name]: value for name, value in access.login.items() if name in _KEYS}


def _provider(access: S3Access) -> str:
    if "aws_access_key_id" not in access.login:
        return _CREDENTIALS
    kind = "Temporary" if "aws_session_token" in access.login else "Simple"
    return f"org.apache.hadoop.fs.s3a.{kind}AWSCredentialsProvider"
