"""What a proof found, and what is kept of it. Knows no pyspark."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from onefold.lake import Lake
from onefold.offsets import Range, TopicPartition, size
from onefold.vocabulary import Verdict

_NAMED = 5
"""Ranges of a partition, and batches, that the last line names."""

KINDS = {
    "missing": "the landed records make a row that the table lacks",
    "extra": "no landed record makes this row",
    "other_record": "another record should stand for the key",
    "other_content": "the row's columns are not those of its record",
    "repeated": "the key has the row more than once",
    "other_message": "the ledger of messages lacks the first delivery of a message, or has another one",
    "other_sum": "the sum is not that of its messages, is there twice, or under another key",
}
"""The ways in which a row can be wrong."""


class Difference(BaseModel):
    """One row that is not what the landed bytes say."""

    model_config = ConfigDict(frozen=True)

    kind: str = Field(description="One of `KINDS`")
    key: str = Field(description="The key digest, in hex")
    columns: dict[str, str | None] = Field(description="The key's columns where they are known, as text")
    landed: str | None = Field(description="The record that should stand, as topic-partition@offset")
    stands: str | None = Field(description="The record that the table has")


class OmittedBatch(BaseModel):
    """A landed batch that no reader sees."""

    model_config = ConfigDict(frozen=True)

    batch: str
    state: Literal["red", "rolled_back", "discarded", "unfinished"]
    records: int | None = Field(description="Landed records; None: they are not counted, or not any more")


class Omitted(BaseModel):
    """What a proof does not look at: what it says holds for the rest."""

    model_config = ConfigDict(frozen=True)

    gaps: dict[str, list[Range]] = Field(
        default={}, description="By TopicPartition.key: offsets between landed ones that were never landed or explained"
    )
    quarantined: int = Field(default=0, description="Rejected records")
    filtered: int = Field(default=0, description="Records that the dataset's filter left out")
    skipped: int = Field(default=0, description="Records that a decision left out")
    batches: list[OmittedBatch] = []
    filtered_newer: int = Field(
        default=0,
        description="Of the filtered records, those that are newer than the live row of their key: it is of an older "
        "record, which may have come after them",
    )
    first_filtered: list[str] = Field(default=[], description="Some of these, by key and position")

    @property
    def sentences(self) -> list[str]:
        """Each of them in words."""
        counts = {"quarantined": self.quarantined, Verdict.FILTERED: self.filtered, Verdict.SKIPPED: self.skipped}
        said = [_counted(count, f"{kind} record") for kind, count in counts.items() if count]
        for where, ranges in self.gaps.items():
            log = TopicPartition.of(where)
            shown = ", ".join(f"[{start}, {end})" for start, end in ranges[:_NAMED])
            more = f" and {len(ranges) - _NAMED} more" if len(ranges) > _NAMED else ""
            said.append(f"a gap of {_counted(size(ranges), 'offset')} in {log.topic}-{log.partition}: {shown}{more}")
        if self.filtered_newer:
            first = "; ".join(self.first_filtered)
            said.append(f"of the filtered records {self.filtered_newer:,} newer than the row of their key ({first})")
        for batch in self.batches[:_NAMED]:
            records = "" if batch.records is None else f", {_counted(batch.records, 'record')}"
            said.append(f"batch {batch.batch} ({batch.state}{records})")
        if more_batches := self.batches[_NAMED:]:
            said.append(f"and {_counted(len(more_batches), 'more batch', 'es')} that readers do not see")
        return said


class Proof(BaseModel):
    """A comparison of one snapshot with the landed bytes of everything that it covers."""

    model_config = ConfigDict(frozen=True)

    name: str = Field(description="Of the document, below the dataset's proofs")
    dataset: str
    generation: str
    snapshot: int
    batch: str = Field(description="The newest batch of the snapshot")
    batches: int = Field(description="Published batches whose landed bytes were read")
    share: float = Field(description="Of the keys, those compared; 1: all")
    records: int = Field(description="Landed records that count for these keys")
    rows: int = Field(description="Rows that they make, deleted and held ones too")
    differences: dict[str, int] = Field(description="Rows by kind")
    shown: list[Difference] = Field(description="The first of them, by kind and key")
    omitted: Omitted = Omitted()
    at: datetime

    @property
    def not_looked_at(self) -> str:
        """What it did not look at, as a line."""
        others = [] if self.share >= 1 else [f"{1 - self.share:.4%} of the keys"]
        return f"not looked at: {'; '.join([*others, *self.omitted.sentences]) or 'nothing that was landed'}"

    @property
    def holds(self) -> bool:
        """Whether the table is what the landed bytes say."""
        return not self.differences


def _counted(count: int, noun: str, plural: str = "s") -> str:
    return f"{count:,} {noun}{'' if count == 1 else plural}"


def remove_shown(lake: Lake, dataset: str) -> None:
    """Keep of a dataset's proofs what was counted, and not which keys differed."""
    for info in list(lake.storage.list(f"datasets/{dataset}/proofs/")):
        proof = lake.get(info.key, Proof)
        if proof and (proof.shown or proof.omitted.first_filtered):
            omitted = proof.omitted.model_copy(update={"first_filtered": []})
            lake.put(info.key, proof.model_copy(update={"shown": [], "omitted": omitted}))
