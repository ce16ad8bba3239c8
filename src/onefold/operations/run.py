"""A batch from plan to report in one process: what `onefold run` and the demo do."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from onefold import lake_keys
from onefold.dataset import Dataset
from onefold.dataset.masks import check_mask_key
from onefold.decisions import OWN_BATCH, check_not_rolled_back, every_decision, log_of
from onefold.errors import GateRedError, OneBatchError, OnefoldError, StepMissingError
from onefold.faults import fault_point
from onefold.generation import check_generation
from onefold.iceberg.state_table import find_state
from onefold.lake import Lake, new_attempt
from onefold.landing.land import land_batch, plan_batch
from onefold.landing.plan import Interval, Plan, find_plan, own_plans
from onefold.operations.launcher import Say
from onefold.operations.stuck_batches import waits_for_a_person
from onefold.publish import Published, StepLauncher, publish_batch
from onefold.publish.lease import lease
from onefold.publish.publish import find_published
from onefold.quality.documents import GateResult
from onefold.quality.suites import load_suite
from onefold.report import report_batch
from onefold.report.history import keep_history
from onefold.upsert.commit_record import chain


@dataclass(frozen=True, slots=True)
class BatchRun:
    """How a batch ended. `red` holds the gate's error, if it was; `failed` what kept it from being judged."""

    batch: str
    published: Published | None
    red: GateRedError | None
    report: str
    failed: OneBatchError | None = None
    warnings: tuple[str, ...] = ()
    """What its gate found and only warns of, as sentences."""

    @property
    def error(self) -> OnefoldError | None:
        """Why it is not published."""
        return self.red or self.failed


def land_decided(lake: Lake, dataset: Dataset) -> None:
    """Make batches of what was decided (a replay, an accepted gap, keys to be forgotten) by processes that ended before
    they had; `unfinished` has them then."""
    for decision in every_decision(lake, dataset.name):
        if isinstance(decision, OWN_BATCH):
            with suppress(StepMissingError):  # of a source that it does not read any more
                plan = find_plan(lake, dataset, decision.batch)
                if not lake.storage.stat(lake_keys.manifest(plan.source, decision.batch)):
                    land_batch(lake, dataset, decision.batch)


def unfinished(lake: Lake, dataset: Dataset) -> list[Plan]:
    """Plans of the dataset's topics that it took up and landed, and that are neither published, nor red, nor rolled
    back.

    Their process ended before; or a person has decided since they were judged or rolled back.
    """
    table = find_state(lake, dataset)
    published = {record.batch for record in chain(lake, dataset, table.main.record)} if table else set()
    plans = own_plans(lake, dataset)
    return [
        plan
        for plan in plans
        if not plan.empty
        and plan.batch not in published
        and lake.storage.stat(lake_keys.manifest(plan.source, plan.batch))
        and not waits_for_a_person(lake, dataset, plan.batch)
    ]


def plan_one(
    lake: Lake,
    dataset: Dataset,
    interval: Interval | None,
    export: str | None,
    *,
    run: str | None = None,
    dry_run: bool = False,
) -> Plan:
    """`plan_batch`, and an interval without records is shown as complete: no report of a batch says so."""
    plan = plan_batch(lake, dataset, interval, export, run=run, dry_run=dry_run)
    if interval and plan.empty and not dry_run:
        keep_history(lake, dataset)
    return plan


@dataclass(frozen=True, slots=True)
class Planned:
    """What a run has to do: batches that were begun before, new ones, and what kept others from being planned."""

    begun: list[Plan]
    new: list[Plan]
    error: OnefoldError | None = None


def plan_all(
    lake: Lake, dataset: Dataset, intervals: Sequence[Interval | None], export: str | None, *, dry_run: bool
) -> Planned:
    """Plan intervals, an export, or everything new next to what was begun before.

    What cannot be planned does not keep the others from being finished; it is raised where there are none.
    """
    begun = unfinished(lake, dataset) if not export and list(intervals) == [None] else []
    new: list[Plan] = []
    try:
        new.extend(plan_one(lake, dataset, interval, export, dry_run=dry_run) for interval in intervals)
    except OnefoldError as error:
        if all(plan.empty for plan in (*begun, *new)):
            raise
        return Planned(begun, new, error)
    return Planned(begun, new)


def run_batch(
    lake: Lake,
    dataset: Dataset,
    plan: Plan,
    spark: StepLauncher,
    say: Say = lambda _: None,
    *,
    rebuilding: bool = False,
) -> BatchRun:
    """Land, dedup, upsert, gate, publish and report a planned batch; a published one is only found.

    Raises:
        RolledBackError: the batch waits for an operator.
    """
    check_generation(lake, dataset, rebuilding=rebuilding)
    check_mask_key(dataset)
    load_suite(lake.settings.expectations_folder, dataset)  # a suite that cannot be read is said first
    batch = plan.batch
    say("land")
    if dataset.source.kafka:
        spark.run("land", dataset, batch)
    else:
        land_batch(lake, dataset, batch)
    table = find_state(lake, dataset)
    if table and (found := find_published(lake, dataset, table, batch)):
        return BatchRun(batch, found, None, report_batch(lake, dataset, batch))
    check_not_rolled_back(log_of(lake, dataset.name, batch))

    try:
        say("dedup")
        spark.run("dedup", dataset, batch)
        with lease(lake, dataset, say):
            say("upsert")
            upserted = spark.run("upsert", dataset, batch, new_attempt())
            if not upserted.published:
                say("gate")
                spark.run("gate", dataset, batch, upserted.attempt)
            say("publish")
            published = publish_batch(lake, dataset, batch, upserted.attempt, spark)
    except GateRedError as red:
        return BatchRun(batch, None, red, report_batch(lake, dataset, batch))
    fault_point("after_publish")
    gate = lake.get(lake_keys.attempt(dataset, batch, published.attempt, "gate"), GateResult)
    return BatchRun(
        batch, published, None, report_batch(lake, dataset, batch), warnings=gate.warnings() if gate else ()
    )


def try_batch(
    lake: Lake,
    dataset: Dataset,
    plan: Plan,
    spark: StepLauncher,
    say: Say = lambda _: None,
    *,
    rebuilding: bool = False,
) -> BatchRun:
    """`run_batch` as one of several: what keeps this batch from being folded is reported, and the others go on."""
    try:
        return run_batch(lake, dataset, plan, spark, say, rebuilding=rebuilding)
    except OneBatchError as error:
        try:
            report = report_batch(lake, dataset, plan.batch)
        except OnefoldError:  # the lake itself is in trouble: no other batch would end better
            raise error from None
        return BatchRun(plan.batch, None, None, report, error)
