"""Open the lake's catalog, name its failures, and drop a table of an attempt with its files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError, RESTError
from sqlalchemy.exc import SQLAlchemyError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from onefold.errors import LakeUnavailableError
from onefold.lake import Lake
from onefold.storage import Storage, make_folder
from onefold.storage.access import PROPERTY
from onefold.tables.names import CATALOG

_BUCKET_FILES = "onefold.iceberg.bucket_files.BucketIO"
UNREACHABLE = (OSError, SQLAlchemyError, RESTError)
"""What a catalog's client raises where the catalog cannot be reached, or refuses a request."""


@contextmanager
def as_unavailable(table: tuple[str, str]) -> Iterator[None]:
    """Turn what the disk, the store or the database refuses into one sentence.

    Raises:
        LakeUnavailableError: it refuses.
    """
    try:
        yield
    except UNREACHABLE as error:
        raise LakeUnavailableError(".".join(table), str(error).splitlines()[0]) from error


def open_catalog(lake: Lake) -> Catalog:
    """The lake's catalog.

    Raises:
        LakeUnavailableError: it does not answer, or refuses.
    """
    properties = {**lake.catalog.pyiceberg_properties(lake.warehouse), **_file_properties(lake.storage)}
    try:
        lake.restrict_new_files()
        if lake.storage.folder:
            make_folder(lake.storage.folder, lake.settings.umask)
        lake.catalog.create_files()
        catalog = _load(properties)
    except UNREACHABLE as error:
        raise LakeUnavailableError(
            str(lake.catalog), f"the catalog cannot be opened: {str(error).splitlines()[0]}"
        ) from error
    lake.catalog.adjust_client(catalog)
    return catalog


def _file_properties(store: Storage) -> dict[str, str]:
    """pyiceberg's properties for the files of a store: none for a folder."""
    return {"py-io-impl": _BUCKET_FILES, PROPERTY: store.access.as_json()} if store.access else {}


@retry(
    retry=retry_if_exception_type(SQLAlchemyError),
    stop=stop_after_attempt(4),
    wait=wait_random(0.05, 0.5),
    reraise=True,
)
def _load(properties: dict[str, str]) -> Catalog:
    # Two processes that open a new lake both create the tables; the retry of the second finds them.
    return load_catalog(CATALOG, **properties)


def drop_table(lake: Lake, name: str) -> None:
    """Drop a table of one attempt by its full name, and its files, if it exists."""
    identifier = tuple(name.removeprefix(f"{CATALOG}.").split("."))
    catalog = open_catalog(lake)
    try:
        location = catalog.load_table(identifier).location()
    except NoSuchTableError:
        return
    catalog.drop_table(identifier)
    if (key := key_below_warehouse(lake, location)) is not None:  # else its files are orphans
        lake.storage.remove_below(f"{key}/")


def key_below_warehouse(lake: Lake, location: str) -> str | None:
    """The key of a file or folder that Iceberg names; None where it lies outside the warehouse."""
    path, warehouse = (
        uri.replace("file:///", "/").replace("file:/", "/").rstrip("/") for uri in (location, lake.warehouse)
    )
    return f"warehouse{path.removeprefix(warehouse)}" if path.startswith(f"{warehouse}/") else None
