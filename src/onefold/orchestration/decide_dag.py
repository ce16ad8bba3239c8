"""A person decides a red batch: shown, approved by somebody, recorded, carried out by the ordinary steps."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import DAG, AssetAlias, Context, Param, get_current_context, task
from airflow.sdk.exceptions import AirflowSkipException

from onefold.dataset import Dataset
from onefold.decisions.approvals import approval_of
from onefold.decisions.who import NOT_YET, Decider
from onefold.lake import Lake, new_attempt
from onefold.orchestration.approval_task import Question, RecordedApproval, run_of
from onefold.orchestration.connections import open_dataset
from onefold.orchestration.dataset_dag import UNSCHEDULED_START, asset_of, report_of
from onefold.orchestration.retries import task_defaults
from onefold.orchestration.runs import DECIDE
from onefold.orchestration.spark_step import PublishOperator, SparkLauncher, SparkStepOperator
from onefold.settings import load_settings

if TYPE_CHECKING:
    from onefold.operations.decision_requests import Request, Shown
    from onefold.publish import Published

ANSWER_WITHIN = timedelta(days=1)
"""Without an answer until then, it is rejected."""
DECIDED = AssetAlias(name="onefold_decided", group="onefold")
"""The outlet; which dataset's asset it is for is known when a batch was published."""
BATCH = "{{ ti.xcom_pull(task_ids='decide') }}"
ATTEMPT = "{{ ti.xcom_pull(task_ids='upsert') }}"
_DOC = """\
### onefold_decide
Decide a batch that the gate found red or that was rolled back, take out a published batch that was wrong, or fold
again what a batch has quarantined.

Trigger it with the dataset, the batch (the report names it), the decision and the reason. `look_up` says in its log
what would be decided, or fails with what is wrong; then `approve` waits for somebody, a day at most (in the menu
*Browse*, *Required Actions*). **Rejected, or not answered: nothing is decided.** Approved: the decision is recorded
under the name of the approver, and upsert, gate and publish run under it.

| decision | means |
| --- | --- |
| release | publish it as it is; every red check is waived by its id, with the value that it found |
| discard | back to landed: then clear its own run from `dedup` on, or let `onefold run` fold it again |
| skip | cover it and use nothing of it |
| replay | fold the quarantined records of a published batch again, after a fix |
| again | take up a batch that was rolled back: it is judged again, and nothing that was decided before counts |
| without | take out a published batch that was wrong: the task `rebuild` folds every other batch into a new table |

A release is no way around the gate: it finds the same values again, or the run fails. A law, an errored check and a
foreign commit cannot be waived. Anyone who may trigger this DAG and answer it may decide every dataset.
"""


def decide_dag(names: list[str]) -> DAG:
    """The DAG, for datasets of these names."""
    settings = load_settings()
    with DAG(
        dag_id=DECIDE,
        description="Decide a red or rolled back batch: release, discard, skip, again; replay what it quarantined; or "
        "take out a batch that was wrong: without.",
        doc_md=_DOC,
        schedule=None,
        start_date=UNSCHEDULED_START,
        catchup=False,
        max_active_runs=1000,  # a run that waits for an answer keeps no other from being asked
        tags={"onefold"},
        default_args=task_defaults(settings, "onefold"),
        params=_params(names),
    ) as dag:
        looked = look_up.override(on_failure_callback=[])()  # the caller reads it; nothing has happened
        approve = ApproveDecisionOperator(task_id="approve", response_timeout=ANSWER_WITHIN)
        of: dict[str, Any] = {
            "dataset": "{{ params.dataset }}",
            "batch": BATCH,
            "pool": settings.pool,
            "history": settings.spark_history,
        }
        dedup = SparkStepOperator(task_id="dedup", step="dedup", **of)
        upsert = SparkStepOperator(task_id="upsert", step="upsert", **of)
        gate = SparkStepOperator(task_id="gate", step="gate", attempt=ATTEMPT, **of)
        publish = PublishDecidedOperator(task_id="publish", attempt=ATTEMPT, outlets=[DECIDED], **of)
        rebuild = RebuildOperator(task_id="rebuild", **of | {"batch": "{{ params.batch }}"})
        decided, reported = decide(), report().as_teardown()
        looked >> approve >> rebuild
        looked >> rebuild
        looked >> approve >> decided >> dedup >> upsert >> gate >> publish >> reported
        # A task is behind every task whose word it reads: cleared together, it has to wait for that, too.
        looked >> decided >> [upsert, gate, publish, reported]
        upsert >> publish
    return dag


def _params(names: list[str]) -> dict[str, Param]:
    return {
        "dataset": Param(type="string", enum=names, title="Dataset", description="Whose batch it is."),
        "batch": Param(type="string", minLength=1, title="Batch", description="Its id, as the report names it."),
        "decision": Param(
            type="string",
            enum=["release", "discard", "skip", "replay", "again", "without"],
            title="Decision",
            description="release: publish it as it is. discard: back to landed. skip: cover it, use nothing of it. "
            "replay: fold its quarantined records again. again: judge it again after a rollback. without: take it out "
            "of the published table.",
        ),
        "waivers": Param(
            None,
            type=["null", "array"],
            items={"type": "string", "minLength": 1},
            title="Waivers",
            description="Of a release: every red check by its id, with what it found: id=value, one a line. Without "
            "them the task look_up fails and names them: what is in quotes after --waive.",
        ),
        "reason": Param(type="string", pattern=r"\S", title="Reason", description="Why; it is recorded and shown."),
    }


@task
def look_up() -> None:
    """What would be decided, in the log. Nothing to decide: the run's other tasks are skipped."""
    asks = _question(get_current_context())
    print(f"{asks.subject}\n{asks.body}")


class ApproveDecisionOperator(RecordedApproval):
    """Shows what would be decided, and waits for an answer."""

    def question(self, context: Context) -> Question:
        """What would be decided, as it is now."""
        return _question(context)

    def place(self, context: Context) -> tuple[Lake, list[str]]:
        """The lake and the dataset that the run is about."""
        lake, dataset = open_dataset(context["params"]["dataset"])
        return lake, [dataset.name]


def _question(context: Context) -> Question:
    from onefold.operations.decision_requests import Shown, foresee
    from onefold.operations.stuck_batches import judged
    from onefold.orchestration.approval import body_of, subject_of

    lake, dataset, request = _requested(context)
    made = foresee(lake, dataset, request, NOT_YET)
    if made is None:
        raise AirflowSkipException(f"{dataset.name}: there is nothing to {request.decision} of batch {request.batch}")
    asked_by = context["dag_run"].triggering_user_name
    body = body_of(dataset, request, made, judged(lake, dataset, request.batch), asked_by)
    asked = {"request": request.model_dump(mode="json"), "shown": Shown.of(made).model_dump(mode="json")}
    return Question(lake, subject_of(dataset, request), body, {dataset.name: asked})


@task.short_circuit
def decide() -> str:
    """Record what was approved, under the name of the approver; the batch to run, or nothing after a discard."""
    from onefold.operations.decision_requests import carry

    lake, dataset, request, shown, who = _approved(get_current_context())
    if request.decision == "without":  # the task `rebuild` looks and records it, and may have done so already
        return ""
    made = carry(lake, dataset, request, who, shown)
    print(f"{dataset.name}: batch {made.batch}: {made.sentence}")
    if made.kind != "discard":
        return made.batch
    report_of(lake, dataset, made.batch, None)
    return ""


@task
def report() -> str:
    """Write the report of the batch that was run and send its figures, whatever became of it; where it lies."""
    context = get_current_context()
    pull = context["ti"].xcom_pull
    batch, done = pull(task_ids="decide"), pull(task_ids="publish")
    if not batch:
        raise AirflowSkipException("no batch was run")
    return report_of(*open_dataset(context["params"]["dataset"]), batch, done)


class RebuildOperator(SparkLauncher):
    """Takes a published batch out, where that is the decision: folds all others into a new table, and swaps."""

    ui_color = "#eee8f5"

    def execute(self, context: Context) -> dict[str, Any]:  # type: ignore[override]
        """Run the rebuild under the name of the approver; another try goes on where it was."""
        from onefold.operations.decision_requests import carry
        from onefold.operations.rebuild import is_begun_without

        lake, dataset, request, shown, who = _approved(context)
        if request.decision != "without":
            raise AirflowSkipException(f"the decision is {request.decision}: nothing is rebuilt")
        if not is_begun_without(lake, dataset, request.batch):
            carry(lake, dataset, request, who, shown)
        decided = json.dumps({"who": who.model_dump(), "reason": request.reason.strip()})
        done = self.launch(context, lake, "rebuild", request.batch, new_attempt(), "--decided", decided)
        report_of(lake, open_dataset(dataset.name)[1], request.batch, None)
        return done


class PublishDecidedOperator(PublishOperator):
    """Publishes a batch under its decision. The dataset's asset has an event only where this task published it."""

    def announce(
        self, context: Context, lake: Lake, dataset: Dataset, published: Published, extra: dict[str, Any]
    ) -> None:
        """Look whether what was published is what was decided, then add the event.

        A try behind the first may find what the try before it published, and has the event to add.
        """
        from onefold.decisions import log_of, standing
        from onefold.operations.decide import check_carried_out

        if decision := standing(log_of(lake, dataset.name, published.batch)):
            check_carried_out(lake, decision, published)
        if not published.already or context["ti"].try_number > 1:
            context["outlet_events"][DECIDED].add(asset_of(dataset), extra)


def _requested(context: Context) -> tuple[Lake, Dataset, Request]:
    from onefold.operations.decision_requests import Request

    params = context["params"]
    request = Request(
        batch=params["batch"].strip(),
        decision=params["decision"],
        reason=params["reason"],
        waivers=tuple(params["waivers"] or ()),
    )
    return *open_dataset(params["dataset"]), request


def _approved(context: Context) -> tuple[Lake, Dataset, Request, Shown, Decider]:
    """What was approved, as the lake has it."""
    from onefold.operations.decision_requests import Request, Shown

    lake, dataset = open_dataset(context["params"]["dataset"])
    asked, who = approval_of(lake, dataset.name, run_of(context))
    return lake, dataset, Request(**asked["request"]), Shown(**asked["shown"]), who
