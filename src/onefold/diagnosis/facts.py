"""What the rules judge: the dataset, the cluster's condition, and what was landed and published of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

from onefold.dataset import Dataset
from onefold.diagnosis.schedule import longest_wait
from onefold.kafka.condition import BrokerCondition, ClusterCondition, RecordBatch, TopicCondition, Where
from onefold.quality.documents import CheckResult
from onefold.report.causes import Explained, causes_of, untold
from onefold.upsert.documents import Duplicates
from onefold.vocabulary import Verdict

MARGIN = timedelta(days=3)
"""How long a schedule may be broken before records are lost: over a weekend, and a day to mend it."""


@dataclass(frozen=True, slots=True)
class FirstPartitions:
    """How many partitions a topic had when it was first landed."""

    count: int
    certain: bool
    """Whether a cut says so, which knows the empty partitions, too; else others may have been there, and empty."""


@dataclass(frozen=True, slots=True)
class Landed:
    """What the lake holds of the dataset."""

    batches: int = 0
    """Published batches."""
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Records of published batches by verdict and reason."""
    kinds: tuple[Duplicates, ...] = ()
    """Its duplicates by how they came about, as far as that is still known."""
    holes: Mapping[str, int] = field(default_factory=dict)
    """Offsets of the table's coverage that hold no record, by what explains them."""
    until: datetime | None = None
    """The instant up to which the topics were landed last."""
    ends: Mapping[Where, int] = field(default_factory=dict)
    """Of the topics as they are now: the first offset of each partition that is not landed yet."""
    partitions: Mapping[str, FirstPartitions] = field(default_factory=dict)
    """Of the topics as they are now, as far as it is known."""
    warned: tuple[CheckResult, ...] = ()
    """The checks of the newest published batch that failed and only warn."""
    newest: int | None = None
    """Timestamp of the newest record of a published batch that is applied, superseded or held, milliseconds."""

    @property
    def records(self) -> int:
        """Records of published batches."""
        return sum(sum(reasons.values()) for reasons in self.counts.values())

    def duplicates(self) -> dict[str, int]:
        """Duplicates by reason."""
        return {reason: count for reason, count in self.counts.get(Verdict.DUPLICATE, {}).items() if count}

    def causes(self) -> list[Explained]:
        """Duplicates by cause, the most frequent first."""
        return causes_of([*self.kinds, *untold(self.duplicates(), self.kinds)])


@dataclass(frozen=True)
class Facts:
    """All that the rules see. None: it was not looked at, or could not be."""

    dataset: Dataset
    now: datetime
    landed: Landed = Landed()
    cluster: ClusterCondition | None = None
    record_batches: tuple[RecordBatch, ...] | None = None
    """The newest of the partitions that were looked at, in the order of each log."""
    batches_unseen: str = ""
    """Why there are not those of all partitions."""
    left_out: tuple[str, ...] = ()
    """Sentences about objects of an export that a run does not read now."""

    @property
    def topics(self) -> tuple[TopicCondition, ...]:
        """The topics that were looked at."""
        return self.cluster.topics if self.cluster else ()

    @property
    def brokers(self) -> tuple[BrokerCondition, ...]:
        """The brokers that were looked at."""
        return self.cluster.brokers if self.cluster else ()

    @property
    def written(self) -> tuple[RecordBatch, ...]:
        """The record batches that producers wrote: no markers."""
        return tuple(batch for batch in self.record_batches or () if not batch.control)

    @cached_property
    def wait(self) -> timedelta | None:
        """How long the schedule lets a record wait in the log at most; None: there is no schedule."""
        return longest_wait(self.dataset)
