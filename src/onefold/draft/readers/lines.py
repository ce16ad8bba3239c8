"""Lines of an object: the last first, or, where it is packed, from the front."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, suppress

from onefold.draft.readers.reader import Reading
from onefold.formats.connect import LARGEST
from onefold.formats.structured_json import FormatError
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage
from onefold.storage.objects import CHUNK

_LONGEST = 16_000_000
"""Bytes of a line that is a record."""


def is_packed(key: str) -> bool:
    """Whether an object can be read from its front only."""
    return key.endswith(".gz")


def read_lines(store: Storage, object_: ObjectInfo, record_of: Callable[[bytes], Record | None]) -> Reading:
    """How an object with a record a line is read; `record_of` gives None for a line that is no record."""
    if is_packed(object_.key):
        return Reading(map(record_of, lines_from_front(store, object_.key)), from_end=False)
    return Reading(map(record_of, lines_from_end(store, object_)), from_end=True)


def first_line(store: Storage, object_: ObjectInfo) -> bytes:
    """The first line that is not blank; nothing where there is none that can be read."""
    with suppress(FormatError):
        return next((line for line in lines_from_front(store, object_.key) if line.strip()), b"")
    return b""


def lines_from_end(store: Storage, object_: ObjectInfo) -> Iterator[bytes]:
    """The lines of an object that is not packed, the last first; what is before is read as it is asked for.

    Raises:
        FormatError: a line is too long to be a record.
    """
    end, rest = object_.size, b""
    while end > 0:
        start = max(0, end - CHUNK)
        data = store.read_range(object_.key, start, end)
        if end == object_.size:
            data = data.removesuffix(b"\n")
        rest, *lines = (data + rest).split(b"\n")  # the first may begin before
        yield from reversed(lines)
        _check(rest)
        end = start
    if object_.size:
        yield rest


def lines_from_front(store: Storage, key: str) -> Iterator[bytes]:
    """The lines of an object, packed or not, as they are asked for.

    Raises:
        FormatError: it is cut off or broken, has a line that is too long, or more than is read of one object; the lines
            before were given.
    """
    with closing(store.open(key)) as stream:
        read = gzip.GzipFile(fileobj=stream).read1 if is_packed(key) else stream.read
        rest, total = b"", 0
        try:
            while chunk := read(CHUNK):
                total += len(chunk)
                if total > LARGEST:
                    why = f"behind its first {LARGEST:,} bytes it was not read, where its newest records are"
                    raise FormatError(why)
                *lines, rest = (rest + chunk).split(b"\n")
                yield from lines
                _check(rest)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise FormatError(f"it is cut off or broken gzip: {error}") from error
        if rest:
            yield rest


def _check(line: bytes) -> None:
    if len(line) > _LONGEST:
        raise FormatError(f"it has a line of more than {_LONGEST:,} bytes")
