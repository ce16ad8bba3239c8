"""A sample of an export: records from the end of the objects written last, read without Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate

from onefold.dataset.layouts.layout import base_of, position_of, role_of
from onefold.dataset.source import LAYOUTS, Encoding
from onefold.draft.foreign import LOOKED, taken_for
from onefold.draft.readers.lines import lines_from_front
from onefold.draft.readers.reader import Reading, reading, record_of_kcat
from onefold.draft.sample import LARGEST, Item, Position, Sample, Span, sample_of
from onefold.errors import NoDraftError
from onefold.formats.aiven import read_line
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

    def leave(self, one: ObjectInfo, why: str) -> None:
        """A part of an object was not read."""
        self.whole = False
        self.unread.append((one.key, why))


def newest_of_export(
    name: str, store: Storage, count: int, layout: str | None = None, topic: str | None = None
) -> tuple[str, Sample]:
    """The layout, and about `count` records from the end of the objects written last, for the dataset `name`.

    Raises:
        NoDraftError: there is no object of a known layout, or no record of the topic in them that can be read.
    """
    objects = [one for one in store.list() if not one.unreachable]
    if not objects:
        raise NoDraftError(name, store.uri, "does not exist or is empty", "Name the folder that holds the export.")
    layout = layout or _layout(name, store, objects)
    values = [one for one in objects if role_of(layout, one.key) == "values"]
    named = {place[0] for one in values if (place := position_of(one.key, layout))}
    if topic:
        values = [one for one in values if (position_of(one.key, layout) or (topic,))[0] == topic]
    found = _Found(topic, topics=named)
    companions: dict[tuple[str, str], ObjectInfo] = {
        (base_of(one.key), role): one for one in objects if (role := role_of("connect", one.key))
    }
    look = topic is None and not named  # where no object's name tells its topic
    for one, share in _shares(values, count, found):
        _take(reading(layout, store, one, companions), one, share, found, look=look)
        if layout == "kcat" and look and one.size > _LOOKED:
            found.topics |= {record.topic for record in _first_record(store, one)}
    whole = found.whole and found.opened == len(values)
    if whole and layout != "segments":  # one that is missing is no compaction
        found.spans = _joined(found.spans)
    if not found.records:
        raise _no_record(name, store, layout, found, len(values))
    exact = LAYOUTS[layout]
    return layout, sample_of(
        store.uri,
        found.records,
        found.unreadable,
        found.spans if exact else [],
        found.passed,
        exact=exact,
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
        return NoDraftError(name, store.uri, problem, _ADVICE)
    last = "" if found.opened == there else " that were written last"
    told = "; ".join(filter(None, [f"{found.unreadable} lines that are none", seen]))
    problem = f"{found.opened} objects of layout {layout}{last} hold no record{of} ({told})"
    return NoDraftError(name, store.uri, problem, "Name another folder or topic.")


def _first(texts: Sequence[str], between: str = ", ") -> str:
    more = [f"and {len(texts) - _NAMED} more"] if len(texts) > _NAMED else []
    return between.join([*texts[:_NAMED], *more])


def _layout(name: str, store: Storage, objects: Sequence[ObjectInfo]) -> str:
    """What the objects' names say, and for lines the first one."""
    if any(role_of("connect", one.key) == "values" for one in objects):
        return "connect"
    if any(role_of("parquet", one.key) for one in objects):
        return "parquet"
    if any(role_of("segments", one.key) for one in objects):
        return "segments"
    lined = _by_age([one for one in objects if role_of("kcat", one.key) or role_of("aiven", one.key)])
    if not lined:
        if told := _told(store, objects[0]):
            raise NoDraftError(name, store.uri, *told)
        ending = next((one.key for one in objects if one.key.removesuffix(".gz").endswith(_NOT_YET)), None)
        problem = f"{ending}: this layout is not_supported_yet" if ending else f"{objects[0].key} is of no known layout"
        raise NoDraftError(name, store.uri, problem, _ADVICE)
    first = _first_line(store, lined[0])
    if role_of("aiven", lined[0].key) and (not first or read_line(first, Encoding()).problem is None):
        return "aiven"
    if first and record_of_kcat(first) is None:
        problem = f"{lined[0].key} does not begin with a line of kcat -J (with topic, partition and offset)"
        raise NoDraftError(name, store.uri, *(_told(store, lined[0]) or (problem, _ADVICE)))
    return "kcat"


def _told(store: Storage, one: ObjectInfo) -> tuple[str, str] | None:
    """What an object of no layout is taken for, and what to do; None if unknown."""
    begins = b""
    with suppress(FormatError):
        for line in lines_from_front(store, one.key):
            begins += line + b"\n"
            if len(begins) >= LOOKED:
                break
    foreign = taken_for(one.key, begins[:LOOKED])
    return (f"{one.key} looks like {foreign.what}", f"{foreign.advice} {_ADVICE}") if foreign else None


_ADVICE = (
    "What can be read: JSON lines of `kcat -J` (--layout kcat); objects of Kafka Connect's S3 sink in JSON, Avro or "
    "Parquet, called <topic>+<partition>+<offset>.json (--layout connect); JSON lines of Aiven's S3 sink, called "
    "<topic>-<partition>-<offset>.gz (--layout aiven); Parquet with Kafka's own columns (--layout parquet); a broker's "
    "log segments, called <topic>-<partition>/<first offset>.log (--layout segments)."
)


def _first_line(store: Storage, one: ObjectInfo) -> bytes:
    """The first line that is not blank; nothing where there is none that can be read."""
    with suppress(FormatError):
        return next((line for line in lines_from_front(store, one.key) if line.strip()), b"")
    return b""


def _first_record(store: Storage, one: ObjectInfo) -> list[Record]:
    first = record_of_kcat(_first_line(store, one))
    return [first] if first else []


# Which objects, and how many records of each.


def _by_age(objects: list[ObjectInfo]) -> list[ObjectInfo]:
    """The one written last first."""
    return sorted(objects, key=lambda one: (one.modified, one.key), reverse=True)


def _shares(values: list[ObjectInfo], count: int, found: _Found) -> Iterator[tuple[ObjectInfo, int]]:
    """Objects to open, and how many records to take of each, as long as `found` lacks some.

    First those written last that should hold enough, the shortest of them first; then older ones.
    """
    by_age = _by_age(values)[:_OBJECTS]
    sizes = list(accumulate(one.size for one in by_age))
    enough = sum(size < count * _TYPICAL for size in sizes) + 1
    newest = sorted(by_age[:enough], key=lambda one: one.size)
    for number, one in enumerate(newest):
        yield one, max(1, (count - len(found.records)) // (len(newest) - number))
    size = 0
    for one in by_age[enough:]:
        size += one.size
        if len(found.records) >= count or max(size, found.size) > LARGEST:
            break
        yield one, count - len(found.records)


# What is taken of an object.


def _take(read: Reading, one: ObjectInfo, share: int, found: _Found, *, look: bool) -> None:
    """Take up to `share` records from the end of an object, and what they span; lines that are none count, too.

    With `look`, look on a while for other topics.
    """
    found.opened += 1
    if read.left_out:
        found.leave(one, read.left_out)
    seen: dict[tuple[str, int], list[int]] = {}
    left, looked, bound = share, 0, max(_LOOKED, LARGEST - found.size)
    try:
        for item in read.items if read.from_end else _last_first(read.items, one, share, found):
            if isinstance(item, Record):
                found.topics.add(item.topic)
            looked += _size(item)
            if looked > bound:
                found.whole = False
                if left == share:
                    found.leave(one, f"before its last {looked:,} bytes of records it was not looked through")
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
            found.leave(one, str(error))
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


def _last_first(items: Iterator[Item], one: ObjectInfo, share: int, found: _Found) -> Iterator[Item]:
    """The last of what can be read from the front only, the last one first."""
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
        found.leave(one, str(error))
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
