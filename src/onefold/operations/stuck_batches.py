"""Batches that nothing moves on: red and undecided, rolled back, or begun long ago and never finished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import log_of, undone
from onefold.errors import take_up_by
from onefold.generation import check_generation
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.plan import taken_since
from onefold.quality.documents import GateResult
from onefold.upsert.commit_record import chain
from onefold.upsert.documents import Upserted


class Stuck(BaseModel):
    """A batch that waits, and for what."""

    model_config = ConfigDict(frozen=True)

    dataset: str
    batch: str
    state: Literal["red", "rolled_back", "unfinished"]
    why: list[str] = Field(description="The red checks, or the rollback that undid it, as sentences")
    do: str = Field(description="What an operator can do, as a sentence")
    since: datetime = Field(description="When the gate judged it, it was rolled back, or it was taken up")

    @property
    def sentence(self) -> str:
        """What waits, since when, and what to do."""
        where, since = f"{self.dataset}: batch {self.batch}", f"since {self.since:%Y-%m-%d %H:%M} UTC"
        why = "; ".join(self.why)
        match self.state:
            case "rolled_back":
                return f"{where} waits for an operator: {why}. {self.do}"
            case "red":
                return f"{where} is red and undecided {since}: {why}. {self.do}"
            case "unfinished":
                return f"{where} is unfinished {since}. {self.do}"


def judged(lake: Lake, dataset: Dataset, batch: str) -> GateResult | None:
    """What the gate said of a batch's newest attempt."""
    latest = lake.get(lake_keys.latest(dataset, batch), Upserted)
    return lake.get(lake_keys.attempt(dataset, batch, latest.attempt, "gate"), GateResult) if latest else None


def waits_for_a_person(lake: Lake, dataset: Dataset, batch: str) -> bool:
    """Whether the batch is rolled back, or red under everything that was decided of it so far."""
    log = log_of(lake, dataset.name, batch)
    gate = judged(lake, dataset, batch)
    return bool(undone(log)) or (gate is not None and not gate.green and gate.decided == len(log))


def waiting_batches(lake: Lake, dataset: Dataset) -> list[Stuck]:
    """The dataset's batches that wait for an operator: those that are rolled back, or red and undecided.

    Raises:
        ChangedDatasetError: the dataset needs a rebuild, so nothing is known of its batches yet.
    """
    return _not_published(lake, dataset, None)


def stuck_batches(lake: Lake, dataset: Dataset, age: timedelta) -> list[Stuck]:
    """The same, and those that were taken up at least `age` ago and are unfinished.

    Raises:
        ChangedDatasetError: the dataset needs a rebuild, so nothing is known of its batches yet.
    """
    return _not_published(lake, dataset, datetime.now(UTC) - age)


def _not_published(lake: Lake, dataset: Dataset, begun_before: datetime | None) -> list[Stuck]:
    check_generation(lake, dataset)
    table = find_state(lake, dataset)
    published = {record.batch for record in chain(lake, dataset, table.main.record)} if table else set()
    plans = [(since, plan) for since, plan in taken_since(lake, dataset.name) if plan.batch not in published]
    found = [_describe(lake, dataset, plan.batch, since) for since, plan in plans if not plan.empty]
    return [
        batch
        for batch in found
        if batch.state != "unfinished" or (begun_before is not None and batch.since <= begun_before)
    ]


def _describe(lake: Lake, dataset: Dataset, batch: str, taken: datetime) -> Stuck:
    """What an unpublished batch waits for."""
    known = {"dataset": dataset.name, "batch": batch}
    if decision := undone(log_of(lake, dataset.name, batch)):
        do = take_up_by(dataset.name, batch)
        return Stuck(state="rolled_back", why=[decision.sentence], do=do, since=decision.at, **known)
    gate = judged(lake, dataset, batch)
    if gate and waits_for_a_person(lake, dataset, batch):
        error = gate.error(dataset.name, lake.where(lake_keys.report(dataset.name, batch, "html")))
        return Stuck(state="red", why=list(gate.failures()), do=error.advice(), since=gate.judged, **known)
    do = f"onefold run {dataset.name} goes on with it; or clear its run's tasks."
    return Stuck(state="unfinished", why=[], do=do, since=taken, **known)
