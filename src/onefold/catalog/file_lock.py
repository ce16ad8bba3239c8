"""A lease by a lock on a file, for the kinds of catalogs that have no lock of their own."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from filelock import FileLock, Timeout

from onefold.catalog.kind import Release

_LOG = logging.getLogger(__name__)


def take_file_lock(catalog: Path, name: str, wait: float) -> Release | None:
    """Lock the file `CATALOG.NAME.lease`, waiting for at most `wait` seconds; None: it is not to be had.

    The lock is re-entrant within a thread. The file has the mode of the process's new files.
    """
    umask = os.umask(0o077)
    os.umask(umask)
    lock = FileLock(catalog.with_name(f"{catalog.name}.{name}.lease"), mode=0o666 & ~umask, is_singleton=True)
    try:
        lock.acquire(timeout=wait, poll_interval=0.2)
    except Timeout:
        return None
    except OSError as error:  # a disk that is full or read only fails again, where it matters
        _LOG.warning("%s: no lease: %s", name, error)
        return None
    return lock.release
