"""How long things are kept. Knows no pyspark."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field


@dataclass(frozen=True, slots=True)
class Keep:
    """Ages below which nothing is touched: a batch that is running now must find what it wrote."""

    attempts: timedelta = timedelta(days=1)
    snapshots: timedelta = timedelta(days=7)
    generations: timedelta = timedelta(days=7)
    orphans: timedelta = timedelta(days=3)
    landing: timedelta | None = None
    """Landed bytes of published batches; None: for ever. Without them there is no rebuild and no rollback."""


class Maintained(BaseModel):
    """What was, or with a dry run would be, cleared away for one dataset."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    branches: list[str] = Field(description="Of attempts that are over")
    tables: list[str] = Field(description="Staging and actions of attempts that are over")
    verdicts: list[str] = Field(default=[], description="Attempts that are over, whose verdicts count for nothing")
    generations: list[str] = Field(description="Rebuilt long enough ago")
    failed_landings: list[str] = Field(default=[], description="Folders of landing attempts that no manifest names")
    landings: list[str] = Field(default=[], description="Batches whose landed bytes are older than they are kept")
    files_rewritten: int = Field(default=0, description="Data and delete files that became fewer")
    snapshots_expired: int = 0
    orphans_removed: int = 0
