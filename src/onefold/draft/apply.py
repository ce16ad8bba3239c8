"""What a record does to the table: one row a message (append), or the newest version of a key (upsert)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from onefold.dataset.reserved_columns import is_own
from onefold.draft.changes import Changes
from onefold.draft.entries import counted
from onefold.draft.evidence import Cell, Column, snake, together
from onefold.draft.versions import Growth, find_version


@dataclass(frozen=True, slots=True)
class Upsert:
    """The key, the version and what deletes, each with its reason."""

    reason: str
    key: tuple[str, ...]
    key_names: tuple[str, ...]
    """Columns that the table gets besides the fields of the value."""
    key_reason: str
    version: tuple[str, ...]
    version_reason: str
    deletes: bool
    """Whether a tombstone deletes its key."""
    notes: tuple[str, ...] = ()

    def with_notes(self, notes: Sequence[str]) -> Upsert:
        """The same with more notes."""
        return replace(self, notes=(*self.notes, *notes))


@dataclass(frozen=True, slots=True)
class Append:
    """One row a message."""

    reason: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Log:
    """The messages in the order of their logs, by column."""

    key: list[Column]
    """Parts of the Kafka key that an expression can name."""
    unnamed: tuple[str, ...]
    """Parts of it that differ and that none can."""
    headers: list[Column]
    fields: list[Column]
    """Required scalar fields of the values, null in tombstones."""
    partitions: list[object]
    contents: list[str]
    nulls: list[bool]
    """Which messages are tombstones with a key."""
    exact: bool
    several: bool = False
    """Whether the source has several topics, or may get more."""
    compacted: bool = False
    """Whether the brokers compact the topics."""

    @property
    def tombstones(self) -> int:
        """How many messages are tombstones with a key."""
        return sum(self.nulls)


def draft_apply(log: Log, events: str) -> Upsert | Append:
    """Upsert where tombstones delete, or where keys come again with a growing version; else append.

    `events` names a field that is one a message: then a key that comes again is no row that changes.
    """
    if log.tombstones:
        return _deleting(log)
    if not log.compacted:
        return _growing(log, events)
    if not (problem := _key_problem(log)):
        return _deleting(log)
    note = f"the topic is compacted, but {problem}: a tombstone can delete no row and will be rejected (null_value)"
    applied = _growing(log, events)
    return replace(applied, notes=(note, *applied.notes))


def key_of_changes(log: Log) -> tuple[list[Column], str] | None:
    """What rows of a database are keyed by, and why: the fields that are the Kafka key, else its parts."""
    columns = [column for column in log.key if column.mostly]
    if fields := _as_fields(log, columns):
        return fields, "the fields that are the Kafka key, which is the table's own"
    return None if not columns or _unfit(log) else (columns, "the Kafka key, which is the table's own")


def upsert_of_changes(log: Log, columns: Sequence[Column], key_reason: str, changes: Changes) -> Upsert:
    """Upsert by the order in which the connector sent the changes."""
    form = "flattened by ExtractNewRecordState" if changes.flattened else "with before, after and op"
    moved = _with_several(together(columns), log.partitions)
    notes = []
    if moved or log.several:
        where = f"{counted(moved, 'key')} in several partitions" if moved else "there may be several topics"
        notes.append(f"{where}, whose offsets order nothing: a key that moves makes its batch red")
    if changes.flattened:
        notes.append(
            "ExtractNewRecordState drops truncates: if a table is emptied in the database, its rows stay here, and "
            "nothing says so"
        )
    return _upsert(
        f"changes of a database, {form}; a delete is one of them",
        columns,
        key_reason,
        "offset",
        "the connector sends the changes of a key to one partition, in their order"
        + ("; what it sends again after a restart is known by debezium.position" if changes.has_positions else ""),
        deletes=False,
    ).with_notes(notes)


def _growing(log: Log, events: str) -> Upsert | Append:
    """Upsert where keys come again with a growing version; else append."""
    found = _keys(log)
    for columns in found:
        keys = together(columns)
        changed = _with_several(keys, log.contents)
        growth = find_version(_others(log.headers + log.fields, columns), keys, log.partitions, log.contents)
        if not growth or not changed:
            continue
        parts = ", ".join(column.name for column in columns)
        seen = f"{changed} of {len(set(keys) - {None})} values of {parts} come again with other content, and "
        if events:
            note = f"{seen}{growth.expression} {growth}: if only the newest of each counts, it is an upsert"
            return Append(f"each record has a {events} of its own", (note,))
        reason = f"{seen}{growth.expression} grows: rows that change"
        return _upsert(reason, columns, "", growth.expression, str(growth), deletes=False)
    if not found and (unfit := _unfit(log)):
        return Append(f"the key cannot key a row: {unfit}, and no field says the same")
    return Append("no tombstones, and no key that comes again with a growing version: each message is a row")


def _deleting(log: Log) -> Upsert | Append:
    """Upsert by the Kafka key, if it can key a row: tombstones delete."""
    columns = [column for column in log.key if column.mostly]
    tombstones = counted(log.tombstones, "tombstone") if log.tombstones else "no tombstone in the sample"
    evidence = f"the topic is compacted, {tombstones}" if log.compacted else tombstones
    reason = f"{evidence}: a null value deletes its key"
    if not columns:
        return Append(
            "there is no key that can be read",
            (f"{tombstones}, whose key cannot be read: they will be rejected (null_value)",),
        )
    keys = together(columns)
    if unfit := _unfit(log):
        return _by_fields(
            log, columns, reason, f"{tombstones}: the key cannot key a row ({unfit}), so they can delete none"
        )
    growth = find_version(log.headers, keys, log.partitions, log.contents)
    if growth:
        return _upsert(reason, columns, "a tombstone has only its key", growth.expression, str(growth), deletes=True)
    if log.exact:
        inner = _field_version(log, keys)
        why = f"{_NO_VERSION}{f' ({inner.expression} {inner}, but tombstones do not have it)' if inner else ''}"
        key_reason = "a tombstone has only its key"
        moved = _with_several(keys, log.partitions)
        if moved or log.several:
            where = f"{counted(moved, 'key')} in several partitions" if moved else "there may be several topics"
            why += f"; {where}, whose offsets order nothing: {_CLOCKS}"
            return _upsert(reason, columns, key_reason, ("timestamp", "offset"), why, deletes=True)
        why += "; each key keeps to one partition in the sample, and a key that moves makes its batch red"
        return _upsert(reason, columns, key_reason, "offset", why, deletes=True)
    note = (
        f"{tombstones}: to delete by them a header must hold the version, for this layout "
        "carries neither offset nor timestamp"
    )
    return _by_fields(log, columns, reason, note)


def _by_fields(log: Log, columns: Sequence[Column], reason: str, note: str) -> Upsert | Append:
    """An upsert by fields that repeat the key, which tombstones do not have."""
    inner = _field_version(log, together(columns))
    values = _as_fields(log, columns)
    if inner and values:
        nulls = "a null value makes its batch red, until delete_when says what it means (never: nothing)"
        return _upsert(f"{reason}, but: {note}; {nulls}", values, "", inner.expression, str(inner), deletes=False)
    return Append("no version can be found", (f"{note}; they will be rejected (null_value)",))


def _field_version(log: Log, keys: Sequence[Cell]) -> Growth | None:
    """The version in the values, tombstones aside."""
    there = [index for index, null in enumerate(log.nulls) if not null]
    columns = [Column(field.expression, field.name, [field.cells[i] for i in there]) for field in log.fields]
    partitions, contents = [log.partitions[i] for i in there], [log.contents[i] for i in there]
    return find_version(columns, [keys[i] for i in there], partitions, contents)


def _upsert(
    reason: str,
    columns: Sequence[Column],
    key_reason: str,
    version: str | tuple[str, ...],
    version_reason: str,
    *,
    deletes: bool,
) -> Upsert:
    keys = together(columns)
    there = [key for key in keys if key is not None]
    sampled = f"{counted(len(set(there)), 'key')} in {counted(len(there), 'record')}"
    return Upsert(
        reason,
        tuple(column.expression for column in columns),
        tuple(column.name for column in columns if _of_key(column)),
        "; ".join(filter(None, (key_reason, sampled))),
        (version,) if isinstance(version, str) else version,
        version_reason,
        deletes,
    )


_NO_VERSION = "a tombstone holds no field and no header is a version: the order of the log, as compaction has it"
_CLOCKS = (
    "so the timestamp comes first, which trusts the producers' clocks unless the topic has "
    "message.timestamp.type=LogAppendTime"
)


def _keys(log: Log) -> list[list[Column]]:
    """What rows may be keyed by: the Kafka key, as fields where they repeat it; else fields called like ids."""
    whole = [column for column in log.key if column.mostly]
    if whole:
        fields = _as_fields(log, whole)
        return [] if _unfit(log) and not fields else [fields or whole]
    ids = [column for column in log.fields if snake(column.name).endswith("id") and column.mostly]
    return [[column] for column in sorted(ids, key=lambda column: snake(column.name) != "id")]


def _key_problem(log: Log) -> str:
    """Why the Kafka key cannot key a row; or nothing."""
    if not any(column.mostly for column in log.key):
        return "there is no key that can be read"
    unfit = _unfit(log)
    return f"the key cannot key a row ({unfit})" if unfit else ""


def _unfit(log: Log) -> str:
    """What keeps parts of the key from being columns of the table; or nothing."""
    own = next((column.name for column in log.key if column.mostly and is_own(column.name)), None)
    if own:
        return f"its part {own} has the name of a column that tables have of their own"
    named = ", ".join(log.unnamed)
    return f"its part {named} is not in every key as text or a number that an expression can name" if named else ""


def _as_fields(log: Log, columns: Sequence[Column]) -> list[Column]:
    """The fields that hold the same as the parts of the key; none unless each part has such a field."""
    found: list[Column] = []
    for part in columns if not log.unnamed else ():
        same = (field for field in log.fields if _same(part.cells, field.cells, log.nulls))
        field = min(same, key=lambda column: column.name != part.name, default=None)
        if field is None:
            return []
        found.append(field)
    return found


def _same(part: Sequence[Cell], field: Sequence[Cell], nulls: Sequence[bool]) -> bool:
    """Whether a field says what a part of the key does, wherever there is a value."""
    rows = zip(part, field, nulls, strict=True)
    there = [(cell, other) for cell, other, null in rows if cell is not None and not null]
    return bool(there) and all(other is not None and str(cell) == str(other) for cell, other in there)


def _others(columns: Sequence[Column], taken: Sequence[Column]) -> list[Column]:
    """The columns that are not taken, nor fields whose name in the table is that of a part of the key."""
    parts = {column.name.lower() for column in taken if _of_key(column)}
    outside = ("header.", "envelope.")
    free = (column for column in columns if column.expression.startswith(outside) or column.name.lower() not in parts)
    return [column for column in free if column not in taken]


def _of_key(column: Column) -> bool:
    """Whether it is read from the Kafka key; a field may be called `key_id`."""
    return column.expression.partition(".")[0] == "key"


def _with_several(keys: Sequence[Cell], values: Sequence[object]) -> int:
    """How many keys have several of the values; `values` has a value for each key of `keys`."""
    found: dict[Cell, set[object]] = {}
    for key, value in zip(keys, values, strict=True):
        if key is not None:
            found.setdefault(key, set()).add(value)
    return sum(len(contents) > 1 for contents in found.values())
