"""Batches that a rollback, or a rebuild without them, has taken out: none is processed before an operator decides.

Either records a decision on each batch (`Undone`, or `Discard` with the generation) before readers see the table
without it. What says that they do is the table: a batch is taken out if that is its last decision and it is not
published.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from onefold.dataset import Dataset
from onefold.decisions import Again, Decider, Discard, Release, RolledBack, Skip, Undone, log_of, record, undone
from onefold.lake import Lake
from onefold.landing.plan import taken_plans
from onefold.upsert.commit_record import CommitRecord, published_chain


def rolled_back(lake: Lake, dataset: Dataset) -> dict[str, Undone | Discard]:
    """The batches that wait for an operator since a rollback or a rebuild without them, in the order of planning, each
    with what took it out."""
    published = {record.batch for record in published_chain(lake, dataset)}
    waiting = (plan.batch for plan in taken_plans(lake, dataset.name) if plan.batch not in published)
    return {batch: decision for batch in waiting if (decision := undone(log_of(lake, dataset.name, batch)))}


def overrule_decisions(lake: Lake, rollback: RolledBack) -> None:
    """Record an `Undone` for each batch of a rollback. Repeated, it finds what is on record.

    Raises:
        DecidedMeanwhileError: another process decided at the same time.
    """
    for batch in rollback.undone:
        log = log_of(lake, rollback.dataset, batch)
        if undone(log):  # of a rollback that ended before `main` moved
            continue
        given = {"who": rollback.who, "reason": rollback.reason, "at": rollback.at, "to": rollback.to}
        record(lake, Undone(dataset=rollback.dataset, batch=batch, number=len(log) + 1, **given))


def restore_decisions(lake: Lake, dataset: Dataset, records: Iterable[CommitRecord]) -> None:
    """Record again the decisions of published batches that a rollback has overruled without moving `main`, or a rebuild
    without swapping.

    Args:
        lake: where decisions are kept.
        dataset: whose batches they are.
        records: the commit records of published batches.

    Raises:
        DecidedMeanwhileError: another process decided at the same time.
    """
    for published in records:
        log = log_of(lake, dataset.name, published.batch)
        if not (decision := undone(log)):
            continue
        number, at = len(log) + 1, datetime.now(UTC)
        if isinstance(published.decision, Release | Skip):
            record(lake, published.decision.model_copy(update={"number": number}))
        else:
            given = {"who": decision.who, "reason": f"the {_name_of(decision)} was not carried out", "at": at}
            record(lake, Again(dataset=dataset.name, batch=published.batch, number=number, **given))


def _name_of(decision: Undone | Discard) -> str:
    return "rebuild" if isinstance(decision, Discard) else "rollback"


def take_out(lake: Lake, dataset: Dataset, batches: Iterable[str], who: Decider, reason: str) -> None:
    """Record a `Discard` for each batch that the dataset's generation is made without, before readers see it. Repeated,
    it finds what is on record.

    Raises:
        DecidedMeanwhileError: another process decided at the same time.
    """
    for batch in batches:
        log = log_of(lake, dataset.name, batch)
        decision = undone(log)
        if isinstance(decision, Discard) and decision.rebuilt == dataset.generation:
            continue
        given = {"who": who, "reason": reason, "at": datetime.now(UTC), "rebuilt": dataset.generation}
        record(lake, Discard(dataset=dataset.name, batch=batch, number=len(log) + 1, **given))
