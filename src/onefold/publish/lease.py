"""A table's lease: its holder merges and publishes undisturbed, so that no batch starves and little is done twice.

No law rests on it: publishing asks the catalog for the base that it expects. How a lease is taken, the kind of catalog
knows (`onefold.catalog`); how long it is waited for is decided here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from onefold.dataset import Dataset
from onefold.lake import Lake

_LOG = logging.getLogger(__name__)


@contextmanager
def lease(lake: Lake, dataset: Dataset, say: Callable[[str], None] = _LOG.info) -> Iterator[bool]:
    """Hold the table's lease; whether it was got.

    The setting `lease_wait` bounds the wait; after it, and where there is no lease to be had, the batch goes on next to
    the other batch.
    """
    table = dataset.target.table
    with hold(lake, table, lambda: say(f"waiting for another batch of {table}")) as got:
        if not got:
            wait = lake.settings.lease_wait
            _LOG.warning("%s: another batch holds the table for more than %g s; going on at the same time", table, wait)
        yield got


@contextmanager
def hold(lake: Lake, name: str, waits: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Hold the lease of a name, and say if it has to be waited for; whether it was got."""
    wait = lake.settings.lease_wait
    lake.restrict_new_files()
    take = lake.catalog.take_lease
    release = take(name, 0, lake.host_folder)
    if release is None and wait:
        waits()
        release = take(name, wait, lake.host_folder)
    try:
        yield release is not None
    finally:
        if release:
            release()
