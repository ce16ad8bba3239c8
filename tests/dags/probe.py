"""What tests ask of Airflow, as a process: `probe.py FUNCTION [WORD…]` prints one line of JSON."""

from __future__ import annotations

import importlib
import json
import select
import subprocess
import sys
import time
from datetime import timedelta
from typing import Any

HEAVY = ("pyspark", "great_expectations", "pyiceberg", "pandas", "pyarrow")


def parsing() -> dict[str, Any]:
    """What it costs to read the DAG file, beyond Airflow itself."""
    from airflow.sdk import DAG, Asset, CronDataIntervalTimetable, Param, task  # noqa: F401

    start = time.process_time()
    import dags.onefold_datasets as file

    seconds = time.process_time() - start
    for other in ("onefold_decide", "onefold_housekeeping", "onefold_invalid_datasets"):
        importlib.import_module(f"dags.{other}")
    return {"seconds": seconds, "heavy": [name for name in HEAVY if name in sys.modules], "dags": sorted(file.dags)}


def bag() -> dict[str, Any]:
    """The DAGs and import errors that Airflow finds in the DAGs folder."""
    from airflow.dag_processing.dagbag import DagBag

    found = DagBag(bundle_name="dags-folder")
    return {"dags": {name: _facts(dag) for name, dag in found.dags.items()}, "errors": found.import_errors}


def _facts(dag: Any) -> dict[str, Any]:
    return {
        "owner": dag.owner,
        "tags": sorted(dag.tags),
        "doc": dag.doc_md,
        "description": dag.description,
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "start": dag.start_date.isoformat(),
        "timetable": type(dag.timetable).__name__,
        "params": list(dag.params),
        "described": [name for name in dag.params if dag.params.get_param(name).description],
        "enums": {name: param.get("enum") for name in dag.params if (param := dag.params.get_param(name).schema)},
        "tasks": [task.task_id for task in dag.topological_sort()],
        "edges": sorted(f"{task.task_id}>{below}" for task in dag.tasks for below in task.downstream_task_ids),
        "retries": {task.task_id: task.retries for task in dag.tasks},
        "by_cause": [task.task_id for task in dag.tasks if task.retry_policy is not None],
        "outlets": {task.task_id: [asset.name for asset in task.outlets] for task in dag.tasks if task.outlets},
        "max_active_tasks": dag.max_active_tasks,
        "approval": next((_approval(task) for task in dag.tasks if task.task_id == "approve"), None),
        "teardowns": [task.task_id for task in dag.tasks if task.is_teardown],
    }


def _approval(task: Any) -> dict[str, Any]:
    return {"defaults": task.defaults, "seconds": task.response_timeout.total_seconds()}


def retries() -> dict[str, Any]:
    """What the retry policy says to each error class."""
    from onefold import errors
    from onefold.orchestration.retries import by_cause

    policy = by_cause(timedelta(minutes=10))

    def decide(kind: type[BaseException]) -> str:
        return policy.evaluate(kind.__new__(kind), try_number=1, max_tries=2).action.value

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    delay = policy.evaluate(errors.NotSettledError("", "", ""), try_number=1, max_tries=2).retry_delay
    settled = {"seconds to settle": delay.total_seconds() if delay else None}
    return {kind.__name__: decide(kind) for kind in (*kinds, ValueError)} | settled


def approvals() -> dict[str, Any]:
    """Who approved, by what the task `approve` left."""
    from onefold.errors import UsageError
    from onefold.orchestration.decide_dag import approved_by

    user = {"id": "7", "name": "ada"}
    answers = {
        "approved": {"chosen_options": ["Approve"], "responded_by_user": user},
        "nameless": {"chosen_options": ["Approve"], "responded_by_user": user | {"name": ""}},
        "rejected": {"chosen_options": ["Reject"], "responded_by_user": user},
        "timed out": {"chosen_options": ["Reject"], "responded_by_user": None},
        "marked as successful": None,
    }
    found: dict[str, Any] = {}
    for name, answer in answers.items():
        try:
            found[name] = approved_by(answer)
        except UsageError:
            found[name] = None
    return found


def intervals() -> dict[str, Any]:
    """The interval of a dated, a date-less, an empty and an export run."""
    from datetime import UTC, datetime

    from onefold.orchestration.interval import interval_of

    start, end = datetime(2026, 1, 1, 5, tzinfo=UTC), datetime(2026, 1, 1, 6, tzinfo=UTC)
    dated = {"data_interval_start": start, "data_interval_end": end, "params": {"export": None}}
    contexts: dict[str, dict[str, Any]] = {
        "dated": dated,
        "dateless": {"params": {"export": None}},
        "empty": dated | {"data_interval_end": start},
        "export": dated | {"params": {"export": "folder"}},
    }
    found = {name: interval_of(context) for name, context in contexts.items()}
    return {name: one.name if one else None for name, one in found.items()}


def run(dag_id: str, conf: str, retries: str = "") -> dict[str, Any]:
    """Run a DAG once, without a date, with real spark-submit; the outcome."""
    from onefold.orchestration import dataset_names

    dag = _dag(dag_id)
    for task in dag.tasks:
        task.retries = int(retries or task.retries)
    done = dag.test(logical_date=None, run_conf=json.loads(conf))
    return {
        "state": str(done.state),
        "tasks": {one.task_id: str(one.state) for one in done.get_task_instances()},
        "events": _events(done),
        "xcoms": {one.task_id: one.xcom_pull(one.task_id) for one in done.get_task_instances()},
        "main": _main(dag_id) if dag_id in dataset_names() else None,
    }


def _dag(dag_id: str) -> Any:
    if dag_id == "onefold_housekeeping":
        from dags.onefold_housekeeping import dag

        return dag
    from dags.onefold_datasets import dags

    return dags[dag_id]


def decide(conf: str, answer: str) -> dict[str, Any]:
    """Run the DAG that decides, and answer it from another process; what was shown there, and the outcome."""
    from dags.onefold_decide import dag

    words = [sys.executable, __file__, "respond", answer]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as responding:
        for task in dag.tasks:
            task.retries = 0
        done = dag.test(logical_date=None, run_conf=json.loads(conf))
        said, _ = responding.communicate()  # closes its input
    return {
        "state": str(done.state),
        "tasks": {one.task_id: str(one.state) for one in done.get_task_instances()},
        "events": _events(done),
        "main": _main(json.loads(conf)["dataset"]),
        "shown": json.loads(said.splitlines()[-1])["shown"],
    }


def respond(answer: str) -> dict[str, Any]:
    """Answer whatever is asked by Airflow's API as the user ada, until the input ends; what was shown."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    runs, shown = "/api/v2/dags/onefold_decide/dagRuns", []
    with TestClient(create_app(apps="core")) as client:
        client.headers["Authorization"] = f"Bearer {_token('ada')}"
        while not select.select([sys.stdin], [], [], 0.5)[0]:
            waiting = client.get(f"{runs}/~/hitlDetails", params={"response_received": False}).json()["hitl_details"]
            for one in waiting:
                of = one["task_instance"]
                place = f"{runs}/{of['dag_run_id']}/taskInstances/{of['task_id']}/-1/hitlDetails"
                said = client.patch(place, json={"chosen_options": [answer], "params_input": {}})
                shown.append(one | {"status": said.status_code})
    return {"shown": shown}


def _token(username: str) -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return str(get_auth_manager().generate_jwt(SimpleAuthManagerUser(username=username, role="admin")))


def _events(done: Any) -> list[dict[str, Any]]:
    from airflow.models.asset import AssetEvent
    from airflow.utils.session import create_session
    from sqlalchemy import select

    query = select(AssetEvent).where(AssetEvent.source_run_id == done.run_id)
    with create_session() as session:
        return [{"asset": one.name, "task": one.source_task_id, "extra": one.extra} for one in session.scalars(query)]


def _main(name: str) -> int | None:
    from onefold.catalog import find_state
    from onefold.dataset import find_dataset
    from onefold.lake import Lake
    from onefold.settings import load_settings

    lake = Lake(load_settings())
    table = find_state(lake, find_dataset(lake.settings.datasets_folder, name))
    return table.main.snapshot if table else None


def pages(*paths: str) -> dict[str, Any]:
    """What the API server answers whoever is not logged in, and a logged-in admin."""
    from airflow.api_fastapi.app import create_app
    from fastapi.testclient import TestClient

    with TestClient(create_app()) as client:
        anonymous = {path: client.get(path).status_code for path in paths}
        client.headers["Authorization"] = f"Bearer {_token('admin')}"
        admin = {path: client.get(path).status_code for path in paths}
        views = next(one for one in client.get("/api/v2/plugins").json()["plugins"] if one["name"] == "onefold")
    return {"anonymous": anonymous, "admin": admin, "views": [one["name"] for one in views["external_views"]]}


if __name__ == "__main__":
    answer = globals()[sys.argv[1]](*sys.argv[2:])
    print()
    print(json.dumps(answer, default=str))
