"""The kinds of Iceberg catalogs that a lake may have, and the kind that a setting names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from onefold.catalog.database import shown
from onefold.catalog.kind import CatalogKind, Claims, JarSet
from onefold.catalog.postgres import PostgresCatalog
from onefold.catalog.rest import RestCatalog
from onefold.catalog.sqlite import SqliteCatalog
from onefold.errors import UsageError

__all__ = ["CATALOGS", "CatalogKind", "Claims", "JarSet", "catalog_at", "catalog_in", "examples", "kind_at", "listed"]

CATALOGS: dict[str, type[CatalogKind]] = {
    "sqlite": SqliteCatalog,
    "postgres": PostgresCatalog,
    "rest": RestCatalog,
}
"""Each kind, by the name of its file."""


def kind_at(uri: str) -> type[CatalogKind] | None:
    """The kind of the catalog that a URI names; None: of no kind that is supported."""
    scheme = uri.partition("://")[0]
    return next((kind for kind in CATALOGS.values() if scheme in kind.schemes), None)


def catalog_at(uri: str | None, properties: Mapping[str, str]) -> CatalogKind:
    """The catalog at a URI, with Iceberg's own properties, where the kind takes any.

    Raises:
        UsageError: no kind has such a URI, or the kind takes no properties.
    """
    kind = kind_at(uri) if uri else None
    if properties and not (kind and kind.takes_properties):
        takers = [found for found in CATALOGS.values() if found.takes_properties]
        titles, addresses = listed(found.title for found in takers), listed(found.address for found in takers)
        raise UsageError(f"catalog_properties belong to {titles}: ONEFOLD_CATALOG={addresses} . Nothing was run.")
    if uri is None or kind is None:
        raise UsageError(_unsupported(uri or ""))
    return kind(uri, properties)


def catalog_in(folder: Path) -> CatalogKind:
    """The catalog of a lake in a folder of this host, where no other is set."""
    return SqliteCatalog(f"sqlite:///{folder / 'catalog.db'}")


def _unsupported(uri: str) -> str:
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    accepted = examples(CATALOGS.values())
    try:
        address = shown(make_url(uri))
    except ArgumentError:
        return f"ONEFOLD_CATALOG is no URI of a database; it takes {accepted}"
    return f"ONEFOLD_CATALOG={address}: not a database that is supported; it takes {accepted}"


def examples(kinds: Iterable[type[CatalogKind]]) -> str:
    """What `ONEFOLD_CATALOG` takes for some kinds, in words."""
    return listed(kind.example() for kind in kinds)


def listed(words: Iterable[str]) -> str:
    """`a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
