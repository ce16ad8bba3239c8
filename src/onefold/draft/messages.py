"""Which records are the same message, or are not, by more than their contents: message ids and producers' sequences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from onefold.draft.evidence import Cell
from onefold.draft.message import Message

Sent = tuple[Cell, Cell] | None
"""(producer, its sequence) of a record; None where a part is unknown."""


def sequences_of(messages: Sequence[Message], producer: tuple[str, str] | None) -> list[Sent]:
    """The producer and sequence of each message; `producer` has the names of both headers, or is None."""
    if producer is None:
        return [None] * len(messages)
    pairs = [tuple(message.headers.get(name) for name in producer) for message in messages]
    return [None if None in pair else (pair[0], pair[1]) for pair in pairs]


def sequences_in_partitions(messages: Sequence[Message], sequences: Sequence[Sent]) -> list[Cell]:
    """The sequences with the partition of each message: a producer counts each partition from the start."""
    return [
        sent and (message.record.topic, message.record.partition, sent)
        for message, sent in zip(messages, sequences, strict=True)
    ]


def count_unproved(cells: Sequence[Cell], marks: Sequence[Sequence[Cell]]) -> int:
    """How many records repeat the cell of earlier records, and share no mark with any of these.

    `marks`: columns whose equal values say that two records are the same message; None says nothing.
    """
    marks_of_cell: dict[Cell, set[tuple[int, Cell]]] = {}
    count = 0
    for index, cell in enumerate(cells):
        if cell is None:
            continue
        own = {(number, column[index]) for number, column in enumerate(marks) if column[index] is not None}
        if cell in marks_of_cell:
            count += marks_of_cell[cell].isdisjoint(own)
        marks_of_cell.setdefault(cell, set()).update(own)
    return count


def count_contradicted(cells: Sequence[Cell], sequences: Sequence[Sent]) -> int:
    """How many records repeat the cell of earlier records of their producer, all of them under other sequences.

    Sequences of two producers say nothing of each other.
    """
    numbers: dict[tuple[Cell, Cell], set[Cell]] = {}
    count = 0
    for cell, sent in zip(cells, sequences, strict=True):
        if cell is None or sent is None:
            continue
        producer, sequence = sent
        earlier = numbers.setdefault((cell, producer), set())
        count += bool(earlier) and sequence not in earlier
        earlier.add(sequence)
    return count


def find_copies(cells: Sequence[Cell], contents: Sequence[str], preference: Iterable[int]) -> set[int]:
    """The records that have cell and content of the survivor of their cell: by index, without the survivor.

    `preference`: the indexes of the records that count, the survivor first.
    """
    survivors: dict[Cell, str] = {}
    copies = set()
    for index in preference:
        cell = cells[index]
        if cell is None:
            continue
        if cell in survivors and survivors[cell] == contents[index]:
            copies.add(index)
        survivors.setdefault(cell, contents[index])
    return copies
