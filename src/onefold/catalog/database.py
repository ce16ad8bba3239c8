"""What the catalogs in a database share: one URI as people write it, for SQLAlchemy, for JDBC and for messages."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, ClassVar

from onefold.catalog.kind import CatalogKind, Claims
from onefold.errors import UsageError
from onefold.setting_origins import without_secrets

if TYPE_CHECKING:
    from sqlalchemy.engine import URL


class DatabaseCatalog(CatalogKind):
    """A catalog whose rows lie in a database: pyiceberg opens it by SQLAlchemy, Spark by JDBC."""

    has_claims: ClassVar[bool] = True

    @cached_property
    def url(self) -> URL:
        """The parts of the URI.

        Raises:
            UsageError: it is no URI, or not both of the catalog's clients can reach it.
        """
        from sqlalchemy.engine import make_url
        from sqlalchemy.exc import ArgumentError

        try:
            url = make_url(self.uri)
        except ArgumentError:
            raise UsageError(f"ONEFOLD_CATALOG is no URI of a database; it takes {self.example()}") from None
        self.check(url)
        return url

    def check(self, url: URL) -> None:
        """Refuse a URI that not both of the catalog's clients can reach; by default none.

        Raises:
            UsageError: one of the clients cannot reach it.
        """
        del url

    @property
    @abstractmethod
    def sqlalchemy(self) -> str:
        """The URI as SQLAlchemy opens it, with the password."""

    @property
    @abstractmethod
    def jdbc(self) -> str:
        """The URI as Spark opens it, without user and password: a list of processes shows it."""

    def pyiceberg_properties(self, warehouse: str) -> dict[str, str]:
        """pyiceberg's properties, with the password."""
        return {"type": "sql", "uri": self.sqlalchemy, "warehouse": warehouse}

    def spark_properties(self, warehouse: str) -> dict[str, str]:
        """Spark's properties, without the password."""
        return {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": self.jdbc,
            "jdbc.schema-version": "V1",
            "warehouse": warehouse,
        }

    def claims(self) -> Claims:
        """Claims in a table of the same database."""
        from onefold.catalog.claims import DatabaseClaims

        return DatabaseClaims(self)

    def __str__(self) -> str:
        return shown(self.url)


def shown(url: URL) -> str:
    """A URI for messages: without its password, and without those after the `?`."""
    return str(without_secrets("", url.render_as_string(hide_password=True)))
