"""A catalog in an SQLite file, for the processes of one host."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from onefold.catalog.database import DatabaseCatalog
from onefold.catalog.kind import Release


class SqliteCatalog(DatabaseCatalog):
    """An SQLite file; Spark's driver for it is among the jars of every session."""

    title: ClassVar[str] = "an SQLite file"
    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)
    address: ClassVar[str] = "sqlite:////absolute/path"
    one_host: ClassVar[bool] = True

    @property
    def path(self) -> Path:
        """The file."""
        return Path(self.url.database or "")

    @property
    def sqlalchemy(self) -> str:
        """The URI as SQLAlchemy opens it: it waits for another process's commit, as Spark does."""
        return self.uri if "?" in self.uri else f"{self.uri}?timeout=60"

    @property
    def jdbc(self) -> str:
        """The URI as Spark opens it; the file's folder exists afterwards."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        return f"jdbc:sqlite:{self.path}?busy_timeout=60000"

    @property
    def files(self) -> tuple[Path, ...]:
        """The file. SQLite itself would make one that no group writes."""
        return (self.path,)

    def take_lease(self, name: str, wait: float, folder: Path) -> Release | None:
        """A lock on a file next to the SQLite file."""
        from onefold.catalog.file_lock import take_file_lock

        del folder
        return take_file_lock(self.path, name, wait)
