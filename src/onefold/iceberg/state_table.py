"""The Iceberg catalog without a JVM: what `main` is, branches, and the compare-and-set that publishes."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, RESTError
from pyiceberg.expressions import EqualTo, In
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, Table
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
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)
from sqlalchemy import create_engine
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from onefold.dataset import Dataset
from onefold.dataset.columns import FLAT_ORDER
from onefold.dataset.types import FieldType
from onefold.errors import ForeignCommitError, LakeUnavailableError
from onefold.instants import rows_of
from onefold.lake import CATALOG, Lake
from onefold.storage import LocalStorage, s3_of_pyiceberg
from onefold.vocabulary import RowState

# Their own signatures, which take term and literal by position, are not what mypy sees of a pydantic model.
_EQUAL_TO: Any = EqualTo
_IN: Any = In
UNREACHABLE = (OSError, SQLAlchemyError, RESTError)
"""What a catalog's client raises where it cannot be reached, or does not do as it is asked."""
MAIN = "main"
COMMIT_TRIES = 20
"""How often a commit is tried while what it requires holds; other branches of the table move meanwhile."""
RECORD_PROPERTY = "onefold.record"
"""The summary property that names a snapshot's commit record."""
ROOT = "root"
"""The record name of a table's empty first snapshot."""


def state_name(dataset: Dataset, generation: str | None = None) -> str:
    """The state table's name in its namespace (default: of the dataset's own generation)."""
    return f"{dataset.target.name}__state_{generation or dataset.generation}"


def generations_of(lake: Lake, dataset: Dataset) -> list[str]:
    """The generations that have a state table in the catalog, published or not."""
    catalog, space = open_catalog(lake), dataset.target.namespace
    tables = catalog.list_tables(space) if catalog.namespace_exists(space) else []
    named = re.compile(state_name(dataset, "([0-9a-f]{12})"))
    return sorted(found[1] for *_, name in tables if (found := named.fullmatch(name)))


@dataclass(frozen=True, slots=True)
class Head:
    """A snapshot of a state table and the commit record that its summary names."""

    snapshot: int
    record: str


class MainMovedError(Exception):
    """A requirement of the commit does not hold any more."""


class StateTable:
    """A handle on one generation's state table, as of when it was opened."""

    def __init__(self, lake: Lake, dataset: Dataset, generation: str | None = None) -> None:
        self.identifier = (dataset.target.namespace, state_name(dataset, generation))
        self._catalog = open_catalog(lake)
        with _complaints(self.identifier):
            self.table: Table = self._catalog.load_table(self.identifier)

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
        # A compaction replaces files and no row: what it replaced says whose rows they are.
        while snapshot and (record := _record_of(snapshot)) is None and _replaces(snapshot):
            snapshot = self.table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        if snapshot is None or record is None:
            raise ForeignCommitError(".".join(self.identifier), ref.snapshot_id, name)
        return Head(ref.snapshot_id, record)

    @property
    def size(self) -> int:
        """Bytes of the files that `main` reads, as its summary has them: a hint."""
        snapshot = self.table.snapshot_by_id(self.main.snapshot)
        summary = snapshot.summary if snapshot else None
        return int(summary.get("total-files-size", 0) or 0) if summary else 0

    @property
    def carried(self) -> bool:
        """Whether `main`'s own snapshot names the commit record, so that its ancestors may expire."""
        snapshot = self.table.snapshot_by_id(self.main.snapshot)
        return snapshot is not None and _record_of(snapshot) is not None

    def carry_record(self) -> None:
        """Put an empty snapshot on `main` that names the commit record, as its head does not.

        Raises:
            MainMovedError: a batch was published meanwhile; it names its own.
        """
        self._carry(self.main, self.main.snapshot)

    def roll_back(self, to: Head, base: int) -> None:
        """Move `main` from `base` back to the rows of one of its earlier snapshots.

        It is a new snapshot: an attempt that was made on the earlier one knows nothing of what came between, and finds
        that `main` has moved.

        Raises:
            MainMovedError: `main` is not at `base`.
        """
        self._carry(to, base)

    def _carry(self, to: Head, base: int) -> None:
        """Put an empty snapshot behind one of `main`'s that names its commit record, and lead `main` from `base` to
        it."""
        branch = f"carry_{base}_{to.snapshot}"  # who leads elsewhere from there has another
        self.drop_branch(branch)
        self.cut_branch(branch, to.snapshot)
        nothing = self.table.schema().as_arrow().empty_table()
        with _complaints(self.identifier):
            try:
                self.table.append(nothing, snapshot_properties={RECORD_PROPERTY: to.record}, branch=branch)
            except CommitFailedException as error:  # somebody else carries from the same base
                raise MainMovedError(str(error)) from error
            self.table = self._catalog.load_table(self.identifier)
            head = self.ref(branch)
            if head is None:
                raise MainMovedError(f"{branch} is gone")
            try:
                self.publish(branch, head.snapshot, base)
            except MainMovedError:
                with suppress(MainMovedError):  # somebody else has cut it anew: it is theirs
                    self._commit(
                        (AssertRefSnapshotId(ref=branch, snapshot_id=head.snapshot),),
                        (RemoveSnapshotRefUpdate(ref_name=branch),),
                    )
                raise

    def reach(self, states: int) -> int:
        """Over how many snapshots `main` leads back to the newest `states` that name a commit record, these included:
        between two of them lie what a batch took out before it appended, and compactions."""
        snapshot, passed = self.table.snapshot_by_id(self.main.snapshot), 0
        while snapshot and states:
            passed += 1
            states -= _record_of(snapshot) is not None
            snapshot = self.table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        return passed

    def branches(self) -> dict[str, datetime]:
        """The branches beside `main`, and when their heads were written."""
        found = {}
        for name, ref in self.table.refs().items():
            snapshot = self.table.snapshot_by_id(ref.snapshot_id)
            if name != MAIN and snapshot:
                found[name] = datetime.fromtimestamp(snapshot.timestamp_ms / 1000, tz=UTC)
        return found

    def quarantined(self, *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` of rejected records (`onefold.upsert.quarantine`), with only some columns."""
        return self._rows(_EQUAL_TO("_state", RowState.QUARANTINED), fields)

    def held(self, *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` that wait for a version (`onefold.upsert.chain`), with only some columns."""
        return self._rows(_EQUAL_TO("_state", RowState.HELD), fields)

    def deleted(self, *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` of deleted keys, with only some columns."""
        return self._rows(_EQUAL_TO("_state", RowState.DELETED), fields)

    def chain_of(self, keys: Iterable[bytes], *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` of some keys, by their digests: of every state, with only some columns."""
        return self._rows(_IN("_key", list(keys)), fields)

    def _rows(self, wanted: Any, fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        columns = [name for field in fields for name in (FLAT_ORDER.values() if field == "_order" else (field,))]
        found = self.scan(wanted, columns, self.main.snapshot)
        for batch in found.to_arrow_batch_reader():
            for row in rows_of(batch):
                yield row | {"_order": order_of(row)} if "_order" in fields else row

    def scan(self, row_filter: Any, fields: Iterable[str], snapshot: int, limit: int | None = None) -> DataScan:
        """A scan of a snapshot with the table's fields of today: renamed, widened, NULL where there were none."""
        metadata, io = self.table.metadata, self.table.io
        return _OfToday(metadata, io, row_filter, tuple(fields), snapshot_id=snapshot, limit=limit)

    def published_columns(self, dataset: Dataset) -> list[str]:
        """The columns that readers see, as the table has them: until a batch is run, a changed file is not followed."""
        stands, former = self.table.schema().column_names, dataset.value.former_columns
        names = ((name, *former.get(name, ())) for name in dataset.published_columns)
        found = (next((one for one in some if one in stands), None) for some in names)
        return [name for name in found if name]

    @property
    def current(self) -> bool:
        """Whether the head of `main` was written with the table's fields of today."""
        snapshot = self.table.snapshot_by_id(self.main.snapshot)
        return snapshot is not None and snapshot.schema_id == self.table.metadata.current_schema_id

    def change_fields(self, fields: dict[str, FieldType], former: Mapping[str, Iterable[str]]) -> bool:
        """Add, widen and rename columns, all in one commit; whether there was anything to change.

        Args:
            fields: the columns of the value's fields, as they are to be.
            former: the names that some of them may have yet.

        Raises:
            LakeUnavailableError: other processes changed the table each time.
        """
        for number in range(COMMIT_TRIES):
            changes = self._field_changes(fields, former)
            if not changes:
                return False
            try:
                with _complaints(self.identifier), self.table.update_schema() as update:
                    for change, *what in changes:
                        getattr(update, change)(*what)
            except CommitFailedException:
                self.table = self._catalog.load_table(self.identifier)
                time.sleep(random.uniform(0, 0.02 * (number + 1)))
            else:
                return True
        raise LakeUnavailableError(".".join(self.identifier), f"its fields moved at each of {COMMIT_TRIES} commits")

    def _field_changes(
        self, fields: dict[str, FieldType], former: Mapping[str, Iterable[str]]
    ) -> list[tuple[str, str, Any]]:
        schema, changes = self.table.schema(), list[tuple[str, str, Any]]()
        for name, kind in fields.items():
            stands = next((one for one in (name, *former.get(name, ())) if one in schema.column_names), None)
            if stands is None:
                changes.append(("add_column", name, _iceberg(kind)))
                continue
            if not kind.nested and schema.find_type(stands) != _iceberg(kind):
                changes.append(("update_column", stands, _iceberg(kind)))
            if stands != name:
                changes.append(("rename_column", stands, name))
        return changes

    def snapshot_of(self, record: str) -> int | None:
        """The snapshot that a commit record made, while the table still has it."""
        for snapshot in self.table.snapshots():
            if _record_of(snapshot) == record:
                return snapshot.snapshot_id
        return None

    def cut_branch(self, name: str, base: int) -> None:
        """Create a branch at a snapshot."""
        with _complaints(self.identifier):
            self._commit((AssertRefSnapshotId(ref=name, snapshot_id=None),), (_point(name, base),))

    def drop_branch(self, name: str) -> None:
        """Remove a branch, if it is there."""
        if name in self.table.refs():
            with _complaints(self.identifier):
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
            _point(MAIN, head),
            RemoveSnapshotRefUpdate(ref_name=branch),
        )
        self._commit(requirements, updates)

    def _commit(self, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]) -> None:
        wanted = (AssertTableUUID(uuid=self.table.metadata.table_uuid), *requirements)
        for number in range(COMMIT_TRIES):
            try:
                self._catalog.commit_table(self.table, wanted, updates)
            except CommitFailedException as error:
                # The catalog also refuses when another *branch* of the table moved in that moment: what we
                # require may still hold.
                self.table = self._catalog.load_table(self.identifier)
                self._hold(wanted, error)
                time.sleep(random.uniform(0, 0.02 * (number + 1)))
            else:
                self.table = self._catalog.load_table(self.identifier)
                return
        problem = f"other branches moved at each of {COMMIT_TRIES} commits"
        raise LakeUnavailableError(".".join(self.identifier), problem)

    def _hold(self, requirements: tuple[TableRequirement, ...], error: Exception) -> None:
        try:
            for one in requirements:
                one.validate(self.table.metadata)
        except CommitFailedException:
            raise MainMovedError(str(error)) from error


@contextmanager
def _complaints(table: tuple[str, str]) -> Iterator[None]:
    """What the disk, the store or the database refuses, in one sentence."""
    try:
        yield
    except UNREACHABLE as error:
        raise LakeUnavailableError(".".join(table), str(error).splitlines()[0]) from error


class _OfToday(DataScan):
    def projection(self) -> Schema:
        schema = self.table_metadata.schema()
        return schema if "*" in self.selected_fields else schema.select(*self.selected_fields)


_SCALARS: dict[str, IcebergType] = {
    "string": StringType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "boolean": BooleanType(),
    "date": DateType(),
    "timestamp": TimestamptzType(),
}


def _iceberg(kind: FieldType) -> IcebergType:
    """A field's type in Iceberg; the ids of parts are placeholders, which the table's own replace."""
    match kind.name:
        case "decimal":
            return DecimalType(kind.precision, kind.scale)
        case "list":
            assert kind.item
            return ListType(element_id=1, element_type=_iceberg(kind.item), element_required=False)
        case "struct":
            parts = enumerate(kind.fields, 1)
            return StructType(*(NestedField(number, name, _iceberg(of), False) for number, (name, of) in parts))
        case _:
            return _SCALARS[kind.name]


def order_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The total order's parts of a row of a state table."""
    return {part: row[name] for part, name in FLAT_ORDER.items()}


def _record_of(snapshot: Snapshot) -> str | None:
    return snapshot.summary.additional_properties.get(RECORD_PROPERTY) if snapshot.summary else None


def _replaces(snapshot: Snapshot) -> bool:
    return snapshot.summary is not None and snapshot.summary.operation == Operation.REPLACE


def _point(branch: str, snapshot: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate(
        ref_name=branch,
        type=SnapshotRefType.BRANCH,
        snapshot_id=snapshot,
        max_ref_age_ms=None,
        max_snapshot_age_ms=None,
        min_snapshots_to_keep=None,
    )


def open_catalog(lake: Lake) -> Catalog:
    """The lake's catalog.

    Raises:
        LakeUnavailableError: it does not answer, or not to us.
    """
    properties = {**lake.catalog.of_pyiceberg(lake.warehouse), **s3_of_pyiceberg(lake.storage)}
    try:
        if isinstance(lake.storage, LocalStorage):
            lake.storage.root.mkdir(parents=True, exist_ok=True)
        catalog = _load(properties)
    except UNREACHABLE as error:
        raise LakeUnavailableError(
            str(lake.catalog), f"the catalog cannot be opened: {str(error).splitlines()[0]}"
        ) from error
    if isinstance(catalog, SqlCatalog) and catalog.engine.name != "sqlite":
        catalog.engine.dispose()  # a pool of each handle's own would keep a connection for as long as it lives
        catalog.engine = create_engine(catalog.properties["uri"], poolclass=NullPool)
    return catalog


@retry(
    retry=retry_if_exception_type(SQLAlchemyError),
    stop=stop_after_attempt(4),
    wait=wait_random(0.05, 0.5),
    reraise=True,
)
def _load(properties: dict[str, str]) -> Catalog:
    # Two processes that open a new lake both create the tables; the second finds them when it looks again.
    return load_catalog(CATALOG, **properties)


def drop_table(lake: Lake, name: str) -> None:
    """Drop a table of one attempt by its full name, and its files; there may be none."""
    identifier = tuple(name.removeprefix(f"{CATALOG}.").split("."))
    catalog = open_catalog(lake)
    try:
        location = catalog.load_table(identifier).location()
    except NoSuchTableError:
        return
    catalog.drop_table(identifier)
    if (place := key_below_warehouse(lake, location)) is not None:  # else its files are orphans
        lake.storage.remove_below(f"{place}/")


def key_below_warehouse(lake: Lake, location: str) -> str | None:
    """The key of a file or folder that Iceberg names; None where it lies elsewhere."""
    place, warehouse = (
        one.replace("file:///", "/").replace("file:/", "/").rstrip("/") for one in (location, lake.warehouse)
    )
    return f"warehouse{place.removeprefix(warehouse)}" if place.startswith(f"{warehouse}/") else None


def find_state(lake: Lake, dataset: Dataset, generation: str | None = None) -> StateTable | None:
    """The state table of a generation (default: the dataset's), or None while nothing was upserted."""
    try:
        return StateTable(lake, dataset, generation)
    except NoSuchTableError:
        return None
