"""One step of a batch alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from datetime import datetime

from pydantic import BaseModel

from onefold.dataset import Dataset
from onefold.errors import UsageError
from onefold.lake import Lake, new_attempt
from onefold.landing.land import land_batch
from onefold.landing.plan import find_plan
from onefold.operations.intervals import intervals_between
from onefold.operations.job_size import all_small
from onefold.operations.run import plan_one
from onefold.publish import StepLauncher, publish_batch
from onefold.publish.lease import lease
from onefold.report import describe, report_batch
from onefold.upsert.documents import upserted_of

STEPS = ("plan", "land", "dedup", "upsert", "gate", "publish", "report")


def one_step(
    lake: Lake,
    dataset: Dataset,
    name: str,
    batch: str | None,
    attempt: str | None,
    start: datetime | None,
    end: datetime | None,
    export: str | None,
    launching: Callable[[Lake, bool], AbstractContextManager[StepLauncher]],
) -> BaseModel:
    """Run one step; its document. `launching` opens who runs Spark; its second argument says that all is small.

    Raises:
        UsageError: no such step, or no batch given.
    """
    if name not in STEPS:
        raise UsageError(f"no step {name!r} (there are {', '.join(STEPS)})")
    if name == "plan":
        intervals = intervals_between(dataset, start, end) if start or end else [None]
        if len(intervals) > 1:
            raise UsageError("a plan is of one interval (use `onefold run` for several)")
        return plan_one(lake, dataset, intervals[0], export)
    if batch is None:
        raise UsageError(f"step {name} needs --batch")
    if name == "land" and dataset.source.exports:
        return land_batch(lake, dataset, batch, attempt)
    if name == "report":
        report_batch(lake, dataset, batch)
        return describe(lake, dataset, batch)
    with launching(lake, all_small(lake, dataset, [find_plan(lake, dataset, batch)])) as spark:
        if name == "publish":
            newest = attempt or upserted_of(lake, dataset, batch).attempt
            with lease(lake, dataset):
                return publish_batch(lake, dataset, batch, newest, spark)
        document: BaseModel = spark.run(name, dataset, batch, attempt or (new_attempt() if name == "upsert" else None))
        return document
