"""Why is this record there: the verdicts of a key or a position over all batches, without a JVM.

Verdicts exist once a published commit record names them. Those of a red batch's last attempt are kept with it, and are
listed on request, marked as not published: they are what that attempt found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import date, datetime
from functools import reduce
from typing import Any

from pyiceberg.expressions import AlwaysFalse, And, BooleanExpression, Not, Or

from onefold import instants
from onefold.dataset import Dataset
from onefold.dataset.reserved_columns import FLAT_ORDER, is_own
from onefold.iceberg.scan import order_of
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.offsets import Position
from onefold.report.attempts import Attempt, RedBatch, attempts_of
from onefold.report.held import missing_of, seen_in
from onefold.report.ledger import (
    POSITION,
    equal,
    one_of,
    plain_row,
    position,
    verdict_rows,
)
from onefold.tables import state as S
from onefold.tables.key_digest import digest_of_sum, values_of_sum
from onefold.upsert.commit_record import CommitRecord
from onefold.vocabulary import RowState


def explain(
    lake: Lake, dataset: Dataset, digest: bytes, period: str | None = None, red: Sequence[RedBatch] = ()
) -> list[dict[str, Any]]:
    """Every record that touched a key, in the total order, with its verdicts in the order of batches; also those that
    the filter, a skip or their own rejection took out, where their key can be read.

    `published` is whether the verdict's batch is; those of the batches in `red` are listed, too. The record that wins
    has the row of its key as `row`: the columns that readers see, and `_state` (live, deleted, hidden, held). One that
    is held has `waits`: `{missing, seen}`, as `onefold.report.held` lists them. `period`: where the key's begins
    (`onefold.tables.key_digest.period_of_key`); nothing of other periods is opened.
    """
    periods = None if period is None else [period]
    return _touching(lake, dataset, attempts_of(lake, dataset, red), equal("key", digest), [digest], periods)


def explain_sum(
    lake: Lake, dataset: Dataset, key: dict[str, Any], red: Sequence[RedBatch] = ()
) -> list[dict[str, Any]]:
    """Mode increment: every record of the messages that a key's sum is made of, and those that were taken out, as
    `explain` lists them."""
    table = find_state(lake, dataset)
    if table is None:
        return []
    wanted = equal(S.STATE, RowState.ENTRY)
    for name, value in values_of_sum(dataset, key).items():
        wanted = And(wanted, equal(name, value))
    digests = set()
    for snapshot in (table.main.snapshot, *(batch.attempt.head for batch in red if batch.kept)):
        entries = table.table.scan(row_filter=wanted, selected_fields=("_key",), snapshot_id=snapshot)
        digests |= set(entries.to_arrow()["_key"].to_pylist())
    messages = one_of("key", sorted(digests)) if digests else AlwaysFalse()
    return _touching(lake, dataset, attempts_of(lake, dataset, red), messages, [digest_of_sum(dataset, key)])


def explain_position(lake: Lake, dataset: Dataset, at: Position, red: Sequence[RedBatch] = ()) -> list[dict[str, Any]]:
    """The records of one position: every record that touched a key which a record there had, as `explain` lists it,
    and what had no key; in every cluster and incarnation that has such a position, where it names none."""
    attempts = attempts_of(lake, dataset, red)
    place = reduce(And, (equal(name, part) for name, part in asdict(at).items() if part is not None))
    there = _judged(lake, dataset, attempts, place)
    rows = [row | {"row": None} for row in there if not row["key"]]
    for key in sorted({row["key"] for row in there if row["key"]}):
        periods = _shared_periods(attempts, {row["batch"] for row in there if row["key"] == key})
        digest = bytes.fromhex(key)
        rows += _touching(lake, dataset, attempts, equal("key", digest), [digest], periods)
    return rows


def _shared_periods(attempts: Sequence[Attempt], batches: set[str]) -> list[str] | None:
    """The periods that a key can lie in which these batches have; None: any."""
    periods = [set(attempt.within) for attempt in attempts if attempt.batch in batches and attempt.within is not None]
    return sorted(set.intersection(*periods)) if periods else None


def _touching(
    lake: Lake,
    dataset: Dataset,
    attempts: Sequence[Attempt],
    wanted: BooleanExpression,
    keys: Sequence[bytes],
    periods: list[str] | None = None,
) -> list[dict[str, Any]]:
    """The records that the batches of some periods judged, with the rows that they became; and of any batch those that
    were taken out and would have had one of `keys`."""
    taken_out = one_of("readable_key", [*keys])
    if periods is None:
        rows = _judged(lake, dataset, attempts, Or(wanted, taken_out))
    else:
        of_periods = [
            attempt for attempt in attempts if attempt.within is None or not set(periods).isdisjoint(attempt.within)
        ]
        rows = _judged(lake, dataset, of_periods, wanted) + _judged(lake, dataset, attempts, taken_out)
        rows = _in_order(rows, attempts)
    standing = _rows_of_keys(lake, dataset, {row["key"] for row in rows if row["key"]}, periods)
    for row in rows:
        place = (row["key"], *(row[name] for name in POSITION))
        row["row"] = standing.get(place) if row["published"] else None
    if dataset.apply.HOLDS:
        _add_waits(lake, dataset, rows)
    return rows


def _add_waits(lake: Lake, dataset: Dataset, rows: list[dict[str, Any]]) -> None:
    """Add `waits` to the verdicts of records that are held."""
    held = [row for row in rows if row["row"] and row["row"][S.STATE] == RowState.HELD]
    table = find_state(lake, dataset) if held else None
    if table is None:
        return
    keys = sorted({bytes.fromhex(row["key"]) for row in held})
    missing = missing_of(lake, dataset, table, keys)
    for row in held:
        below = missing[bytes.fromhex(row["key"]), int(row["version"])]
        seen = seen_in((other for other in rows if other["key"] == row["key"]), below)
        row["waits"] = {"missing": [list(versions) for versions in below], "seen": seen}


def _judged(
    lake: Lake, dataset: Dataset, attempts: Sequence[Attempt], wanted: BooleanExpression
) -> list[dict[str, Any]]:
    """What some attempts said of records, in the total order, then in the order of the attempts."""
    if not attempts:
        return []
    names = (
        "timestamp",
        *POSITION,
        "version",
        "message_id",
        "verdict",
        "reason",
        "scope",
        "survivor",
        "won",
        "finding",
        "detail",
        "batch",
        "key",
    )
    published = {attempt.attempt for attempt in attempts if isinstance(attempt, CommitRecord)}
    of_attempts = one_of("attempt", [attempt.attempt for attempt in attempts])
    rows = verdict_rows(lake, dataset, And(wanted, of_attempts), (*names, "readable_key", "attempt"))
    found = [
        {**{name: row[name] for name in names}, "published": row["attempt"] in published}
        | {"key": row["key"] or row["readable_key"]}
        for row in rows
    ]
    return _in_order(found, attempts)


def _in_order(rows: list[dict[str, Any]], attempts: Sequence[Attempt]) -> list[dict[str, Any]]:
    """Verdicts in the total order of their records, and of a record in the order of the attempts."""
    places = {attempt.batch: number for number, attempt in enumerate(attempts)}
    return sorted(rows, key=lambda row: (str(row["timestamp"] or ""), *position(row, POSITION), places[row["batch"]]))


def _rows_of_keys(
    lake: Lake, dataset: Dataset, keys: set[str], periods: list[str] | None
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """The table's rows of some keys, live, deleted or hidden, by key and position of the record that made each."""
    table = find_state(lake, dataset)
    if table is None or not keys:
        return {}
    wanted = one_of("_key", [bytes.fromhex(key) for key in keys])
    if periods is not None:
        wanted = And(wanted, one_of("_within", [_begins(period) for period in periods]))
    wanted = And(wanted, Not(equal(S.STATE, RowState.MESSAGE)))
    found = {}
    there = table.scan(wanted, ("*",), table.main.snapshot).to_arrow()
    names = [name for name in there.column_names if not is_own(name) or name == S.STATE]
    for row in instants.rows_of(there.select([*names, "_key", *FLAT_ORDER.values()])):
        order = order_of(row)
        shown = {name: row[name] for name in names}
        found[row["_key"].hex(), *(order[name] for name in POSITION)] = plain_row(shown)
    return found


def _begins(period: str) -> date | datetime:
    """Where a period begins, of the type that the table has."""
    return datetime.fromisoformat(f"{period}+00:00") if " " in period else date.fromisoformat(period)
