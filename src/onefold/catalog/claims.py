"""Who is first, for a store without conditional puts: a row of the catalog's database says it.

Whoever wants to put an object that is not there claims its place with the bytes that it would put. Of several the
database takes one, and all of them put that one's bytes: so a put that comes late, of a process that had stopped or of
a network that kept it, changes nothing. A lock would have to end before such a put. Rows go when the object is there;
one that a killed process leaves is carried out by whoever comes next.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property

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

from onefold.catalog.database import Database
from onefold.errors import LakeUnavailableError

CLAIMS = Table(
    "onefold_claims",
    MetaData(),
    Column("place", Text, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
_INSERT = text("INSERT INTO onefold_claims (place, data) VALUES (:place, :data) ON CONFLICT DO NOTHING")


class Claims:
    """The claims of all who write with one catalog."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def claim(self, place: str, data: bytes) -> bytes:
        """The bytes that are to be put at a place: these, or those of who was first."""
        while True:
            with self._transaction() as connection:
                connection.execute(_INSERT, {"place": place, "data": data})
                standing = connection.execute(select(CLAIMS.c.data).where(CLAIMS.c.place == place)).scalar()
            if standing is not None:  # else the other's went between the two questions
                return bytes(standing)

    def drop(self, place: str) -> None:
        """Nothing is claimed at a place any more: an object is there."""
        with self._transaction() as connection:
            connection.execute(delete(CLAIMS).where(CLAIMS.c.place == place))

    def drop_below(self, folder: str) -> None:
        """Nothing is claimed below a folder any more."""
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
        except DBAPIError:  # another has just made it
            CLAIMS.create(engine, checkfirst=True)
        return engine
