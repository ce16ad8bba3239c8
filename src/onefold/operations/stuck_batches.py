"""Batches that nothing moves on: red and undecided, rolled back, or begun long ago and never finished."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from pydantic import BaseModel, ConfigDict, Field

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import log_of, undone
from onefold.errors import decide_by, take_up_by
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
    red: list[str] = Field(description="The red checks, which a person has to decide; none: the batch is unfinished")
    skippable: bool = True
    since: datetime = Field(description="When the gate judged it, it was rolled back, or it was taken up")
    rolled_back: str = Field(default="", description="The rollback that undid it, as a sentence; empty: there is none")

    @property
    def sentence(self) -> str:
        """What waits, since when, and what to do."""
        where, since = f"{self.dataset}: batch {self.batch}", f"since {self.since:%Y-%m-%d %H:%M} UTC"
        if self.rolled_back:
            return f"{where} waits for an operator: {self.rolled_back}. {take_up_by(self.dataset, self.batch)}"
        if self.red:
            advice = decide_by(self.dataset, self.batch, skippable=self.skippable)
            return f"{where} is red and undecided {since}: {'; '.join(self.red)}. {advice}"
        return f"{where} is unfinished {since}. onefold run {self.dataset} goes on with it; or clear its run's tasks."


def judged(lake: Lake, dataset: Dataset, batch: str) -> GateResult | None:
    """What the gate said of a batch's newest attempt."""
    latest = lake.get(lake_keys.latest(dataset, batch), Upserted)
    return lake.get(lake_keys.attempt(dataset, batch, latest.attempt, "gate"), GateResult) if latest else None


def waits_for_a_person(lake: Lake, dataset: Dataset, batch: str) -> bool:
    """Whether the batch is rolled back, or red under everything that was decided of it so far."""
    log = log_of(lake, dataset.name, batch)
    gate = judged(lake, dataset, batch)
    return bool(undone(log)) or (gate is not None and not gate.green and gate.decided == len(log))


def stuck_batches(lake: Lake, dataset: Dataset, age: timedelta) -> list[Stuck]:
    """The dataset's batches that are rolled back, or red and undecided, and those that were taken up at least `age` ago
    and are unfinished.

    Raises:
        ChangedDatasetError: the dataset needs a rebuild, so nothing is known of its batches yet.
    """
    check_generation(lake, dataset)
    table = find_state(lake, dataset)
    published = {record.batch for record in chain(lake, dataset, table.main.record)} if table else set()
    before = datetime.now(UTC) - age
    found = []
    for since, plan in taken_since(lake, dataset.name):
        if plan.empty or plan.batch in published:
            continue
        if decision := undone(log_of(lake, dataset.name, plan.batch)):
            words = {"red": [], "since": decision.at, "rolled_back": decision.sentence}
            found.append(Stuck(dataset=dataset.name, batch=plan.batch, **words))
            continue
        gate = judged(lake, dataset, plan.batch)
        if gate and waits_for_a_person(lake, dataset, plan.batch):
            red, judged_at, skippable = list(gate.failures()), gate.judged, gate.skippable
        elif since <= before:
            red, judged_at, skippable = [], since, True
        else:
            continue
        found.append(Stuck(dataset=dataset.name, batch=plan.batch, red=red, skippable=skippable, since=judged_at))
    return found
