"""From a place as people write it to a store."""

from __future__ import annotations

from pathlib import Path

from onefold.catalog import Claims
from onefold.errors import UsageError
from onefold.storage.access import S3Access
from onefold.storage.local import PRIVATE, LocalStorage
from onefold.storage.objects import Storage
from onefold.storage.s3 import S3Storage


def open_storage(
    place: str, access: S3Access | None = None, claims: Claims | None = None, umask: int = PRIVATE
) -> Storage:
    """The store at a folder, or at s3://bucket/prefix (s3a:// is the same), which is reached by `access`.

    With `claims` these decide who puts an object first, in place of the bucket. New files of a folder have no bit of
    `umask`.

    Raises:
        UsageError: another kind of place.
    """
    scheme, found, rest = place.partition("://")
    bucket, _, prefix = rest.partition("/")
    if scheme in ("s3", "s3a") and bucket:
        return S3Storage(bucket, prefix, access=access, claims=claims)
    if not found or scheme == "file":  # a path as it is: # and ? are letters of a folder's name
        return LocalStorage(Path(rest if found else place), umask)
    raise UsageError(f"{place}: neither a folder nor s3://bucket/prefix")
