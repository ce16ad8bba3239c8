"""A bucket as a store: conditional writes, server-side copies between buckets of one endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from onefold.errors import LakeUnavailableError
from onefold.storage.objects import ObjectInfo, PreconditionFailedError, Storage, safe_folder, safe_key, sha256_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

WHOLE = 8 << 20
"""Below this size an object is copied in one call; above, in parts."""
_DELETED = 1_000
"""Keys of one request, at most."""


class S3Storage:
    """Objects below `prefix` of `bucket`; credentials and endpoint as boto3 finds them."""

    def __init__(self, bucket: str, prefix: str = "", client: S3Client | None = None) -> None:
        self.bucket, self.prefix = bucket, prefix.strip("/")
        retries: Any = {"max_attempts": 8, "mode": "adaptive"}
        self.client = client or boto3.client("s3", config=Config(retries=retries))

    @property
    def uri(self) -> str:
        return f"s3a://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def endpoint(self) -> str | None:
        """The server's URL, where it is not Amazon's."""
        host = urlsplit(self._endpoint).hostname or ""
        return None if host.endswith((".amazonaws.com", ".amazonaws.com.cn")) else self._endpoint

    @property
    def region(self) -> str:
        """The region that requests are signed for."""
        found = self.client.meta.region_name
        return found if found and found != "aws-global" else "us-east-1"

    def uri_of(self, key: str) -> str:
        return f"s3a://{self.bucket}/{self._key(key)}"

    def read(self, key: str) -> bytes | None:
        with self._complaints(key):
            try:
                return self.client.get_object(Bucket=self.bucket, Key=self._key(key))["Body"].read()
            except ClientError as error:
                if _code(error) in ("NoSuchKey", "404"):
                    return None
                raise

    def open(self, key: str) -> BinaryIO:
        with self._complaints(key):
            body = self.client.get_object(Bucket=self.bucket, Key=self._key(key))["Body"]
            return cast("BinaryIO", body)

    def read_range(self, key: str, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        with self._complaints(key):
            wanted = f"bytes={start}-{end - 1}"
            try:
                return self.client.get_object(Bucket=self.bucket, Key=self._key(key), Range=wanted)["Body"].read()
            except ClientError as error:
                if _code(error) in ("InvalidRange", "416"):
                    return b""
                raise

    def write(self, key: str, data: bytes) -> None:
        with self._complaints(key):
            self.client.put_object(Bucket=self.bucket, Key=self._key(key), Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._complaints(key):
            try:
                self.client.put_object(Bucket=self.bucket, Key=self._key(key), Body=data, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) in ("PreconditionFailed", "412"):
                    # A put of ours whose answer was lost and that was tried again looks the same.
                    return self.read(key) == data
                raise
            return True

    def stat(self, key: str) -> ObjectInfo | None:
        with self._complaints(key):
            try:
                head = self.client.head_object(Bucket=self.bucket, Key=self._key(key))
            except ClientError as error:
                if _code(error) in ("NoSuchKey", "404"):
                    return None
                raise
            return ObjectInfo(key, head["ContentLength"], head["ETag"].strip('"'), head["LastModified"])

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        with self._complaints(prefix):
            pages = self.client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self.bucket, Prefix=self._key(prefix)):
                for found in page.get("Contents", []):
                    key = found["Key"][len(self.prefix) + 1 :] if self.prefix else found["Key"]
                    if not key.endswith("/"):
                        yield ObjectInfo(key, found["Size"], found["ETag"].strip('"'), found["LastModified"])

    def remove_below(self, folder: str) -> None:
        keys = (self._key(found.key) for found in self.list(safe_folder(folder)))
        while page := list(islice(keys, _DELETED)):
            with self._complaints(folder):
                objects: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in page]
                told = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})
            for error in told.get("Errors", []):
                place = f"s3://{self.bucket}/{error.get('Key')}"
                raise LakeUnavailableError(place, f"it could not be removed: {error.get('Message')}")

    def digest(self, key: str) -> str:
        with self._complaints(key), self.open(key) as body:
            return sha256_of(body)[0]

    def copy_from(self, source: Storage, info: ObjectInfo, key: str) -> str:
        with self._complaints(key):
            if isinstance(source, S3Storage) and source._endpoint == self._endpoint:
                self._copy_on_server(source, info, key)
            else:
                with source.open(info.key) as body:
                    config = TransferConfig(multipart_threshold=WHOLE)
                    self.client.upload_fileobj(body, self.bucket, self._key(key), Config=config)
                now = source.stat(info.key)
                if now is None or now.etag != info.etag:
                    raise PreconditionFailedError(info.key)
            with self.open(key) as landed:  # what was landed is read back, so the digest is of what is there
                digest, size = sha256_of(landed)
            if size != info.size:
                raise PreconditionFailedError(info.key)
            return digest

    def _copy_on_server(self, source: S3Storage, info: ObjectInfo, key: str) -> None:
        try:
            self.client.copy(
                {"Bucket": source.bucket, "Key": source._key(info.key)},
                self.bucket,
                self._key(key),
                ExtraArgs={"CopySourceIfMatch": f'"{info.etag}"'},  # an entity tag is quoted on the wire
                Config=TransferConfig(multipart_threshold=WHOLE),
            )
        except ClientError as error:
            if _code(error) in ("PreconditionFailed", "412", "NoSuchKey", "404"):
                raise PreconditionFailedError(info.key) from error
            raise

    @property
    def _endpoint(self) -> str:
        return self.client.meta.endpoint_url

    def _key(self, key: str) -> str:
        return f"{self.prefix}/{safe_key(key)}".lstrip("/")

    @contextmanager
    def _complaints(self, key: str) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as error:
            raise LakeUnavailableError(f"s3://{self.bucket}/{self._key(key)}", str(error)) from error


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
