"""A table's lease: who holds it merges and publishes undisturbed, so that nobody starves and little is done twice.

No law rests on it: publishing asks the catalog for the base that it expects. It lies where the catalog does, which
frees it when its holder dies: an advisory lock of the Postgres server, or a lock on a file beside the SQLite file. A
REST catalog has none to give: the drivers of one host keep out of each other's way by a file, those of several do not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout
from sqlalchemy import Connection, create_engine, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from onefold.catalog.database import Database
from onefold.dataset import Dataset
from onefold.lake import Lake
from onefold.storage import LocalStorage

_LOG = logging.getLogger(__name__)


@contextmanager
def lease(lake: Lake, dataset: Dataset, say: Callable[[str], None] = _LOG.info) -> Iterator[bool]:
    """Hold the table's lease; whether it was got.

    It is waited for as long as the setting `lease_wait` says; behind that, and where there is none to be had, the
    batch goes on beside the other one.
    """
    table = dataset.target.table
    with hold(lake, table, lambda: say(f"waiting for another batch of {table}")) as got:
        if not got:
            wait = lake.settings.lease_wait
            _LOG.warning("%s: another batch holds the table for more than %g s; going on beside it", table, wait)
        yield got


@contextmanager
def hold(lake: Lake, name: str, waits: Callable[[], None] = lambda: None) -> Iterator[bool]:
    """Hold the lease of a name, and say if it has to be waited for; whether it was got."""
    wait = lake.settings.lease_wait
    catalog = lake.catalog
    server = catalog if isinstance(catalog, Database) and catalog.postgres else None
    take = partial(_of_server, server) if server else partial(_of_file, _file(lake))
    with ExitStack() as held:
        got = take(name, 0, held)
        if not got and wait:
            waits()
            got = take(name, wait, held)
        yield got


def _file(lake: Lake) -> Path:
    """Beside the SQLite file; a REST catalog has no lock, and one host's drivers have their disk."""
    if isinstance(lake.catalog, Database):
        return Path(lake.catalog.url.database or "")
    folder = lake.storage.root if isinstance(lake.storage, LocalStorage) else lake.settings.path(".onefold")
    folder.mkdir(parents=True, exist_ok=True)
    return folder / "catalog"


def _of_file(catalog: Path, table: str, wait: float, held: ExitStack) -> bool:
    lock = FileLock(catalog.with_name(f"{catalog.name}.{table}.lease"), is_singleton=True)  # of one thread: re-entrant
    try:
        lock.acquire(timeout=wait, poll_interval=0.2)
    except Timeout:
        return False
    except OSError as error:  # a disk that is full or read only says so again, where it matters
        _LOG.warning("%s: no lease: %s", table, error)
        return False
    held.callback(lock.release)
    return True


def _of_server(database: Database, table: str, wait: float, held: ExitStack) -> bool:
    connection = held.enter_context(create_engine(database.sqlalchemy, poolclass=NullPool).connect())
    named = {"table": f"onefold/{table}"}
    if not wait:
        asked = "SELECT pg_try_advisory_lock(hashtextextended(:table, 0))"
        got = bool(connection.execute(text(asked), named).scalar())
        connection.commit()  # the lock is the session's; a transaction left open would hold back the server's vacuum
        if got:
            held.callback(_give_back, connection, named)
        return got
    connection.execute(text("SELECT set_config('lock_timeout', :wait, false)"), {"wait": f"{wait * 1000:.0f}ms"})
    try:
        connection.execute(text("SELECT pg_advisory_lock(hashtextextended(:table, 0))"), named)
    except OperationalError as error:
        _LOG.warning("%s: no lease: %s", table, str(error).splitlines()[0])
        return False
    connection.commit()
    held.callback(_give_back, connection, named)
    return True


def _give_back(connection: Connection, named: dict[str, str]) -> None:
    """Free the lock at once: the server ends a session that was left only some time later."""
    with suppress(SQLAlchemyError):  # then it is freed with the session
        connection.execute(text("SELECT pg_advisory_unlock(hashtextextended(:table, 0))"), named)
        connection.commit()
