"""A catalog in a database of a Postgres server."""

from __future__ import annotations

import logging
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlencode

from onefold.catalog.database import DatabaseCatalog, shown
from onefold.catalog.kind import JarSet, Release
from onefold.errors import UsageError
from onefold.setting_origins import speaks_of_secret

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.engine import URL

_LOG = logging.getLogger(__name__)
_DRIVER = "postgresql+psycopg2"


class PostgresCatalog(DatabaseCatalog):
    """A Postgres server. Where the URI holds no password, the clients look into `PGPASSFILE`."""

    title: ClassVar[str] = "a Postgres server"
    schemes: ClassVar[tuple[str, ...]] = ("postgresql", _DRIVER)
    address: ClassVar[str] = "postgresql+psycopg2://user@host/database"
    jars: ClassVar[JarSet | None] = JarSet(
        "postgres",
        packages=("org.postgresql:postgresql:42.7.7",),
        unused=("org.checkerframework:checker-qual",),  # annotations
    )

    def check(self, url: URL) -> None:
        """Refuse a URI without user, host or database, or with the password after the `?`.

        Raises:
            UsageError: the URI holds a password.
        """
        if not (url.host and url.username and url.database):
            raise UsageError(f"ONEFOLD_CATALOG={shown(url)}: user, host and database must be named: {self.address}")
        if "password" in url.query:
            raise UsageError(
                "ONEFOLD_CATALOG: the password belongs before the host, not after the ?: "
                "postgresql+psycopg2://user:password@host/database"
            )

    @property
    def sqlalchemy(self) -> str:
        """The URI as SQLAlchemy opens it, with the driver that is installed, and the password."""
        return self.url.set(drivername=_DRIVER).render_as_string(hide_password=False)

    @property
    def jdbc(self) -> str:
        """The URI as Spark opens it, without user and password, and without secrets after the `?`."""
        from sqlalchemy.engine import URL

        url = self.url
        server = URL.create("postgresql", host=url.host, port=url.port, database=url.database)
        public = sorted((name, value) for name, value in url.query.items() if not speaks_of_secret(name))
        options = urlencode(public, doseq=True)
        return f"jdbc:{server.render_as_string()}" + (f"?{options}" if options else "")

    def spark_properties(self, warehouse: str) -> dict[str, str]:
        """Spark's properties, without the password."""
        return super().spark_properties(warehouse) | {"jdbc.user": str(self.url.username)}

    @property
    def secrets(self) -> dict[str, str]:
        """The password, and what else is secret in the URI, such as `sslpassword`."""
        given = {name: value for name, value in self.url.query.items() if speaks_of_secret(name)}
        password = {"password": str(self.url.password)} if self.url.password else {}
        return {f"jdbc.{name}": str(value) for name, value in {**given, **password}.items()}

    def adjust_client(self, catalog: Any) -> None:
        """Keep no connection open: each handle's own pool would keep one for as long as the handle lives."""
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        catalog.engine.dispose()
        catalog.engine = create_engine(self.sqlalchemy, poolclass=NullPool)

    def take_lease(self, name: str, wait: float, folder: Path) -> Release | None:
        """An advisory lock of the server, held by a connection of its own."""
        from sqlalchemy import create_engine
        from sqlalchemy.pool import NullPool

        del folder
        parameters = {"name": f"onefold/{name}"}
        with ExitStack() as held:
            connection = held.enter_context(create_engine(self.sqlalchemy, poolclass=NullPool).connect())
            taken = _wait_for_lock(connection, parameters, wait) if wait else _try_lock(connection, parameters)
            connection.commit()  # the lock is the session's; a transaction left open would hold back vacuum
            if not taken:
                return None
            held.callback(_unlock, connection, parameters)
            return held.pop_all().close


def _try_lock(connection: Connection, parameters: dict[str, str]) -> bool:
    from sqlalchemy import text

    return bool(
        connection.execute(text("SELECT pg_try_advisory_lock(hashtextextended(:name, 0))"), parameters).scalar()
    )


def _wait_for_lock(connection: Connection, parameters: dict[str, str], wait: float) -> bool:
    from sqlalchemy import text
    from sqlalchemy.exc import OperationalError

    connection.execute(text("SELECT set_config('lock_timeout', :wait, false)"), {"wait": f"{wait * 1000:.0f}ms"})
    try:
        connection.execute(text("SELECT pg_advisory_lock(hashtextextended(:name, 0))"), parameters)
    except OperationalError as error:
        _LOG.warning("%s: no lease: %s", parameters["name"].partition("/")[2], str(error).splitlines()[0])
        connection.rollback()
        return False
    return True


def _unlock(connection: Connection, parameters: dict[str, str]) -> None:
    """Free the lock at once: the server ends an abandoned session only some time later."""
    from sqlalchemy import text
    from sqlalchemy.exc import SQLAlchemyError

    with suppress(SQLAlchemyError):  # then it is freed with the session
        connection.execute(text("SELECT pg_advisory_unlock(hashtextextended(:name, 0))"), parameters)
        connection.commit()
