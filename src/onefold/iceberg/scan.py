"""Scan a snapshot of a state table with the table's fields of today."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pyiceberg.expressions import EqualTo, In
from pyiceberg.schema import Schema
from pyiceberg.table import DataScan, Table

from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.instants import rows_of

# Their own signatures, which take term and literal by position, are not what mypy sees of a pydantic model.
EQUAL_TO: Any = EqualTo
IN: Any = In


def scan(table: Table, row_filter: Any, fields: Iterable[str], snapshot: int, limit: int | None = None) -> DataScan:
    """A scan of a snapshot with the table's fields of today: renamed, widened, NULL where the snapshot has none."""
    metadata, io = table.metadata, table.io
    return _ScanOfToday(metadata, io, row_filter, tuple(fields), snapshot_id=snapshot, limit=limit)


def rows_at(table: Table, snapshot: int, row_filter: Any, fields: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The rows of a snapshot that a filter takes, with only some columns.

    `_order` among `fields` adds the parts of the total order, as a dict.
    """
    columns = [name for field in fields for name in (FLAT_ORDER.values() if field == "_order" else (field,))]
    for batch in scan(table, row_filter, columns, snapshot).to_arrow_batch_reader():
        for row in rows_of(batch):
            yield row | {"_order": order_of(row)} if "_order" in fields else row


def order_of(row: Mapping[str, Any]) -> dict[str, Any]:
    """The total order's parts of a row of a state table."""
    return {part: row[name] for part, name in FLAT_ORDER.items()}


class _ScanOfToday(DataScan):
    def projection(self) -> Schema:
        schema = self.table_metadata.schema()
        return schema if "*" in self.selected_fields else schema.select(*self.selected_fields)
