"""What raw record batches tell of offsets that a `read_committed` read did not give."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from kafka.record import MemoryRecords

from onefold.kafka.raw_log import Answer, NoEvidenceError
from onefold.offsets import Range, meet, merged, minus
from onefold.vocabulary import HoleKind

Fetch = Callable[[int, int], Answer]
"""The batches of one partition from (offset) on, about (bytes) of them."""
_LEAST, _MOST = 64 << 10, 8 << 20
"""Bytes of one fetch."""
_WORTH = 256 << 10
"""Bytes between two missing offsets that are rather read than skipped with another fetch."""
_OLD_FORMAT = "message format 0 or 1 does not say what became of an offset"


@dataclass(slots=True)
class Found:
    """What became of missing offsets; each is in one of the three."""

    holes: list[tuple[int, int, HoleKind]] = field(default_factory=list)
    lost: list[Range] = field(default_factory=list)
    """The log holds a committed record there, which the read did not give."""
    unknown: dict[str, list[Range]] = field(default_factory=dict)
    """By the reason why there is no evidence."""
    followed_by: list[tuple[int, int, int]] = field(default_factory=list)
    """Of compacted offsets `(start, end)` the newest timestamp, milliseconds since 1970, of the batch that spans or
    follows them"""

    def compact(self, ranges: list[Range], followed_by: int) -> None:
        """Call offsets compacted."""
        self.call(ranges, HoleKind.COMPACTED)
        self.followed_by += [(start, end, followed_by) for start, end in ranges]

    def call(self, ranges: list[Range], kind: HoleKind) -> None:
        """Give offsets a kind."""
        self.holes += [(start, end, kind) for start, end in ranges]

    def leave(self, ranges: list[Range], reason: str) -> None:
        """Give offsets up."""
        if ranges:
            self.unknown.setdefault(reason, []).extend(ranges)


def classify(missing: list[Range], fetch: Fetch, not_cleaned: Callable[[], str]) -> Found:
    """Fetch the batches around missing offsets, and only those, and say what became of each.

    A marker is `control`, a record of an aborted transaction `aborted`. What a batch has no record of is `compacted`:
    brokers take no batch with gaps, only their cleaner leaves gaps. What lies between two batches is `compacted` where
    the topic is cleaned; else nothing tells why it is not there, and `not_cleaned` (asked only then) says so.
    No error leaves this function: what is not known has its reason in `unknown`.
    """
    left, found, density = deque(merged(missing)), Found(), 0.0
    while left:
        start = left[0][0]
        try:
            answer = fetch(start, _worthwhile(left, density))
            first, end = _walk(answer, left, found, not_cleaned)
        except NoEvidenceError as error:
            found.leave(list(left), str(error))
            break
        except Exception as error:  # a landing never fails by this: bytes that are no batches, a codec that is missing
            found.leave(list(left), f"the batches at offset {start} cannot be read: {type(error).__name__}: {error}")
            break
        density = len(answer.records) / max(1, end - first)
    return found


def _worthwhile(left: deque[Range], density: float) -> int:
    """Bytes to fetch: up to where the next missing offset is so far away that another fetch is cheaper.

    `density` is bytes an offset, as the last answer had them; 0 before the first.
    """
    start, end = left[0]
    for low, high in left:
        if (low - end) * density > _WORTH or (end - start) * density > _MOST:
            break
        end = high
    return int(min(max((end - start) * density, _LEAST), _MOST))


def _walk(answer: Answer, left: deque[Range], found: Found, not_cleaned: Callable[[], str]) -> tuple[int, int]:
    """Settle the missing offsets that an answer's whole batches reach, and say which offsets those span."""
    wanted = left[0][0]
    aborted, first, end = _Aborted(answer.aborted), -1, wanted
    for batch in MemoryRecords(answer.records):
        if batch.magic < 2:
            found.leave(_take(left, batch.base_offset + 1), _OLD_FORMAT)
            end = batch.base_offset + 1
        else:
            if left and left[0][0] < batch.base_offset:
                reason = not_cleaned()
                skipped = _take(left, batch.base_offset)
                found.leave(skipped, reason) if reason else found.compact(skipped, batch.max_timestamp)
            holds_missing = bool(left) and left[0][0] < batch.next_offset
            if holds_missing or batch.is_control_batch:  # the others are never opened
                _check(batch)
            is_aborted = aborted.takes(batch)
            if holds_missing:
                _settle(batch, is_aborted, left, found)
            end = batch.next_offset
        first = first if first >= 0 else batch.base_offset
    if end <= wanted:
        raise NoEvidenceError(f"the leader has no committed batch at offset {wanted} or behind it")
    return first, end


def _settle(batch: Any, is_aborted: bool, left: deque[Range], found: Found) -> None:
    """Say what became of the missing offsets of one batch."""
    if batch.is_control_batch or is_aborted:
        kind = HoleKind.CONTROL if batch.is_control_batch else HoleKind.ABORTED
        found.call(_take(left, batch.next_offset), kind)
        return
    held = _held(batch)
    missing = _take(left, batch.next_offset)
    found.lost += meet(missing, held)
    found.compact(minus(missing, held), batch.max_timestamp)


def _held(batch: Any) -> list[Range]:
    """The offsets that a batch has records of; it is opened only if the header shows that some are gone."""
    if batch.records_count == batch.last_offset_delta + 1:
        return [(batch.base_offset, batch.next_offset)]
    return merged((record.offset, record.offset + 1) for record in batch)


def _check(batch: Any) -> None:
    if not batch.validate_crc():
        raise NoEvidenceError(f"the record batch at offset {batch.base_offset} does not have its checksum")


def _take(left: deque[Range], end: int) -> list[Range]:
    """Remove what lies below an offset."""
    taken = []
    while left and left[0][0] < end:
        low, high = left.popleft()
        taken.append((low, min(high, end)))
        if high > end:
            left.appendleft((end, high))
    return taken


class _Aborted:
    """Which batches of an answer are of aborted transactions; asked in the log's order, as Kafka's own consumer does.

    A producer's batches are from the transaction's first offset to its abort marker; then its next one begins.
    """

    def __init__(self, transactions: list[tuple[int, int]]) -> None:
        self._coming = deque(sorted((first, producer) for producer, first in transactions))
        self._running: set[int] = set()

    def takes(self, batch: Any) -> bool:
        """Whether a batch is a marker."""
        while self._coming and self._coming[0][0] <= batch.last_offset:
            self._running.add(self._coming.popleft()[1])
        if batch.producer_id not in self._running:
            return False
        if batch.is_control_batch:
            if any(marker.abort for marker in batch):
                self._running.discard(batch.producer_id)
            return False
        return bool(batch.is_transactional)
