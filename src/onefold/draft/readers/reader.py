"""What a reader of a layout answers to `onefold init`: how its objects are recognised, and read without Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from onefold.draft.sample import Item
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage

Companions = Mapping[tuple[str, str], ObjectInfo]
"""The objects of an export, by what they share with others (`Layout.group_of`) and their role."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What an object holds, as it is asked for: a record, the position of what is none, or None for what is no record.

    Asking raises FormatError where it cannot be read on.
    """

    items: Iterator[Item]
    from_end: bool
    """The last record comes first; else the first."""
    left_out: str = ""
    """What of the object is not read, and why."""


def _none(store: Storage, object_: ObjectInfo) -> list[Record]:
    del store, object_
    return []


@dataclass(frozen=True, slots=True, kw_only=True)
class DraftReader:
    """How objects of a layout are recognised and read."""

    objects: str
    """What they are, for users who have something else."""
    reason: str
    """What of them made the layout, next to it in a drafted file."""
    rank: int
    """Readers with a lower rank are asked first whether an export is theirs: those whose objects' names say more."""
    read: Callable[[Storage, ObjectInfo, Companions], Reading]
    """Reads an object of values."""
    begins: Callable[[ObjectInfo, bytes], bool] | None = None
    """Whether an object is of the layout, by its first line that is not blank; b"": there is none, or it cannot be
    read. None: the names of objects say it."""
    first_records: Callable[[Storage, ObjectInfo], list[Record]] = _none
    """What can be read of an object's front, where records of other topics than those at its end may be."""
    joins: bool = True
    """Whether an offset that is missing between two objects is missing in the log; else an object may be missing."""
