"""One dataset file as a DAG: plan, land, dedup, upsert, gate, publish, report. Holds no logic of its own."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from airflow.sdk import DAG, Asset, Param, get_current_context, task
from airflow.sdk.definitions.param import ParamsDict
from airflow.sdk.exceptions import AirflowSkipException, AirflowTimetableInvalid
from airflow.timetables.base import Timetable

from onefold.dataset import Dataset, load_dataset
from onefold.dataset.masks import check_mask_key
from onefold.errors import InvalidDatasetError
from onefold.generation import check_generation
from onefold.lake import Lake
from onefold.landing.land import land_batch
from onefold.landing.places import check_not_anothers
from onefold.orchestration.connections import open_dataset
from onefold.orchestration.description import doc_of
from onefold.orchestration.interval import interval_of
from onefold.orchestration.notify import deadline_of
from onefold.orchestration.retries import task_defaults
from onefold.orchestration.spark_step import PublishOperator, SparkStepOperator
from onefold.orchestration.timetable import timetable_of
from onefold.settings import Settings

UNSCHEDULED_START = datetime(2000, 1, 1, tzinfo=UTC)
"""A start date before any record, for datasets without a schedule."""
BATCH = "{{ ti.xcom_pull(task_ids='plan') }}"
ATTEMPT = "{{ ti.xcom_pull(task_ids='upsert') }}"


def dataset_dag(file: Path, settings: Settings) -> DAG:
    """The DAG of a dataset file; its id is the dataset's name.

    Raises:
        InvalidDatasetError: with file, line and key.
    """
    dataset = load_dataset(file)
    name = dataset.name
    with DAG(
        dag_id=name,
        description=dataset.description,
        doc_md=doc_of(dataset),
        schedule=_timetable(file, dataset),
        start_date=dataset.schedule.start if dataset.schedule else UNSCHEDULED_START,
        auto_register=False,  # onefold_datasets.py hands them over; checking a file must not
        deadline=deadline_of(dataset, settings),
        catchup=False,  # the past is a backfill
        max_active_runs=1,  # safe without, but runs of one table only wait for each other at publish
        tags={"onefold", dataset.apply.title, dataset.target.namespace},
        default_args=task_defaults(settings, dataset.owner or "onefold", dataset.schedule),
    ) as dag:
        of: dict[str, Any] = {"dataset": name, "batch": BATCH, "pool": settings.pool, "history": settings.spark_history}
        live = dataset.source.kafka  # it is read by Spark; export files are copied
        landed: Any = SparkStepOperator(task_id="land", step="land", **of) if live else land(name, BATCH)
        dedup = SparkStepOperator(task_id="dedup", step="dedup", **of)
        upsert = SparkStepOperator(task_id="upsert", step="upsert", **of)
        gate = SparkStepOperator(task_id="gate", step="gate", attempt=ATTEMPT, **of)
        publish = PublishOperator(task_id="publish", attempt=ATTEMPT, outlets=[asset_of(dataset)], **of)
        # A teardown runs after a red gate too, and leaves the run's outcome to publish.
        planned, reported = plan(name), report(name).as_teardown()
        planned >> landed >> dedup >> upsert >> gate >> publish >> reported
        # A task is behind every task whose word it reads: cleared together, it has to wait for that, too.
        planned >> [dedup, upsert, gate, publish, reported]
        upsert >> publish
    # Each task would take them along, copied for every class that it is of: most of a DAG's making.
    asked = {"dry_run": Param(False, type="boolean", title="Dry run", description=DRY_RUN)}
    if not live:
        asked = {"export": Param(None, type=["null", "string"], title="Export folder", description=EXPORT)} | asked
    dag.params = ParamsDict(asked)
    return dag


EXPORT = "A folder (or s3://bucket/prefix) to read instead of what is new in the dataset's own place."
DRY_RUN = (
    "Say in the log of the task plan what would be read, write nothing, and skip the rest. To Airflow such a run has "
    "succeeded: a later backfill passes its interval over, unless it is for All Runs and overrides their parameters."
)
AFTER_DRY_RUN = (
    "To Airflow this run has succeeded: if it has an interval, a backfill passes that over, unless it has "
    """--reprocess-behavior completed --dag-run-conf '{"dry_run": false}'"""
)
"""Both: without the second, the runs that a backfill takes up again keep their parameters, `dry_run` too."""


def asset_of(dataset: Dataset) -> Asset:
    """The published table, for DAGs that run when it has changed."""
    return Asset(name=dataset.target.table, uri=f"onefold://{dataset.target.table}", group="onefold")


@task
def plan(name: str) -> str:
    """Decide what the run reads, once, however often it is cleared. Nothing new, or a dry run: the run's other tasks
    are skipped.
    """
    # These open tables; a DAG is parsed without.
    from onefold.operations.freshness import check_fresh
    from onefold.operations.run import plan_one
    from onefold.operations.stuck_batches import waiting_batches

    context = get_current_context()
    params = context["params"]
    lake, dataset = open_dataset(name)
    check_generation(lake, dataset)
    check_mask_key(dataset)
    dry_run = bool(params.get("dry_run"))
    if export := params.get("export"):
        check_not_anothers(lake.settings, dataset, export)
    run = context["dag_run"]
    named = f"{run.run_id} {run.run_after.isoformat()}"  # a run that was deleted may leave its name to another
    planned = plan_one(lake, dataset, interval_of(context), export, run=named, dry_run=dry_run)
    if dry_run:
        print(f"{name}: would read {json.dumps(planned.preview)}")
        print(f"{name}: {AFTER_DRY_RUN}")
        raise AirflowSkipException(f"{name}: a dry run, nothing was written")
    for batch in waiting_batches(lake, dataset):
        print(batch.sentence)
    for said in planned.notes:  # also where they say why there is nothing
        print(f"{name}: {said}")
    if planned.empty:
        check_fresh(lake, dataset, planned)
        raise AirflowSkipException(f"{name}: nothing new to read")
    return planned.batch


@task
def land(name: str, batch: str) -> int:
    """Copy what the plan names into the lake; the number of objects."""
    return len(land_batch(*open_dataset(name), batch).objects)


@task
def report(name: str) -> str:
    """Write the batch's report and send its figures, whatever became of the batch; where the report lies."""
    pull = get_current_context()["ti"].xcom_pull
    batch, done = pull(task_ids="plan"), pull(task_ids="publish")
    if not batch:
        raise AirflowSkipException(f"{name}: no batch was planned")
    return report_of(*open_dataset(name), batch, done)


def report_of(lake: Lake, dataset: Dataset, batch: str, done: dict[str, Any] | None) -> str:
    """Write a batch's report and send its figures; where the report lies. `done` is what the task publish left."""
    from onefold.orchestration.metrics import send_figures
    from onefold.report import report_batch

    place = report_batch(lake, dataset, batch)
    print(f"Report: {place}")
    just_published = datetime.fromisoformat(done["at"]) if done and not done["already"] else None
    send_figures(lake, dataset, batch, just_published)
    return place


def _timetable(file: Path, dataset: Dataset) -> Timetable | None:
    if dataset.schedule is None:
        return None
    timetable = timetable_of(dataset.schedule)
    try:
        timetable.validate()
    except AirflowTimetableInvalid as error:
        lines = enumerate(file.read_text(encoding="utf-8").splitlines(), start=1)
        line = next((number for number, text in lines if "cron:" in text), None)
        raise InvalidDatasetError(str(file), line, "schedule.cron", str(error)) from None
    return timetable
