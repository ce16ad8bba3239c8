"""How long things are kept. Knows no pyspark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from pydantic import BaseModel, ConfigDict, Field

from onefold.dedup.documents import Reused
from onefold.errors import UsageError
from onefold.instants import duration, span_text


@dataclass(frozen=True, slots=True)
class Keep:
    """Ages below which nothing is touched: a batch that is running now must find what it wrote."""

    attempts: timedelta = timedelta(days=1)
    snapshots: timedelta = timedelta(days=7)
    generations: timedelta = timedelta(days=7)
    orphans: timedelta = timedelta(days=3)


MINIMUM = {"snapshots": timedelta(days=1), "generations": timedelta(days=1), "orphans": timedelta(days=1)}
"""The least that may be asked for, by a user or a DAG's parameters: what expires cannot be rolled back to."""


def keep_of(ages: Mapping[str, str | None]) -> Keep:
    """What is kept for how long, by name, as a person says it (`{"snapshots": "7d"}`); None: as it is by default.

    Raises:
        UsageError: an age is none, or below the least.
    """
    given = {name: age_of(text) for name, text in ages.items() if text is not None}
    for name, age in given.items():
        if age < (least := MINIMUM.get(name, timedelta(0))):
            raise UsageError(
                f"{name} are kept for {span_text(least)} at least; {span_text(age)} is less. Nothing was changed."
            )
    return Keep(**given)


def age_of(text: str) -> timedelta:
    """An age, as a person says it.

    Raises:
        UsageError: it is none.
    """
    try:
        return duration(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


class Maintained(BaseModel):
    """What was, or with a dry run would be, cleared away for one dataset."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    branches: list[str] = Field(description="Of attempts that are over")
    tables: list[str] = Field(description="Staging and actions of attempts that are over")
    verdicts: list[str] = Field(default=[], description="Attempts that are over, whose verdicts count for nothing")
    generations: list[str] = Field(description="Rebuilt long enough ago")
    failed_landings: list[str] = Field(default=[], description="Folders of landing attempts that no manifest names")
    results: list[str] = Field(default=[], description="What Spark's steps left for drivers that have read it")
    files_rewritten: int = Field(default=0, description="Data and delete files that became fewer")
    snapshots_expired: int = 0
    orphans_removed: int = 0
    reused: list[Reused] = Field(default=[], description="Identities that two rows share")
    moved: list[Reused] = Field(default=[], description="Identities that have rows in two periods of identity.within")
    rows_proved: int = Field(default=0, description="Live rows, all of which have a key of their own")
