"""The records that a draft is made of: a few of those written last, each position once."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from onefold.instants import instant
from onefold.kafka.record import Record
from onefold.offsets import Range, minus, size

LARGEST = 64 << 20
"""Bytes of records that are held for a draft."""
Position = tuple[str, int, int]
"""(topic, partition, offset)"""
Span = tuple[str, int, int, int]
"""(topic, partition, first offset, last offset) of lines that were read without a break."""

Item = Record | Position | None
"""What is read in an export: a record, the position of what is none, or None for a line that is no record."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Records in the order of their logs, and what was seen while they were read."""

    place: str
    records: list[Record]
    unreadable: int = 0
    """Lines of an export that hold no record."""
    repeated: int = 0
    """Records at a position that was there already: written twice by overlapping exports."""
    missing: int = 0
    """Offsets that are not there, between others that are."""
    longest_hole: int = 0
    """The most of them in a row."""
    exact: bool = True
    """Whether each record carries its own offset."""
    others: tuple[str, ...] = ()
    """Topics, by name, that an export holds and no record of the sample is of."""
    opened: tuple[int, int] | None = None
    """(objects that were opened, objects of the export); None: all of it is in the sample, or it is no export."""
    unread: tuple[tuple[str, str], ...] = ()
    """(object, why) of objects that were not read, or not to their end."""
    compacted: bool = False
    """Whether the brokers compact all topics of the records."""
    policy_unknown: str = ""
    """Why it is unknown whether the brokers compact the topics; empty: it is known, or the source is an export."""

    @property
    def topics(self) -> list[str]:
        """The topics of the records, by name."""
        return sorted({record.topic for record in self.records})

    @property
    def partitions(self) -> int:
        """How many partitions there are records of."""
        return len({(record.topic, record.partition) for record in self.records})

    @property
    def days(self) -> tuple[datetime, datetime] | None:
        """The oldest and the newest timestamp."""
        stamps = [record.timestamp for record in self.records if record.timestamp is not None]
        if not stamps:
            return None
        return instant(min(stamps)), instant(max(stamps))


def sample_of(
    place: str,
    read: Iterable[Record],
    unreadable: int = 0,
    spans: Iterable[Span] = (),
    passed: Iterable[Position] = (),
    *,
    exact: bool = True,
    others: Iterable[str] = (),
    opened: tuple[int, int] | None = None,
    unread: Iterable[tuple[str, str]] = (),
) -> Sample:
    """A sample of what was read in any order, some of it perhaps twice; `passed` was seen to be no record."""
    once: dict[Position, Record] = {}
    count = 0
    for record in read:
        once.setdefault((record.topic, record.partition, record.offset), record)
        count += 1
    records = [once[position] for position in sorted(once)]
    missing = _missing({*once, *passed}, spans)
    return Sample(
        place,
        records,
        unreadable,
        count - len(records),
        size(missing),
        max((end - start for start, end in missing), default=0),
        exact,
        others=tuple(sorted(others)),
        opened=opened,
        unread=tuple(unread),
    )


def _missing(there: Collection[Position], spans: Iterable[Span]) -> list[Range]:
    """The offsets within spans where nothing is, of each log."""
    whole: dict[tuple[str, int], list[Range]] = {}
    held: dict[tuple[str, int], list[Range]] = {}
    for topic, partition, first, last in spans:
        whole.setdefault((topic, partition), []).append((first, last + 1))
    for topic, partition, offset in there:
        held.setdefault((topic, partition), []).append((offset, offset + 1))
    return [hole for where, ranges in whole.items() for hole in minus(ranges, held.get(where, ()))]
