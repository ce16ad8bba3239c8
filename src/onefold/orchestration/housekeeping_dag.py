"""Once a day: prove and tidy what is published, look for what causes duplicates, and name the batches that wait."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Context, CronTriggerTimetable, Param, TaskGroup, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from onefold.decisions.approvals import approval_of, was_asked
from onefold.errors import ChangedDatasetError, UsageError
from onefold.lake import Lake, new_attempt
from onefold.maintenance.keep import age_of, keep_of
from onefold.orchestration.approval_task import Question, RecordedApproval, run_of
from onefold.orchestration.connections import load_connected, open_dataset
from onefold.orchestration.dataset_dag import UNSCHEDULED_START
from onefold.orchestration.retries import task_defaults
from onefold.orchestration.spark_step import NO_BATCH, SparkLauncher
from onefold.settings import load_settings

ANSWER_WITHIN = timedelta(hours=12)
"""Without an answer until then, it is rejected: the next day's run is not kept waiting."""
UNFINISHED = timedelta(days=1)
"""A batch that was taken up so long ago and is not done has been left."""
_DOC = """\
### onefold_housekeeping
Each day, for each dataset:

- **maintain**, as `onefold maintain`: looks at every live row and fails with the keys if a key has two; then drops
  what attempts left, compacts, expires snapshots and removes orphan files. The parameters are the command's options.
  What it removes can be made again from the landed bytes, or is a snapshot or a table older than a day at least.
- **doctor**, as `onefold doctor`: settings that can cause duplicates, reordering or loss, in its log. It never fails.
- **stuck**: batches that are red and undecided, rolled back, or unfinished for more than a day, in its log and as its
  XCom. It does not fail for them.

With the parameter *landing* and a *reason*, the run then also clears landed bytes of that age, which cannot be undone:
**look** says in its log which, **approve** shows them and waits for an answer (in the menu *Browse*, *Required
Actions*), twelve hours at most, and **clear** records the decision under the name of the approver, then deletes.
Rejected, or not answered: nothing is deleted. With nothing to clear it asks no one. Bytes younger than the setting
`landing_min_age` stay in any case.

One task runs at a time. All of it is safe while batches run, and may be triggered at any time.
"""


def housekeeping_dag(names: list[str]) -> DAG:
    """The DAG, for datasets of these names."""
    settings = load_settings()
    with DAG(
        dag_id="onefold_housekeeping",
        description="Prove and tidy the published tables, run the doctor, name the batches that wait.",
        doc_md=_DOC,
        schedule=CronTriggerTimetable("30 3 * * *", timezone="UTC"),
        start_date=UNSCHEDULED_START,
        catchup=False,
        max_active_runs=1,
        max_active_tasks=1,  # nothing waits for it: it leaves the machines to the batches
        tags={"onefold"},
        default_args=task_defaults(settings, "onefold"),
        params={
            "attempts": Param("1d", type="string", description="Keep what attempts left that are over"),
            "snapshots": Param("7d", type="string", description="Keep snapshots, for rollback and reading back"),
            "generations": Param("7d", type="string", description="Keep a table after its rebuild"),
            "landing": Param(
                None,
                type=["null", "string"],
                description="Clear landed bytes of this age that every dataset of their source has published, once it "
                "is approved. Empty: keep them for ever. Without them there is no rebuild, and no rollback behind them",
            ),
            "reason": Param(None, type=["null", "string"], description="Why landed bytes are cleared; it is recorded"),
        },
    ) as dag:
        with TaskGroup(group_id="clear-landings"):  # no dataset is called so
            found = look.override(on_failure_callback=[])(names)  # the caller reads it; nothing has happened
            approve = ApproveClearingOperator(task_id="approve", datasets=names, response_timeout=ANSWER_WITHIN)
            found >> approve >> clear(names)
        for name in names:
            with TaskGroup(group_id=name):
                of: dict[str, Any] = {"dataset": name, "pool": settings.pool, "history": settings.spark_history}
                MaintainOperator(task_id="maintain", **of) >> found
                doctor(name)
                stuck(name)
    return dag


class MaintainOperator(SparkLauncher):
    """Proves and tidies a dataset's tables, in Spark."""

    ui_color = "#eee8f5"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(batch=NO_BATCH, **kwargs)

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the job; what it cleared away."""
        ages = {name: context["params"][name] for name in ("attempts", "snapshots", "generations")}
        keep_of(ages)  # a wrong age fails before anything starts
        lake, dataset = open_dataset(self.dataset)
        done = self.launch(context, lake, "maintain", self.batch, new_attempt(), "--keep", json.dumps(ages))
        self.log.info("%s: %s", dataset.name, done)
        return done


@task
def look(names: list[str]) -> None:
    """Which landed bytes would be cleared, in the log; none: no one is asked."""
    asks = _question(get_current_context(), names)
    print(f"{asks.subject}\n{asks.body}")


class ApproveClearingOperator(RecordedApproval):
    """Shows which landed bytes would be cleared, and waits for an answer."""

    def __init__(self, *, datasets: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.datasets = datasets

    def question(self, context: Context) -> Question:
        """What may go now."""
        return _question(context, self.datasets)

    def place(self, context: Context) -> tuple[Lake, list[str]]:
        """The lake, and every dataset."""
        del context
        return Lake(load_connected()), self.datasets


@task
def clear(names: list[str]) -> dict[str, list[str]]:
    """Record what was approved, under the name of the approver, then delete; batches by dataset."""
    from onefold.decisions import Clearable
    from onefold.operations.clear import clear as clear_landings

    run = run_of(get_current_context())
    lake = Lake(load_connected())
    cleared: dict[str, list[str]] = {}
    for name in [name for name in names if was_asked(lake, name, run)] or names[:1]:
        asked, who = approval_of(lake, name, run)
        approved = [Clearable(**part) for part in asked["landings"]]
        age = timedelta(seconds=asked["seconds"])
        made = clear_landings(*open_dataset(name), approved, age, who, asked["reason"])
        cleared[name] = [batch for decision in made for batch in decision.landings]
        print(f"{name}: cleared the landed bytes of {', '.join(cleared[name]) or 'no batch'}")
    return cleared


def _question(context: Context, names: list[str]) -> Question:
    """What may be cleared, each landing once, under the first dataset that reads it.

    Raises:
        AirflowSkipException: nothing.
        UsageError: an age that is none or too small, or no reason.
    """
    from onefold.decisions import Clearable
    from onefold.operations.clear import check_age, find_clearable
    from onefold.orchestration.approval import clearing_body

    params, lake = context["params"], Lake(load_connected())
    if not params["landing"]:
        raise AirflowSkipException("the parameter landing is empty: landed bytes are kept")
    age, reason = age_of(params["landing"]), str(params["reason"] or "").strip()
    check_age(lake.settings, age)
    if not reason:
        raise UsageError("landing needs the parameter reason, which is kept with the decision. Nothing was cleared.")
    found: dict[str, list[Clearable]] = {}
    seen: set[str] = set()
    for name in names:
        parts, unread = find_clearable(*open_dataset(name), age)
        if unread:
            print(f"landed bytes are kept: it is unknown what these dataset files read: {', '.join(unread)}")
        found[name] = [part for part in parts if part.source not in seen]
        seen |= {part.source for part in parts}
    found = {name: parts for name, parts in found.items() if parts}
    if not found:
        raise AirflowSkipException(f"no landed bytes are older than {params['landing']} and published everywhere")
    total = sum(part.bytes for parts in found.values() for part in parts)
    return Question(
        lake,
        f"Delete {total:,} landed bytes?",
        clearing_body(found, age, reason, context["dag_run"].triggering_user_name),
        {
            name: {
                "landings": [part.model_dump(mode="json") for part in parts],
                "seconds": age.total_seconds(),
                "reason": reason,
            }
            for name, parts in found.items()
        },
    )


@task
def doctor(name: str) -> None:
    """What can cause duplicates, reordering or loss, worst first, in the log."""
    from onefold.diagnosis import diagnose, gather

    try:
        found = diagnose(gather(*open_dataset(name))).findings
    except Exception as error:  # it gives advice: that it could not is no reason to call anybody
        print(f"{name}: the doctor could not look: {type(error).__name__}: {error}")
        return
    for judged in found:
        finding = judged.finding
        print(f"{name}: {finding.severity}: {finding.found} ({', '.join(judged.places)}). {finding.why}")
        print(f"  {finding.change or finding.action}")
    print(f"{name}: {len(found)} findings (onefold doctor {name} shows more)")


@task
def stuck(name: str) -> list[str]:
    """The batches that nothing moves on, in the log."""
    from onefold.operations.stuck_batches import stuck_batches

    try:
        found = stuck_batches(*open_dataset(name), UNFINISHED)
    except ChangedDatasetError as error:  # nothing is known of its batches before the rebuild
        print(error)
        return []
    print("\n".join(batch.sentence for batch in found) or f"{name}: nothing waits")
    return [batch.batch for batch in found]
