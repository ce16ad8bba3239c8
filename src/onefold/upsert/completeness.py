"""What a batch leaves out and what it brings in for the first time: gaps of the coverage, partitions that fell silent,
topics that are new. Knows no pyspark."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from onefold.offsets import Coverage, Present, Range, TopicPartition, merged
from onefold.vocabulary import Verdict

UNREADABLE = "unreadable"
"""In place of a partition: lines of an export that say none."""
RunStamps = dict[str, dict[int, int]]
"""By TopicPartition.key and the first offset of each unbroken run of the coverage: the newest log timestamp,
milliseconds since 1970, of the batch that began the run."""


class Gap(BaseModel):
    """Offsets of the coverage between others, that no batch has landed and nothing explains."""

    model_config = ConfigDict(frozen=True)

    partition: str = Field(description="TopicPartition.key")
    start: int
    end: int
    later: int | None = Field(
        default=None,
        description="Newest log timestamp, milliseconds since 1970, of the batch that landed what comes after it",
    )

    @property
    def shown(self) -> str:
        """As checks name it."""
        where = TopicPartition.of(self.partition)
        return f"{where.topic}, partition {where.partition}: [{self.start}, {self.end})"


def stamp_runs(coverage: Coverage, known: RunStamps, newest: Mapping[str, int]) -> RunStamps:
    """When the runs of a coverage begin: those that `known` has as there, the others as the batch's own partitions have
    it in `newest` (TopicPartition.key to milliseconds since 1970). Runs of which neither tells are left out."""
    stamps: RunStamps = {}
    for key, offsets in coverage.partitions.items():
        before = known.get(key, {})
        for start, _ in _runs(offsets):
            stamp = before.get(start, newest.get(key))
            if stamp is not None:
                stamps.setdefault(key, {})[start] = stamp
    return stamps


def gaps_of(coverage: Coverage, stamps: RunStamps) -> list[Gap]:
    """The gaps of a coverage, by partition and offset. Offsets that were landed and rejected, or whose transaction was
    open, are none."""
    found = []
    for key, offsets in sorted(coverage.partitions.items()):
        runs = _runs(offsets)
        for (_, start), (end, _) in pairwise(runs):
            found.append(Gap(partition=key, start=start, end=end, later=stamps.get(key, {}).get(end)))
    return found


def _runs(offsets: Present) -> list[Range]:
    return merged([*offsets.covered, *offsets.uncovered])


def taken_partitions(counts: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The partitions, by TopicPartition.key, of which a batch takes records: not those whose records are all filtered
    or skipped. `counts`: records by partition, verdict and reason."""
    unwanted = {Verdict.FILTERED, Verdict.SKIPPED}
    return sorted(key for key, verdicts in counts.items() if key != UNREADABLE and set(verdicts) - unwanted)


def fallen_silent(seen: Collection[str], now: Collection[str]) -> list[str]:
    """The partitions that had records in earlier batches and have none now, while others do. Partitions of a topic that
    was created again since are none."""
    if not now:
        return []
    newest: dict[tuple[str, str], int] = {}
    for where in map(TopicPartition.of, (*seen, *now)):
        name = where.cluster, where.topic
        newest[name] = max(where.incarnation, newest.get(name, 0))
    silent = [TopicPartition.of(key) for key in set(seen) - set(now)]
    return sorted(where.key for where in silent if where.incarnation == newest[where.cluster, where.topic])


def topics_of(partitions: Collection[str]) -> set[str]:
    """The topics of some partitions."""
    return {TopicPartition.of(key).topic for key in partitions}
