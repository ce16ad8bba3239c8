"""The rules of folding once more, in plain Python and written another way: no windows, no joins, no sorting.

Rows are a fold by a pairwise rule (`beats`); verdicts ask of each record which others beat it. What a row is
depends on the set of records alone, so nothing here knows of batches, except `verdicts`, which is of one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple

Order = tuple[int, str, str, int, int, int]
"""(timestamp, cluster, topic, incarnation, partition, offset)"""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A record behind decoding. `key` is what a row is keyed by: of append, the deciding identity. `sent`: what it says
    that does not count when two contents are compared. `hidden`: what it says is not what readers are to see."""

    position: tuple[str, str, int, int, int]
    timestamp: int | None = None
    key: Any = None
    content: Any = None
    sent: str = ""
    version: Any = None
    producer: str | None = None
    message_id: str | None = None
    business_key: str | None = None
    deleted: bool = False
    hidden: bool = False
    rejected: str | None = None
    filtered: bool = False

    @property
    def order(self) -> Order:
        """The total order; without a timestamp a record comes first."""
        return (-1 if self.timestamp is None else self.timestamp, *self.position)

    @property
    def partition(self) -> tuple[str, str, int]:
        """Where it was written, of whichever incarnation of the topic."""
        cluster, topic, _, partition, _ = self.position
        return cluster, topic, partition

    @property
    def whole(self) -> Any:
        """All that it says."""
        return f"{self.content}{self.sent}" if self.sent else self.content

    @property
    def usable(self) -> bool:
        """Whether it can become a row."""
        return self.rejected is None and not self.filtered


@dataclass(frozen=True, slots=True)
class Rules:
    """How a dataset folds. `narrow` are the declared levels below the deciding one, narrow to wide; `exact`: records
    carry their offsets."""

    mode: str
    deciding: str = "key_version"
    tie: str = "conflict"
    narrow: tuple[str, ...] = ()
    exact: bool = True
    every_version: bool = False
    by_delivery: bool = False
    lost: frozenset[tuple[Any, Any, Any]] = frozenset()
    """(key, version, content) of what lost a conflict by a decision."""

    @property
    def by_offset(self) -> bool:
        """Whether offsets decide between the records of a version."""
        return self.mode == "upsert" and self.tie != "conflict"

    def beats(self, one: Decoded, other: Decoded) -> bool:
        """Whether `one` is the row where `other` would be; of two contents at one position the smaller is it."""
        if self.mode == "upsert" and one.version != other.version:
            return bool(one.version > other.version)
        against = [(record.key, record.version, record.content) in self.lost for record in (one, other)]
        if against[0] != against[1]:
            return against[1]
        if all(against):  # of contents that all lost the place decides
            one, other = replace(one, timestamp=0), replace(other, timestamp=0)
        if one.order == other.order:
            return bool(one.whole < other.whole)
        earlier_wins = self.mode != "upsert" or self.tie == "first"
        if self.by_offset and one.position != other.position:
            return (one.position < other.position) is earlier_wins
        return (one.order < other.order) is earlier_wins

    def placeless(self, row: Decoded, records: Iterable[Decoded]) -> bool:
        """Whether other records of the row's version are in other partitions than it."""
        return self.by_offset and any(
            one.partition != row.partition for one in records if (one.key, one.version) == (row.key, row.version)
        )


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a forget mark knows of a key. `landed`: positions of all that was landed before it, of whichever key.
    `messages`: ids of the key's messages. `bars_key`: what has the key is the forgotten message again."""

    key: Any
    landed: frozenset[tuple[str, str, int, int, int]]
    highest: Any = None
    messages: frozenset[str] = frozenset()
    bars_key: bool = False

    def takes(self, record: Decoded) -> bool:
        """Whether a record counts for nothing."""
        if record.key != self.key:
            return False
        if self.bars_key or record.position in self.landed or record.message_id in self.messages:
            return True
        return self.highest is not None and bool(record.version <= self.highest)


def forget(key: Any, landed: Iterable[Decoded], rules: Rules, *, by_message: bool = True) -> Forgotten:
    """A mark of a key, made behind all records that were landed. `by_message`: versions belong to deliveries."""
    before = list(landed)
    mine = [record for record in before if record.key == key]
    of_versions = rules.mode == "upsert"
    messages = (record.message_id for record in mine if record.message_id is not None)
    return Forgotten(
        key,
        frozenset(record.position for record in before),
        max((record.version for record in mine), default=None) if of_versions else None,
        frozenset(messages if of_versions and by_message else ()),
        bars_key=not of_versions,
    )


class Verdict(NamedTuple):
    """What one batch alone tells of a record; a survivor's verdict is None until it meets the table."""

    verdict: str | None
    reason: str | None
    winner: Order | None = None


def rows(records: Iterable[Decoded], rules: Rules) -> dict[Any, Decoded]:
    """The table's rows by key, deleted ones included: a function of the set."""

    def fold(table: dict[Any, Decoded], record: Decoded) -> dict[Any, Decoded]:
        standing = table.get(record.key)
        if standing is None or rules.beats(record, standing):
            table[record.key] = record
        return table

    found = {record for record in records if record.usable}
    return reduce(fold, (record for record in found if not _beaten(record, found)), {})


def survivors(batch: Sequence[Decoded], rules: Rules) -> dict[Any, Decoded]:
    """The records of a batch that are rows by themselves, by key: late copies leave the fold."""
    usable = {record for record in batch if record.usable}
    late = late_copies([record for record in usable if not _beaten(record, usable)], rules)
    return rows(
        [record for record in batch if not any(record == copy or _is_beaten_by(record, copy) for copy in late)], rules
    )


def _is_beaten_by(record: Decoded, other: Decoded) -> bool:
    """Whether another content has the record's position."""
    return other.position == record.position and other.whole < record.whole


def chain(
    records: Iterable[Decoded], rules: Rules, first: int = 1, accepted: Iterable[tuple[Any, int]] = ()
) -> tuple[dict[Any, Decoded], dict[Any, Decoded]]:
    """Guard contiguous: of each key the winner at the end of the unbroken run that goes farthest, from `first` or from
    an accepted (key, version) that is there; and the winners above it, by (key, version). A function of the sets."""
    found = {record for record in records if record.usable and record.version >= first}
    winners: dict[tuple[Any, int], Decoded] = {}
    for record in found - {record for record in found if _beaten(record, found)}:
        standing = winners.get((record.key, record.version))
        if standing is None or rules.beats(record, standing):
            winners[record.key, record.version] = record
    heads = {}
    for key in {key for key, _ in winners}:
        for start in (first, *(version for one, version in accepted if one == key)):
            version = start
            while (key, version) in winners:
                if key not in heads or heads[key].version < version:
                    heads[key] = winners[key, version]
                version += 1
    held = {at: one for at, one in winners.items() if at[0] not in heads or at[1] > heads[at[0]].version}
    return heads, held


def live(records: Iterable[Decoded], rules: Rules) -> dict[Any, Decoded]:
    """The rows that readers see."""
    return {key: record for key, record in rows(records, rules).items() if state(record) == "live"}


def state(record: Decoded) -> str:
    """The state of the row that a record makes."""
    return "deleted" if record.deleted else "hidden" if record.hidden else "live"


def verdicts(batch: Sequence[Decoded], rules: Rules) -> list[Verdict]:
    """What a batch, by itself, says of each of its records. Which of two equal copies stands is left open."""
    usable = [(number, record) for number, record in enumerate(batch) if record.usable]
    standing = [(number, record) for number, record in usable if not _beaten(record, {one for _, one in usable})]
    among = [one for _, one in standing]
    late = late_copies(among, rules)
    standing = [(number, record) for number, record in standing if record not in late]
    return [
        Verdict("duplicate", "late_copy", first_delivery(record, among, rules).order)
        if record in late
        else _verdict(number, record, standing, among, rules)
        for number, record in enumerate(batch)
    ]


def first_delivery(record: Decoded, among: Iterable[Decoded], rules: Rules) -> Decoded:
    """Of the deliveries of a record's message the one of the smallest version, and of these that of the smallest
    offset (where offsets decide no tie: the first in the total order)."""
    copies = [one for one in among if _is_same_message(one, record, rules)]
    return min(copies, key=lambda one: (one.version, one.position if rules.by_offset else one.order), default=record)


def late_copies(records: Sequence[Decoded], rules: Rules) -> set[Decoded]:
    """The late copies that would be a row: each beats all records that are none."""
    late = {record for record in records if is_late(record, records, rules)}
    return {
        record
        for record in late
        if all(
            rules.beats(record, other)
            for other in records
            if other not in late and _have_deliveries_in_common(other, record, rules)
        )
    }


def is_late(record: Decoded, among: Sequence[Decoded], rules: Rules) -> bool:
    """Whether a copy comes, in the order that decides, after another message that was first sent after its own."""
    if not rules.by_delivery:
        return False
    first = first_delivery(record, among, rules)
    others = [one for one in among if _have_deliveries_in_common(one, record, rules)]
    return any(
        rules.beats(record, other) and rules.beats(other, first)
        for other in others
        if not _is_same_message(other, first, rules) and first_delivery(other, among, rules) == other
    )


def _have_deliveries_in_common(one: Decoded, other: Decoded, rules: Rules) -> bool:
    return one.key == other.key and (one.version == other.version or not rules.every_version)


def _is_same_message(one: Decoded, other: Decoded, rules: Rules) -> bool:
    """By the id, or where there is none by the producer's sequence, and by the content."""
    mine, theirs = (
        ("id", record.message_id) if record.message_id else ("sequence", record.producer, record.position[:-1])
        for record in (one, other)
    )
    known = one.message_id or one.producer
    same = bool(known) and mine == theirs and one.content == other.content
    return same and _have_deliveries_in_common(one, other, rules)


def counts(batch: Sequence[Decoded], rules: Rules) -> Counter[tuple[str | None, str | None]]:
    """Records of a batch by verdict and reason."""
    return Counter((one.verdict, one.reason) for one in verdicts(batch, rules))


def _beaten(record: Decoded, among: set[Decoded]) -> bool:
    """Another content stands at the record's position."""
    return any(_is_beaten_by(record, one) for one in among)


def _verdict(
    number: int, record: Decoded, standing: list[tuple[int, Decoded]], at_positions: list[Decoded], rules: Rules
) -> Verdict:
    """`standing` leaves late copies out, `at_positions` does not: one may have taken another's position."""
    if record.rejected:
        return Verdict("rejected", record.rejected)
    if record.filtered:
        return Verdict("filtered", "filter")
    if (number, record) not in standing:
        there = [one for one in at_positions if one.position == record.position]
        return Verdict("conflict", "inconsistent_position", min(one.order for one in there))
    among = [one for _, one in standing]
    before = [
        one
        for place, one in standing
        if one.key == record.key and (_precedes(one, record, among, rules) or (one == record and place < number))
    ]
    if not before:
        return Verdict(None, None)
    tied = [one for one in before if one.version == record.version] if rules.mode == "upsert" else before
    read_before = any(one.position == record.position for one in before)
    if tied and (read_before or best(tied, among, rules).content == record.content):
        return Verdict("duplicate", _reason(record, tied, rules), best(tied, among, rules).order)
    if rules.mode == "append":
        return Verdict("conflict", "same_identity", best(before, among, rules).order)
    for level in ("producer", "message_id"):
        sent_before = [one for one in before if same_at(level, one, record)]
        if sent_before and best(sent_before, among, rules).content == record.content:
            return Verdict("duplicate", level, best(sent_before, among, rules).order)
    of_row = (
        rules.mode != "upsert"
        or rules.every_version
        or not any(one.key == record.key and one.version > record.version for one in among)
    )
    if tied and of_row and rules.placeless(best(tied, among, rules), among):
        return Verdict("conflict", "incomparable_version", best(tied, among, rules).order)
    if ahead := _ahead(record, among, rules):
        return Verdict("superseded", "backwards", max(ahead, key=lambda one: (one.version, one.order)).order)
    if tied:
        verdict = "conflict" if rules.tie == "conflict" else "superseded"
        return Verdict(verdict, "same_version", best(tied, among, rules).order)
    return Verdict("superseded", "in_batch", best(before, among, rules).order)


def goes_backwards(record: Decoded, other: Decoded, rules: Rules) -> bool:
    """Whether a record has a smaller version than another of its key that lies earlier in its partition."""
    if rules.mode != "upsert" or not rules.exact or record.key != other.key or record.version >= other.version:
        return False
    cluster, topic, incarnation, partition, offset = record.position
    return (cluster, topic, partition) == (*other.position[:2], other.position[3]) and (
        (incarnation, offset) > (other.position[2], other.position[4])
    )


def _ahead(record: Decoded, among: Sequence[Decoded], rules: Rules) -> list[Decoded]:
    return [one for one in among if goes_backwards(record, one, rules)]


def _precedes(one: Decoded, other: Decoded, among: Sequence[Decoded], rules: Rules) -> bool:
    """Whether a batch judges `other` by `one`: by the pairwise rule, and what went backwards last of its version."""
    if rules.mode == "upsert" and one.version == other.version:
        backwards = bool(_ahead(one, among, rules)), bool(_ahead(other, among, rules))
        if backwards[0] != backwards[1]:
            return backwards[1]
    return rules.beats(one, other)


def best(records: Sequence[Decoded], among: Sequence[Decoded], rules: Rules) -> Decoded:
    """Of records of a version the one that a batch, `among`, judges the others by."""
    return reduce(lambda one, other: other if _precedes(other, one, among, rules) else one, records)


def _reason(record: Decoded, before: list[Decoded], rules: Rules) -> str:
    """The narrowest level at which another record was first."""
    for level in ("position", *rules.narrow):
        if any(same_at(level, one, record) for one in before):
            return level
    return rules.deciding


def same_at(level: str, one: Decoded, other: Decoded) -> bool:
    """Whether two records are the same message at a level; a producer counts for each partition anew."""
    mine, theirs = getattr(one, level), getattr(other, level)
    if mine is None or mine != theirs:
        return False
    return level != "producer" or one.position[:-1] == other.position[:-1]
