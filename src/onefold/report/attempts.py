"""The attempts whose verdicts can be asked for: published ones, and the last ones of red batches.

Verdicts exist once a published commit record names them. Those of a red batch's last attempt are kept with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake
from onefold.landing.plan import taken_plans
from onefold.quality.documents import GateResult
from onefold.report.ledger import has_verdicts, lost_verdicts, records_of
from onefold.upsert.commit_record import CommitRecord
from onefold.upsert.documents import Upserted

Attempt = CommitRecord | Upserted
"""An attempt that judged records: a published one by its commit record, or a red one."""


@dataclass(frozen=True, slots=True)
class RedBatch:
    """A batch that is not published because its last attempt is red; `kept`: what the attempt found is in the lake."""

    dataset: str
    attempt: Upserted
    gate: GateResult
    kept: bool

    @property
    def batch(self) -> str:
        """The batch id."""
        return self.attempt.batch

    @property
    def sentence(self) -> str:
        """That the batch is not published, why, and what its verdicts are worth."""
        red = f"not published: batch {self.batch} is red ({'; '.join(self.gate.failures())})"
        if not self.kept:
            return f"{red}, and {lost_verdicts(self.dataset, self.batch)}"
        return (
            f"{red}. Its verdicts are what its last attempt found ({self.gate.judged:%Y-%m-%d %H:%M} UTC): they count "
            "once the batch is published, and another attempt may find others."
        )


def red_batches(lake: Lake, dataset: Dataset) -> list[RedBatch]:
    """The red batches of a dataset that are not published, in the order of planning."""
    published = {record.batch for record in records_of(lake, dataset)}
    plans = (plan for plan in taken_plans(lake, dataset.name) if plan.batch not in published)
    return [red for plan in plans if (red := red_batch(lake, dataset, plan.batch))]


def red_batch(lake: Lake, dataset: Dataset, batch: str) -> RedBatch | None:
    """A batch that is not published, if its last attempt is red."""
    attempt = lake.get(lake_keys.latest(dataset, batch), Upserted)
    gate = lake.get(lake_keys.attempt(dataset, batch, attempt.attempt, "gate"), GateResult) if attempt else None
    if attempt is None or gate is None or gate.green:
        return None
    kept = has_verdicts(lake, dataset, attempt) and not (
        dataset.apply.KEEPS_ENTRIES and _entries_gone(lake, dataset, attempt)
    )
    return RedBatch(dataset.name, attempt, gate, kept)


def _entries_gone(lake: Lake, dataset: Dataset, attempt: Upserted) -> bool:
    """Mode increment: whether the snapshot is gone that says which sum each message of the attempt is of."""
    table = find_state(lake, dataset)
    return table is None or table.table.snapshot_by_id(attempt.head) is None


def attempts_of(lake: Lake, dataset: Dataset, red: Sequence[RedBatch]) -> list[Attempt]:
    """The published attempts, oldest first, then those of red batches."""
    published: list[Attempt] = list(records_of(lake, dataset))
    return [*reversed(published), *(batch.attempt for batch in red if batch.kept)]
