"""A folder as a store: atomic by rename, put-if-absent by hard link."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from onefold.errors import LakeUnavailableError
from onefold.storage.objects import (
    CHUNK,
    ObjectInfo,
    PreconditionFailedError,
    Storage,
    safe_folder,
    safe_key,
    sha256_of,
)

PRIVATE = 0o077
"""The bits of files that only their owner opens."""


class LocalStorage:
    """Objects as files below `root`. Its files and folders have no bit of `umask`, whatever the process's own is.

    Where the group may write, new folders hand their group down: the writers' own groups may be others.
    """

    def __init__(self, root: Path, umask: int = PRIVATE) -> None:
        self.root, self._umask = root.absolute(), umask

    @property
    def uri(self) -> str:
        return str(self.root)

    @property
    def folder(self) -> Path:
        return self.root

    @property
    def access(self) -> None:
        return None

    @property
    def jar_sets(self) -> tuple[str, ...]:
        return ()

    @property
    def spark_settings(self) -> dict[str, str]:
        return {}

    @property
    def spark_secrets(self) -> dict[str, str]:
        return {}

    def path_or_uri(self, key: str) -> str:
        return str(self.root / key)

    def uri_of(self, key: str) -> str:
        return f"file://{self._path(key)}"  # unquoted: Hadoop takes a path as it is

    def read(self, key: str) -> bytes | None:
        with self._complaints():
            try:
                return self._path(key).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                return None

    def open(self, key: str) -> BinaryIO:
        with self._complaints():
            return self._path(key).open("rb")

    def read_range(self, key: str, start: int, end: int) -> bytes:
        with self.open(key) as file:
            file.seek(start)
            return file.read(end - start)

    def write(self, key: str, data: bytes) -> None:
        with self._complaints(), self._scratch(key) as (scratch, path):
            self._write(scratch, data)
            scratch.replace(path)

    def put_if_absent(self, key: str, data: bytes) -> bool:
        with self._complaints(), self._scratch(key) as (scratch, path):
            self._write(scratch, data)
            try:
                os.link(scratch, path)
            except FileExistsError:
                return False
            return True

    def stat(self, key: str) -> ObjectInfo | None:
        path = self._path(key)
        with self._complaints():
            return self._info(path) if path.is_file() else None

    def list(self, prefix: str = "") -> Iterator[ObjectInfo]:
        with self._complaints():
            below = self.root / safe_key(prefix) if prefix else self.root
            for folder, folders, names in os.walk(below, onerror=_unless_absent):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                for name in sorted(names):
                    if not name.startswith("."):  # scratch files of writers, and editors' leavings
                        yield from self._listed(Path(folder) / name)

    def remove_below(self, folder: str) -> None:
        with self._complaints(), contextlib.suppress(FileNotFoundError):
            shutil.rmtree(self.root / safe_folder(folder))

    def remove(self, key: str) -> None:
        with self._complaints():
            self._path(key).unlink(missing_ok=True)

    def digest(self, key: str) -> str:
        with self._complaints(), self._path(key).open("rb") as file:
            return sha256_of(file)[0]

    def copy_from(self, source: Storage, info: ObjectInfo, key: str) -> str:
        digest, size = hashlib.sha256(), 0
        with self._complaints(), self._scratch(key) as (scratch, path):
            with source.open(info.key) as given, self._create(scratch) as taken:
                while chunk := given.read(CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    taken.write(chunk)
                taken.flush()
                os.fsync(taken.fileno())
            now = source.stat(info.key)
            if now is None or now.etag != info.etag or size != info.size:
                raise PreconditionFailedError(info.key)
            scratch.replace(path)
        return digest.hexdigest()

    def _path(self, key: str) -> Path:
        return self.root / safe_key(key)

    def _listed(self, path: Path) -> Iterator[ObjectInfo]:
        try:
            yield self._info(path)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP):
                raise
            if path.is_symlink():  # else it is gone since
                changed = datetime.fromtimestamp(path.lstat().st_mtime, tz=UTC)
                yield ObjectInfo(path.relative_to(self.root).as_posix(), 0, "", changed)

    def _info(self, path: Path) -> ObjectInfo:
        found = path.stat()
        # A file has no entity tag: its size and change time are used in its place.
        etag = f"{found.st_size:x}-{found.st_mtime_ns:x}"
        changed = datetime.fromtimestamp(found.st_mtime, tz=UTC)
        return ObjectInfo(path.relative_to(self.root).as_posix(), found.st_size, etag, changed)

    @contextmanager
    def _scratch(self, key: str) -> Iterator[tuple[Path, Path]]:
        path = self._path(key)
        make_folder(path.parent, self._umask)
        scratch = path.with_name(f".{uuid.uuid4().hex}")
        try:
            yield scratch, path
        finally:
            scratch.unlink(missing_ok=True)

    def _write(self, path: Path, data: bytes) -> None:
        with self._create(path) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def _create(self, path: Path) -> BinaryIO:
        mode = 0o666 & ~self._umask
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with contextlib.suppress(PermissionError):  # a mount that has no modes
            os.fchmod(opened, mode)
        return os.fdopen(opened, "wb")

    @contextmanager
    def _complaints(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            place = error.filename or self.root
            raise LakeUnavailableError(str(place), error.strerror or str(error)) from error


def _unless_absent(error: OSError) -> None:
    """A folder that is not there is empty; a folder that cannot be read is not."""
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        raise error


def make_folder(folder: Path, umask: int) -> None:
    """Make a folder and those above it where they are missing; the new ones have no bit of `umask`.

    Raises:
        OSError: it is something else, or cannot be made.
    """
    if folder.is_dir():
        return
    with contextlib.suppress(FileExistsError):  # the folder below says so, by its own name
        make_folder(folder.parent, umask)
    inherited = 0 if umask & stat.S_IWGRP else stat.S_ISGID
    try:
        folder.mkdir(mode=0o777 & ~umask)
    except FileExistsError:
        if not folder.is_dir():  # else another process has just made it
            raise
        return
    with contextlib.suppress(PermissionError):  # a mount that has no modes
        folder.chmod(0o777 & ~umask | inherited)
