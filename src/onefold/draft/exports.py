"""A sample of an export: records from the end of the objects written last, read without Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate

from onefold.dataset.layouts import LAYOUTS
from onefold.draft.foreign import LOOKED, taken_for
from onefold.draft.readers import reader_of, readers
from onefold.draft.readers.lines import first_line, lines_from_front
from onefold.draft.readers.reader import Companions, Reading
from onefold.draft.sample import LARGEST, Item, Position, Sample, Span, sample_of
from onefold.errors import NoDraftError
from onefold.formats.structured_json import FormatError
from onefold.kafka.record import Record
from onefold.storage import ObjectInfo, Storage

_TYPICAL = 1_000
"""Bytes of a record, with which a number of records becomes a number of objects."""
_OBJECTS = 100
"""Objects that are opened, at most."""
_LOOKED = 8 << 20
"""Bytes of records that are looked through behind the sample, for the topics they are of."""
_NAMED = 5
"""Objects and topics that an error names."""
_NOT_YET = (".avro", ".orc", ".bin")


@dataclass
class _Found:
    topic: str | None
    """The only topic that is wanted."""
    records: list[Record] = field(default_factory=list)
    size: int = 0
    unreadable: int = 0
    spans: list[Span] = field(default_factory=list)
    passed: list[Position] = field(default_factory=list)
    topics: set[str] = field(default_factory=set)
    """Of all records that were seen."""
    unread: list[tuple[str, str]] = field(default_factory=list)
    """Objects that were not read, or not to their end, and why."""
    opened: int = 0
    whole: bool = True
    """Nothing of an object that was opened was left out."""

    def wants(self, item: Item) -> bool:
        """Whether it is no record of another topic."""
        return not isinstance(item, Record) or self.topic in (None, item.topic)

    def leave(self, object_: ObjectInfo, why: str) -> None:
        """A part of an object was not read."""
        self.whole = False
        self.unread.append((object_.key, why))


def newest_of_export(
    name: str, store: Storage, count: int, layout: str | None = None, topic: str | None = None
) -> tuple[str, Sample]:
    """The layout, and about `count` records from the end of the objects written last, for the dataset `name`.

    Raises:
        NoDraftError: there is no object of a known layout, or no record of the topic in them that can be read.
    """
    objects = [object_ for object_ in store.list() if not object_.unreachable]
    if not objects:
        raise NoDraftError(name, store.uri, "does not exist or is empty", "Name the folder that holds the export.")
    layout = layout or _find_layout(name, store, objects)
    about, reader = LAYOUTS[layout], reader_of(layout)
    if reader is None:
        raise NoDraftError(name, store.uri, f"onefold init does not read layout {layout}", "Write the file by hand.")
    values = [object_ for object_ in objects if about.role_of(object_.key) == "values"]
    named = {place[0] for object_ in values if (place := about.position_of(object_.key))}
    if topic:
        values = [object_ for object_ in values if (about.position_of(object_.key) or (topic,))[0] == topic]
    found = _Found(topic, topics=named)
    companions: Companions = {
        (about.group_of(object_.key), role): object_ for object_ in objects if (role := about.role_of(object_.key))
    }
    look = topic is None and not named  # where no object's name tells its topic
    for object_, share in _shares(values, count, found):
        _take(reader.read(store, object_, companions), object_, share, found, look=look)
        if look and object_.size > _LOOKED:
            found.topics |= {record.topic for record in reader.first_records(store, object_)}
    whole = found.whole and found.opened == len(values)
    if whole and reader.joins:
        found.spans = _joined(found.spans)
    if not found.records:
        raise _no_record(name, store, layout, found, len(values))
    return layout, sample_of(
        store.uri,
        found.records,
        found.unreadable,
        found.spans if about.exact else [],
        found.passed,
        exact=about.exact,
        others=found.topics - {record.topic for record in found.records} if topic is None else (),
        opened=None if whole else (found.opened, len(values)),
        unread=found.unread,
    )


def _no_record(name: str, store: Storage, layout: str, found: _Found, there: int) -> NoDraftError:
    of = f" of topic {found.topic}" if found.topic else ""
    others = sorted(found.topics - {found.topic})
    seen = f"there are records of {_first(others)}" if others else ""
    if not there:
        problem = f"no objects of layout {layout}{of}" + (f" ({seen})" if seen else "")
        return NoDraftError(name, store.uri, problem, "Name another folder or layout.")
    if found.unread:
        problem = _first([f"{key}: {why}" for key, why in found.unread], "; ")
        return NoDraftError(name, store.uri, problem, _advice())
    last = "" if found.opened == there else " that were written last"
    counts = "; ".join(filter(None, [f"{found.unreadable} lines that are none", seen]))
    problem = f"{found.opened} objects of layout {layout}{last} hold no record{of} ({counts})"
    return NoDraftError(name, store.uri, problem, "Name another folder or topic.")


def _first(texts: Sequence[str], between: str = ", ") -> str:
    more = [f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return between.join([*texts[:_NAMED], *more])


def _find_layout(name: str, store: Storage, objects: Sequence[ObjectInfo]) -> str:
    """The layout that the names of the objects say; of lines, that the first line of the newest object says."""
    by_rank = sorted(readers().items(), key=lambda item: item[1].rank)
    for layout, reader in by_rank:
        if reader.begins is None and any(LAYOUTS[layout].role_of(object_.key) == "values" for object_ in objects):
            return layout
    by_line = {layout: reader.begins for layout, reader in by_rank if reader.begins}
    lined = [object_ for object_ in objects if any(LAYOUTS[layout].role_of(object_.key) for layout in by_line)]
    if not lined:
        raise _no_layout(name, store, objects)
    newest = _by_age(lined)[0]
    line = first_line(store, newest)
    for layout, begins in by_line.items():
        if begins(newest, line):
            return layout
    problem = f"{newest.key} does not begin with a line of kcat -J (with topic, partition and offset)"
    raise NoDraftError(name, store.uri, *(_foreign(store, newest) or (problem, _advice())))


def _no_layout(name: str, store: Storage, objects: Sequence[ObjectInfo]) -> NoDraftError:
    """No object has a name of any layout."""
    if foreign := _foreign(store, objects[0]):
        return NoDraftError(name, store.uri, *foreign)
    ending = next((object_.key for object_ in objects if object_.key.removesuffix(".gz").endswith(_NOT_YET)), None)
    problem = f"{ending}: this layout is not_supported_yet" if ending else f"{objects[0].key} is of no known layout"
    return NoDraftError(name, store.uri, problem, _advice())


def _foreign(store: Storage, object_: ObjectInfo) -> tuple[str, str] | None:
    """What an object of no layout is taken for, and what to do; None if unknown."""
    begins = b""
    with suppress(FormatError):
        for line in lines_from_front(store, object_.key):
            begins += line + b"\n"
            if len(begins) >= LOOKED:
                break
    foreign = taken_for(object_.key, begins[:LOOKED])
    return (f"{object_.key} looks like {foreign.what}", f"{foreign.advice} {_advice()}") if foreign else None


def _advice() -> str:
    readable = "; ".join(f"{reader.objects} (--layout {layout})" for layout, reader in readers().items())
    return f"What can be read: {readable}."


# Which objects, and how many records of each.


def _by_age(objects: list[ObjectInfo]) -> list[ObjectInfo]:
    """The objects, from the newest to the oldest."""
    return sorted(objects, key=lambda object_: (object_.modified, object_.key), reverse=True)


def _shares(values: list[ObjectInfo], count: int, found: _Found) -> Iterator[tuple[ObjectInfo, int]]:
    """Objects to open, and how many records to take of each, as long as `found` lacks some.

    First those written last that should hold enough, the shortest of them first; then older objects.
    """
    by_age = _by_age(values)[:_OBJECTS]
    sizes = list(accumulate(object_.size for object_ in by_age))
    enough = sum(size < count * _TYPICAL for size in sizes) + 1
    newest = sorted(by_age[:enough], key=lambda object_: object_.size)
    for number, object_ in enumerate(newest):
        yield object_, max(1, (count - len(found.records)) // (len(newest) - number))
    size = 0
    for object_ in by_age[enough:]:
        size += object_.size
        if len(found.records) >= count or max(size, found.size) > LARGEST:
            break
        yield object_, count - len(found.records)


# What is taken of an object.


def _take(read: Reading, object_: ObjectInfo, share: int, found: _Found, *, look: bool) -> None:
    """Take up to `share` records from the end of an object, and what they span; lines that are none count, too.

    With `look`, look on a while for other topics.
    """
    found.opened += 1
    if read.left_out:
        found.leave(object_, read.left_out)
    seen: dict[tuple[str, int], list[int]] = {}
    left, looked, bound = share, 0, max(_LOOKED, LARGEST - found.size)
    try:
        for item in read.items if read.from_end else _last_first(read.items, object_, share, found):
            if isinstance(item, Record):
                found.topics.add(item.topic)
            looked += _size(item)
            if looked > bound:
                found.whole = False
                if left == share:
                    found.leave(object_, f"before its last {looked:,} bytes of records it was not looked through")
                break
            if not left:
                found.whole = False
                if not look:
                    break
            elif found.wants(item):
                left -= not isinstance(item, tuple)
                _put(item, found, seen)
                bound = bound if left else looked + _LOOKED
    except FormatError as error:
        found.whole = False
        if left:
            found.leave(object_, str(error))
    found.spans += [(*where, min(offsets), max(offsets)) for where, offsets in seen.items()]


def _put(item: Item, found: _Found, seen: dict[tuple[str, int], list[int]]) -> None:
    if item is None:
        found.unreadable += 1
    elif isinstance(item, Record):
        found.records.append(item)
        found.size += _size(item)
        seen.setdefault((item.topic, item.partition), []).append(item.offset)
    else:
        found.passed.append(item)
        seen.setdefault(item[:2], []).append(item[2])


def _last_first(items: Iterator[Item], object_: ObjectInfo, share: int, found: _Found) -> Iterator[Item]:
    """The last of what can be read from the front only, the last first."""
    held, size = deque[Item](), 0
    try:
        for item in items:
            if isinstance(item, Record):
                found.topics.add(item.topic)
            if found.wants(item):
                held.append(item)
                size += _size(item)
            while len(held) > share or (size > LARGEST and len(held) > 1):
                size -= _size(held.popleft())
                found.whole = False
    except FormatError as error:
        found.leave(object_, str(error))
    return reversed(held)


def _size(item: Item) -> int:
    """About so many bytes."""
    return 100 + (len(item.key or b"") + len(item.value or b"") if isinstance(item, Record) else 0)


def _joined(spans: list[Span]) -> list[Span]:
    """One span a partition: nothing of it was left out."""
    logs: dict[tuple[str, int], list[int]] = {}
    for topic, partition, first, last in spans:
        logs.setdefault((topic, partition), []).extend((first, last))
    return [(*where, min(offsets), max(offsets)) for where, offsets in logs.items()]
