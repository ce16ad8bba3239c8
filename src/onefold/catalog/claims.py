"""Who is first to put an object, for a store without conditional puts: a row of the catalog's database decides.

A writer that wants to put a new object claims its place with the bytes that it would put. Of several claims the
database takes one claim, and all writers put its bytes: so a late put, of a stopped process or a slow network,
changes nothing. A lock would have to end before such a put. A row is removed when the object exists; the claim of a
killed process is carried out by the next writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING

from sqlalchemy import (
    Column,
    Connection,
    Engine,
    LargeBinary,
    MetaData,
    Table,
    Text,
    create_engine,
    delete,
    func,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from onefold.errors import LakeUnavailableError

if TYPE_CHECKING:
    from onefold.catalog.database import DatabaseCatalog

CLAIMS = Table(
    "onefold_claims",
    MetaData(),
    Column("place", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
_INSERT = text("INSERT INTO onefold_claims (place, data) VALUES (:place, :data) ON CONFLICT DO NOTHING")


class DatabaseClaims:
    """The claims of all writers with one catalog."""

    def __init__(self, database: DatabaseCatalog) -> None:
        self._database = database

    def claim(self, place: str, data: bytes) -> bytes:
        """The bytes to put at a place: these, or those of the writer that was first."""
        while True:
            with self._transaction() as connection:
                connection.execute(_INSERT, {"place": place, "data": data})
                claimed = connection.execute(select(CLAIMS.c.data).where(CLAIMS.c.place == place)).scalar()
            if claimed is not None:  # else the other's row was removed between the two statements
                return bytes(claimed)

    def drop(self, place: str) -> None:
        """Remove the claim on a place: an object is there."""
        with self._transaction() as connection:
            connection.execute(delete(CLAIMS).where(CLAIMS.c.place == place))

    def drop_below(self, folder: str) -> None:
        """Remove the claims on all places below a folder."""
        with self._transaction() as connection:
            connection.execute(delete(CLAIMS).where(func.substr(CLAIMS.c.place, 1, len(folder)) == folder))

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except SQLAlchemyError as error:
            raise LakeUnavailableError(str(self._database), str(error).splitlines()[0]) from error

    @cached_property
    def _engine(self) -> Engine:
        engine = create_engine(self._database.sqlalchemy, poolclass=NullPool)
        try:
            CLAIMS.create(engine, checkfirst=True)
        except DBAPIError:  # another process has just created it
            CLAIMS.create(engine, checkfirst=True)
        return engine
