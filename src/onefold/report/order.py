"""Rows of a scan in an order, with as few of them in memory as the question lets.

Arrow holds a row in a fraction of what Python needs, so a row is made a dictionary only when it is
given out. A limit bounds what is held; without one all rows of the answer are, as Arrow has them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
from pyiceberg.table import DataScan, FileScanTask

from onefold.instants import rows_of

CHUNK = 1_000
"""Rows that are dictionaries at once."""
_RUN_ROWS, _RUN_BYTES = 1_000_000, 256 << 20
"""Where a sorted run ends: the runs of a question are merged."""


def stream(scan: DataScan) -> Iterator[pa.Table]:
    """The rows of a scan, some thousands at a time, file after file."""
    reader = _Streamed(scan.table_metadata, scan.io, scan.projection(), scan.row_filter, scan.case_sensitive)
    return (pa.Table.from_batches([batch]) for batch in reader.to_record_batches(scan.plan_files()))


class _Streamed(ArrowScan):
    """pyiceberg's own reads every file whole, and on with the next ones whether anybody takes the first rows or not."""

    def to_record_batches(self, tasks: Iterable[FileScanTask]) -> Iterator[pa.RecordBatch]:
        for task in tasks:
            deletes = _read_all_delete_files(self._io, [task])
            yield from self._record_batches_from_scan_tasks_and_deletes([task], deletes)


def in_order(found: Iterable[pa.Table], by: Sequence[str], limit: int | None = None) -> Iterator[dict[str, Any]]:
    """The rows of some tables by these columns, nulls first and equal ones as they come; at most `limit`."""
    runs = [_first(found, by, limit)] if limit is not None else list(_runs(found, by))
    sorted_runs = [each(run) for run in runs if run is not None]
    return heapq.merge(*sorted_runs, key=lambda row: tuple((row[name] is not None, row[name]) for name in by))


def each(found: pa.Table) -> Iterator[dict[str, Any]]:
    """The rows of a table, one after another."""
    for batch in found.to_batches(max_chunksize=CHUNK):
        yield from rows_of(batch)


def _first(found: Iterable[pa.Table], by: Sequence[str], limit: int) -> pa.Table | None:
    kept: pa.Table | None = None
    for some in found:
        kept = _sorted([some] if kept is None else [kept, some], by, limit)
    return kept


def _runs(found: Iterable[pa.Table], by: Sequence[str]) -> Iterator[pa.Table]:
    some: list[pa.Table] = []
    rows = size = 0
    for moved in found:
        some.append(moved)
        rows, size = rows + moved.num_rows, size + moved.nbytes
        if rows >= _RUN_ROWS or size >= _RUN_BYTES:
            yield _sorted(some, by)
            some, rows, size = [], 0, 0
    if some:
        yield _sorted(some, by)


def _sorted(some: list[pa.Table], by: Sequence[str], limit: int | None = None) -> pa.Table:
    whole = pa.concat_tables(some, promote_options="permissive")
    keys: dict[str, Any] = {}
    for name in by:  # nulls go last, but for a column of its own that says where they are
        keys |= {f"{name}, if any": pc.is_valid(whole[name]), name: whole[name]}
    places = pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending") for name in keys])
    return whole.take(places if limit is None else places[:limit])
