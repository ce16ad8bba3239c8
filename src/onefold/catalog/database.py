"""The catalog's database: one URI as people write it, named for SQLAlchemy, for JDBC and for a message."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from urllib.parse import urlencode

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from onefold.errors import UsageError

POSTGRES = ("postgresql", "postgresql+psycopg2")
ACCEPTED = "sqlite:////absolute/path, postgresql+psycopg2://user@host/database or a REST catalog's https://…"


@dataclass(frozen=True)
class Database:
    """Where the catalog's rows are, as `ONEFOLD_CATALOG` says it."""

    uri: str

    @cached_property
    def url(self) -> URL:
        """Its parts.

        Raises:
            UsageError: it is none that both of the catalog's clients can reach.
        """
        try:
            url = make_url(self.uri)
        except ArgumentError:
            raise UsageError(f"ONEFOLD_CATALOG is no URI of a database; it takes {ACCEPTED}") from None
        if url.drivername == "sqlite":
            return url
        shown = url.render_as_string(hide_password=True)
        if url.drivername not in POSTGRES:
            raise UsageError(f"ONEFOLD_CATALOG={shown}: not a database that is supported; it takes {ACCEPTED}")
        if not (url.host and url.username and url.database):
            raise UsageError(f"ONEFOLD_CATALOG={shown}: user, host and database must be named: {ACCEPTED}")
        if "password" in url.query:
            raise UsageError(f"ONEFOLD_CATALOG: a password stands before the host, not behind the ?; {ACCEPTED}")
        return url

    @property
    def postgres(self) -> bool:
        """Whether it is a server."""
        return self.url.drivername in POSTGRES

    @property
    def sqlalchemy(self) -> str:
        """As pyiceberg opens it."""
        if self.postgres:  # without a driver's name it would be another one, which is not installed
            return self.url.set(drivername="postgresql+psycopg2").render_as_string(hide_password=False)
        # Wait for another process's commit, as Spark's side does.
        return self.uri if "?" in self.uri else f"{self.uri}?timeout=60"

    @property
    def jdbc(self) -> str:
        """As Spark opens it; who with is said apart, and never in what a process list shows."""
        if not self.postgres:
            path = Path(self.url.database or "")
            path.parent.mkdir(parents=True, exist_ok=True)
            return f"jdbc:sqlite:{path}?busy_timeout=60000"
        url = self.url
        place = URL.create("postgresql", host=url.host, port=url.port, database=url.database)
        asked = urlencode(sorted(url.query.items()), doseq=True)
        return f"jdbc:{place.render_as_string()}" + (f"?{asked}" if asked else "")

    def of_pyiceberg(self, warehouse: str) -> dict[str, str]:
        """pyiceberg's properties of the catalog."""
        return {"type": "sql", "uri": self.sqlalchemy, "warehouse": warehouse}

    def of_spark(self, warehouse: str) -> dict[str, str]:
        """Spark's properties of the catalog, without the password."""
        return {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": self.jdbc,
            **({"jdbc.user": self.user} if self.user else {}),
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
        }

    @property
    def secrets(self) -> dict[str, str]:
        """Spark's properties that no list of processes may show."""
        return {"jdbc.password": self.password} if self.password else {}

    @property
    def jar_sets(self) -> tuple[str, ...]:
        """The sets of jars that Spark opens it with."""
        return ("postgres",) if self.postgres else ()

    @property
    def user(self) -> str | None:
        """Who opens it, where it is a server."""
        return self.url.username if self.postgres else None

    @property
    def password(self) -> str | None:
        """The password, where the URI holds one (else the clients look into `PGPASSFILE`)."""
        return self.url.password if self.postgres else None

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)
