"""Objects in a folder or a bucket: the only package that imports boto3."""

from onefold.storage.access import S3Access
from onefold.storage.local import LocalStorage, make_folder
from onefold.storage.objects import ObjectInfo, Storage, safe_key
from onefold.storage.open import open_storage
from onefold.storage.s3 import S3Storage

__all__ = [
    "LocalStorage",
    "ObjectInfo",
    "S3Access",
    "S3Storage",
    "Storage",
    "make_folder",
    "open_storage",
    "safe_key",
]
