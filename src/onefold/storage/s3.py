"""A bucket as a store: conditional writes, server-side copies between buckets of one endpoint."""

from __future__ import annotations

import hashlib
import io
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, BinaryIO, cast
from urllib.parse import urlsplit

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from onefold.catalog import Claims
from onefold.errors import LakeUnavailableError
from onefold.faults import fault_point
from onefold.storage import clients
from onefold.storage.access import S3Access
from onefold.storage.objects import (
    CHUNK,
    ObjectInfo,
    PreconditionFailedError,
    Storage,
    safe_folder,
    safe_key,
    sha256_of,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import ObjectIdentifierTypeDef

WHOLE = 8 << 20
"""Below this size an object is copied in one call; above, in parts."""
PARTS = 4
"""Parts of an upload that are in memory at once, of 8 MB."""
BROKEN = 5
"""How often in a row a download may break without a byte coming."""
CONFLICTS = 6
"""How often a put is tried that meets another put."""
PROBE = "conditional-puts"
"""The key of an empty object by which a store shows whether it keeps conditions."""
_DELETED = 1_000
"""Keys of one request, at most."""


class S3Storage:
    """Objects below `prefix` of `bucket`; credentials and endpoint as boto3 finds them.

    With `claims` they tell who is first, and the store is asked for no conditional put.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        client: S3Client | None = None,
        access: S3Access | None = None,
        claims: Claims | None = None,
    ) -> None:
        self.bucket, self.prefix = bucket, prefix.strip("/")
        self.access = access or S3Access()
        self.client = client or self.access.client()
        self._claims = claims
        self._conditional = self.endpoint is None  # Amazon's is known to keep conditions

    @property
    def uri(self) -> str:
        return f"s3a://{self.bucket}/{self.prefix}".rstrip("/")

    @property
    def folder(self) -> None:
        return None

    @property
    def jar_sets(self) -> tuple[str, ...]:
        return ("s3",)

    @property
    def spark_settings(self) -> dict[str, str]:
        return clients.spark_settings(self.access, self.endpoint, self.region)

    @property
    def spark_secrets(self) -> dict[str, str]:
        return clients.spark_secrets(self.access)

    def path_or_uri(self, key: str) -> str:
        return self.uri_of(key)

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
                return Download(self, key).read()
            except ClientError as error:
                if _code(error) in ("NoSuchKey", "404"):
                    return None
                raise

    def open(self, key: str) -> BinaryIO:
        with self._complaints(key):
            return cast("BinaryIO", Download(self, key))

    def read_range(self, key: str, start: int, end: int) -> bytes:
        if start >= end:
            return b""
        with self._complaints(key):
            try:
                return Download(self, key, start, end).read()
            except ClientError as error:
                if _code(error) in ("InvalidRange", "416"):
                    return b""
                raise

    def write(self, key: str, data: bytes) -> None:
        with self._complaints(key):
            self.client.put_object(Bucket=self.bucket, Key=self._key(key), Body=data)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        if self._claims:
            return self._put_claimed(self._claims, key, data)
        with self._complaints(key):
            self._check_conditional()
            # A put of ours whose answer was lost and that was tried again looks the same.
            return self._put_new(key, data) or self.read(key) == data

    def _put_claimed(self, claims: Claims, key: str, data: bytes) -> bool:
        """Put an object only where there is none, as long as all who put it do it so.

        A claim goes only once an object is there, and is carried out only if none was there after it was made: so
        there are never puts of two claims.
        """
        stored = self.read(key)
        if stored is None:
            place = self.uri_of(key)
            claimed = claims.claim(place, data)
            fault_point("after_claim")
            stored = self.read(key)
            if stored is None:
                self.write(key, claimed)
                fault_point("after_claimed_put")
                stored = claimed
            claims.drop(place)
        return stored == data

    def _put_new(self, key: str, data: bytes) -> bool:
        """Put an object only where there is none.

        Of two puts at once Amazon's may do neither, and answers both that they conflict: then it is asked again.
        """
        for tried in range(CONFLICTS):
            try:
                self.client.put_object(Bucket=self.bucket, Key=self._key(key), Body=data, IfNoneMatch="*")
            except ClientError as error:
                if _code(error) in ("PreconditionFailed", "412"):
                    return False
                if _code(error) not in ("ConditionalRequestConflict", "409") or tried + 1 == CONFLICTS:
                    raise
                time.sleep(random.uniform(0, 0.1 * 2**tried))
            else:
                break
        return True

    def _check_conditional(self) -> None:
        """Once, before anything is put: a store that puts one object twice knows no conditions, and would keep no law.

        Raises:
            LakeUnavailableError: it is such a store.
        """
        if self._conditional:
            return
        try:
            ignored = self._put_new(PROBE, b"") and self._put_new(PROBE, b"")
        except ClientError as error:
            if _code(error) not in ("NotImplemented", "501"):
                raise
            ignored = True
        if ignored:
            problem = (
                "it does not keep If-None-Match: *, so two drivers could each be the first; use a store that does, "
                "or set s3_put_if_absent to catalog (docs/operating.md)"
            )
            raise LakeUnavailableError(f"s3://{self.bucket}", problem)
        self._conditional = True

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
        if self._claims:
            self._claims.drop_below(self.uri_of(folder))
        keys = (self._key(found.key) for found in self.list(safe_folder(folder)))
        while page := list(islice(keys, _DELETED)):
            with self._complaints(folder):
                objects: list[ObjectIdentifierTypeDef] = [{"Key": key} for key in page]
                answer = self.client.delete_objects(Bucket=self.bucket, Delete={"Objects": objects, "Quiet": True})
            for error in answer.get("Errors", []):
                place = f"s3://{self.bucket}/{error.get('Key')}"
                raise LakeUnavailableError(place, f"it could not be removed: {error.get('Message')}")

    def remove(self, key: str) -> None:
        if self._claims:  # a claim that was left behind would bring the object back
            self._claims.drop(self.uri_of(key))
        with self._complaints(key):
            self.client.delete_object(Bucket=self.bucket, Key=self._key(key))

    def digest(self, key: str) -> str:
        with self._complaints(key), self.open(key) as body:
            return sha256_of(body)[0]

    def copy_from(self, source: Storage, info: ObjectInfo, key: str) -> str:
        with self._complaints(key):
            if isinstance(source, S3Storage) and source._endpoint == self._endpoint:
                self._copy_on_server(source, info, key)
                sent = None
            else:
                sent = self._send(source, info, key)
            with self.open(key) as landed:  # what was landed is read back, so the digest is of what is there
                digest, size = sha256_of(landed)
            if size != info.size:
                raise PreconditionFailedError(info.key)
            if sent and digest != sent:
                raise LakeUnavailableError(f"s3://{self.bucket}/{self._key(key)}", "it does not hold what was sent")
            return digest

    def _send(self, source: Storage, info: ObjectInfo, key: str) -> str:
        """Upload an object of another store; the SHA-256 of what was read there."""
        with source.open(info.key) as body:
            sent = Hashed(body)
            config = TransferConfig(multipart_threshold=WHOLE)
            config.max_in_memory_upload_chunks = PARTS
            self.client.upload_fileobj(cast("BinaryIO", sent), self.bucket, self._key(key), Config=config)
        now = source.stat(info.key)
        if now is None or now.etag != info.etag:
            raise PreconditionFailedError(info.key)
        return sent.digest.hexdigest()

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


class Hashed(io.RawIOBase):
    """A stream that is read once and in order, and the digest of what was read."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream, self.digest = stream, hashlib.sha256()

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes, or fewer."""
        data = self._stream.read(size)
        self.digest.update(data)
        return data


class Download(io.RawIOBase):
    """The bytes `[start, end)` of one object, as they come: boto3 does not try again once an answer has begun.

    Where the connection breaks or falls silent, the rest of the same object is asked for, by its entity tag.
    """

    def __init__(self, store: S3Storage, key: str, start: int = 0, end: int | None = None) -> None:
        self._store, self._key, self._at = store, key, start
        wanted: Any = {} if end is None else {"Range": f"bytes={start}-{end - 1}"}
        self._answer = store.client.get_object(Bucket=store.bucket, Key=store._key(key), **wanted)
        self._end = start + self._answer["ContentLength"]

    def readable(self) -> bool:
        """It can be read, once and in order."""
        return True

    def read(self, size: int = -1) -> bytes:
        """So many bytes, or fewer; all of them without a size; none at the end.

        Raises:
            LakeUnavailableError: the connection broke time and again, or another object lies there now.
        """
        if size < 0:
            return b"".join(iter(lambda: self.read(CHUNK), b""))
        size = min(size, self._end - self._at)
        with self._store._complaints(self._key):
            for left in reversed(range(BROKEN)):
                try:
                    data = self._answer["Body"].read(size) if size else b""
                except (ResponseStreamingError, ReadTimeoutError, IncompleteReadError):
                    if not left:
                        raise
                    self._go_on()
                else:
                    self._at += len(data)
                    break
        return data

    def close(self) -> None:
        """Let go of the connection."""
        self._answer["Body"].close()
        super().close()

    def _go_on(self) -> None:
        """Ask for what has not come."""
        self._answer["Body"].close()
        self._answer = self._store.client.get_object(
            Bucket=self._store.bucket,
            Key=self._store._key(self._key),
            Range=f"bytes={self._at}-{self._end - 1}",
            IfMatch=self._answer["ETag"],
        )


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
