"""Landing log segments: their indexes, the fate of transactional records, and what this landing wakes.

A record whose transaction no known marker ends is landed, held and not covered. The landing that first knows its
marker copies the segment that holds it into itself, so that its batch has the record again, decided.

The indexes of what is landed are written before those of others are read: of two landings at once, at least one
sees what the other has.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.kafka.segment_index import SegmentIndex, Span, known, scan
from onefold.kafka.transactions import Fates, Knowledge, Transactions, listed, resolve
from onefold.lake import Lake
from onefold.landing.cuts import OffsetRange
from onefold.landing.manifest import Cleared, LandedObject, Manifest, SegmentDamage
from onefold.landing.plan import taken_plans
from onefold.landing.source import Landed
from onefold.offsets import Range, TopicPartition, meet, merged, minus

Ranges = dict[int, list[Range]]
"""By producer id."""
_KINDS = {False: "plain", True: "transactional"}


def index_key(source: str, object_: LandedObject, *, transactional: bool) -> str:
    """Where the index of a landed segment lies."""
    assert object_.topic is not None
    assert object_.partition is not None
    return (
        f"{lake_keys.segments(source, object_.topic, object_.partition)}{object_.digest}.{_KINDS[transactional]}.json"
    )


def write_index(lake: Lake, source: str, object_: LandedObject) -> SegmentIndex:
    """Read a landed segment's headers, once, and return the index that is there then."""
    if index := find_index(lake, source, object_):
        return index
    assert object_.topic is not None
    assert object_.partition is not None
    assert object_.start is not None
    scanned = scan(lambda start, end: lake.storage.read_range(object_.key, start, end), object_.size, object_.start)
    index = SegmentIndex(
        digest=object_.digest,
        key=object_.key,
        name=object_.name,
        topic=object_.topic,
        partition=object_.partition,
        size=object_.size,
        sha256=object_.sha256,
        start=object_.start,
        end=scanned.floor,
        valid=scanned.at,
        chunks=scanned.chunks,
        runs=scanned.runs,
        spans=scanned.spans,
        markers=scanned.markers,
        damage=scanned.damage,
        lost=scanned.lost,
        open_end=scanned.open_end,
    )
    return lake.put_first(index_key(source, object_, transactional=index.transactional), index)


def find_index(lake: Lake, source: str, object_: LandedObject) -> SegmentIndex | None:
    """The index of a landed segment, if it has been read."""
    keys = (index_key(source, object_, transactional=kind) for kind in (True, False))
    return next((found for key in keys if (found := lake.get(key, SegmentIndex))), None)


def land_segments(lake: Lake, dataset: Dataset, batch: str, attempt: str, objects: list[LandedObject]) -> Landed:
    """What a landing of copied segments amounts to: with what it wakes, and every transaction's fate."""
    source = _SourceLog(lake, dataset, batch, attempt)
    own: dict[tuple[str, int], list[SegmentIndex]] = {}
    for object_ in objects:
        index = write_index(lake, dataset.source_id, object_)
        own.setdefault((index.topic, index.partition), []).append(index)
    landed = Landed(list(objects))
    for indexes in own.values():
        _land_partition(source, indexes, landed)
    return landed


def _land_partition(source: _SourceLog, own: list[SegmentIndex], landed: Landed) -> None:
    """Add one partition's woken objects, fates, damage and notes to a landing."""
    where = source.partition(own[0])
    everything = source.all_indexes(own)
    knowledge = Knowledge.of(everything, compacted=source.compacted)
    fates = resolve(_spans(everything), knowledge)
    woken = source.wake(everything, own, fates, len(landed.objects))
    landed.objects.extend(object_ for object_, _ in woken)
    held = [*own, *(index for _, index in woken)]
    mine = resolve(_spans(held), knowledge)
    if any(index.transactional for index in held):
        landed.transactions.append(
            Transactions(topic_partition=where, aborted=listed(mine.aborted), open=listed(mine.open))
        )
    damaged = _damaged(held, everything)
    landed.damaged.extend(OffsetRange(topic_partition=where, start=start, end=end) for start, end in damaged)
    landed.damage.extend(
        SegmentDamage(topic_partition=where, places=_damaged_places(index), lost=index.lost)
        for index in own
        if index.damage
    )
    landed.notes.extend(_notes(where, held, woken, mine))


def _spans(indexes: Iterable[SegmentIndex]) -> Iterator[Span]:
    return (span for index in indexes for span in index.spans)


def _damaged(held: list[SegmentIndex], everything: list[SegmentIndex]) -> list[Range]:
    """Offsets of damaged or torn batches that no known segment has whole, up to the last that this landing holds."""
    last = max(index.end for index in held)
    torn = [(index.end, last) for index in held if index.open_end]
    return minus([*(lost for index in held for lost in index.lost), *torn], known(everything))


def _damaged_places(index: SegmentIndex) -> list[str]:
    return [f"{index.name}: bytes {damage.start:,} to {damage.end:,}: {damage.what}" for damage in index.damage]


def _notes(
    where: TopicPartition, held: list[SegmentIndex], woken: list[tuple[LandedObject, SegmentIndex]], fates: Fates
) -> list[str]:
    at = f"{where.topic}, partition {where.partition}"
    notes = [place for index in held for place in _damaged_places(index)]
    notes += [
        f"{index.name}: it ends in a batch that was not written to its end, from byte {index.valid:,} on: "
        "what is there is read when the segment has grown"
        for index in held
        if index.open_end and index.valid < index.size
    ]
    notes += [
        f"{at}: {object_.name} of batch {object_.woken} is read again: its transactions have ended"
        for object_, _ in woken
    ]
    if left := [range_ for ranges in fates.open.values() for range_ in ranges]:
        first, producers = min(start for start, _ in left), len([ranges for ranges in fates.open.values() if ranges])
        word = "producer has a transaction" if producers == 1 else "producers have transactions"
        notes.append(
            f"{at}: {producers} {word} that no marker here ends, from offset {first} on: held until a marker is landed"
        )
    return notes


@dataclass
class _History:
    """What a reader of a source has been given of a partition, over all its batches."""

    open: Ranges = field(default_factory=dict)
    decided: Ranges = field(default_factory=dict)

    def add(self, other: _History) -> None:
        for mine, theirs in ((self.open, other.open), (self.decided, other.decided)):
            for producer, ranges in theirs.items():
                mine[producer] = merged([*mine.get(producer, []), *ranges])

    @property
    def waiting(self) -> Ranges:
        """What it was given undecided only."""
        return {producer: minus(ranges, self.decided.get(producer, [])) for producer, ranges in self.open.items()}


@dataclass
class _SourceLog:
    """What a source has landed before, as a landing looks at it."""

    lake: Lake
    dataset: Dataset
    batch: str
    attempt: str

    @property
    def compacted(self) -> bool:
        """Whether the dataset's file says that missing offsets were taken by compaction."""
        return self.dataset.source.holes == "compacted"

    def partition(self, index: SegmentIndex) -> TopicPartition:
        """The partition that a segment is of."""
        assert self.dataset.source.exports
        origin = self.dataset.source.exports.origin
        return TopicPartition(
            cluster=origin.cluster, topic=index.topic, incarnation=origin.incarnation, partition=index.partition
        )

    def all_indexes(self, own: list[SegmentIndex]) -> list[SegmentIndex]:
        """A partition's own indexes and all others of the source; only these where nothing is transactional."""
        found = list(self.lake.storage.list(lake_keys.segments(self.dataset.source_id, own[0].topic, own[0].partition)))
        if not any(info.key.endswith(f".{_KINDS[True]}.json") for info in found):
            return own
        mine = {index.digest for index in own}
        others = (self.lake.get(info.key, SegmentIndex) for info in found)
        return own + [index for index in others if index and index.digest not in mine]

    def wake(
        self, everything: list[SegmentIndex], own: list[SegmentIndex], fates: Fates, number: int
    ) -> list[tuple[LandedObject, SegmentIndex]]:
        """Copy landed segments whose records are decided now and that a reader was given undecided only."""
        held = resolve(_spans(own), Knowledge({}, []))  # all open: where its own transactional records are
        mine = {index.digest for index in own}
        others = [index for index in everything if index.digest not in mine]
        fresh = {producer: minus(ranges, held.open.get(producer, [])) for producer, ranges in fates.decided.items()}
        if not any(fresh.values()):
            return []
        manifests = list(self._manifests())
        wanted = self._waiting(others, manifests, fresh)
        woken: list[tuple[LandedObject, SegmentIndex]] = []
        for index, (key, first) in self._placed(others, manifests):
            if not any(meet([(start, end)], wanted.get(producer, [])) for producer, _, start, end in index.spans):
                continue
            info = self.lake.storage.stat(key)
            if info is None:
                continue
            name = f"{number + len(woken):06d}-{index.start:020d}.log"
            copy = lake_keys.landed(self.dataset.source_id, self.batch, self.attempt, name)
            digest = self.lake.storage.copy_from(self.lake.storage, info, copy)
            object_ = LandedObject(
                name=index.name,
                key=copy,
                size=info.size,
                sha256=digest,
                topic=index.topic,
                partition=index.partition,
                start=index.start,
                woken=first,
            )
            woken.append((object_, index))
            for producer, _, start, end in index.spans:
                wanted[producer] = minus(wanted.get(producer, []), [(start, end)])
        return woken

    def _manifests(self) -> Iterator[Manifest]:
        for info in self.lake.storage.list(lake_keys.manifests(self.dataset.source_id)):
            manifest = self.lake.get(info.key, Manifest)
            if manifest and not manifest.replays:  # their objects are another landing's
                yield manifest

    def _waiting(self, others: list[SegmentIndex], manifests: list[Manifest], fresh: Ranges) -> Ranges:
        """What of the decided records some reader of the source was given undecided, and never decided."""
        given = {manifest.batch: self._given(manifest, others) for manifest in manifests}
        wanted: Ranges = {}

        def want(ranges: Ranges) -> None:
            for producer, these in ranges.items():
                both = meet(these, fresh.get(producer, []))
                wanted[producer] = merged([*wanted.get(producer, []), *both])

        taken: set[str] = set()
        for reader in sorted({self.dataset.name, *self.lake.owners()}):
            batches = {plan.batch for plan in taken_plans(self.lake, reader)} & given.keys()
            taken |= batches
            want(_over(given[batch] for batch in batches).waiting)
        # A landing that no reader has marked as its own yet.
        all_readers = _over(given.values())
        loose = _over(given[batch] for batch in given.keys() - taken)
        want(
            {producer: minus(ranges, all_readers.decided.get(producer, [])) for producer, ranges in loose.open.items()}
        )
        # A landing that is under way: its index is there, its manifest is not.
        placed = {object_.digest for manifest in manifests for object_ in manifest.objects}
        want(resolve(_spans(index for index in others if index.digest not in placed), Knowledge({}, [])).open)
        return wanted

    def _given(self, manifest: Manifest, indexes: list[SegmentIndex]) -> _History:
        """The transactional records that a landing holds of a partition, as it has decided them."""
        digests = {object_.digest for object_ in manifest.objects}
        landed = [index for index in indexes if index.digest in digests]
        if not landed:
            return _History()
        held = resolve(_spans(landed), Knowledge({}, [])).open
        where = self.partition(landed[0])
        open_: Ranges = {}
        for transactions in manifest.transactions:
            if transactions.topic_partition == where:
                for producer, start, end in transactions.open:
                    open_.setdefault(producer, []).append((start, end))
        decided = {producer: minus(ranges, open_.get(producer, [])) for producer, ranges in held.items()}
        return _History({producer: meet(ranges, held.get(producer, [])) for producer, ranges in open_.items()}, decided)

    def _placed(
        self, others: list[SegmentIndex], manifests: list[Manifest]
    ) -> Iterator[tuple[SegmentIndex, tuple[str, str]]]:
        """Each index with a place where its bytes lie, and the batch that landed them there."""
        by_digest = {index.digest: index for index in others}
        for manifest in manifests:
            if self.lake.get(lake_keys.cleared(manifest.source, manifest.batch), Cleared):
                continue
            for object_ in manifest.objects:
                if index := by_digest.pop(object_.digest, None):
                    yield index, (object_.key, manifest.batch)
        for index in by_digest.values():
            yield index, (index.key, index.key.split("/")[3])


def _over(histories: Iterable[_History]) -> _History:
    whole = _History()
    for history in histories:
        whole.add(history)
    return whole


def waiting(manifests: Iterable[Manifest]) -> set[str]:
    """The batches that hold undecided records which no other has woken: their landed bytes are needed yet."""
    given = list(manifests)
    woken = {object_.woken for manifest in given for object_ in manifest.objects}
    return {
        manifest.batch for manifest in given if any(transactions.open for transactions in manifest.transactions)
    } - woken
