"""The lake: opening it, and getting and putting its documents. `onefold.lake_keys` says what lies where."""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from onefold.catalog import CATALOGS, CatalogKind, Claims, catalog_at, catalog_in, examples
from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.settings import Settings
from onefold.storage import S3Access, Storage, open_storage

Document = TypeVar("Document", bound=BaseModel)


def new_attempt() -> str:
    """A random id for one try at a step, so that two drivers never share an output."""
    return secrets.token_hex(6)


def as_bytes(document: BaseModel) -> bytes:
    """A document as it lies in the lake."""
    return document.model_dump_json(indent=1, by_alias=True).encode()


@dataclass(frozen=True)
class Lake:
    """A store of objects with Onefold's layout."""

    settings: Settings

    @cached_property
    def storage(self) -> Storage:
        """The store itself.

        Raises:
            UsageError: its path holds `#` or `?`, where Iceberg's readers would cut it off.
        """
        if {"#", "?"} & set(self.settings.lake_uri):
            raise UsageError(f"the lake {self.settings.lake_uri}: its path cannot hold # or ?")
        return open_storage(self.settings.lake_uri, self.access, self.claims, self.settings.umask)

    def restrict_new_files(self) -> None:
        """Let what this process and those that it starts write from now on be opened as `lake_access` says.

        For the engines, which know no modes: pyiceberg, SQLite and Spark. The store's own files have theirs anyway.
        """
        os.umask(self.settings.umask)

    @property
    def access(self) -> S3Access:
        """How buckets are reached: the lake's, and those of exports."""
        given = self.settings
        bundle = str(given.s3_ca_bundle) if given.s3_ca_bundle else None
        return S3Access(given.s3_encryption, given.s3_kms_key, given.s3_requester_pays, bundle, given.s3_login)

    @cached_property
    def claims(self) -> Claims | None:
        """What decides who puts a document first, where it is not the bucket."""
        given = self.settings
        return self.catalog.claims() if given.s3_put_if_absent == "catalog" and given.catalog else None

    @property
    def warehouse(self) -> str:
        """Where the Iceberg tables lie, as Spark and pyiceberg name it."""
        return self.storage.uri_of("warehouse")

    @cached_property
    def catalog(self) -> CatalogKind:
        """How the catalog is reached.

        Raises:
            UsageError: there is no such kind of catalog, or the lake is a bucket and no catalog is set.
        """
        given, properties = self.settings.catalog, self.settings.catalog_properties
        if given or properties:
            return catalog_at(given, properties)
        if self.storage.folder is None:
            servers = examples(kind for kind in CATALOGS.values() if not kind.one_host)
            raise UsageError(
                f"the lake {self.storage.uri} is no local folder: set ONEFOLD_CATALOG to its catalog, {servers} . "
                "Nothing was run."
            )
        return catalog_in(self.storage.folder)

    @property
    def host_folder(self) -> Path:
        """A folder on this host's disk: the lake's own, or for a lake in a bucket a folder of the project."""
        return self.storage.folder or self.settings.path(".onefold")

    def export(self, dataset: Dataset, folder: str | None = None) -> Storage:
        """The store of a dataset's export files, or of a folder given in their place."""
        place = folder or dataset.source.place
        return self.store_at(place)

    def store_at(self, place: str) -> Storage:
        """The store at a folder, from the project's, or at a bucket."""
        return open_storage(place if "://" in place else str(self.settings.path(place)), self.access)

    # Documents: immutable JSON objects, by model.

    def digest(self, key: str) -> str | None:
        """The SHA-256 of a document's bytes, in hex; None: there is no document."""
        data = self.storage.read(key)
        return None if data is None else hashlib.sha256(data).hexdigest()

    def get(self, key: str, model: type[Document]) -> Document | None:
        """A document, or None where there is none."""
        data = self.storage.read(key)
        return None if data is None else model.model_validate_json(data)

    def put_first(self, key: str, document: Document) -> Document:
        """Put a document where there is none; the document that is there afterwards."""
        data = as_bytes(document)
        if self.storage.put_if_absent(key, data):
            return document
        stored = self.get(key, type(document))
        assert stored is not None
        return stored

    def put(self, key: str, document: BaseModel) -> None:
        """Put a document over what was there."""
        self.storage.write(key, as_bytes(document))

    def owners(self) -> set[str]:
        """The datasets that have a target table."""
        found = (self.storage.read(info.key) for info in self.storage.list("targets/"))
        return {json.loads(data)["dataset"] for data in found if data}

    def where(self, key: str) -> str:
        """A key as a person opens it: a path, or an s3a:// URI."""
        return self.storage.path_or_uri(key)


def local_path(uri: str) -> Path:
    """The path behind a file:// URI."""
    return Path(uri.removeprefix("file://"))


def as_json(document: BaseModel) -> dict[str, Any]:
    """A document as plain JSON values."""
    return document.model_dump(mode="json", by_alias=True)
