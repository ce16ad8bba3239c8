"""The rules of folding once more, in plain Python and written another way: no windows, no joins, no sorting.

Rows are a fold by a pairwise rule (`beats`); a verdict depends on which other records beat a record. What a row is
depends on the set of records alone, so nothing here knows of batches, except `verdicts`, which judges one batch.
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
    """A decoded record. `key`: the key of its row; in mode append, the deciding identity. `sent`: the part of its
    content that does not count when two contents are compared. `hidden`: readers do not see its row."""

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
        """The partition it was written to, in any incarnation of the topic."""
        cluster, topic, _, partition, _ = self.position
        return cluster, topic, partition

    @property
    def whole(self) -> Any:
        """The whole content, `sent` included."""
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
    """(key, version, content) of the records that lost a conflict by a decision."""

    @property
    def by_offset(self) -> bool:
        """Whether offsets decide between the records of a version."""
        return self.mode == "upsert" and self.tie != "conflict"

    def beats(self, record: Decoded, other: Decoded) -> bool:
        """Whether `record` takes the row from `other`; of two contents at one position the smaller wins."""
        if self.mode == "upsert" and record.version != other.version:
            return bool(record.version > other.version)
        against = [(each.key, each.version, each.content) in self.lost for each in (record, other)]
        if against[0] != against[1]:
            return against[1]
        if all(against):  # between contents that lost, the place decides
            record, other = replace(record, timestamp=0), replace(other, timestamp=0)
        if record.order == other.order:
            return bool(record.whole < other.whole)
        earlier_wins = self.mode != "upsert" or self.tie == "first"
        if self.by_offset and record.position != other.position:
            return (record.position < other.position) is earlier_wins
        return (record.order < other.order) is earlier_wins

    def placeless(self, row: Decoded, records: Iterable[Decoded]) -> bool:
        """Whether other records of the row's version are in other partitions than it."""
        return self.by_offset and any(
            record.partition != row.partition
            for record in first_sent([record for record in records if record.usable], self)
            if (record.key, record.version) == (row.key, row.version)
        )


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What a forget mark knows of a key. `landed`: positions of all records, of any key, that were landed before it.
    `messages`: ids of the key's messages. `bars_key`: every record of the key is the forgotten message again."""

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
    """A mark of a key, made after all these records were landed. `by_message`: versions belong to deliveries."""
    before = list(landed)
    of_key = [record for record in before if record.key == key]
    of_versions = rules.mode == "upsert"
    messages = (record.message_id for record in of_key if record.message_id is not None)
    return Forgotten(
        key,
        frozenset(record.position for record in before),
        max((record.version for record in of_key), default=None) if of_versions else None,
        frozenset(messages if of_versions and by_message else ()),
        bars_key=not of_versions,
    )


class Verdict(NamedTuple):
    """The verdict that one batch alone gives a record; a survivor's verdict is None until it meets the table."""

    verdict: str | None
    reason: str | None
    winner: Order | None = None


def rows(records: Iterable[Decoded], rules: Rules) -> dict[Any, Decoded]:
    """The table's rows by key, deleted ones included: a function of the set."""

    def fold(table: dict[Any, Decoded], record: Decoded) -> dict[Any, Decoded]:
        row = table.get(record.key)
        if row is None or rules.beats(record, row):
            table[record.key] = record
        return table

    usable = {record for record in records if record.usable}
    return reduce(fold, first_sent([record for record in usable if not _beaten(record, usable)], rules), {})


def first_sent(records: Sequence[Decoded], rules: Rules) -> list[Decoded]:
    """The records without repeated deliveries: of a message only its first delivery counts."""
    return [record for record in records if not is_copy(record, records, rules)]


def _is_beaten_by(record: Decoded, other: Decoded) -> bool:
    """Whether another content has the record's position."""
    return other.position == record.position and other.whole < record.whole


def chain(
    records: Iterable[Decoded], rules: Rules, first: int = 1, accepted: Iterable[tuple[Any, int]] = ()
) -> tuple[dict[Any, Decoded], dict[Any, Decoded]]:
    """Guard contiguous: for each key the winner at the end of the unbroken run that goes farthest, from `first` or
    from an accepted (key, version) that has a record; and the winners above it. A function of the sets."""
    counting = {record for record in records if record.usable and record.version >= first}
    winners: dict[tuple[Any, int], Decoded] = {}
    for record in first_sent([record for record in counting if not _beaten(record, counting)], rules):
        winner = winners.get((record.key, record.version))
        if winner is None or rules.beats(record, winner):
            winners[record.key, record.version] = record
    heads = {}
    for key in {key for key, _ in winners}:
        for start in (first, *(version for accepted_key, version in accepted if accepted_key == key)):
            version = start
            while (key, version) in winners:
                if key not in heads or heads[key].version < version:
                    heads[key] = winners[key, version]
                version += 1
    held = {at: record for at, record in winners.items() if at[0] not in heads or at[1] > heads[at[0]].version}
    return heads, held


def live(records: Iterable[Decoded], rules: Rules) -> dict[Any, Decoded]:
    """The rows that readers see."""
    return {key: record for key, record in rows(records, rules).items() if state(record) == "live"}


def state(record: Decoded) -> str:
    """The state of the row that a record makes."""
    return "deleted" if record.deleted else "hidden" if record.hidden else "live"


def verdicts(batch: Sequence[Decoded], rules: Rules) -> list[Verdict]:
    """The verdicts that a batch alone gives its records. Which of two equal copies wins is left open."""
    usable = [(number, record) for number, record in enumerate(batch) if record.usable]
    candidates = [(number, record) for number, record in usable if not _beaten(record, {rival for _, rival in usable})]
    among = [record for _, record in candidates]
    copies = {
        number
        for number, record in candidates
        if is_copy(record, among, rules) or _is_read_again(number, record, batch, rules)
    }
    candidates = [(number, record) for number, record in candidates if number not in copies]
    return [
        Verdict("duplicate", of_copy(record, among, rules), first_delivery(record, among, rules).order)
        if number in copies
        else _verdict(number, record, candidates, among, rules)
        for number, record in enumerate(batch)
    ]


def first_delivery(record: Decoded, among: Iterable[Decoded], rules: Rules) -> Decoded:
    """The delivery of a record's message with the smallest version, and of these the one with the smallest offset
    (where offsets decide no tie: the first in the total order). Of that version, the one in the record's partition."""
    copies = [copy for copy in among if _is_same_message(copy, record, rules)]
    lowest = min((copy.version for copy in copies), default=None)
    if rules.by_offset and record.version == lowest:
        copies = [copy for copy in copies if copy.partition == record.partition]
    return min(copies, key=lambda copy: (copy.version, *_sent_at(copy, rules), copy.whole), default=record)


def _sent_at(record: Decoded, rules: Rules) -> tuple[Any, ...]:
    return (*record.position, record.order[0]) if rules.by_offset else record.order


def is_copy(record: Decoded, among: Iterable[Decoded], rules: Rules) -> bool:
    """Whether a message was delivered before: with a smaller version, or with the same version at a smaller place.
    Where offsets decide, places of two partitions do not compare."""
    if not rules.by_delivery:
        return False
    for other in among:
        if other == record or not _is_same_message(other, record, rules):
            continue
        if other.version < record.version:
            return True
        before = (*_sent_at(other, rules), other.whole) < (*_sent_at(record, rules), record.whole)
        if other.version == record.version and before and (not rules.by_offset or other.partition == record.partition):
            return True
    return False


def _is_read_again(number: int, record: Decoded, batch: Sequence[Decoded], rules: Rules) -> bool:
    known = bool(record.message_id or record.producer)
    return rules.by_delivery and known and record in batch[:number]


def of_copy(record: Decoded, among: Sequence[Decoded], rules: Rules) -> str:
    """Why a copy is a duplicate: `late_copy` if another message of its key was first delivered in between, in the order
    that decides; otherwise the level at which the copy is the same as the first delivery."""
    first = first_delivery(record, among, rules)
    others = [other for other in first_sent(among, rules) if _have_deliveries_in_common(other, record, rules)]
    if any(rules.beats(record, other) and rules.beats(other, first) for other in others):
        return "late_copy"
    if first.position == record.position:
        return "position"
    if record.producer and first.producer == record.producer and first.partition == record.partition:
        return "producer"
    return "message_id" if record.message_id else "producer"


def _have_deliveries_in_common(record: Decoded, other: Decoded, rules: Rules) -> bool:
    return record.key == other.key and (record.version == other.version or not rules.every_version)


def _is_same_message(record: Decoded, other: Decoded, rules: Rules) -> bool:
    """Compare the message id (without an id the producer's sequence) and the content."""
    identity, other_identity = (
        ("id", each.message_id) if each.message_id else ("sequence", each.producer) for each in (record, other)
    )
    known = record.message_id or record.producer
    same = bool(known) and identity == other_identity and record.content == other.content
    return same and _have_deliveries_in_common(record, other, rules)


def counts(batch: Sequence[Decoded], rules: Rules) -> Counter[tuple[str | None, str | None]]:
    """Records of a batch by verdict and reason."""
    return Counter((verdict.verdict, verdict.reason) for verdict in verdicts(batch, rules))


def _beaten(record: Decoded, among: set[Decoded]) -> bool:
    """Whether another content wins the record's position."""
    return any(_is_beaten_by(record, other) for other in among)


def _verdict(
    number: int, record: Decoded, candidates: list[tuple[int, Decoded]], at_positions: list[Decoded], rules: Rules
) -> Verdict:
    """`candidates` leaves late copies out, `at_positions` does not: a copy may have taken another record's position."""
    if record.rejected:
        return Verdict("rejected", record.rejected)
    if record.filtered:
        return Verdict("filtered", "filter")
    if (number, record) not in candidates:
        at_position = [other for other in at_positions if other.position == record.position]
        return Verdict("conflict", "inconsistent_position", min(other.order for other in at_position))
    among = [other for _, other in candidates]
    before = [
        other
        for place, other in candidates
        if other.key == record.key and (_precedes(other, record, among, rules) or (other == record and place < number))
    ]
    if not before:
        return Verdict(None, None)
    tied = [other for other in before if other.version == record.version] if rules.mode == "upsert" else before
    read_before = any(other.position == record.position for other in before)
    if tied and (read_before or best(tied, among, rules).content == record.content):
        return Verdict("duplicate", _reason(record, tied, rules), best(tied, among, rules).order)
    if rules.mode == "append":
        return Verdict("conflict", "same_identity", best(before, among, rules).order)
    for level in ("producer", "message_id"):
        sent_before = [other for other in before if same_at(level, other, record)]
        if sent_before and best(sent_before, among, rules).content == record.content:
            return Verdict("duplicate", level, best(sent_before, among, rules).order)
    of_row = (
        rules.mode != "upsert"
        or rules.every_version
        or not any(other.key == record.key and other.version > record.version for other in among)
    )
    if tied and of_row and rules.placeless(best(tied, among, rules), among):
        return Verdict("conflict", "incomparable_version", best(tied, among, rules).order)
    if ahead := _ahead(record, among, rules):
        return Verdict("superseded", "backwards", max(ahead, key=lambda other: (other.version, other.order)).order)
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
    return [other for other in among if goes_backwards(record, other, rules)]


def _precedes(record: Decoded, other: Decoded, among: Sequence[Decoded], rules: Rules) -> bool:
    """Whether a batch judges `other` by `record`: by the pairwise rule; what went backwards is last of its version."""
    if rules.mode == "upsert" and record.version == other.version:
        backwards = bool(_ahead(record, among, rules)), bool(_ahead(other, among, rules))
        if backwards[0] != backwards[1]:
            return backwards[1]
    return rules.beats(record, other)


def best(records: Sequence[Decoded], among: Sequence[Decoded], rules: Rules) -> Decoded:
    """Of the records of a version, the one by which a batch, `among`, judges the others."""
    return reduce(lambda leader, other: other if _precedes(other, leader, among, rules) else leader, records)


def _reason(record: Decoded, before: list[Decoded], rules: Rules) -> str:
    """The narrowest level at which another record was first."""
    for level in ("position", *rules.narrow):
        if any(same_at(level, other, record) for other in before):
            return level
    return rules.deciding


def same_at(level: str, record: Decoded, other: Decoded) -> bool:
    """Whether two records are the same message at a level; a producer counts in each partition on its own."""
    identity, other_identity = getattr(record, level), getattr(other, level)
    if identity is None or identity != other_identity:
        return False
    return level != "producer" or record.position[:-1] == other.position[:-1]
