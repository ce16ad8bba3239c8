"""pyiceberg's files in a bucket, by the lake's storage: its credentials, retries, encryption, authorities."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile, OutputStream
from pyiceberg.typedef import EMPTY_DICT, Properties

from onefold.errors import LakeUnavailableError
from onefold.storage.access import PROPERTY, S3Access
from onefold.storage.objects import Seekable
from onefold.storage.s3 import S3Storage


class BucketIO(FileIO):
    """Iceberg's files by their URIs. It fails as pyiceberg's own classes do: with an OSError."""

    def __init__(self, properties: Properties = EMPTY_DICT) -> None:
        super().__init__(properties)
        self._client = S3Access.from_json(properties[PROPERTY]).client()

    def new_input(self, location: str) -> BucketFile:
        """A file to read."""
        return self._file(location)

    def new_output(self, location: str) -> BucketFile:
        """A file to write."""
        return self._file(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Remove a file, if it exists."""
        file = self._file(location if isinstance(location, str) else location.location)
        with _os_errors():
            file.store.remove(file.key)

    def _file(self, location: str) -> BucketFile:
        bucket, _, key = location.partition("://")[2].partition("/")
        return BucketFile(location, S3Storage(bucket, client=self._client), key)


class BucketFile(InputFile, OutputFile):
    """One file."""

    def __init__(self, location: str, store: S3Storage, key: str) -> None:
        super().__init__(location)
        self.store, self.key = store, key

    def __len__(self) -> int:
        with _os_errors():
            info = self.store.stat(self.key)
        if info is None:
            raise FileNotFoundError(f"{self.location} does not exist")
        return info.size

    def exists(self) -> bool:
        """Whether it exists."""
        with _os_errors():
            return self.store.stat(self.key) is not None

    def open(self, seekable: bool = True) -> InputStream:
        """Its bytes, from any offset."""
        del seekable
        return cast("InputStream", _Reader(self.store, self.key, len(self)))

    def to_input_file(self) -> BucketFile:
        """The same file, to read."""
        return self

    def create(self, overwrite: bool = False) -> OutputStream:
        """A stream whose bytes are put when it is closed."""
        if not overwrite and self.exists():
            raise FileExistsError(f"{self.location} exists already")
        return cast("OutputStream", _Writer(self))


class _Reader(Seekable):
    def read(self, size: int = -1) -> bytes:
        with _os_errors():
            return super().read(size)


class _Writer(io.BytesIO):
    def __init__(self, file: BucketFile) -> None:
        super().__init__()
        self._file, self._whole = file, True

    def __exit__(self, kind: object, *error: object) -> None:
        self._whole = kind is None
        self.close()

    def close(self) -> None:
        if self._whole and not self.closed:
            with _os_errors():
                self._file.store.write(self._file.key, self.getvalue())
        super().close()


@contextmanager
def _os_errors() -> Iterator[None]:
    try:
        yield
    except LakeUnavailableError as error:
        raise OSError(f"{error.place}: {error.problem}") from error
