"""What a kind of catalog answers. Each kind is one file of this package and one row of `CATALOGS`."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol

Release = Callable[[], None]
"""Gives a lease back."""


class Claims(Protocol):
    """Who is first to put an object, for a store without conditional puts."""

    def claim(self, place: str, data: bytes) -> bytes:
        """The bytes to put at a place: these, or those of the writer that was first."""
        ...

    def drop(self, place: str) -> None:
        """Remove the claim on a place: an object is there."""
        ...

    def drop_below(self, folder: str) -> None:
        """Remove the claims on all places below a folder."""
        ...


@dataclass(frozen=True, slots=True)
class JarSet:
    """Jars that Spark opens a catalog with. `onefold.spark.jars` fetches and locks them."""

    name: str
    packages: tuple[str, ...]
    """Maven coordinates: group:artifact:version"""
    unused: tuple[str, ...] = ()
    """group:artifact of dependencies that no session needs"""


@dataclass(frozen=True)
class CatalogKind(ABC):
    """A catalog of one kind, as its two clients open it: pyiceberg and Spark.

    A kind imports its driver when it is used, not before: the settings and every command read the kinds.
    """

    uri: str = field(repr=False)
    """`ONEFOLD_CATALOG`; it may hold a password"""
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`catalog_properties`: Iceberg's own, where the kind takes any"""

    title: ClassVar[str]
    """For messages, with its article"""
    schemes: ClassVar[tuple[str, ...]]
    """What `ONEFOLD_CATALOG` begins with, up to `://`"""
    address: ClassVar[str]
    """What `ONEFOLD_CATALOG` looks like"""
    one_host: ClassVar[bool] = False
    """Whether only the processes of one host can open it"""
    takes_properties: ClassVar[bool] = False
    has_claims: ClassVar[bool] = False
    jars: ClassVar[JarSet | None] = None
    """What Spark needs in addition to the jars of every session"""

    @classmethod
    def example(cls) -> str:
        """Its address in a list of what `ONEFOLD_CATALOG` takes."""
        return cls.address

    @abstractmethod
    def pyiceberg_properties(self, warehouse: str) -> dict[str, str]:
        """pyiceberg's properties, for tables that lie below `warehouse`.

        Raises:
            UsageError: the URI is incomplete.
        """

    @abstractmethod
    def spark_properties(self, warehouse: str) -> dict[str, str]:
        """Spark's properties, for tables that lie below `warehouse`; without secrets.

        Raises:
            UsageError: the URI is incomplete.
        """

    @property
    def secrets(self) -> dict[str, str]:
        """Spark's properties that no list of processes and no output may show."""
        return {}

    @property
    def files(self) -> tuple[Path, ...]:
        """Its files on this host's disk; by default none."""
        return ()

    def create_files(self) -> None:
        """Create its files where they are missing, empty, with the mode of the process's new files."""
        for file in self.files:
            file.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666))

    def adjust_client(self, catalog: Any) -> None:
        """Change pyiceberg's catalog after it was opened; by default nothing."""
        del catalog

    @abstractmethod
    def take_lease(self, name: str, wait: float, folder: Path) -> Release | None:
        """Take the lease of a name; None: another holds it, or there is none to be had.

        The lease is freed when its process dies.

        Args:
            name: of a table.
            wait: seconds to wait for another holder; 0: ask once.
            folder: one on this host's disk, for a kind that has no lock of its own.
        """

    def claims(self) -> Claims | None:
        """Its claims, where `has_claims`."""
        return None

    @abstractmethod
    def __str__(self) -> str:
        """Its address for messages, without its password."""
