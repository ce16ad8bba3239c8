"""Objects in a folder or a bucket: the only room that knows boto3."""

from onefold.catalog.claims import Claims
from onefold.storage.access import S3Access
from onefold.storage.clients import s3_of_pyiceberg, s3_of_spark, s3_secrets
from onefold.storage.local import LocalStorage
from onefold.storage.objects import ObjectInfo, Storage, safe_key
from onefold.storage.open import open_storage
from onefold.storage.s3 import S3Storage

__all__ = [
    "Claims",
    "LocalStorage",
    "ObjectInfo",
    "S3Access",
    "S3Storage",
    "Storage",
    "open_storage",
    "s3_of_pyiceberg",
    "s3_of_spark",
    "s3_secrets",
    "safe_key",
]
