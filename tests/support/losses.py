"""Batches on a cluster whose executors are lost: `python … HOW DATASET BATCH…`; a JSON line of what each step met.

HOW is `killed`: in the middle of each step an executor that runs a task, and has ended one of the step, is killed; or
`frozen`: it stops for some seconds, and goes on when others have long done its work.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import psutil

from onefold.dataset import Dataset, find_dataset
from onefold.lake import Lake
from onefold.landing.plan import find_plan
from onefold.operations.in_process import InProcess
from onefold.operations.run import run_batch
from onefold.settings import load_settings

FROZEN_SECONDS = 10.0
REPORT_SECONDS = 0.5
"""After this time Spark's driver knows that a task has ended, even on a busy machine."""


class Losing(InProcess):
    """Launches steps, and loses an executor of each."""

    def __init__(self, lake: Lake, how: str) -> None:
        super().__init__(lake)
        self.how = how

    def run(self, step: str, dataset: Dataset, batch: str, attempt: str | None = None) -> Any:
        over, lost = threading.Event(), list[str]()
        store = self.session.sparkContext._jsc.sc().statusStore()  # type: ignore[union-attr]
        done = {executor.id(): executor.completedTasks() for executor in executors(store)}
        losing = threading.Thread(target=self._lose, args=(store, done, over, lost))
        losing.start()
        try:
            return super().run(step, dataset, batch, attempt)
        finally:
            over.set()
            losing.join()
            print(json.dumps({"step": step, "lost": lost[0] if lost else None}), flush=True)

    def _lose(self, store: Any, done: dict[str, int], over: threading.Event, lost: list[str]) -> None:
        while not lost and not over.wait(0.02):
            busy = (
                executor.id()
                for executor in executors(store)
                if executor.activeTasks() and executor.completedTasks() > done.get(executor.id(), 0)
            )
            if executor := next(busy, None):
                self._lose_one(store, executor, over, lost)

    def _lose_one(self, store: Any, executor: str, over: threading.Event, lost: list[str]) -> None:
        """Stop it first, so that its task is still there when it is lost; else let it go on."""
        process = process_of(self.session.sparkContext.applicationId, executor)
        if process is None:
            return
        process.suspend()
        over.wait(REPORT_SECONDS)
        if not any(state.activeTasks() for state in executors(store) if state.id() == executor):
            process.resume()
            return
        lost.append(executor)
        if self.how == "killed":
            process.kill()
            return
        over.wait(FROZEN_SECONDS)
        process.resume()


def executors(store: Any) -> Iterator[Any]:
    """What Spark knows of the living ones but the driver."""
    found = store.executorList(True)
    return (
        executor for executor in (found.apply(number) for number in range(found.size())) if executor.id() != "driver"
    )


def process_of(application: str, executor: str) -> psutil.Process | None:
    """An executor's JVM on this machine."""
    wanted = {"--app-id": application, "--executor-id": executor}
    for process in psutil.process_iter(["cmdline"]):
        words = process.info["cmdline"] or []
        if wanted.items() <= dict(pairwise(words)).items():
            return process
    return None


def main(words: list[str]) -> None:
    how, name, *batches = words
    lake = Lake(load_settings())
    spark = Losing(lake, how)
    dataset = find_dataset(lake.settings.datasets_folder, name)
    for batch in batches:
        done = run_batch(lake, dataset, find_plan(lake, dataset, batch), spark)
        assert done.red is None, done.red
    spark.close()


if __name__ == "__main__":
    main(sys.argv[1:])
