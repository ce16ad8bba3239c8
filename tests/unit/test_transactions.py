"""Transactions from markers alone: whatever part of a log is known, what is decided is what the log decided."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onefold.kafka.segment_index import SegmentIndex, scan
from onefold.kafka.transactions import Knowledge, resolve
from tests.support.batches import emptied, marker, values

ABORTED, COMMITTED, OPEN = "aborted", "committed", "open"


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch of a log: of a producer and epoch, or a plain one; `ends` for a marker."""

    offset: int
    size: int
    producer: int = -1
    epoch: int = 0
    ends: bool | None = None

    @property
    def data(self) -> bytes:
        if self.ends is not None:
            return marker(self.offset, self.producer, commit=self.ends, epoch=self.epoch)
        more = {"producer": self.producer, "epoch": self.epoch, "sequence": 0, "transactional": True}
        return values(self.offset, *["x"] * self.size, **(more if self.producer >= 0 else {}))


@st.composite
def logs(draw: st.DrawFn) -> list[Entry]:
    """What a broker lets producers write: interleaved transactions, repeated markers, epochs bumped by an abort."""
    log: list[Entry] = []
    epochs: dict[int, int] = {}
    offset = draw(st.integers(0, 3))
    for _ in range(draw(st.integers(1, 14))):
        producer = draw(st.sampled_from([-1, 1, 1, 2, 3]))
        kind = draw(st.sampled_from(["data", "data", "commit", "abort", "fence"]))
        epoch = epochs.get(producer, 0)
        if producer < 0 or kind == "data":
            size = draw(st.integers(1, 3))
            log.append(Entry(offset, size, producer, epoch))
            offset += size
            continue
        if kind == "fence" or (kind == "commit" and draw(st.booleans())):  # newer brokers bump it with every marker
            epochs[producer] = epoch = epoch + 1
        log.append(Entry(offset, 1, producer, epoch, ends=kind == "commit"))
        offset += 1
    return log


def replayed(log: list[Entry]) -> dict[int, str]:
    """The fate of each transactional offset, as a broker that replays the whole log has it."""
    fates: dict[int, str] = {}
    ongoing: dict[int, list[int]] = {}
    for entry in log:
        if entry.producer < 0:
            continue
        if entry.ends is None:
            own = range(entry.offset, entry.offset + entry.size)
            ongoing.setdefault(entry.producer, []).extend(own)
            fates |= dict.fromkeys(own, OPEN)
        else:
            fate = COMMITTED if entry.ends else ABORTED
            fates |= dict.fromkeys(ongoing.pop(entry.producer, []), fate)
    return fates


def index_of(entries: list[Entry], *, number: int = 0, data: bytes | None = None) -> SegmentIndex:
    data = b"".join(entry.data for entry in entries) if data is None else data
    found = scan(lambda low, high: data[low:high], len(data), entries[0].offset)
    names = ("chunks", "runs", "spans", "markers", "damage", "lost", "open_end")
    return SegmentIndex(
        digest=str(number), key="k", name="n", topic="t", partition=0, size=len(data), sha256="", start=found.start,
        end=found.floor, valid=found.at, **{name: getattr(found, name) for name in names},
    )  # fmt: skip


def resolve_fates(
    held: list[SegmentIndex], everything: list[SegmentIndex], *, compacted: bool = False
) -> dict[int, str]:
    """The fate of each offset in the spans of what is held, of logs with one producer."""
    spans = [span for index in held for span in index.spans]
    fates = resolve(spans, Knowledge.of(everything, compacted=compacted))
    found: dict[int, str] = {}
    for fate, by_producer in ((ABORTED, fates.aborted), (COMMITTED, fates.committed), (OPEN, fates.open)):
        for ranges in by_producer.values():
            for start, end in ranges:
                assert not found.keys() & set(range(start, end))
                found |= dict.fromkeys(range(start, end), fate)
    return found


def owned(entries: list[Entry]) -> list[tuple[int, int]]:
    """(offset, producer) of the transactional records."""
    data = [entry for entry in entries if entry.producer >= 0 and entry.ends is None]
    return [(offset, entry.producer) for entry in data for offset in range(entry.offset, entry.offset + entry.size)]


def fate_of(fates: dict[int, dict[int, list[tuple[int, int]]]], offset: int, producer: int) -> list[str]:
    return [
        kind
        for kind, by_producer in fates.items()
        if any(start <= offset < end for start, end in by_producer.get(producer, []))
    ]


@settings(max_examples=500)
@given(logs(), st.data())
def test_what_any_part_of_a_log_decides_is_what_the_log_decided(log: list[Entry], data: st.DataObject) -> None:
    """L1: each record is decided as by a replay of all, or open; and with all segments it is open only if it was."""
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(log) - 1)), max_size=4)))
    parts = [part for low, high in zip([0, *cuts], [*cuts, len(log)], strict=True) if (part := log[low:high])]
    indexes = [index_of(part, number=number) for number, part in enumerate(parts)]
    known = [index for index in indexes if data.draw(st.booleans())] or indexes
    truth = replayed(log)
    knowledge = Knowledge.of(known, compacted=False)
    fates = resolve([span for index in known for span in index.spans], knowledge)
    named = {ABORTED: fates.aborted, COMMITTED: fates.committed, OPEN: fates.open}
    for number, part in enumerate(parts):
        for offset, producer in owned(part) if indexes[number] in known else []:
            [fate] = fate_of(named, offset, producer)
            assert fate in (truth[offset], OPEN)
            assert fate == _from_what_is_known(offset, producer, parts, indexes, known, truth)


def _from_what_is_known(offset: int, producer: int, parts, indexes, known, truth) -> str:  # type: ignore[no-untyped-def]
    """By walking on from the record: its fate where its marker comes before the first unknown segment."""
    for number, part in enumerate(parts):
        if part[-1].offset + part[-1].size <= offset:
            continue
        if indexes[number] not in known:
            return OPEN
        if any(entry.offset > offset and entry.producer == producer and entry.ends is not None for entry in part):
            return str(truth[offset])
    return OPEN


@settings(max_examples=200)
@given(logs())
def test_batches_that_compaction_emptied_or_took_leave_the_others_fates_as_they_were(log: list[Entry]) -> None:
    """The cleaner keeps a transaction's marker while it keeps one of its records."""
    truth = replayed(log)
    left = [entry for number, entry in enumerate(log) if entry.ends is not None or number % 3]
    if not left:
        return
    taken = index_of(left)
    hollow = index_of(log, data=b"".join(entry.data if entry in left else emptied(entry.data) for entry in log))
    for index, compacted in ((taken, True), (hollow, False)):
        fates = resolve(index.spans, Knowledge.of([index], compacted=compacted))
        named = {ABORTED: fates.aborted, COMMITTED: fates.committed, OPEN: fates.open}
        for offset, producer in owned(left):
            assert fate_of(named, offset, producer) == [truth[offset]]


FIRST = [Entry(0, 2, 1), Entry(2, 1)]
BETWEEN = [Entry(3, 1, 1, ends=False), Entry(4, 1, 1)]
LAST = [Entry(5, 1, 1, ends=True)]


def test_a_marker_behind_what_is_not_known_decides_nothing() -> None:
    first, between, last = (index_of(part) for part in (FIRST, BETWEEN, LAST))
    assert resolve_fates([first], [first, last]) == {0: OPEN, 1: OPEN}
    assert resolve_fates([first], [first, between, last]) == {0: ABORTED, 1: ABORTED}
    assert resolve_fates([between], [between, last]) == {4: COMMITTED}
    # Where the file says that compaction explains what is missing, no marker was there.
    assert resolve_fates([first], [first, last], compacted=True) == {0: COMMITTED, 1: COMMITTED}


def test_damage_may_hide_a_marker_whatever_explains_holes() -> None:
    whole = [entry.data for entry in [*FIRST, *BETWEEN, *LAST]]
    whole[2] = whole[2][:-1] + b"\xff"
    damaged = index_of(FIRST, data=b"".join(whole))
    for compacted in (False, True):
        assert resolve_fates([damaged], [damaged], compacted=compacted) == {0: OPEN, 1: OPEN, 4: COMMITTED}
        replica = index_of([*FIRST, *BETWEEN])
        assert resolve_fates([damaged], [damaged, replica], compacted=compacted) == {
            0: ABORTED,
            1: ABORTED,
            4: COMMITTED,
        }


def test_a_torn_end_may_hide_a_marker_until_the_segment_has_grown() -> None:
    torn = index_of(FIRST, data=b"".join(entry.data for entry in FIRST) + BETWEEN[0].data[:-3])
    last = index_of(LAST)
    assert resolve_fates([torn], [torn, last], compacted=True) == {0: OPEN, 1: OPEN}
    grown = index_of([*FIRST, *BETWEEN])
    assert resolve_fates([torn], [torn, grown, last], compacted=True) == {0: ABORTED, 1: ABORTED}


@pytest.mark.parametrize(
    ("markers", "fate"),
    [
        ([Entry(3, 1, 1, 0, ends=True), Entry(4, 1, 1, 0, ends=True)], COMMITTED),  # repeated
        ([Entry(3, 1, 1, 1, ends=False)], ABORTED),  # fenced: the coordinator bumps the epoch, then aborts
        ([Entry(3, 1, 2, 0, ends=True)], OPEN),  # another producer's
        ([], OPEN),
    ],
)
def test_what_ends_a_transaction(markers: list[Entry], fate: str) -> None:
    index = index_of([*FIRST, *markers])
    assert resolve_fates([index], [index]) == {0: fate, 1: fate}


def test_a_marker_of_an_older_epoch_does_not_end_newer_records() -> None:
    index = index_of([Entry(0, 1, 1, 2), Entry(1, 1, 1, 1, ends=False), Entry(2, 1, 1, 2, ends=True)])
    assert resolve_fates([index], [index]) == {0: COMMITTED}
