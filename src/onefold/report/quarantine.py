"""The quarantine, read from the state table without a JVM: what the view `<target>__quarantine` shows in Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER
from onefold.errors import UsageError
from onefold.iceberg.state_table import find_state
from onefold.instants import stamped
from onefold.lake import Lake
from onefold.report.ledger import POSITION, equal, plain, records_of
from onefold.report.order import in_order, stream
from onefold.tables import state as S
from onefold.vocabulary import RowState

_BATCH, _REASON = f"{S.QUARANTINE}.batch", f"{S.QUARANTINE}.reason"
_ORDER = (*(FLAT_ORDER[name] for name in ("topic", "partition", "offset")), _BATCH)


def quarantine_of(
    lake: Lake, dataset: Dataset, batch: str | None = None, reason: str | None = None, limit: int | None = None
) -> list[dict[str, Any]]:
    """Rejected records of published batches in the order of their positions; JSON values, bytes in hex.

    `key_text` and `value_text` are null where the bytes are no UTF-8.

    Raises:
        UsageError: the batch is not published.
    """
    return list(each_quarantined(lake, dataset, batch, reason, limit))


def each_quarantined(
    lake: Lake, dataset: Dataset, batch: str | None = None, reason: str | None = None, limit: int | None = None
) -> Iterator[dict[str, Any]]:
    """The same one by one. With a `limit` no more are held than that, without one all of them as Arrow has them.

    Raises:
        UsageError: the batch is not published.
    """
    if batch and batch not in {record.batch for record in records_of(lake, dataset)}:
        raise UsageError(f"{dataset.name}: batch {batch} is not published (see `onefold batches {dataset.name}`)")
    table = find_state(lake, dataset)
    if table is None:
        return iter(())
    found = stream(
        table.scan(equal(S.STATE, RowState.QUARANTINED), (*FLAT_ORDER.values(), S.QUARANTINE), table.main.snapshot)
    )
    rows = in_order((_wanted(some.flatten(), batch, reason) for some in found), _ORDER, limit)
    return (plain(_record(row)) for row in rows)


def _wanted(found: pa.Table, batch: str | None, reason: str | None) -> pa.Table:
    for name, value in ((_BATCH, batch), (_REASON, reason)):
        if value is not None:
            found = found.filter(pc.equal(found[name], value))
    return found


def _record(row: dict[str, Any]) -> dict[str, Any]:
    kept = {name: row[f"{S.QUARANTINE}.{name}"] for name in ("reason", "detail", "key", "value")}
    return {
        "batch": row[_BATCH],
        **{name: row[FLAT_ORDER[name]] for name in POSITION},
        "timestamp": stamped(row[FLAT_ORDER["timestamp"]]),
        **kept,
        "key_text": _text(kept["key"]),
        "value_text": _text(kept["value"]),
        **{name: row[f"{S.QUARANTINE}.{name}"] for name in ("headers", "object", "line")},
    }


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
