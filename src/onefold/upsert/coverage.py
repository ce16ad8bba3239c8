"""What a batch adds to the coverage, and the account of its offsets (L2)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from onefold.dataset import Dataset
from onefold.dedup.documents import Staged
from onefold.landing.manifest import Manifest
from onefold.landing.offsets import Coverage, Present, Range, TopicPartition, meet, merged, minus, size


class PartitionAccount(BaseModel):
    """One partition in a batch: `span = distinct + explained + unexplained`, in offsets."""

    model_config = ConfigDict(frozen=True)

    partition: str = Field(description="TopicPartition.key")
    start: int
    end: int
    distinct: int = Field(description="Distinct offsets landed, quarantined ones included")
    quarantined: int
    explained: dict[str, int] = Field(description="Missing offsets by what explains them")
    unexplained: list[Range]

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition itself."""
        return TopicPartition.of(self.partition)


def account_for(
    dataset: Dataset, staged: Staged, manifest: Manifest, before: Coverage
) -> tuple[Coverage, list[PartitionAccount]]:
    """The batch's own coverage, and an account a partition.

    A missing offset is explained by an earlier batch that covers it, or by the dataset's `holes`.
    """
    if not dataset.source.export.exact:
        digests = {one.name: one.digest for one in manifest.of_role("values")}
        objects = {digests[name]: records for name, records in staged.objects.items()}
        return Coverage(objects=objects), []
    partitions, accounts = {}, []
    for key, offsets in staged.partitions.items():
        landed = merged([*offsets.present, *offsets.quarantined])
        start, end = landed[0][0], landed[-1][1]
        missing = minus([(start, end)], landed)
        known = before.partitions.get(key, Present())
        elsewhere = meet(missing, known.covered)
        open_ranges = minus(missing, elsewhere)
        kind = dataset.source.export.holes
        holes = [] if kind == "none" else [(low, high, kind) for low, high in open_ranges]
        explained = {"covered by another batch": size(elsewhere), kind: size(open_ranges) if holes else 0}
        partitions[key] = Present(present=offsets.present, holes=holes)
        accounts.append(
            PartitionAccount(
                partition=key,
                start=start,
                end=end,
                distinct=size(landed),
                quarantined=size(offsets.quarantined),
                explained={name: count for name, count in explained.items() if count},
                unexplained=[] if holes else open_ranges,
            )
        )
    return Coverage(partitions=partitions), accounts


def covered_ranges(staged: Staged, before: Coverage) -> list[tuple[TopicPartition, Range]]:
    """The batch's own offsets that the table has processed already: usually none, or all of a repeated batch."""
    found = []
    for key, offsets in staged.partitions.items():
        known = before.partitions.get(key, Present())
        found += [(TopicPartition.of(key), one) for one in meet(offsets.present, known.present)]
    return found


def covered_objects(staged: Staged, manifest: Manifest, before: Coverage) -> list[str]:
    """The names of the batch's objects that the table has processed already (inexact layouts)."""
    digests = {one.name: one.digest for one in manifest.of_role("values")}
    return [name for name in staged.objects if digests.get(name) in before.objects]
