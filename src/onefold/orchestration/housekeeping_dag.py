"""Once a day: prove and tidy what is published, look for what causes duplicates, and name the batches that wait."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Context, CronTriggerTimetable, Param, TaskGroup, task

from onefold.errors import ChangedDatasetError
from onefold.lake import new_attempt
from onefold.maintenance.keep import keep_of
from onefold.orchestration.connections import open_dataset
from onefold.orchestration.dataset_dag import UNSCHEDULED_START
from onefold.orchestration.retries import task_defaults
from onefold.orchestration.spark_step import NO_BATCH, SparkLauncher
from onefold.settings import load_settings

UNFINISHED = timedelta(days=1)
"""A batch that was taken up so long ago and is not done has been left."""
_DOC = """\
### onefold_housekeeping
Each day, for each dataset:

- **maintain**, as `onefold maintain`: looks at every live row and fails with the keys if a key has two; then drops
  what attempts left, compacts, expires snapshots and removes orphan files. The parameters are the command's options.
- **doctor**, as `onefold doctor`: settings that can cause duplicates, reordering or loss, in its log. It never fails.
- **stuck**: batches that are red and undecided, rolled back, or unfinished for more than a day, in its log and as its
  XCom. It does not fail for them.

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
                description="Clear landed bytes that every dataset of their source has published. Empty: keep them for "
                "ever. Without them there is no rebuild, and no rollback behind them",
            ),
        },
    ) as dag:
        for name in names:
            with TaskGroup(group_id=name):
                MaintainOperator(task_id="maintain", dataset=name, pool=settings.pool, history=settings.spark_history)
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
        ages = dict(context["params"])
        keep_of(ages)  # a wrong age fails before anything starts
        lake, dataset = open_dataset(self.dataset)
        done = self.launch(context, lake, "maintain", self.batch, new_attempt(), "--keep", json.dumps(ages))
        self.log.info("%s: %s", dataset.name, done)
        return done


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
