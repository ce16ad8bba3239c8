"""A DAG, run once by the scheduler of a stack: unpaused and triggered through the API, watched until it ends."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Any

from deploy.stack.processes import StackError
from deploy.stack.stack import Stack
from onefold.orchestration.api import Api

DATASET = "orders"
"""The sample's dataset of live topics."""
READ_SECONDS = 180
RUN_SECONDS = 1200


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a run: the batch, or None if there was nothing new; and the rows that readers see."""

    batch: str | None
    rows: list[dict[str, Any]]


def run_pipeline(stack: Stack) -> Ran:
    """Run the whole pipeline of the sample: Kafka, bucket, cluster, gate, publish.

    Raises:
        StackError: the run failed; with the task and the place of its log.
    """
    api = Api(stack.url)
    try:
        api.log_in("admin", stack.secrets["AIRFLOW_ADMIN_PASSWORD"])
        _await_dag(api)
        api.unpause(DATASET)
        run = api.trigger(DATASET, {})["dag_run_id"]
        stack.say(f"{DATASET}: {run}")
        state = _watch(api, run, stack)
        if state != "success":
            raise StackError(_complaint(api, run, stack))
        batch = api.returned(DATASET, run, "plan") if "publish" in _done(api, run) else None
    finally:
        api.close()
    return Ran(batch, show(stack))


def show(stack: Stack) -> list[dict[str, Any]]:
    """The published rows, by the command that shows them."""
    words = [sys.executable, "-c", "from onefold.cli import main; main()", "show", DATASET, "--json"]
    given = stack.services["airflow-scheduler"].environment
    done = subprocess.run(words, env=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise StackError(f"onefold show {DATASET} failed: {done.stderr.strip()}")
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def _await_dag(api: Api) -> None:
    deadline = time.monotonic() + READ_SECONDS
    while not api.has(DATASET):
        if time.monotonic() > deadline:
            raise StackError(f"the DAG {DATASET} was not read after {READ_SECONDS} s")
        time.sleep(0.5)


def _watch(api: Api, run: str, stack: Stack) -> str:
    """Print each task when it ends; return the state of the run at its end."""
    printed: set[str] = set()
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline:
        found = api.run(DATASET, run)
        for task in api.tasks(DATASET, run):
            name, state = task["task_id"], task["state"]
            if state in ("success", "failed", "skipped") and name not in printed:
                printed.add(name)
                seconds = f" in {task['duration']:.0f} s" if task["duration"] else ""
                stack.say(f"{DATASET}: {name}: {state}{seconds}")
        if found and found["state"] in ("success", "failed"):
            return str(found["state"])
        dead = [name for name, process in stack.files.standing().items() if process is None]
        if dead:
            raise StackError(f"{', '.join(dead)} ended; its log: {stack.files.log(dead[0])}")
        time.sleep(1)
    raise StackError(f"the run {run} has not ended after {RUN_SECONDS} s; see {stack.url}")


def _done(api: Api, run: str) -> list[str]:
    return [task["task_id"] for task in api.tasks(DATASET, run) if task["state"] == "success"]


def _complaint(api: Api, run: str, stack: Stack) -> str:
    failed = [task["task_id"] for task in api.tasks(DATASET, run) if task["state"] == "failed"]
    logs = stack.folder / "airflow" / "logs" / f"dag_id={DATASET}" / f"run_id={run}"
    return f"{run} failed in {', '.join(failed)}; its logs: {logs}. The stack is still up; make stack-down ends it."
