"""Notifications: a task that has failed for good, or data that are stale, by Airflow's own notifiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from pkgutil import resolve_name
from typing import Any

from airflow.sdk.definitions.callback import SyncCallback
from airflow.sdk.definitions.deadline import DeadlineAlert, DeadlineReference
from airflow.utils.types import DagRunType

from onefold.dataset import Dataset
from onefold.errors import DataLossError, GateRedError
from onefold.orchestration.links import dataset_link, report_link
from onefold.orchestration.spark_step import NO_BATCH
from onefold.settings import Settings, load_settings
from onefold.visible import visible, visible_line


@dataclass(frozen=True, slots=True)
class Message:
    """What happened, as notifiers' templates read it: `{{ onefold.subject }}`, `text`, `html`, and its parts."""

    dataset: str
    subject: str
    happened: str
    link: str
    batch: str | None = None
    checks: tuple[str, ...] = ()
    advice: str = ""

    def __post_init__(self) -> None:
        """Spell out what cannot be seen: keys and names of files may be anyone's."""
        for name in ("subject", "happened", "advice"):
            object.__setattr__(self, name, visible(getattr(self, name)))
        object.__setattr__(self, "checks", tuple(map(visible_line, self.checks)))

    @property
    def text(self) -> str:
        """The whole message as plain text."""
        listed = [f"- {check}" for check in self.checks]
        return "\n".join(line for line in (self.subject, self.happened, *listed, self.advice, self.link) if line)

    @property
    def html(self) -> str:
        """The same as HTML; what others wrote is escaped."""
        listed = f"<ul>{''.join(f'<li>{escape(check)}</li>' for check in self.checks)}</ul>" if self.checks else ""
        advice = f"<p>{escape(self.advice)}</p>" if self.advice else ""
        link = f'<p><a href="{escape(self.link)}">{escape(self.link)}</a></p>'
        happened = escape(self.happened).replace("\n", "<br>")
        return f"<p>{escape(self.subject)}</p><p>{happened}</p>{listed}{advice}{link}"


def tell_failure(context: Mapping[str, Any]) -> None:
    """What Airflow calls when a task has failed and is not tried again."""
    _tell(message_of(context), context)


def tell_stale(dataset: str, freshness: str, context: Mapping[str, Any]) -> None:
    """What Airflow calls when a run has not succeeded by its deadline. Those of a backfill are of the past: their
    deadline is over before they begin.
    """
    if context["dag_run"].get("run_type") == DagRunType.BACKFILL_JOB:
        return
    start, end = (context["dag_run"].get(f"data_interval_{edge}") for edge in ("start", "end"))
    state = context["dag_run"].get("state")
    happened = (
        f"The interval from {start} to {end} is not published; its run is {state}. Readers see what was published "
        f"up to {start}, which is longer ago than quality.freshness ({freshness})."
    )
    _tell(Message(dataset, f"{dataset}: the data are stale", happened, dataset_link(dataset)), context)


def deadline_of(dataset: Dataset, settings: Settings) -> DeadlineAlert | None:
    """When a dataset of a schedule is stale: an interval is not published and its start, up to which the interval
    before has published, is longer ago than `quality.freshness`.
    """
    freshness = dataset.quality.freshness
    if not settings.notify or dataset.schedule is None or freshness is None:
        return None
    words = {"dataset": dataset.name, "freshness": str(freshness)}
    return DeadlineAlert(
        name=f"{dataset.name} is stale",
        reference=DeadlineReference.DAGRUN_LOGICAL_DATE,
        interval=freshness,
        callback=SyncCallback(tell_stale, kwargs=words),
    )


def message_of(context: Mapping[str, Any]) -> Message:
    """The message about a failed task: of a red gate its checks with their values, else the error's own sentence."""
    error, task = context.get("exception"), context["task"]
    chosen = (context.get("params") or {}).get("dataset")  # where one DAG is for all
    dataset = getattr(error, "dataset", None) or getattr(task, "dataset", None) or chosen or context["dag"].dag_id
    batch = _known(getattr(error, "batch", None)) or _known(getattr(task, "batch", None))
    link = report_link(dataset, batch) if batch else dataset_link(dataset)
    if isinstance(error, GateRedError):
        what = "records are lost" if isinstance(error, DataLossError) else "the gate is red"
        happened = f"Batch {batch} was not published; readers see the table as it was before."
        return Message(dataset, f"{dataset}: {what}", happened, link, batch, error.failed, error.advice())
    said = str(error) if error else "Its process ended without saying why; its log may tell."
    return Message(dataset, f"{dataset}: task {context['ti'].task_id} failed", said, link, batch)


def _known(batch: str | None) -> str | None:
    """A batch that has a report: none is of the whole table, or a template that was not rendered yet."""
    return batch if batch and batch != NO_BATCH and "{{" not in batch else None


def _tell(message: Message, context: Mapping[str, Any]) -> None:
    """Every notifier is tried; a failure of one notifier does not keep the others from telling."""
    failed = []
    for name, given in load_settings().notify.items():
        arguments = {key: value for key, value in given.items() if key != "class"}
        try:
            resolve_name(given["class"])(**arguments)({**context, "onefold": message})
        except Exception as error:
            failed.append(f"{name} ({given['class']}): {type(error).__name__}: {error}")
    if failed:
        raise RuntimeError(f"not notified: {'; '.join(failed)}. The task's own outcome stays as it is.")
