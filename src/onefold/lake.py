"""The lake: one store, and the one place that knows what lies where in it.

sources/<source>/cuts|plans|manifests/…       what was planned and landed (a source is shared by datasets)
sources/<source>/erased/<batch>/…             which landed objects took the place of which, by a person's word
sources/<source>/segments/<topic>-<n>/…       what the batch headers of landed log segments say
clusters/<cluster>/<topic>/<n>.json           the topic ids that a name has had
sources/<source>/landed/<batch>/<attempt>/…   the exported bytes, unchanged but for what was erased
datasets/<dataset>/<generation>/…             staging, attempts, commit records, reports, the shapes of its fields
datasets/<dataset>/decisions/<batch>/…        what people decided of it
datasets/<dataset>/forgotten/<batch>/…        which records are forgotten with it
datasets/<dataset>/erasures/…                 which keys people had erased
datasets/<dataset>/results/<batch>/…          how Spark's steps ended, for drivers in other processes
targets/<table>.json                          whose table it is
reports/<dataset>/<batch>.html|json           the newest account of a batch
histories/<dataset>.json                      its batches at a glance, for the overview
warehouse/, catalog.db                        the Iceberg tables
"""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from onefold.database import Database
from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.rest import RestCatalog
from onefold.settings import Settings
from onefold.storage import Claims, LocalStorage, S3Access, Storage, open_storage

Document = TypeVar("Document", bound=BaseModel)
CATALOG = "onefold"
"""The Iceberg catalog's name, for Spark and for pyiceberg."""
STAGING = "onefold_staging"
"""The namespace of staging, actions and verdict tables."""
HISTORIES = "histories/"
"""The prefix of the datasets' histories."""
SCRATCH = ("staged", "actions", "moves", "claims")
"""The kinds of tables that belong to one attempt."""


def new_attempt() -> str:
    """A random id for one try at a step, so that two drivers never share an output."""
    return secrets.token_hex(6)


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
        return open_storage(self.settings.lake_uri, self.access, self.claims)

    @property
    def access(self) -> S3Access:
        """How buckets are reached: the lake's, and those of exports."""
        given = self.settings
        bundle = str(given.s3_ca_bundle) if given.s3_ca_bundle else None
        return S3Access(given.s3_encryption, given.s3_kms_key, given.s3_requester_pays, bundle, given.s3_login)

    @cached_property
    def claims(self) -> Claims | None:
        """What tells who puts a document first, where it is not the bucket."""
        given = self.settings
        return Claims(Database(given.catalog)) if given.s3_put_if_absent == "catalog" and given.catalog else None

    @property
    def warehouse(self) -> str:
        """Where the Iceberg tables lie, as Spark and pyiceberg name it."""
        return self.storage.uri_of("warehouse")

    @cached_property
    def catalog(self) -> Database | RestCatalog:
        """How the catalog is reached.

        Raises:
            UsageError: the lake is a bucket and no catalog is set (SQLite needs one host's disk).
        """
        given, properties = self.settings.catalog, self.settings.catalog_properties
        if given and RestCatalog.meant_by(given):
            return RestCatalog(given, properties)
        if properties:
            raise UsageError(
                "catalog_properties belong to a REST catalog: ONEFOLD_CATALOG=https://… . Nothing was run."
            )
        if given:
            return Database(given)
        if not isinstance(self.storage, LocalStorage):
            raise UsageError(
                f"the lake {self.storage.uri} is no local folder: set ONEFOLD_CATALOG to its catalog, "
                "postgresql+psycopg2://user@host/database or a REST catalog's https://… . Nothing was run."
            )
        return Database(f"sqlite:///{self.storage.root / 'catalog.db'}")

    def export(self, dataset: Dataset, folder: str | None = None) -> Storage:
        """The store of a dataset's export files, or of a folder given in their place."""
        place = folder or dataset.source.place
        return self.store_at(place)

    def store_at(self, place: str) -> Storage:
        """The store at a folder, from the project's, or at a bucket."""
        return open_storage(place if "://" in place else str(self.settings.path(place)), self.access)

    # Documents: immutable JSON objects, by model.

    def get(self, key: str, model: type[Document]) -> Document | None:
        """A document, or None where there is none."""
        data = self.storage.read(key)
        return None if data is None else model.model_validate_json(data)

    def put_first(self, key: str, document: Document) -> Document:
        """Put a document where there is none; the one that stands there afterwards."""
        data = document.model_dump_json(indent=1, by_alias=True).encode()
        if self.storage.put_if_absent(key, data):
            return document
        standing = self.get(key, type(document))
        assert standing is not None
        return standing

    def put(self, key: str, document: BaseModel) -> None:
        """Put a document over what was there."""
        self.storage.write(key, document.model_dump_json(indent=1, by_alias=True).encode())

    # Where things lie.

    @staticmethod
    def plans(source: str) -> str:
        """The prefix of a source's plans."""
        return f"sources/{source}/plans/"

    @staticmethod
    def taken(dataset: str) -> str:
        """The prefix of the marks that name the plans which a dataset has taken up (a source is shared)."""
        return f"datasets/{dataset}/plans/"

    @staticmethod
    def cuts(source: str) -> str:
        """The prefix of a source's cuts."""
        return f"sources/{source}/cuts/"

    @staticmethod
    def incarnation(cluster: str, topic: str, number: int) -> str:
        """The key of the document that says which topic id the n-th topic of a name had."""
        return f"clusters/{cluster}/{topic}/{number}.json"

    @staticmethod
    def epochs(source: str) -> str:
        """The key of the document that says under which leader epochs a source was landed."""
        return f"sources/{source}/epochs.json"

    @staticmethod
    def manifest(source: str, batch: str) -> str:
        """The key of a landing's manifest."""
        return f"sources/{source}/manifests/{batch}.json"

    @staticmethod
    def segments(source: str, topic: str, partition: int) -> str:
        """The prefix of the indexes of a partition's log segments."""
        return f"sources/{source}/segments/{topic}-{partition}/"

    @staticmethod
    def cleared(source: str, batch: str) -> str:
        """The key of the document that says when a landing was cleared by its retention."""
        return f"sources/{source}/cleared/{batch}.json"

    @staticmethod
    def erased(source: str) -> str:
        """The prefix of what was taken out of a source's landings, by batch."""
        return f"sources/{source}/erased/"

    @staticmethod
    def landed(source: str, batch: str, attempt: str, name: str) -> str:
        """The key of a landed object."""
        return f"sources/{source}/landed/{batch}/{attempt}/{name}"

    @staticmethod
    def generation(dataset: Dataset) -> str:
        """The key of the document that says which generation is published."""
        return f"datasets/{dataset.name}/generation.json"

    @staticmethod
    def shape(dataset: str, generation: str, number: int) -> str:
        """The key of the document that says what fields a generation has had since its n-th change of them."""
        return f"datasets/{dataset}/{generation}/shapes/{number}.json"

    @staticmethod
    def rebuild(dataset: Dataset) -> str:
        """The key of the document that says which generation is being folded anew."""
        return f"datasets/{dataset.name}/rebuild.json"

    @staticmethod
    def retired(dataset: Dataset, generation: str) -> str:
        """The key of the document that says when a generation stopped being the published one."""
        return f"datasets/{dataset.name}/retired/{generation}.json"

    @staticmethod
    def decisions(dataset: str) -> str:
        """The prefix of what people decided: of a batch below its name, of the table beside them."""
        return f"datasets/{dataset}/decisions/"

    @staticmethod
    def marks(dataset: str) -> str:
        """The prefix of forget marks: of an attempt below its batch's name, pinned ones beside them."""
        return f"datasets/{dataset}/forgotten/"

    @staticmethod
    def mark(dataset: str, batch: str, attempt: str) -> str:
        """The key of the mark that an attempt at forgetting has made."""
        return f"{Lake.marks(dataset)}{batch}/{attempt}.json"

    @staticmethod
    def erasures(dataset: str) -> str:
        """The prefix of the decisions to erase keys."""
        return f"datasets/{dataset}/erasures/"

    @staticmethod
    def results(dataset: str) -> str:
        """The prefix of what Spark's steps left for drivers in other processes."""
        return f"datasets/{dataset}/results/"

    @staticmethod
    def proof(dataset: str, name: str) -> str:
        """The key of a proof's document."""
        return f"datasets/{dataset}/proofs/{name}.json"

    @staticmethod
    def decision(dataset: Dataset, name: str) -> str:
        """The key of a decision that a person took on the table."""
        return f"{Lake.decisions(dataset.name)}{name}.json"

    @staticmethod
    def run(dataset: str, run: str) -> str:
        """The key of the document that says what a run has planned, whatever its name is made of."""
        return f"datasets/{dataset}/runs/{hashlib.sha256(run.encode()).hexdigest()[:32]}.json"

    @staticmethod
    def target(table: str) -> str:
        """The key of the document that says whose a target table is."""
        return f"targets/{table}.json"

    def owners(self) -> set[str]:
        """The datasets that have a target table."""
        found = (self.storage.read(info.key) for info in self.storage.list("targets/"))
        return {json.loads(data)["dataset"] for data in found if data}

    @staticmethod
    def batch(dataset: Dataset, batch: str) -> str:
        """The prefix of a batch's documents."""
        return f"datasets/{dataset.name}/{dataset.generation}/batches/{batch}"

    def attempt(self, dataset: Dataset, batch: str, attempt: str, step: str) -> str:
        """The key of a step's result in one attempt."""
        return f"{self.batch(dataset, batch)}/attempts/{attempt}/{step}.json"

    def latest(self, dataset: Dataset, batch: str) -> str:
        """The key of the newest attempt's upsert result, for whoever names no attempt."""
        return f"{self.batch(dataset, batch)}/latest.json"

    @staticmethod
    def record(dataset: Dataset, attempt: str, generation: str | None = None) -> str:
        """The key of a commit record; its name is the attempt's."""
        return f"datasets/{dataset.name}/{generation or dataset.generation}/records/{attempt}.json"

    @staticmethod
    def report(dataset: str, batch: str, ending: str) -> str:
        """The key of a batch's report."""
        return f"reports/{dataset}/{batch}.{ending}"

    @staticmethod
    def report_of(dataset: Dataset, batch: str, ending: str) -> str:
        """The key of the same report, as the batch is folded into this generation."""
        return f"datasets/{dataset.name}/{dataset.generation}/reports/{batch}.{ending}"

    @staticmethod
    def reports(dataset: str) -> str:
        """The prefix of a dataset's reports."""
        return f"reports/{dataset}/"

    @staticmethod
    def history(dataset: str) -> str:
        """The key of a dataset's batches at a glance; all histories lie below one prefix, so that one listing tells
        which have changed."""
        return f"{HISTORIES}{dataset}.json"

    def where(self, key: str) -> str:
        """A key as a person opens it: a path, or an s3a:// URI."""
        store = self.storage
        return str(store.root / key) if isinstance(store, LocalStorage) else store.uri_of(key)


def local_path(uri: str) -> Path:
    """The path behind a file:// URI."""
    return Path(uri.removeprefix("file://"))


def as_json(document: BaseModel) -> dict[str, Any]:
    """A document as plain JSON values."""
    return document.model_dump(mode="json", by_alias=True)
