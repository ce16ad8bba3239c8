"""What waits in the table for a version that has not come (guard contiguous); read without a JVM.

A missing version may have been received all the same: rejected, filtered or skipped, or in a batch that is red. Which
record that is, is looked up when it is asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyiceberg.expressions import And, Or

from onefold.dataset import Dataset
from onefold.dataset.expressions import parse
from onefold.dataset.masks import masked, masked_text
from onefold.decisions.accepted_gaps import gaps_between, highest_forgotten
from onefold.decisions.marks import marks_named
from onefold.iceberg.scan import IN, rows_at
from onefold.iceberg.state_table import StateTable, find_state
from onefold.instants import stamped
from onefold.lake import Lake
from onefold.offsets import Position
from onefold.report.attempts import Attempt, RedBatch, attempts_of
from onefold.report.ledger import POSITION, equal, one_of, plain, position, records_of, verdict_rows
from onefold.upsert.commit_record import CommitRecord, chain
from onefold.upsert.documents import Attempted
from onefold.vocabulary import Reason, RowState, Verdict

NAMED = 5
"""Held records of a batch that its report names."""
_KEYS = 1000
"""Keys of a batch that its report looks at: so many for each verdict that holds a record or takes it out."""
_POSITION = ("topic", "partition", "offset")
_TAKEN_OUT = (Verdict.REJECTED, Verdict.FILTERED, Verdict.SKIPPED)
_VERDICT = ("verdict", "reason", "detail", "batch")
Missing = Sequence[tuple[int, int]]
"""Missing versions, as half-open ranges."""


def held_of(
    lake: Lake, dataset: Dataset, limit: int | None = None, red: Sequence[RedBatch] = ()
) -> list[dict[str, Any]]:
    """The held records, the oldest by their own timestamps first: `{key, version, missing, seen, since, topic,
    partition, offset, timestamp}`. `missing` are the versions below it that have not come, as half-open ranges; `seen`
    are the records that have one of them (`seen_in`), also those of batches in `red`; `since` is the batch that brought
    it, and when its commit record was written.
    """
    table = find_state(lake, dataset) if dataset.apply.HOLDS else None
    if table is None:
        return []
    names = _key_columns(dataset)
    held = sorted(table.held("_key", "_version", "_order", *names), key=_age)
    shown = held[:limit] if limit else held
    keys = sorted({row["_key"] for row in shown})
    missing = missing_of(lake, dataset, table, keys)
    attempts = attempts_of(lake, dataset, red)
    verdicts = _verdicts_of(lake, dataset, keys, attempts)
    since = _since(attempts, verdicts)
    return [
        {
            "key": plain({name: row[name] for name in names}),
            "version": row["_version"],
            "missing": [list(versions) for versions in missing[row["_key"], row["_version"]]],
            "seen": seen_in(verdicts[row["_key"].hex()], missing[row["_key"], row["_version"]]),
            "since": since.get(_place(row["_key"].hex(), row["_order"])),
            **{name: row["_order"][name] for name in _POSITION},
            "timestamp": at.isoformat() if (at := stamped(row["_order"]["timestamp"])) else None,
        }
        for row in shown
    ]


def seen_in(verdicts: Iterable[Mapping[str, Any]], missing: Missing) -> list[dict[str, Any]]:
    """The records of a key that have a missing version, or were taken out and whose version cannot be read: `{version,
    topic, partition, offset, verdict, reason, detail, batch, published}`, by version, those without one last.

    Of several verdicts of a record the last counts, but for `duplicate`, which says that it was received again; and one
    of a batch that is not published where no other has the record.

    Args:
        verdicts: of the key, as `onefold.report.explain` lists them; of a record in the order of batches.
        missing: what a held record waits for.
    """
    last: dict[tuple[Any, ...], Mapping[str, Any]] = {}
    for row in verdicts:
        place = tuple(row[name] for name in POSITION)
        if place not in last or (row["published"] and row["verdict"] != Verdict.DUPLICATE):
            last[place] = row
    found = [
        {"version": version, **{name: row[name] for name in (*_POSITION, *_VERDICT, "published")}}
        for row in last.values()
        if _is_missing(version := _version(row), missing, row)
    ]
    return sorted(found, key=lambda row: (row["version"] is None, row["version"] or 0, position(row)))


def in_words(missing: tuple[int, int]) -> str:
    """Missing versions, half-open, as a person says them."""
    start, end = missing
    return str(start) if end == start + 1 else f"{start} to {end - 1}"


def seen_in_words(seen: Mapping[str, Any]) -> str:
    """Where a missing version was seen, and what became of it."""
    version = "a version that cannot be read" if seen["version"] is None else f"version {seen['version']}"
    batch = "" if seen["published"] else f" in batch {seen['batch']}, which is not published"
    return f"{version} is at {Position.of(seen) or 'no known position'}: {seen['verdict']}/{seen['reason']}{batch}"


def seen_of_batch(lake: Lake, dataset: Dataset, attempt: Attempt, parent: str, snapshot: int) -> list[str]:
    """Sentences about the held records whose missing version was seen, of keys of which a batch holds a record or takes
    one out: the oldest, as the table is with the batch. Keys and versions are masked as the dataset declares.

    Args:
        lake: where the verdicts are.
        dataset: the dataset.
        attempt: at the batch; its commit record where it is published.
        parent: the commit record of the table without the batch.
        snapshot: of the table with the batch; nothing is known once it has expired.
    """
    table = find_state(lake, dataset) if dataset.apply.HOLDS else None
    if table is None or table.table.snapshot_by_id(snapshot) is None:
        return []
    keys, names = _keys_of(lake, dataset, attempt), _key_columns(dataset)
    if not keys:
        return []
    wanted = And(one_of("_key", keys), equal("_state", RowState.HELD))
    held = sorted(rows_at(table.table, snapshot, wanted, ("_key", "_version", "_order", *names)), key=_age)
    keys = sorted({row["_key"] for row in held})
    missing = missing_of(lake, dataset, table, keys, snapshot, attempt)
    attempts: list[Attempt] = [*reversed(list(chain(lake, dataset, parent))), attempt]
    verdicts = _verdicts_of(lake, dataset, keys, attempts)
    found = list[str]()
    for row in held:
        seen = seen_in(verdicts[row["_key"].hex()], missing[row["_key"], row["_version"]])
        if seen and len(found) < NAMED:
            found.append(_sentence(dataset, row, {name: row[name] for name in names}, seen))
    return found


def missing_of(
    lake: Lake,
    dataset: Dataset,
    table: StateTable,
    keys: Sequence[bytes],
    snapshot: int | None = None,
    newest: Attempted | None = None,
) -> dict[tuple[bytes, int], list[tuple[int, int]]]:
    """By key and held version: what is missing between the key's head, or what was forgotten, and that version.

    Of the table as it is, or with `snapshot` as an attempt left it, which is then the `newest`.
    """
    assert dataset.apply.version
    if snapshot is None:
        snapshot, newest = table.main.snapshot, next(iter(records_of(lake, dataset)), None)
    heads, above = dict.fromkeys(keys, dataset.apply.version.begins - 1), {key: list[int]() for key in keys}
    marks = marks_named(lake, dataset.name, newest.forgotten) if newest else {}
    forgotten = highest_forgotten(dataset, marks.values())
    heads |= {key: forgotten[key] for key in keys if key in forgotten}
    rows = rows_at(table.table, snapshot, IN("_key", list(keys)), ("_key", "_version", "_state")) if keys else ()
    for row in rows:
        if row["_state"] == RowState.HELD:
            above[row["_key"]].append(row["_version"])
        elif row["_state"] != RowState.MESSAGE:
            heads[row["_key"]] = max(row["_version"], heads[row["_key"]])
    return {
        (key, version): gaps_between(heads[key], sorted(lower for lower in above[key] if lower <= version))
        for key in keys
        for version in above[key]
    }


def _sentence(dataset: Dataset, row: dict[str, Any], key: dict[str, Any], seen: list[dict[str, Any]]) -> str:
    assert dataset.apply.version
    parts = [parse(text) for _, text in dataset.apply.version.expressions]

    def shown(version: int | None) -> Any:
        return None if version is None else masked_text(dataset, version, *parts)

    of_key = ", ".join(f"{name} {value}" for name, value in masked(dataset, plain(key)).items())
    where = "; ".join(seen_in_words(other | {"version": shown(other["version"])}) for other in seen[:NAMED])
    return f"Version {shown(row['_version'])} of {of_key} is held, and {where}"


def _is_missing(version: int | None, missing: Missing, row: Mapping[str, Any]) -> bool:
    if version is None:
        return bool(missing) and row["verdict"] in _TAKEN_OUT and row["reason"] != Reason.FORGOTTEN
    applied = row["published"] and row["verdict"] in (Verdict.APPLIED, Verdict.HELD)
    return not applied and any(start <= version < end for start, end in missing)


def _version(row: Mapping[str, Any]) -> int | None:
    return None if row["version"] is None else int(row["version"])


def _key_columns(dataset: Dataset) -> list[str]:
    """The columns of the table that say a row's key."""
    columns = {*dataset.fields, *(name for name, _ in dataset.key_columns)}
    return [name for name in dict.fromkeys(dataset.key_names) if name in columns]


def _keys_of(lake: Lake, dataset: Dataset, attempt: Attempt) -> list[bytes]:
    """Keys of which a batch holds a record, and then those of which it takes one out."""
    found: dict[bytes, None] = {}
    for verdict, column in ((Verdict.HELD, "key"), *((verdict, "readable_key") for verdict in _TAKEN_OUT)):
        if verdict in attempt.counts:
            wanted = And(equal("attempt", attempt.attempt), equal("verdict", verdict))
            rows = verdict_rows(lake, dataset, wanted, (column,), limit=_KEYS)
            found |= dict.fromkeys(bytes.fromhex(row[column]) for row in rows if row[column])
    return [*found]


def _verdicts_of(
    lake: Lake, dataset: Dataset, keys: Sequence[bytes], attempts: Sequence[Attempt]
) -> dict[str, list[dict[str, Any]]]:
    """By key, in hex: the verdicts of its records, and of those that were taken out of it, in the order of attempts."""
    found: dict[str, list[dict[str, Any]]] = {key.hex(): [] for key in keys}
    if not keys:
        return found
    numbers = {attempt.attempt: number for number, attempt in enumerate(attempts)}
    published = {attempt.attempt for attempt in attempts if isinstance(attempt, CommitRecord)}
    wanted = And(Or(one_of("key", [*keys]), one_of("readable_key", [*keys])), one_of("attempt", [*numbers]))
    names = (*POSITION, "key", "readable_key", "version", "attempt", *_VERDICT)
    for row in sorted(verdict_rows(lake, dataset, wanted, names), key=lambda row: numbers[row["attempt"]]):
        found[row["key"] or row["readable_key"]].append(row | {"published": row["attempt"] in published})
    return found


def _since(
    attempts: Sequence[Attempt], verdicts: Mapping[str, Sequence[dict[str, Any]]]
) -> dict[tuple[Any, ...], dict[str, Any]]:
    """By key and position: the first published batch that had the record."""
    records = {attempt.attempt: attempt for attempt in attempts if isinstance(attempt, CommitRecord)}
    found: dict[tuple[Any, ...], dict[str, Any]] = {}
    for key, rows in verdicts.items():
        for row in rows:
            if (record := records.get(row["attempt"])) and row["key"]:
                since = {"batch": record.batch, "at": record.written.isoformat()}
                found.setdefault(_place(key, row), since)
    return found


def _age(row: dict[str, Any]) -> tuple[Any, ...]:
    return row["_order"]["timestamp"], position(row["_order"]), row["_version"]


def _place(key: str, row: Mapping[str, Any]) -> tuple[Any, ...]:
    return key, *(row[name] for name in _POSITION)
