"""What a store of objects can do, whatever it is made of."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Protocol

from onefold.storage.access import S3Access

CHUNK = 1 << 20
"""Bytes that are held at once."""


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """One listed object: its key, bytes, entity tag (none: it is a link to nothing) and when it was last changed (UTC).

    Its key is its writer's choice: it may be a key that this store refuses (`unreachable`).
    """

    key: str
    size: int
    etag: str
    modified: datetime

    @property
    def unreachable(self) -> str:
        """Why it cannot be read or written down under its key; nothing: it can."""
        if not self.etag:
            return "a link to nothing"
        try:
            safe_key(self.key).encode()
        except UnicodeEncodeError:
            return "a name that is not UTF-8"
        except ValueError:
            return "a name that begins with a slash, climbs, or holds a backslash"
        return ""

    @property
    def shown(self) -> str:
        """The key, as text that can be written down."""
        return self.key.encode(errors="backslashreplace").decode()


class Storage(Protocol):
    """A tree of immutable objects under one root; keys are relative and cannot leave it."""

    @property
    def uri(self) -> str:
        """The root, as people and Spark name it."""
        ...

    @property
    def folder(self) -> Path | None:
        """The root as a folder of this host; None: it lies elsewhere."""
        ...

    @property
    def access(self) -> S3Access | None:
        """How its bucket is reached; None: it is no bucket."""
        ...

    @property
    def jar_sets(self) -> tuple[str, ...]:
        """The sets of jars that Spark needs to reach it (`onefold.spark.jars`)."""
        ...

    @property
    def spark_settings(self) -> dict[str, str]:
        """The settings by which Spark reaches it, without secrets."""
        ...

    @property
    def spark_secrets(self) -> dict[str, str]:
        """Spark's settings that no command line may show: its keys, where a login has them."""
        ...

    def path_or_uri(self, key: str) -> str:
        """The object as a person opens it: a path, or an s3a:// URI."""
        ...

    def uri_of(self, key: str) -> str:
        """Where Spark reads the object."""
        ...

    def read(self, key: str) -> bytes | None:
        """The object's bytes, or None where there is none."""
        ...

    def open(self, key: str) -> BinaryIO:
        """A stream of the object's bytes."""
        ...

    def read_range(self, key: str, start: int, end: int) -> bytes:
        """The bytes `[start, end)` of an object; fewer where it ends before."""
        ...

    def write(self, key: str, data: bytes) -> None:
        """Put an object, whole or not at all, over what was there."""
        ...

    def put_if_absent(self, key: str, data: bytes) -> bool:
        """Put an object only where there is none; False: another writer was first."""
        ...

    def stat(self, key: str) -> ObjectInfo | None:
        """What a listing would say of the object, or None."""
        ...

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        """Every object below a prefix, by key."""
        ...

    def remove_below(self, folder: str) -> None:
        """Remove every object below a folder, `a/b/`; there may be none."""
        ...

    def remove(self, key: str) -> None:
        """Remove one object; there may be none."""
        ...

    def digest(self, key: str) -> str:
        """The SHA-256 of an object's bytes, as hex."""
        ...

    def copy_from(self, source: Storage, info: ObjectInfo, key: str) -> str:
        """Copy `info` of `source` to `key`, unchanged; its SHA-256 as hex.

        Raises:
            PreconditionFailedError: the source object is not as `info` describes it any more.
        """
        ...


class Seekable(io.RawIOBase):
    """An object as a file whose parts are read where they are asked for."""

    def __init__(self, store: Storage, key: str, size: int) -> None:
        self._store, self._key, self._size, self._at = store, key, size, 0

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """Any part of it."""
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place; where that is, from the start."""
        self._at = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        """The place, from the start."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """So many bytes from the place on; fewer at the end."""
        end = self._size if size < 0 else min(self._size, self._at + size)
        data = self._store.read_range(self._key, self._at, end) if self._at < end else b""
        self._at += len(data)
        return data


class PreconditionFailedError(Exception):
    """The object is not what the caller pinned."""


def sha256_of(stream: BinaryIO) -> tuple[str, int]:
    """The SHA-256 of what a stream holds, as hex, and its size."""
    digest, size = hashlib.sha256(), 0
    while chunk := stream.read(CHUNK):
        digest.update(chunk)
        size += len(chunk)
    return digest.hexdigest(), size


def safe_folder(folder: str) -> str:
    """The folder, if it can be removed: below the root, and not the root.

    Raises:
        ValueError: it leaves the root, or does not end in a slash.
    """
    if not folder.strip("/") or not folder.endswith("/"):
        raise ValueError(f"{folder!r} is no folder below the root")
    return safe_key(folder)


def safe_key(key: str) -> str:
    """The key, if it stays below the root.

    Raises:
        ValueError: it is absolute, or climbs.
    """
    path = PurePosixPath(key)
    if path.is_absolute() or ".." in path.parts or "\\" in key or "\0" in key:
        raise ValueError(f"{key!r} leaves its root")
    return key
