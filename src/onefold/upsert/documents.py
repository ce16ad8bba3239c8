"""What upsert leaves: one attempt at a batch. Knows no pyspark."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from onefold.catalog import ROOT
from onefold.dataset import Dataset
from onefold.dedup.documents import Reused
from onefold.errors import StepMissingError
from onefold.lake import Lake
from onefold.upsert.coverage import PartitionAccount


class Upserted(BaseModel):
    """One attempt at a batch: what it would do to the table, and the branch on which it did."""

    model_config = ConfigDict(frozen=True)

    batch: str
    attempt: str
    published: bool = Field(default=False, description="The batch is in main already; nothing was done")
    base: int = 0
    base_record: str = ROOT
    branch: str = ""
    head: int = 0
    staging: str = ""
    code: str = ""
    actions: str = ""
    verdicts: str = ""
    landed: int = 0
    covered: int = Field(default=0, description="Records at positions that the table had processed before")
    counts: dict[str, dict[str, int]] = {}
    changes: dict[str, int] = Field(default={}, description="Rows inserted and updated")
    buckets: list[int] = Field(default=[], description="Buckets that hold keys of the actions")
    findings: int = Field(default=0, description="Narrow identities that stand for two messages; no verdicts")
    reused: list[Reused] = Field(default=[], description="Some of them, of the batch itself")
    accounts: list[PartitionAccount] = []
    newest: int | None = Field(default=None, description="Timestamp of the newest record, milliseconds since 1970")


def upserted_of(lake: Lake, dataset: Dataset, batch: str, attempt: str | None = None) -> Upserted:
    """What an attempt at a batch did (default: the newest attempt).

    Raises:
        StepMissingError: there is no such attempt.
    """
    key = lake.attempt(dataset, batch, attempt, "upsert") if attempt else lake.latest(dataset, batch)
    upserted = lake.get(key, Upserted)
    if upserted is None:
        raise StepMissingError(batch, "this step", "upsert")
    return upserted
