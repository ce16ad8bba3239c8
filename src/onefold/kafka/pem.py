"""Certificates and keys of a connection as text, whichever way they are given."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from onefold.errors import UsageError


def pem_of(given: Mapping[str, str], name: str) -> str | None:
    """The PEM text of `ssl.ca`, `ssl.certificate`, `ssl.key` or `https.ca`, given as such or by a file; None: neither.

    Raises:
        UsageError: the file cannot be read.
    """
    if text := given.get(f"{name}.pem"):
        return text
    place = given.get(f"{name}.location")
    if place is None:
        return None
    try:
        return Path(place).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name}.location {place}: {error}") from None


@contextmanager
def file_of(text: str) -> Iterator[Path]:
    """A file that only this user can read, for as long as OpenSSL reads it: it takes a key from nowhere else."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "pem"
        place.touch(0o600)
        place.write_text(text, encoding="ascii")
        yield place
