"""What changed for readers since a batch or a snapshot: the difference of two snapshots, whatever lay between.

Only files that one of the two has and the other has not are read, or whose deletes differ; of those the key and
the content hash first, and payload only of files that were written since. So a compaction shows no change, and
a row that changed back is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import FileScanTask

from onefold.dataset import Dataset
from onefold.decisions import RolledBack
from onefold.errors import ChangesUnknownError
from onefold.generation import Retired, check_generation
from onefold.iceberg.commits import ROOT
from onefold.iceberg.state_table import StateTable, find_state
from onefold.lake import Lake
from onefold.report.ledger import equal, plain_row
from onefold.report.order import each
from onefold.tables import state as S
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.vocabulary import RowState

_KEY, _HASH = "_key", "_hash"
_LIVE = equal(S.STATE, RowState.LIVE)


@dataclass(frozen=True, slots=True)
class Mark:
    """Up to where rows were read: a snapshot of the state table, and the last batch in it."""

    batch: str | None
    snapshot: int

    def plain(self) -> dict[str, str | None]:
        """As JSON; the snapshot is text, for it has more digits than some readers of JSON keep."""
        return {"batch": self.batch, "snapshot": str(self.snapshot)}


@dataclass(frozen=True, slots=True)
class Changes:
    """`rows` are {change: inserted | updated | deleted, row}; a deleted row is given as it was last seen.

    `count`: how many changes there are; there are fewer rows where a limit was asked for.
    """

    since: Mark | None
    until: Mark | None
    rows: list[dict[str, Any]]
    count: int


@dataclass(frozen=True, slots=True)
class Difference:
    """The same, read as it is asked for: some rows of one kind at a time."""

    since: Mark | None
    until: Mark | None
    parts: Iterable[tuple[str, pa.Table]]

    def rows(self) -> Iterator[dict[str, Any]]:
        """All of them, one by one."""
        return (_as_row(change, row) for change, found in self.parts for row in each(found))

    def first(self, limit: int | None) -> Changes:
        """At most so many of them (None: all), and how many there are."""
        rows: list[dict[str, Any]] = []
        count = 0
        for change, found in self.parts:
            count += found.num_rows
            wanted = found if limit is None else found.slice(0, max(0, limit - len(rows)))
            rows += [_as_row(change, row) for row in each(wanted)]
        return Changes(self.since, self.until, rows, count)


def changes_of(lake: Lake, dataset: Dataset, since: str | None = None, limit: int | None = None) -> Changes:
    """The rows that differ between what readers saw at `since` (a batch or a snapshot; None: nothing) and now.

    Raises:
        ChangesUnknownError: `since` is not published any more, or its snapshot has expired.
        ChangedDatasetError: the dataset file is not the published one.
    """
    return difference(lake, dataset, since).first(limit)


def difference(lake: Lake, dataset: Dataset, since: str | None = None) -> Difference:
    """The same, for a caller that does not want all rows at once. No row is read before it is asked for.

    Raises:
        ChangesUnknownError: `since` is not published any more, or its snapshot has expired.
        ChangedDatasetError: the dataset file is not the published one.
    """
    check_generation(lake, dataset)
    table = find_state(lake, dataset)
    if table is None:
        if since:
            raise ChangesUnknownError(dataset.name, since, "nothing is published")
        return Difference(None, None, ())
    head = table.main
    records = list(chain(lake, dataset, head.record))
    until = Mark(None if head.record == ROOT else records[0].batch, head.snapshot)
    start = _mark(lake, dataset, table, records, since) if since else None
    before = start.snapshot if start else None
    return Difference(start, until, _differences(table, table.published_columns(dataset), before, head.snapshot))


def _as_row(change: str, row: dict[str, Any]) -> dict[str, Any]:
    return {"change": change, "row": plain_row(row)}


def _mark(lake: Lake, dataset: Dataset, table: StateTable, records: list[CommitRecord], since: str) -> Mark:
    """Where `since` is in the history of `main`."""
    record = next((candidate for candidate in records if candidate.batch == since), None)
    if record:
        _check_batch(lake, dataset, record)
        snapshot = table.snapshot_of(record.name)
    else:
        snapshot = int(since) if since.isdecimal() else None
    known = snapshot is not None and table.table.snapshot_by_id(snapshot) is not None
    if record and not known:
        raise ChangesUnknownError(dataset.name, since, "its snapshot has expired (`onefold maintain --snapshots`)")
    if snapshot is None:
        raise ChangesUnknownError(dataset.name, since, "it is not published: it was rolled back, or never was")
    if not known:
        problem = "the published table has no such snapshot: it has expired, or the table was rebuilt"
        raise ChangesUnknownError(dataset.name, since, problem)
    if snapshot not in _ancestors(table):
        raise ChangesUnknownError(dataset.name, since, "it is not published any more: it was rolled back")
    return Mark(record.batch if record else None, snapshot)


def _check_batch(lake: Lake, dataset: Dataset, record: CommitRecord) -> None:
    """Refuse a batch that readers may have seen in another history: published again, it is next to other rows."""
    listed = lake.storage.list(f"datasets/{dataset.name}/retired")
    retired = (lake.get(info.key, Retired) for info in listed)
    if any(retirement and retirement.at >= record.written for retirement in retired):
        problem = "the table was rebuilt since, and every row may be another"
        raise ChangesUnknownError(dataset.name, record.batch, problem)
    listed = lake.storage.list(f"datasets/{dataset.name}/decisions")
    undone = (lake.get(info.key, RolledBack) for info in listed if "-rollback-" in info.key)
    if any(rollback and record.batch in rollback.undone for rollback in undone):
        problem = "it was rolled back and published again; a snapshot tells which one was read (`until` names it)"
        raise ChangesUnknownError(dataset.name, record.batch, problem)


def _ancestors(table: StateTable) -> set[int]:
    found: set[int] = set()
    snapshot = table.table.snapshot_by_id(table.main.snapshot)
    while snapshot:
        found.add(snapshot.snapshot_id)
        snapshot = table.table.snapshot_by_id(snapshot.parent_snapshot_id or 0)
    return found


Tasks = dict[str, FileScanTask]
"""Files of one snapshot to be read, by path."""


def _differences(table: StateTable, names: list[str], start: int | None, end: int) -> Iterator[tuple[str, pa.Table]]:
    """The net changes, partition by partition: a key stays in its own."""
    before, after = _files(table, start) if start else {}, _files(table, end)
    unchanged = {path for path in before.keys() & after.keys() if _deletes(before[path]) == _deletes(after[path])}
    old, new = (_by_partition(files, unchanged) for files in (before, after))
    for key in sorted(old.keys() | new.keys()):
        yield from _in_partition(table, start, end, old.get(key, {}), new.get(key, {}), names)


def _in_partition(
    table: StateTable, start: int | None, end: int, old: Tasks, new: Tasks, names: list[str]
) -> Iterator[tuple[str, pa.Table]]:
    written = {path: task for path, task in new.items() if path not in old}
    # Rows of a file never change: what changed is in files that were written since, what went was in the others.
    rows = _read(table, end, written, names)
    kept = _read(table, end, {path: task for path, task in new.items() if path in old}, [])
    gone = _read(table, start, old, []).rename_columns([_KEY, "before"])
    now = pa.concat_tables([rows.select([_KEY, _HASH]), kept]).rename_columns([_KEY, "after"])
    both = now.join(gone, keys=_KEY, join_type="full outer")
    inserted = both.filter(pc.is_null(both["before"]))
    deleted = both.filter(pc.is_null(both["after"]))
    updated = both.filter(pc.not_equal(both["before"], both["after"]))  # null where either is: no row
    lost = _read(table, start, old, names) if deleted.num_rows else rows.slice(0, 0)
    for change, keys, found in (("deleted", deleted, lost), ("inserted", inserted, rows), ("updated", updated, rows)):
        shown = found.filter(pc.is_in(found[_KEY], value_set=keys[_KEY].combine_chunks())).sort_by(_KEY)
        assert shown.num_rows == keys.num_rows, "a changed row is in a file that was written since"
        yield change, shown.select(names)


def _files(table: StateTable, snapshot: int) -> Tasks:
    found = table.table.scan(row_filter=_LIVE, snapshot_id=snapshot).plan_files()
    return {task.file.file_path: task for task in found}


def _deletes(task: FileScanTask) -> frozenset[str]:
    return frozenset(file.file_path for file in task.delete_files)


def _by_partition(files: Tasks, unchanged: set[str]) -> dict[tuple[Any, ...], Tasks]:
    found: dict[tuple[Any, ...], Tasks] = {}
    for path, task in files.items():
        if path not in unchanged:
            partition = task.file.partition
            found.setdefault(tuple(partition[at] for at in range(len(partition))), {})[path] = task
    return found


def _read(table: StateTable, snapshot: int | None, tasks: Tasks, names: list[str]) -> pa.Table:
    """Key, hash and the named columns of the live rows of some files."""
    wanted = (_KEY, _HASH, *names)
    assert snapshot or not tasks
    scan = table.scan(_LIVE, wanted, snapshot or table.main.snapshot)
    reader = ArrowScan(table.table.metadata, table.table.io, scan.projection(), _LIVE)
    found = reader.to_table(tasks.values()).select(list(wanted))
    return found.cast(pa.schema([pa.field(field.name, _small(field.type)) for field in found.schema]))


def _small(kind: pa.DataType) -> pa.DataType:
    """Keys of one type, whichever the reader chose: a join takes no other."""
    return pa.binary() if pa.types.is_large_binary(kind) else kind
