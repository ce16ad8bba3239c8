"""Branches of an Iceberg table and the compare-and-set that moves them: publish, roll back, carry a commit record."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import Table
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotRefUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from onefold.errors import ForeignCommitError, LakeUnavailableError
from onefold.iceberg.connection import as_unavailable

MAIN = "main"
COMMIT_TRIES = 20
"""How often a commit is tried while its requirements hold; other branches of the table move meanwhile."""
RECORD_PROPERTY = "onefold.record"
"""The summary property that names a snapshot's commit record."""
DIGEST_PROPERTY = "onefold.record-sha256"
"""The summary property with the SHA-256 of that record, in hex."""
ROOT = "root"
"""The record name of a table's empty first snapshot."""


@dataclass(frozen=True, slots=True)
class Head:
    """A snapshot of a state table and the commit record that its summary names."""

    snapshot: int
    record: str
    digest: str = ""
    """The record's SHA-256; empty: an earlier release wrote the snapshot."""

    @property
    def properties(self) -> dict[str, str]:
        """What the summary of a snapshot says that names the same record."""
        return naming(self.record, self.digest)


class MainMovedError(Exception):
    """A requirement of the commit does not hold any more."""


class BranchedTable:
    """A handle on a table whose snapshots name commit records, as of when it was opened."""

    def __init__(self, catalog: Catalog, identifier: tuple[str, str]) -> None:
        self.identifier, self._catalog = identifier, catalog
        with as_unavailable(identifier):
            self.table: Table = catalog.load_table(identifier)

    @property
    def main(self) -> Head:
        """What readers see.

        Raises:
            ForeignCommitError: its snapshot was not written by Onefold.
        """
        head = self.ref(MAIN)
        assert head is not None
        return head

    def ref(self, name: str) -> Head | None:
        """The head of a branch, or None where there is no such branch."""
        ref = self.table.refs().get(name)
        if ref is None:
            return None
        snapshot = self.table.snapshot_by_id(ref.snapshot_id)
        # A compaction replaces files and no row: the snapshot that it replaced names the record.
        while snapshot and (record := record_of(snapshot)) is None and _is_compaction(snapshot):
            snapshot = self.table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        if snapshot is None or record is None:
            raise ForeignCommitError(".".join(self.identifier), ref.snapshot_id, name)
        return Head(ref.snapshot_id, record, digest_of(snapshot))

    @property
    def carried(self) -> bool:
        """Whether `main`'s own snapshot names the commit record, so that its ancestors may expire."""
        snapshot = self.table.snapshot_by_id(self.main.snapshot)
        return snapshot is not None and record_of(snapshot) is not None

    def carry_record(self) -> None:
        """Put an empty snapshot on `main` that names the commit record, where its head does not.

        Raises:
            MainMovedError: a batch was published meanwhile; it names its own.
        """
        self._carry(self.main, self.main.snapshot)

    def roll_back(self, to: Head, base: int) -> None:
        """Move `main` from `base` back to the rows of one of its earlier snapshots.

        It is a new snapshot: an attempt whose base is the earlier snapshot knows nothing of the batches between, and
        must find that `main` has moved.

        Raises:
            MainMovedError: `main` is not at `base`.
        """
        self._carry(to, base)

    def _carry(self, to: Head, base: int) -> None:
        """Put an empty snapshot that names a commit record on top of an earlier snapshot of `main`, and move `main`
        from `base` to it."""
        branch = f"carry_{base}_{to.snapshot}"  # a branch that goes elsewhere from this base has another name
        self.drop_branch(branch)
        self.cut_branch(branch, to.snapshot)
        no_rows = self.table.schema().as_arrow().empty_table()
        with as_unavailable(self.identifier):
            try:
                self.table.append(no_rows, snapshot_properties=to.properties, branch=branch)
            except CommitFailedException as error:  # another process carries from the same base
                raise MainMovedError(str(error)) from error
            self.table = self._catalog.load_table(self.identifier)
            head = self.ref(branch)
            if head is None:
                raise MainMovedError(f"{branch} is gone")
            try:
                self.publish(branch, head.snapshot, base)
            except MainMovedError:
                with suppress(MainMovedError):  # another process has cut it again: the branch belongs to that process
                    self._commit(
                        (AssertRefSnapshotId(ref=branch, snapshot_id=head.snapshot),),
                        (RemoveSnapshotRefUpdate(ref_name=branch),),
                    )
                raise

    def branches(self) -> dict[str, datetime]:
        """The branches other than `main`, and when their heads were written."""
        written = {}
        for name, ref in self.table.refs().items():
            snapshot = self.table.snapshot_by_id(ref.snapshot_id)
            if name != MAIN and snapshot:
                written[name] = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, tz=UTC)
        return written

    def cut_branch(self, name: str, base: int) -> None:
        """Create a branch at a snapshot."""
        with as_unavailable(self.identifier):
            self._commit((AssertRefSnapshotId(ref=name, snapshot_id=None),), (_set_branch(name, base),))

    def drop_branch(self, name: str) -> None:
        """Remove a branch, if it exists."""
        if name in self.table.refs():
            with as_unavailable(self.identifier):
                self._commit((), (RemoveSnapshotRefUpdate(ref_name=name),))

    def publish(self, branch: str, head: int, base: int) -> None:
        """Move `main` from `base` to the branch's `head` and remove the branch: one commit.

        Raises:
            MainMovedError: `main` is not at `base`, or the branch not at `head`.
            UNREACHABLE: it may have been committed, or not.
        """
        requirements = (
            AssertRefSnapshotId(ref=MAIN, snapshot_id=base),
            AssertRefSnapshotId(ref=branch, snapshot_id=head),
        )
        updates = (
            _set_branch(MAIN, head),
            RemoveSnapshotRefUpdate(ref_name=branch),
        )
        self._commit(requirements, updates)

    def _commit(self, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> None:
        required = (AssertTableUUID(uuid=self.table.metadata.table_uuid), *requirements)
        for number in range(COMMIT_TRIES):
            try:
                self._catalog.commit_table(self.table, required, updates)
            except CommitFailedException as error:
                # The catalog also refuses when another *branch* of the table moved in that moment: the requirements
                # may still hold.
                self.table = self._catalog.load_table(self.identifier)
                self._check(required, error)
                time.sleep(random.uniform(0, 0.02 * (number + 1)))
            else:
                self.table = self._catalog.load_table(self.identifier)
                return
        problem = f"other branches moved at each of {COMMIT_TRIES} commits"
        raise LakeUnavailableError(".".join(self.identifier), problem)

    def _check(self, requirements: tuple[TableRequirement, ...], error: Exception) -> None:
        try:
            for requirement in requirements:
                requirement.validate(self.table.metadata)
        except CommitFailedException:
            raise MainMovedError(str(error)) from error


def record_of(snapshot: Snapshot) -> str | None:
    """The commit record that a snapshot's summary names."""
    return snapshot.summary.additional_properties.get(RECORD_PROPERTY) if snapshot.summary else None


def digest_of(snapshot: Snapshot) -> str:
    """The SHA-256 of that record, as the snapshot's summary has it; empty: it has none."""
    return (snapshot.summary.additional_properties.get(DIGEST_PROPERTY) if snapshot.summary else None) or ""


def naming(record: str, digest: str) -> dict[str, str]:
    """The summary properties of a snapshot that names a commit record, and its SHA-256 where that is known."""
    return {RECORD_PROPERTY: record} | ({DIGEST_PROPERTY: digest} if digest else {})


def _is_compaction(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def _set_branch(branch: str, snapshot: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=branch,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )
