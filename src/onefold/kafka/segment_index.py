"""What the batch headers of a log segment say, read once when it is landed: its index.

The payload is not opened, but every batch's checksum is. Damage is fenced in: what is no batch is named by its
bytes, and reading goes on behind it. A partial last batch is normal in a segment that was being written: what is behind
it is not there yet.

A value may hold whole batches, with the right checksums. So nothing that a header claims for its batch is searched for
others: a damaged batch costs all that it claims, and a claim that ends behind the segment ends it. Only where there is
no header, or the length of one is proved wrong, the next batch is searched for, at a cost that is bounded by the size.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field

from crc32c import crc32c
from pydantic import BaseModel, ConfigDict, Field

from onefold.kafka.record_batches import (
    CRC_START,
    LENGTH_END,
    MAGIC_AT,
    SIZE,
    Header,
    commits,
    header_at,
    last_record,
    records_end,
)
from onefold.offsets import Range, merged

CHUNK = 8 << 20
"""Bytes that one task reads, about; a larger batch is a chunk of its own."""
_WINDOW = 4 << 20
_PROVED = 1 << 20
"""Bytes of a batch, at most, that are read to prove that its length is wrong."""
_PATIENCE = 8
"""How often the bytes of a segment are read, on average, to search behind damage; then the rest is damaged, too."""
_OLD = "a message of format version {} (Kafka before 0.11): only version 2 is read"
_OLD_SMALLEST = 14

Read = Callable[[int, int], bytes]
"""The bytes `[start, end)` of a segment."""
Span = tuple[int, int, int, int]
"""`(producer id, epoch, start, end)`: transactional records between two markers."""
Marker = tuple[int, int, int, bool]
"""`(producer id, epoch, offset, whether it commits)`"""


class Chunk(BaseModel):
    """A run of whole, undamaged batches: bytes `[start, end)`, offsets `[first, last)`."""

    model_config = ConfigDict(frozen=True)

    start: int
    end: int
    first: int
    last: int
    records: int


class Damage(BaseModel):
    """Bytes `[start, end)` that are no batch of format version 2."""

    model_config = ConfigDict(frozen=True)

    start: int
    end: int
    what: str
    claimed: Range | None = Field(default=None, description="The offsets that its header speaks of")


class SegmentIndex(BaseModel):
    """A segment's index: immutable, under the digest of the object."""

    model_config = ConfigDict(frozen=True)

    digest: str
    key: str = Field(description="Where its bytes were landed first")
    name: str = Field(description="As the export called it")
    topic: str
    partition: int
    size: int
    sha256: str
    start: int = Field(description="The first offset, as the name has it")
    end: int = Field(description="The offset behind its last undamaged batch")
    valid: int = Field(description="Where its last whole batch ends, in bytes")
    chunks: list[Chunk]
    runs: list[Range] = Field(description="Offsets of its batches: here it is known what the log holds")
    spans: list[Span]
    markers: list[Marker]
    damage: list[Damage]
    lost: list[Range] = Field(description="Offsets of what is damaged")
    open_end: bool = Field(description="It ends in damage or in a partial batch: more may belong here")

    @property
    def records(self) -> int:
        """Rows that reading it gives: a record or a marker each, and one for each damage."""
        return sum(chunk.records for chunk in self.chunks) + len(self.damage)

    @property
    def transactional(self) -> bool:
        """Whether it knows anything of transactions."""
        return bool(self.spans or self.markers)


@dataclass
class Scan:
    """What is known while a segment's headers are read, in the order of its bytes."""

    read: Read
    size: int
    start: int
    """The first offset, as the segment's name has it."""
    chunk: int = CHUNK
    floor: int = 0
    """The offset behind the last good batch."""
    at: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    runs: list[Range] = field(default_factory=list)
    spans: list[Span] = field(default_factory=list)
    markers: list[Marker] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    lost: list[Range] = field(default_factory=list)
    open_end: bool = False
    _open: dict[int, Span] = field(default_factory=dict)
    _since: int | None = None
    """The floor before the damage that no good batch has followed yet."""
    _window: tuple[int, bytes] = (0, b"")
    _spare: int = 0
    """Bytes that may be read yet to search behind damage."""

    def run(self) -> Scan:
        """Read it to its end. No bytes make this fail."""
        self.floor, self._spare = self.start, _PATIENCE * self.size
        while self.at < self.size:
            header = self._header(self.at)
            why = "it is cut off" if header is None else self._fault(header)
            if header is not None and why is None:
                self._take(header)
            elif not self._end_here(header):
                self._skip(header, why or "")
        self._close()
        return self

    # Bytes.

    def _bytes(self, start: int, end: int) -> memoryview:
        """At most a window's width; fewer bytes where the object ends."""
        first, data = self._window
        if start < first or end > first + len(data):
            first, data = start, self.read(start, min(self.size, start + max(_WINDOW, end - start)))
            self._window = (first, data)
        return memoryview(data)[start - first : end - first]

    def _header(self, at: int) -> Header | None:
        data = self._bytes(at, at + SIZE) if at + SIZE <= self.size else b""
        return header_at(data) if len(data) == SIZE else None

    def _body(self, header: Header, at: int) -> bytes:
        return bytes(self._bytes(at + SIZE, at + header.size))

    def _crc(self, at: int, end: int, of: Callable[[memoryview, int], int] = crc32c) -> int:
        crc = 0
        while at < end:
            piece = self._bytes(at, min(end, at + _WINDOW))
            if not piece:  # the object is shorter than it was
                return -1
            crc = of(piece, crc)
            at += len(piece)
        return crc

    # Batches.

    def _fault(self, header: Header, at: int | None = None) -> str | None:
        """Why there is no good batch at a place."""
        at = self.at if at is None else at
        why = header.problem(self.floor, self.start)
        if why is None and at + header.size > self.size:
            why = f"its length is {header.length}, and the segment ends before"
        if why is None and self._crc(at + CRC_START, at + header.size) != header.crc:
            why = "its checksum is wrong"
        return why or self._misplaced(header, at) or self._unreadable(header, at)

    def _misplaced(self, header: Header, at: int) -> str | None:
        """A batch whose offsets the batches behind it contradict: of the two, which one is damaged?

        A base offset is not under the checksum, so it is the likelier to be. But the last offset may be wrong, too,
        from before the checksum was made.
        """
        end = at + header.size
        after = self._header(end)
        if after is None or not self.floor <= after.base < header.end or self._follows(end) is None:
            return None
        try:
            behind = header.base + last_record(header, self._body(header, at)) + 1
        except ValueError as error:
            return f"its records cannot be separated: {error}"
        third = self._follows(end + after.size)
        if after.base == behind or (after.base > behind and third is not None and third.base == after.end):
            return f"its offsets up to {header.end} reach past {after.base}, where the next batch begins"
        if header.base == self.floor:
            return None  # it is the next batch that is out of order
        contiguous = after.base == self.floor + header.last_delta + 1
        if third is not None and third.base >= header.end and not contiguous:
            return None  # the next batch again
        return f"its offset {header.base} is out of order before {after.base}"

    def _follows(self, at: int) -> Header | None:
        """The header at a place, if a batch with the right checksum is there."""
        header = self._header(at)
        if header is None or header.problem(self.floor, self.start) or at + header.size > self.size:
            return None
        return header if self._crc(at + CRC_START, at + header.size) == header.crc else None

    def _unreadable(self, header: Header, at: int) -> str | None:
        """Markers are read here; of other batches only those that have more records than their bytes suggest."""
        try:
            if header.control:
                commits(header, self._body(header, at))
            if header.crowded:
                last_record(header, self._body(header, at))
        except ValueError as error:
            return f"its {'marker cannot be read' if header.control else 'records cannot be separated'}: {error}"
        return None

    def _take(self, header: Header) -> None:
        self._settle(header.base)
        self._grow(header)
        if self.runs and self.runs[-1][1] == header.base:
            self.runs[-1] = (self.runs[-1][0], header.end)
        else:
            self.runs.append((header.base, header.end))
        if header.transactional and header.records:
            if not header.control:
                self._belongs(header)
            elif (commit := commits(header, self._body(header, self.at))) is not None:
                self.markers.append((header.producer, header.epoch, header.base, commit))
                if (span := self._open.get(header.producer)) and span[1] <= header.epoch:
                    self.spans.append(self._open.pop(header.producer))
        self.floor = header.end
        self.at += header.size

    def _belongs(self, header: Header) -> None:
        """A batch of a transaction: its producer's span goes on, or begins."""
        span = self._open.get(header.producer)
        if span and span[1] != header.epoch:
            self.spans.append(span)
            span = None
        first = span[2] if span else header.base
        self._open[header.producer] = (header.producer, header.epoch, first, header.end)

    def _grow(self, header: Header) -> None:
        end = self.at + header.size
        last = self.chunks[-1] if self.chunks else None
        if last and last.end == self.at and end - last.start <= self.chunk:
            records = last.records + header.records
            self.chunks[-1] = Chunk(start=last.start, end=end, first=last.first, last=header.end, records=records)
        else:
            self.chunks.append(
                Chunk(start=self.at, end=end, first=header.base, last=header.end, records=header.records)
            )

    def _close(self) -> None:
        """The end of the bytes."""
        self.spans += self._open.values()
        self._open = {}
        if self._since is not None:
            self.open_end = True
            claims = [damage.claimed[1] for damage in self.damage if damage.claimed and damage.claimed[1] > self._since]
            # At least one offset was there; a header that is torn says no more than it may.
            self.lost.append((self._since, max([self._since + 1, *claims[-1:]])))

    # Damage.

    def _end_here(self, header: Header | None) -> bool:
        """Whether what is left is a batch that is not written to its end, or room that is kept for more."""
        rest = self.size - self.at
        if header is None:
            partial = self._may_begin(rest)
        elif header.problem(self.floor, self.start) is None and header.size > rest:
            partial = not self._proved_end(header)
        else:
            partial = not any(self._bytes(self.at, self.at + SIZE)) and self._zeros(self.at)
        if partial:
            self.open_end, self.size = True, self.at
        return partial

    def _proved_end(self, header: Header) -> int:
        """Where a batch that is not compressed ends by its records, if its checksum is right there; else 0.

        Records are framed, so that no value leads past those that were written; where a batch is cut off, some are
        missing. What follows packed records within a batch is a producer's, and proves nothing.
        """
        body = self._bytes(self.at + SIZE, min(self.size, self.at + SIZE + _PROVED))
        size = None if header.codec or not self._spend(len(body)) else records_end(header, body)
        end = self.at + SIZE + (size or 0)
        return end if size and self._crc(self.at + CRC_START, end) == header.crc else 0

    def _spend(self, count: int) -> bool:
        """Whether that many bytes more may be read to search behind damage."""
        self._spare -= count
        return self._spare >= 0

    def _intact(self, header: Header, at: int) -> bool:
        """Whether a header's checksum is right for all that it claims."""
        end = at + header.size
        return end <= self.size and self._spend(header.size) and self._crc(at + CRC_START, end) == header.crc

    def _may_begin(self, rest: int) -> bool:
        """Whether fewer bytes than a header's could be the start of a header."""
        begun = bytes(self._bytes(self.at, self.at + rest))
        base = int.from_bytes(begun[:8].ljust(8, b"\0"), "big")
        low = int.from_bytes(self.floor.to_bytes(8, "big")[: min(8, rest)].ljust(8, b"\0"), "big")
        return base >= low and (rest <= MAGIC_AT or begun[MAGIC_AT] == 2)

    def _zeros(self, at: int) -> bool:
        while at < self.size:
            piece = self._bytes(at, min(self.size, at + _WINDOW))
            if not piece or any(piece):
                return False
            at += len(piece)
        return True

    def _skip(self, header: Header | None, why: str) -> None:
        end, claimed, what = 0, None, f"not a record batch: {why}"
        if header is not None and (old := self._old(header)):
            end, what, claimed = old, _OLD.format(header.magic), (header.base, header.base + 1)
        elif header is not None and header.problem(self.floor, self.start) is None:
            claimed, what = (header.base, header.end), f"a damaged record batch: {why}"
            end = self._proved_end(header) or self.at + header.size
        elif header is not None:
            end = self._proved_end(header) or (self.at + header.size if self._leads_on(header) else 0)
        end = end if 0 < end <= self.size else self._search(self.at + 1)
        if self._since is None:
            self._since = self.floor
        self.spans += self._open.values()
        self._open = {}
        last = self.damage[-1] if self.damage else None
        if last and last.end == self.at and last.what == what and what.startswith(_OLD[:20]):
            assert last.claimed
            assert claimed
            claimed = (last.claimed[0], claimed[1])
            self.damage[-1] = Damage(start=last.start, end=end, what=what, claimed=claimed)
        elif last and last.end == self.at and claimed is None:
            # No batch begins here: what was put into the batch before, or is left of it, is one place with it.
            self.damage[-1] = last.model_copy(update={"end": end})
        else:
            self.damage.append(Damage(start=self.at, end=end, what=what, claimed=claimed))
        self.at = end

    def _settle(self, base: int) -> None:
        """A good batch follows: what is damaged before it are the offsets between the good batches."""
        if self._since is not None and base > self._since:
            self.lost.append((self._since, base))
        self._since = None

    def _old(self, header: Header) -> int:
        """Where a message of format version 0 or 1 ends; 0: it is none. (Its CRC-32 is at byte 12.)"""
        end = self.at + header.size
        if header.magic not in (0, 1) or header.length < _OLD_SMALLEST or end > self.size:
            return 0
        if not self._spend(header.size):
            return 0
        wanted = int.from_bytes(self._bytes(self.at + LENGTH_END, self.at + MAGIC_AT), "big")
        return end if self._crc(self.at + MAGIC_AT, end, zlib.crc32) == wanted else 0

    def _leads_on(self, header: Header) -> bool:
        """Whether the length of a header that is wrong otherwise is right: so is its checksum, or a header follows."""
        if header.length < SIZE - LENGTH_END:
            return False
        if header.fault() is None and self._intact(header, self.at):
            return True
        end = self.at + header.size
        after = self._header(end)
        return end == self.size or (after is not None and after.problem(self.floor, self.start) is None)

    def _search(self, at: int) -> int:
        """The next place of a header with the right checksum, or the end. It need not be in order."""
        while at + SIZE <= self.size:
            self._bytes(at, at + SIZE)
            first, data = self._window
            found = data.find(b"\x02", at - first + MAGIC_AT)
            while found >= 0 and found - MAGIC_AT + SIZE <= len(data):
                header, place = header_at(data, found - MAGIC_AT), first + found - MAGIC_AT
                if header.fault() is None and self._intact(header, place):
                    return place
                found = data.find(b"\x02", found + 1)
            if first + len(data) >= self.size or self._spare < 0:
                break
            at = first + len(data) - SIZE + 1
        return self.size


def scan(read: Read, size: int, start: int, chunk: int = CHUNK) -> Scan:
    """Read all headers of a segment of `size` bytes whose name says that it starts at offset `start`."""
    return Scan(read, size, start, chunk).run()


def known(indexes: list[SegmentIndex]) -> list[Range]:
    """The offsets of a partition of which some segment tells what the log holds."""
    return merged(run for index in indexes for run in index.runs)
