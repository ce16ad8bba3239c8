"""What makes two records the same message: ids in headers and fields, compound keys of the application."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from onefold.draft.entries import counted
from onefold.draft.evidence import Cell, Column, Evidence, snake, together, weigh
from onefold.draft.messages import Sent, count_contradicted, count_unproved

_MESSAGE_ID = re.compile(
    r"(x_)?((message|msg|event|record|idempotency|dedup|deduplication)_?(id|key|uuid|guid)|ce_id|uuid|guid|id)"
)
_OF_OTHERS = re.compile(r"trace|span|correlation|causation|parent|session|user|tenant|request|customer|producer")
_UUID = re.compile(
    r"[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{4}-?[0-9a-fA-F]{12}|[0-9A-HJKMNP-TV-Z]{26}"
)
_BARE = ("id", "uuid", "guid")
"""Names of a message's id that may as well be the id of a thing."""
_BUSINESS = re.compile(r"(.*_)?(id|key|no|nr|number|code|uuid|ref|reference|sku)|line")
_PRODUCER = re.compile(r"producer(_(id|name))?|.*_producer(_(id|name))?")
_SEQUENCE = re.compile(r"seq|sequence(_(id|number|no))?|.*_(seq|sequence)")
_PROVED = "; each with the message id, or producer's sequence, of an earlier record"
_MOST_COLUMNS = 8
_MOST_PARTS = 3
_EVENT = ("source", "id")
"""What CloudEvents' specification calls unique for each event, together."""


@dataclass(frozen=True, slots=True)
class Found:
    """Expressions of a level, and why."""

    expressions: tuple[str, ...]
    reason: str
    evidence: Evidence
    unproved: int = 0
    """Records that it would fold, and of which nothing else says that they are the same message."""


def find_message_id(
    headers: Sequence[Column], fields: Sequence[Column], contents: Sequence[str], sequences: Sequence[Sent]
) -> Found | None:
    """A global id: by its name in a header, then in a field; else whatever looks like a UUID and is one a message."""
    for what, column in named_ids(headers, fields):
        evidence = weigh(column.cells, contents)
        if evidence.always and evidence.consistent and not doubt(column, evidence, sequences):
            return Found((column.expression,), f"{what} {column.name}: {evidence}", evidence)
    for columns, what in ((headers, "header"), (fields, "field")):
        for column in columns:
            evidence = weigh(column.cells, contents)
            own = not _OF_OTHERS.search(snake(column.name))
            several = evidence.distinct > 1 and 2 * evidence.distinct >= evidence.present
            if not (own and several and evidence.always and evidence.clashing == 0 and _uuids(column.cells)):
                continue
            if not doubt(column, evidence, sequences):
                return Found((column.expression,), f"{what} {column.name}, UUIDs: {evidence}", evidence)
    return None


def named_ids(headers: Sequence[Column], fields: Sequence[Column]) -> Iterator[tuple[str, Column]]:
    """Headers, then fields, with the name of a message id, and which of both they are; the bare `id` last."""
    for columns, what in ((headers, "header"), (fields, "field")):
        named = [column for column in columns if _MESSAGE_ID.fullmatch(snake(column.name))]
        for column in sorted(named, key=lambda column: snake(column.name) == "id"):
            yield what, column


def doubt(column: Column, evidence: Evidence, sequences: Sequence[Sent]) -> str:
    """Why an id with one content for each value may be none of the message, but made of the content; or nothing."""
    if other := count_contradicted(column.cells, sequences):
        return (
            f"{counted(other, 'record')} repeat{'s' if other == 1 else ''} one under another sequence of the producer"
        )
    if snake(column.name) in _BARE and 2 * evidence.distinct < evidence.present:
        return "fewer than half are distinct, as where it is the id of a thing"
    return ""


def partial_ids(
    headers: Sequence[Column], fields: Sequence[Column], contents: Sequence[str], sequences: Sequence[Sent]
) -> list[Column]:
    """Message ids by their names, of however few records, which say of two records that they are the same message."""
    found = []
    for _, column in named_ids(headers, fields):
        evidence = weigh(column.cells, contents)
        if snake(column.name) not in _BARE and evidence.consistent and not doubt(column, evidence, sequences):
            found.append(column)
    return found


def find_cloud_event(
    headers: Sequence[Column],
    fields: Sequence[Column],
    contents: Sequence[str],
    sequences: Sequence[Sent],
    attributes: Sequence[Column] = (),
) -> Found | None:
    """Source and id of CloudEvents, if they are in (almost) every record, with one content each: as `attributes` of
    their envelope; and where they are not read as an envelope, in headers `ce_…` or fields of the value."""
    binary = {snake(column.name): column for column in headers}
    structured = {column.name: column for column in fields}
    for columns, prefix, others, where in (
        (binary, "ce_", ("specversion",), "headers"),
        (structured, "", ("specversion", "type"), "fields"),
        ({column.name: column for column in attributes}, "", (), "attributes"),
    ):
        names = [f"{prefix}{name}" for name in (*_EVENT, *others)]
        found = [columns[name] for name in names if name in columns and columns[name].mostly]
        if len(found) < len(names):
            continue
        parts = found[: len(_EVENT)]
        cells = together(parts)
        evidence = weigh(cells, contents)
        if evidence.always and evidence.consistent and not count_contradicted(cells, sequences):
            reason = f"CloudEvents ({where}): source and id together are unique for each event; {evidence}"
            return Found(tuple(column.expression for column in parts), reason, evidence)
    return None


def _uuids(cells: Sequence[Cell]) -> bool:
    return all(isinstance(cell, str) and _UUID.fullmatch(cell) for cell in cells if cell is not None)


def find_business_key(
    fields: Sequence[Column], contents: Sequence[str], name: str, marks: Sequence[Sequence[Cell]]
) -> Found | None:
    """The fewest fields with names of keys that have one content each, fields called like the dataset first.

    Fields that fold nothing but what `marks` (see `count_unproved`) call the same message go before all others.
    """
    total = len(set(contents))
    others = None
    named = [column for column in fields if _BUSINESS.fullmatch(snake(column.name)) and column.mostly]
    named.sort(key=lambda column: not _called_like(column.name, name))
    for parts in range(1, _MOST_PARTS + 1):
        for columns in combinations(named[:_MOST_COLUMNS], parts):
            cells = together(columns)
            evidence = weigh(cells, contents)
            if evidence.consistent and evidence.distinct > 1 and evidence.distinct >= 0.95 * total:
                reason = f"together {evidence}" if parts > 1 else str(evidence)
                unproved = count_unproved(cells, marks)
                reason += _PROVED if evidence.repeated and not unproved else ""
                found = Found(tuple(column.expression for column in columns), reason, evidence, unproved)
                if not unproved:
                    return found
                others = others or found
    return others


def _called_like(column: str, name: str) -> bool:
    """`view_id` is called like `page_views`."""
    stem = snake(column).rpartition("_")[0]
    words = (name, name.rpartition("_")[2])
    return bool(stem) and any(word.removesuffix("s") == stem.removesuffix("s") for word in words)


def producer_headers(headers: Sequence[Column]) -> tuple[str, str] | None:
    """Headers that name a producer and its sequence."""
    producer = next((header.name for header in headers if _PRODUCER.fullmatch(snake(header.name))), None)
    sequence = next((header.name for header in headers if _SEQUENCE.fullmatch(snake(header.name))), None)
    return (producer, sequence) if producer and sequence else None
