"""The quarantine, read from the state table without a JVM: what the view `<target>__quarantine` shows in Spark."""

from __future__ import annotations

from typing import Any

from onefold.catalog import find_state
from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.instants import stamped
from onefold.lake import Lake
from onefold.report.ledger import plain, position, records_of
from onefold.upsert import columns as U


def quarantine_of(
    lake: Lake, dataset: Dataset, batch: str | None = None, reason: str | None = None
) -> list[dict[str, Any]]:
    """Rejected records of published batches in the order of their positions; JSON values, bytes in hex.

    `key_text` and `value_text` are null where the bytes are no UTF-8.

    Raises:
        UsageError: the batch is not published.
    """
    if batch and batch not in {record.batch for record in records_of(lake, dataset)}:
        raise UsageError(f"{dataset.name}: batch {batch} is not published (see `onefold batches {dataset.name}`)")
    table = find_state(lake, dataset)
    if table is None:
        return []
    found = table.quarantined("_order", U.QUARANTINE)
    rows = (_record(row["_order"], row[U.QUARANTINE]) for row in found)
    wanted = (row for row in rows if batch in (None, row["batch"]) and reason in (None, row["reason"]))
    return sorted((plain(row) for row in wanted), key=lambda row: (*position(row), row["batch"]))


def _record(order: dict[str, Any], kept: dict[str, Any]) -> dict[str, Any]:
    return {
        "batch": kept["batch"],
        **{name: order[name] for name in ("cluster", "topic", "incarnation", "partition", "offset")},
        "timestamp": stamped(order["timestamp"]),
        "reason": kept["reason"],
        "detail": kept["detail"],
        "key": kept["key"],
        "value": kept["value"],
        "key_text": _text(kept["key"]),
        "value_text": _text(kept["value"]),
        "headers": kept["headers"],
        "object": kept["object"],
        "line": kept["line"],
    }


def _text(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None
