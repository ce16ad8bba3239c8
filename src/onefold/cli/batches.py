"""Batches as commands show them: the step that runs, how a batch ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.status import Status

from onefold import lake_keys
from onefold.cli.console import NOTES, note
from onefold.errors import RolledBackError
from onefold.operations.launcher import Say

if TYPE_CHECKING:
    from onefold.dataset import Dataset
    from onefold.lake import Lake
    from onefold.operations.run import BatchRun
    from onefold.operations.stuck_batches import Stuck


def say_step(status: Status, name: str, number: int, total: int) -> Say:
    """Says at which step which of how many batches is."""

    def say(step: str) -> None:
        status.update(f"{name}: batch {number} of {total}: {step}")
        if not NOTES.is_terminal:
            note(f"{name}: batch {number} of {total}: {step}")

    return say


def ended(run: BatchRun) -> dict[str, Any]:
    """How a batch ended, as a row."""
    published = run.published
    counts = published.counts if published else {}
    if published:
        state = "already published" if published.already else "published"
    else:
        state = "rolled_back" if isinstance(run.failed, RolledBackError) else ("failed" if run.failed else "red")
    return {
        "batch": run.batch,
        "state": state,
        "attempt": published.attempt if published else None,
        "verdicts": {verdict: sum(reasons.values()) for verdict, reasons in counts.items()},
        "report": run.report,
    }


def ended_in_json(run: BatchRun) -> dict[str, Any]:
    """The same with why it is not published and what to do."""
    why = run.red.failed if run.red else ((str(run.failed),) if run.failed else ())
    return {**ended(run), "why": list(why), "do": run.red.advice() if run.red else "", "since": None}


def waits_in_json(lake: Lake, batch: Stuck) -> dict[str, Any]:
    """A batch of an earlier run that waits for an operator, as a row like those of a run's own batches."""
    return {
        "batch": batch.batch,
        "state": batch.state,
        "attempt": None,
        "verdicts": {},
        "report": lake.where(lake_keys.report(batch.dataset, batch.batch, "html")),
        "why": batch.why,
        "do": batch.do,
        "since": batch.since.isoformat(),
    }


def note_waiting(batches: Iterable[Stuck]) -> None:
    """Name the batches that wait for an operator: why, and what to do."""
    for batch in batches:
        note(batch.sentence)


def note_rolled_back(lake: Lake, dataset: Dataset) -> None:
    """Name the batches that wait for an operator since a rollback."""
    from onefold.publish.rolled_back import rolled_back

    for batch, decision in rolled_back(lake, dataset).items():
        note(str(RolledBackError(dataset.name, batch, decision.sentence)))


def note_other_topics(lake: Lake, dataset: Dataset) -> None:
    """Name the landed batches that do not belong to the dataset, for its file does not name their topics."""
    from onefold.landing.plan import plans_of_other_topics

    for plan in plans_of_other_topics(lake, dataset):
        note(
            f"{dataset.name}: batch {plan.batch} is of {', '.join(plan.of_topics)}, which the dataset file does not "
            "name: it is not taken up. A topic that was read before belongs in source.kafka.former_topics"
        )


def raise_first(ends: Iterable[BatchRun]) -> None:
    """Say why batches are not published: the first is what the command ends with, the others are notes."""
    errors = [run.error for run in ends if run.error]
    for error in errors[1:]:
        note(f"error: {error}")
    if errors:
        raise errors[0]
