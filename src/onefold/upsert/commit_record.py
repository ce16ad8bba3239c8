"""Commit records: what each published batch did, as a chain of immutable documents that `main` points to.

A snapshot's summary holds only the record's name (`onefold.record`) and its SHA-256. An attempt is published if its
record is in the chain from `main`'s. Each record has the digests of its parent and of what the batch was made of, so
that a document that was changed behind Onefold's back is found (`onefold.proof.chain`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import Field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import Standing
from onefold.errors import ChangedDocumentError, LandedBytesMissingError
from onefold.generation import Generation
from onefold.iceberg.commits import ROOT
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.plan import Interval
from onefold.offsets import Coverage
from onefold.upsert.completeness import RunStamps
from onefold.upsert.documents import Attempted, Producing, Upserted, part_of

LOOP = "its parents lead back to it: a parent was changed"


class CommitRecord(Attempted, Producing):
    """One batch's commit. `coverage` is the table's after it, not the batch's own."""

    name: str = Field(description="The attempt's id")
    parent: str
    dataset: str
    generation: str
    shape: str = Field(default="", description="Digest of the fields, where they are not the generation's first ones")
    interval: Interval | None
    coverage: Coverage
    run_stamps: RunStamps = Field(
        default={},
        description="By TopicPartition.key and first offset of each unbroken run: when the batch was stamped",
    )
    seen: list[str] | None = Field(
        default=None, description="Partitions (TopicPartition.key) of which the table took records; None: not noted"
    )
    decision: Standing | None = Field(default=None, description="Of a person: why it is published")
    skipped: dict[str, Coverage] = Field(default={}, description="What skipped batches took out of the table so far")
    links: dict[str, str] = Field(
        default={},
        description="SHA-256 of the documents that it rests on, by key: its parent, the batch's manifest and "
        "decisions, and conflicts decided since. None: an earlier release wrote it",
    )
    written: datetime

    @classmethod
    def of(cls, upserted: Upserted, **more: Any) -> CommitRecord:
        """The record of an attempt; `more` are the fields that only a record has."""
        return cls(**part_of(upserted, Attempted), **more)

    @property
    def seen_partitions(self) -> list[str]:
        """The partitions, by TopicPartition.key, of which the table has taken records; of records of earlier releases
        those that are covered."""
        if self.seen is not None:
            return self.seen
        return sorted(key for key, offsets in self.coverage.partitions.items() if offsets.present)

    def by_verdict(self) -> dict[str, int]:
        """Records by verdict."""
        return {verdict: sum(reasons.values()) for verdict, reasons in self.counts.items()}


def chain(lake: Lake, dataset: Dataset, head: str, generation: str | None = None) -> Iterator[CommitRecord]:
    """The commit records from `head` back to the table's beginning, newest first.

    Raises:
        LandedBytesMissingError: a record of the chain is gone from the lake.
        ChangedDocumentError: one is not what its child names, or they go in a circle.
    """
    name, wanted, seen = head, "", set[str]()
    while name != ROOT:
        key = lake_keys.record(dataset, name, generation)
        if name in seen:
            raise ChangedDocumentError(dataset.name, (f"{key}: {LOOP}",))
        record = read_record(lake, dataset, name, wanted, generation)
        if record is None:
            raise LandedBytesMissingError(name, key, "the commit record is gone")
        yield record
        seen.add(name)
        name = record.parent
        wanted = record.links.get(lake_keys.record(dataset, name, generation), "")


def read_record(
    lake: Lake, dataset: Dataset, name: str, digest: str = "", generation: str | None = None
) -> CommitRecord | None:
    """A commit record; None: there is none. `digest`: its SHA-256, as what is behind it names it; empty: unknown.

    Raises:
        ChangedDocumentError: it has another digest.
    """
    key = lake_keys.record(dataset, name, generation)
    data = lake.storage.read(key)
    if data is None:
        return None
    if digest and (found := hashlib.sha256(data).hexdigest()) != digest:
        raise ChangedDocumentError(dataset.name, (f"{key}: {changed(digest, found)}",))
    return CommitRecord.model_validate_json(data)


def changed(digest: str, found: str | None) -> str:
    """What is wrong with a document."""
    return f"it was changed (SHA-256 {digest[:12]}…, now {found[:12]}…)" if found else "it is gone"


def published_chain(lake: Lake, dataset: Dataset) -> Iterator[CommitRecord]:
    """The commit records of the table that readers see, newest first, also while a rebuild folds another generation.

    Raises:
        LandedBytesMissingError: a record of the chain is gone from the lake.
    """
    published = lake.get(lake_keys.generation(dataset), Generation)
    table = find_state(lake, dataset, published.generation) if published else None
    if published and table:
        yield from chain(lake, dataset, table.main.record, published.generation)


def published_record(lake: Lake, dataset: Dataset, head: str, batch: str) -> CommitRecord | None:
    """The published record of a batch, if there is one in the chain."""
    return next((record for record in chain(lake, dataset, head) if record.batch == batch), None)


def find_record(lake: Lake, dataset: Dataset, batch: str) -> CommitRecord | None:
    """The published record of a batch; None: it is not published, or nothing is."""
    table = find_state(lake, dataset)
    return published_record(lake, dataset, table.main.record, batch) if table else None
