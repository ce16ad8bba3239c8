"""What a batch adds to the coverage, and the account of its offsets (L2)."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field

from onefold.dataset import Dataset
from onefold.dedup.documents import Staged, StagedPartition
from onefold.landing.manifest import Manifest
from onefold.offsets import Coverage, Present, Range, TopicPartition, meet, merged, minus, size
from onefold.vocabulary import LOST, HoleKind

Hole = tuple[int, int, str]
"""`(start, end, kind)`"""


class PartitionAccount(BaseModel):
    """A range of one partition in a batch: `span = distinct + explained + unexplained`, in offsets."""

    model_config = ConfigDict(frozen=True)

    partition: str = Field(description="TopicPartition.key")
    start: int
    end: int
    distinct: int = Field(description="Distinct offsets landed, quarantined ones included")
    quarantined: int
    undecided: int = Field(default=0, description="Of transactions that were open: not covered, in `distinct`")
    explained: dict[str, int] = Field(description="Missing offsets by what explains them")
    unexplained: list[Range]
    needed: list[Range] = Field(
        default=[],
        description="Compacted offsets whose records the rows may need: any where every record counts, else those of "
        "deletes that may be gone",
    )
    maybe_deletes: list[Range] = Field(
        default=[], description="Compacted offsets after some that an earlier batch covers: each may have been a delete"
    )
    replaced: int = Field(default=0, description="Offsets below `start` that other records have since the log was cut")

    @property
    def lost(self) -> int:
        """Offsets whose records no one has read: gone before they were landed, or there since the log was cut."""
        return self.replaced + size(self.needed) + sum(count for kind, count in self.explained.items() if kind in LOST)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition itself."""
        return TopicPartition.of(self.partition)


def account_for(
    dataset: Dataset, staged: Staged, manifest: Manifest, before: Coverage
) -> tuple[Coverage, list[PartitionAccount]]:
    """The batch's own coverage, and an account a partition.

    A missing offset is explained by what landing saw of it, by an earlier batch that covers it or has landed it (and
    rejected it, or left it open), or by the dataset's `holes`. A live landing names every offset that it does not
    hold, so another one that is missing here was lost behind it; older landings did not, and what they do not name is
    a `log_gap`. Offsets of damaged batches are explained by nothing but another batch that has them, nor are more
    offsets in a row than `holes` declares (`Source.longest_hole`).
    """
    if not dataset.source.exact:
        digests = manifest.digests
        objects = {digests[name]: records for name, records in staged.objects.items()}
        refused = {digests[name]: _not_used(manifest, staged, name) for name in staged.objects}
        return Coverage(objects=objects, refused={name: lines for name, lines in refused.items() if lines}), []
    # How it was landed counts, not what the dataset reads today: an export keeps its gaps.
    declared = _Declared(dataset.source.holes, dataset.source.longest_hole)
    remainder = _Declared(_remainder(manifest), None) if manifest.ranges else declared
    named: dict[str, list[Hole]] = {}
    for hole in manifest.holes:
        named.setdefault(hole.topic_partition.key, []).append((hole.start, hole.end, hole.kind))
    partitions, accounts = {}, []
    for key, spans in _spans(staged, manifest).items():
        offsets = staged.partitions.get(key, StagedPartition(present=[], quarantined=[]))
        known = Present() if manifest.ranges else before.partitions.get(key, Present())
        damaged = [(range_.start, range_.end) for range_ in manifest.damaged if range_.topic_partition.key == key]
        parts = [_account(key, span, offsets, named.get(key, []), known, remainder, damaged) for span in spans]
        holes = [hole for own, _ in parts for hole in own]
        uncovered = merged([*offsets.quarantined, *offsets.undecided])
        partitions[key] = Present(present=offsets.present, uncovered=uncovered).with_(Present(holes=holes))
        own = [
            account.model_copy(update=_compacted(dataset, manifest, key, holes, offsets, before))
            for holes, account in parts
        ]
        own = [_whole(own)] if manifest.replays else own
        cut = size((range_.start, range_.end) for range_ in manifest.replaced if range_.topic_partition.key == key)
        accounts += [own[0].model_copy(update={"replaced": cut}), *own[1:]]
    return Coverage(partitions=partitions), accounts


def _compacted(
    dataset: Dataset, manifest: Manifest, key: str, holes: list[Hole], offsets: StagedPartition, before: Coverage
) -> dict[str, list[Range]]:
    """Which compacted offsets of a batch may have held what the rows need, as fields of an account.

    A tombstone is removed like any record, later. Where the table has older records of the partition, one of them may
    be of a key that was deleted in between. Of a live log it is known how old its neighbours were (`Manifest.aged`).
    """
    earlier = before.partitions.get(key, Present())
    compacted = minus(_of_kind(holes, HoleKind.COMPACTED), earlier.landed)
    if dataset.apply.NEEDS_EVERY_RECORD:
        return {"needed": compacted}
    if dataset.apply.delete_when in (None, "never"):
        return {}
    if manifest.ranges:
        aged = [(range_.start, range_.end) for range_ in manifest.aged if range_.topic_partition.key == key]
        by_tombstone = dataset.apply.delete_when == "tombstone"
        return {"needed" if by_tombstone else "maybe_deletes": meet(compacted, aged)}
    # Of an export nothing tells when it was made: holes of this batch after what the table has, and earlier holes after
    # what this batch brings, in whichever order the two came.
    brought = minus(offsets.present, earlier.landed)
    known = minus(_of_kind(earlier.holes, HoleKind.COMPACTED), offsets.present)
    suspects = [
        *(hole for hole in compacted if earlier.landed and hole[0] > earlier.landed[0][0]),
        *(hole for hole in known if brought and hole[0] > brought[0][0]),
    ]
    return {"maybe_deletes": merged(suspects)}


def _of_kind(holes: list[Hole], kind: HoleKind) -> list[Range]:
    return [(start, end) for start, end, name in holes if name == kind]


def name_unexplained(accounts: list[PartitionAccount], most: int) -> list[str]:
    """Unexplained ranges as `topic, partition N: [start, end)`: the first ones, and how many more there are."""
    named = [
        f"{account.topic_partition.topic}, partition {account.topic_partition.partition}: [{start}, {end})"
        for account in accounts
        for start, end in account.unexplained
    ]
    return [*named[:most], *([f"and {len(named) - most} more"] if len(named) > most else [])]


_LINES: Range = (0, 1 << 31)
"""All lines that an object can have."""


def _not_used(manifest: Manifest, staged: Staged, name: str) -> list[Range]:
    """The lines of an object that the batch leaves uncovered: what it rejects; a replay all but what it folds."""
    refused = staged.refused.get(name, [])
    if manifest.replays is None:
        return refused
    return minus([_LINES], minus(manifest.replays.lines.get(name, []), refused))


def _whole(accounts: list[PartitionAccount]) -> PartitionAccount:
    """One account of the ranges that a replay names of a partition; what lies between them is of no concern to it."""
    start, end = min(account.start for account in accounts), max(account.end for account in accounts)
    explained: dict[str, int] = {}
    for account in accounts:
        for kind, count in account.explained.items():
            explained[kind] = explained.get(kind, 0) + count
    between = end - start - sum(account.end - account.start for account in accounts)
    return PartitionAccount(
        partition=accounts[0].partition,
        start=start,
        end=end,
        distinct=sum(account.distinct for account in accounts),
        quarantined=sum(account.quarantined for account in accounts),
        undecided=sum(account.undecided for account in accounts),
        explained=explained | ({"not replayed": between} if between else {}),
        unexplained=[hole for account in accounts for hole in account.unexplained],
    )


@dataclass(frozen=True, slots=True)
class _Declared:
    """What explains the offsets that nothing else does."""

    kind: str | None
    """A kind of hole; None: nothing explains them"""
    longest: int | None
    """How many in a row it explains at most; None: any number"""

    def leaves(self, missing: list[Range], damaged: list[Range]) -> list[Range]:
        """What of missing offsets it does not explain. It says nothing about offsets that were there and cannot be
        read."""
        if self.kind is None:
            return missing
        longest = self.longest
        too_long = [(start, end) for start, end in missing if longest is not None and end - start > longest]
        return merged([*meet(missing, damaged), *too_long])


def _remainder(manifest: Manifest) -> str | None:
    """The kind of a live topic's missing offsets that the landing does not name."""
    return None if manifest.examined else HoleKind.LOG_GAP


def _account(
    key: str,
    span: Range,
    offsets: StagedPartition,
    seen: list[Hole],
    known: Present,
    declared: _Declared,
    damaged: list[Range],
) -> tuple[list[Hole], PartitionAccount]:
    """The holes and the account of one contiguous range."""
    refused = meet([span], offsets.quarantined)
    undecided = meet([span], offsets.undecided)
    landed = meet([span], [*offsets.present, *refused, *undecided])
    missing = minus(minus([span], landed), [(start, end) for start, end, _ in seen])
    elsewhere = {"covered": meet(missing, known.covered), "landed": meet(missing, known.uncovered)}
    missing = minus(missing, [*elsewhere["covered"], *elsewhere["landed"]])
    unexplained = declared.leaves(missing, damaged)
    holes: list[Hole] = []
    for named in sorted({named for _, _, named in seen}):
        explained = meet([span], [(start, end) for start, end, kind in seen if kind == named])
        holes += [(low, high, named) for low, high in minus(explained, landed)]
    holes += [(*range_, declared.kind) for range_ in minus(missing, unexplained) if declared.kind]
    counts = {f"{how} by another batch": size(ranges) for how, ranges in elsewhere.items()}
    for start, end, named in holes:
        counts[named] = counts.get(named, 0) + end - start
    account = PartitionAccount(
        partition=key,
        start=span[0],
        end=span[1],
        distinct=size(landed),
        quarantined=size(refused),
        undecided=size(undecided),
        explained={name: count for name, count in counts.items() if count},
        unexplained=unexplained,
    )
    return holes, account


def _spans(staged: Staged, manifest: Manifest) -> dict[str, list[Range]]:
    """The offsets that the batch answers for, by partition: a live topic's as planned, an export's as found."""
    spans: dict[str, list[Range]] = {}
    for range_ in manifest.ranges:
        spans.setdefault(range_.topic_partition.key, []).append((range_.start, range_.end))
    if spans:
        return {key: merged(ranges) for key, ranges in spans.items()}
    for key, offsets in staged.partitions.items():
        landed = merged([*offsets.present, *offsets.quarantined, *offsets.undecided])
        spans[key] = [(landed[0][0], landed[-1][1])]
    for range_ in manifest.damaged:
        key = range_.topic_partition.key
        whole = merged([*spans.get(key, []), (range_.start, range_.end)])
        spans[key] = [(whole[0][0], whole[-1][1])]
    return spans


def freed_by(own: Coverage, before: Coverage) -> dict[str, list[Range]]:
    """The offsets that a batch covers and that a table has landed without covering them: their records leave the
    quarantine. By TopicPartition.key; a batch's `own` coverage."""
    met = {
        key: meet(offsets.present, before.partitions.get(key, Present()).uncovered)
        for key, offsets in own.partitions.items()
    }
    return {key: ranges for key, ranges in met.items() if ranges}


def covered_objects(staged: Staged, manifest: Manifest, before: Coverage) -> dict[str, list[Range]]:
    """The batch's objects that the table has processed already (inexact layouts), by name: all but these lines."""
    digests = manifest.digests
    known = {name: digests.get(name, "") for name in staged.objects}
    return {name: before.refused.get(digest, []) for name, digest in known.items() if digest in before.objects}
