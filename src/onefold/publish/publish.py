"""Move `main` to the audited head, if it is still where upsert pinned it; otherwise a new attempt.

Needs no JVM, unless `main` moved: then upsert and gate run again by the launcher that ran them first.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict
from tenacity import (
    RetryCallState,
    RetryError,
    Retrying,
    retry_if_exception_type,
    stop_after_attempt,
    wait_random_exponential,
)

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.decisions import Standing, check_not_rolled_back, log_of
from onefold.dedup.code_digest import code_digest
from onefold.errors import (
    CommitOutcomeUnknownError,
    ContentionError,
    StaleGateError,
    StepMissingError,
)
from onefold.faults import fault_point
from onefold.generation import check_generation, fix_generation
from onefold.iceberg.commits import MainMovedError
from onefold.iceberg.connection import UNREACHABLE
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake, new_attempt
from onefold.quality.documents import GateResult
from onefold.upsert.commit_record import CommitRecord, published_record
from onefold.upsert.documents import Upserted


class StepLauncher(Protocol):
    """Runs one Spark step of a batch: in this process, by spark-submit, or in a session that tests share."""

    def run(self, step: str, dataset: Dataset, batch: str, attempt: str | None = None) -> Any:
        """Run a step of `spark_jobs`; its document.

        Raises:
            OnefoldError: the error that the step ended with.
        """
        ...


class Published(BaseModel):
    """A published batch."""

    model_config = ConfigDict(frozen=True)

    batch: str
    attempt: str
    snapshot: int
    record: str
    counts: dict[str, dict[str, int]]
    changes: dict[str, int] = {}
    decision: Standing | None = None
    already: bool = False
    at: datetime


class _MovedError(Exception):
    """`main` is not at the attempt's base any more."""


def publish_batch(lake: Lake, dataset: Dataset, batch: str, attempt: str, launcher: StepLauncher) -> Published:
    """Publish the attempt whose gate was green, or find the batch published already.

    Raises:
        GateRedError: the attempt's gate was red, or a new attempt's is.
        RolledBackError: the batch was rolled back, and waits for an operator.
        StaleGateError: the gate judged something else than there is now.
        ContentionError: `main` moved every time.
        CommitOutcomeUnknownError: the catalog did not answer.
    """
    check_generation(lake, dataset, rebuilding=True)
    current = [attempt]

    def once() -> Published:
        return _publish_once(lake, dataset, batch, current[0])

    def again(state: RetryCallState) -> None:
        if state.attempt_number > 1:  # behind the wait: a base pinned before it would be older
            current[0] = _rebase(lake, dataset, batch, current[0], launcher)

    tries = lake.settings.publish_tries
    retrying = Retrying(
        retry=retry_if_exception_type(_MovedError),
        stop=stop_after_attempt(tries),
        wait=wait_random_exponential(max=5),
        before=again,
    )
    try:
        published = retrying(once)
    except RetryError:
        StateTable(lake, dataset).drop_branch(f"attempt_{current[0]}")  # the next run makes another
        raise ContentionError(dataset.target.table, batch, tries) from None
    if published.attempt != current[0]:  # another driver's attempt at the batch was faster
        StateTable(lake, dataset).drop_branch(f"attempt_{current[0]}")
    return published


def _publish_once(lake: Lake, dataset: Dataset, batch: str, attempt: str) -> Published:
    table = StateTable(lake, dataset)
    if found := find_published(lake, dataset, table, batch):
        return found
    check_not_rolled_back(log_of(lake, dataset.name, batch))
    gate = lake.get(lake_keys.attempt(dataset, batch, attempt, "gate"), GateResult)
    upserted = lake.get(lake_keys.attempt(dataset, batch, attempt, "upsert"), Upserted)
    if gate is None or upserted is None:
        raise StepMissingError(batch, "publish", "a gate")
    _check_gate(lake, dataset, gate, upserted)
    fix_generation(lake, dataset)
    fault_point("before_commit")
    try:
        table.publish(gate.branch, gate.head, gate.base)
    except MainMovedError as error:
        # Ours may have arrived before its answer was lost: look, never just retry.
        if found := find_published(lake, dataset, StateTable(lake, dataset), batch):
            return found
        if StateTable(lake, dataset).main.snapshot == gate.base:
            raise StaleGateError(batch, attempt, "the branch is not what the gate judged") from error
        raise _MovedError from error
    except UNREACHABLE as error:
        if found := find_published(lake, dataset, StateTable(lake, dataset), batch):
            return found
        raise CommitOutcomeUnknownError(dataset.target.table, attempt, str(error).splitlines()[0]) from error
    fault_point("after_commit")
    found = find_published(lake, dataset, StateTable(lake, dataset), batch)
    assert found is not None
    return found.model_copy(update={"already": False, "changes": upserted.changes})


def _check_gate(lake: Lake, dataset: Dataset, gate: GateResult, upserted: Upserted) -> None:
    if not gate.green:
        raise gate.error(dataset.name, lake.where(lake_keys.report(dataset.name, gate.batch, "html")))
    if gate.code != code_digest():
        raise StaleGateError(gate.batch, gate.attempt, "the batch was staged by other code than is installed now")
    judged = (gate.branch, gate.head, gate.base, gate.staging)
    current = (upserted.branch, upserted.head, upserted.base, upserted.staging)
    if judged != current:
        raise StaleGateError(gate.batch, gate.attempt, "the gate judged another branch or staging")
    if {gate.decided, upserted.decided} != {len(log_of(lake, dataset.name, gate.batch))}:
        raise StaleGateError(gate.batch, gate.attempt, "a decision on the batch was recorded behind upsert or gate")


def _rebase(lake: Lake, dataset: Dataset, batch: str, stale: str, launcher: StepLauncher) -> str:
    """Upsert and gate once more on the new base; the attempt that now counts for the batch."""
    attempt = new_attempt()
    done: Upserted = launcher.run("upsert", dataset, batch, attempt)
    if not done.published:
        launcher.run("gate", dataset, batch, attempt)
    StateTable(lake, dataset).drop_branch(f"attempt_{stale}")
    return done.attempt


def find_published(lake: Lake, dataset: Dataset, table: StateTable, batch: str) -> Published | None:
    """The published attempt of a batch, if its commit record is in the chain from `main`'s."""
    main = table.main
    record: CommitRecord | None = published_record(lake, dataset, main.record, batch)
    if record is None:
        return None
    return Published(
        batch=batch,
        attempt=record.attempt,
        snapshot=table.snapshot_of(record.name) or main.snapshot,
        record=record.name,
        counts=record.counts,
        decision=record.decision,
        already=True,
        at=datetime.now(UTC),
    )
