"""The state table of a generation without a JVM: find it, read its rows, and follow its dataset file's fields."""

from __future__ import annotations

import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyiceberg.exceptions import CommitFailedException, NoSuchTableError
from pyiceberg.table import DataScan

from onefold.dataset import Dataset
from onefold.dataset.types import FieldType
from onefold.errors import LakeUnavailableError
from onefold.iceberg.commits import COMMIT_TRIES, BranchedTable, Head, digest_of, record_of
from onefold.iceberg.connection import as_unavailable, open_catalog
from onefold.iceberg.scan import EQUAL_TO, IN, rows_at, scan
from onefold.iceberg.schema_changes import field_changes
from onefold.lake import Lake
from onefold.tables.names import state_name
from onefold.vocabulary import RowState


def generations_of(lake: Lake, dataset: Dataset) -> list[str]:
    """The generations that have a state table in the catalog, published or not."""
    catalog, namespace = open_catalog(lake), dataset.target.namespace
    tables = catalog.list_tables(namespace) if catalog.namespace_exists(namespace) else []
    pattern = re.compile(state_name(dataset, "([0-9a-f]{12})"))
    return sorted(match[1] for *_, name in tables if (match := pattern.fullmatch(name)))


def find_state(lake: Lake, dataset: Dataset, generation: str | None = None) -> StateTable | None:
    """The state table of a generation (default: the dataset's), or None while nothing was upserted."""
    try:
        return StateTable(lake, dataset, generation)
    except NoSuchTableError:
        return None


class StateTable(BranchedTable):
    """A handle on one generation's state table, as of when it was opened."""

    def __init__(self, lake: Lake, dataset: Dataset, generation: str | None = None) -> None:
        super().__init__(open_catalog(lake), (dataset.target.namespace, state_name(dataset, generation)))

    @property
    def size(self) -> int:
        """Bytes of the files that `main` reads, as its summary has them: a hint."""
        snapshot = self.table.snapshot_by_id(self.main.snapshot)
        summary = snapshot.summary if snapshot else None
        return int(summary.get("total-files-size", 0) or 0) if summary else 0

    @property
    def current(self) -> bool:
        """Whether the head of `main` was written with the table's fields of today."""
        snapshot = self.table.snapshot_by_id(self.main.snapshot)
        return snapshot is not None and snapshot.schema_id == self.table.metadata.current_schema_id

    def snapshot_of(self, record: str) -> int | None:
        """The snapshot that names a commit record, while the table still has it."""
        head = self.head_of(record)
        return head.snapshot if head else None

    def head_of(self, record: str) -> Head | None:
        """The same with what its summary says of the record."""
        for snapshot in self.table.snapshots():
            if record_of(snapshot) == record:
                return Head(snapshot.snapshot_id, record, digest_of(snapshot))
        return None

    def reach(self, states: int) -> int:
        """How many snapshots of `main` to keep for its newest `states` that name a commit record, these included:
        between two of them lie what a batch removed before it appended, and compactions."""
        snapshot, passed = self.table.snapshot_by_id(self.main.snapshot), 0
        while snapshot and states:
            passed += 1
            states -= record_of(snapshot) is not None
            snapshot = self.table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
        return passed

    def quarantined(self, *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` of rejected records (`onefold.upsert.quarantine`), with only some columns."""
        return self._rows(EQUAL_TO("_state", RowState.QUARANTINED), fields)

    def held(self, *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` that wait for a version (`onefold.folding.upsert_contiguous`), with only some columns."""
        return self._rows(EQUAL_TO("_state", RowState.HELD), fields)

    def deleted(self, *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` of deleted keys, with only some columns."""
        return self._rows(EQUAL_TO("_state", RowState.DELETED), fields)

    def chain_of(self, keys: Iterable[bytes], *fields: str) -> Iterator[dict[str, Any]]:
        """The rows on `main` of some keys, by their digests: of every state, with only some columns."""
        return self._rows(IN("_key", list(keys)), fields)

    def _rows(self, row_filter: Any, fields: tuple[str, ...]) -> Iterator[dict[str, Any]]:
        return rows_at(self.table, self.main.snapshot, row_filter, fields)

    def scan(self, row_filter: Any, fields: Iterable[str], snapshot: int, limit: int | None = None) -> DataScan:
        """A scan of a snapshot with the table's fields of today: renamed, widened, NULL where there were none."""
        return scan(self.table, row_filter, fields, snapshot, limit)

    def published_columns(self, dataset: Dataset) -> list[str]:
        """The columns that readers see, as the table has them: it follows a changed file with the next batch."""
        columns, former = self.table.schema().column_names, dataset.value.former_columns
        names = ((name, *former.get(name, ())) for name in dataset.published_columns)
        found = (next((candidate for candidate in candidates if candidate in columns), None) for candidates in names)
        return [name for name in found if name]

    def change_fields(self, fields: dict[str, FieldType], former: Mapping[str, Iterable[str]]) -> bool:
        """Add, widen and rename columns, all in one commit; whether there was anything to change.

        Args:
            fields: the columns of the value's fields, as they are to be.
            former: the earlier names that the table may have for some of them.

        Raises:
            LakeUnavailableError: other processes changed the table each time.
        """
        for number in range(COMMIT_TRIES):
            changes = field_changes(self.table.schema(), fields, former)
            if not changes:
                return False
            try:
                with as_unavailable(self.identifier), self.table.update_schema() as update:
                    for method, *arguments in changes:
                        getattr(update, method)(*arguments)
            except CommitFailedException:
                self.table = self._catalog.load_table(self.identifier)
                time.sleep(random.uniform(0, 0.02 * (number + 1)))
            else:
                return True
        raise LakeUnavailableError(".".join(self.identifier), f"its fields moved at each of {COMMIT_TRIES} commits")
