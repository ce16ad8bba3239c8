"""What a proof found, and what is kept of it. Knows no pyspark."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field

from onefold.lake import Lake

KINDS = {
    "missing": "the landed records make a row that the table lacks",
    "extra": "no landed record makes this row",
    "other_record": "another record should stand for the key",
    "other_content": "the row's columns are not those of its record",
    "repeated": "the key has the row more than once",
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
    at: datetime

    @property
    def holds(self) -> bool:
        """Whether the table is what the landed bytes say."""
        return not self.differences


def remove_shown(lake: Lake, dataset: str) -> None:
    """Keep of a dataset's proofs what was counted, and not which keys differed."""
    for info in list(lake.storage.list(f"datasets/{dataset}/proofs/")):
        proof = lake.get(info.key, Proof)
        if proof and proof.shown:
            lake.put(info.key, proof.model_copy(update={"shown": []}))
