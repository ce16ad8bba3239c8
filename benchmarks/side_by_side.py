"""Shared code of the benchmarks: each job is a process of its own, in turn; medians and ratios of one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.table import Table

T = TypeVar("T")
Found = dict[str, list[dict[str, float]]]
"""Per job, the measurements of each round: `seconds`, `peak_mb` and the benchmark's own numbers."""


def run_job(module: str, job: str, folder: Path, *words: str, heard: bool = False) -> dict[str, float]:
    """Run one job of a benchmark; return its measurements, which it prints as the last line.

    With `heard` its progress, what it says on stderr, is let through as it comes: for a job of an hour.
    """
    command = [sys.executable, "-m", module, "--job", job, "--folder", str(folder), *words]
    stderr = None if heard else subprocess.PIPE
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=stderr, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{job} failed" + (f":\n{done.stderr[-3000:]}" if done.stderr else ""))
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def print_medians(
    console: Console, found: Found, base: str, figure: str, title: str, heading: str = "median of the rounds"
) -> None:
    """Print a line per job: its median, its ratio to `base`, its highest peak, and a number that is equal for all."""
    against = median_of(found[base])
    table = Table(title=heading, title_justify="left")
    for name in ("job", "seconds", f"against {base}", "peak memory, MB", title):
        table.add_column(name, justify="left" if name == "job" else "right")
    for job, runs in found.items():
        median = median_of(runs)
        peak = max(run["peak_mb"] for run in runs)
        table.add_row(job, f"{median:.1f}", f"{median / against:.2f}", f"{peak:,.0f}", f"{runs[0][figure]:,.0f}")
    console.print(table)


def print_tasks(console: Console, found: Found, records: int) -> None:
    """Print a line per job with the resources of its tasks (`watched`): the maximum of all rounds."""
    table = Table(title="Spark's tasks", title_justify="left")
    names = ("job", "tasks", "shuffled, bytes a record", "memory of a task at most, MB", "spilled to disk, MB")
    for name in names:
        table.add_column(name, justify="left" if name == "job" else "right")
    for job, runs in found.items():
        if "tasks" in runs[0]:
            most = {name: max(run[name] for run in runs) for name in ("tasks", "shuffled", "task_mb", "spilled_mb")}
            shuffled = most["shuffled"] / records
            table.add_row(
                job,
                f"{most['tasks']:,.0f}",
                f"{shuffled:,.0f}",
                f"{most['task_mb']:,.0f}",
                f"{most['spilled_mb']:,.0f}",
            )
    console.print(table)


def event_log(folder: Path) -> dict[str, str]:
    """Spark's settings for an event log of its own in a folder, for `watched`."""
    folder.mkdir(exist_ok=True)
    return {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": folder.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }


def watched(log: Path, step: Callable[[], T]) -> tuple[T, dict[str, float]]:
    """Run a step; return its result, its seconds, and the resources of its tasks by the newest event log of the folder.

    `tasks`; `shuffled`: the bytes that they wrote for others; `task_mb`: Spark's peak execution memory (the memory of
    sorts, aggregations and joins of one task), the maximum of all tasks; `spilled_mb`: bytes on disk.
    """
    at, begin = time.time(), time.perf_counter()
    done = step()
    seconds = time.perf_counter() - begin
    newest = max(log.iterdir(), key=lambda file: file.stat().st_mtime)
    with newest.open() as lines:
        ended = [json.loads(line) for line in lines if line.startswith('{"Event":"SparkListenerTaskEnd"')]
    metrics = [task["Task Metrics"] for task in ended if task["Task Info"]["Launch Time"] >= at * 1000 - 1]
    return done, {
        "seconds": seconds,
        "tasks": len(metrics),
        "shuffled": sum(metric["Shuffle Write Metrics"]["Shuffle Bytes Written"] for metric in metrics),
        "task_mb": max(metric["Peak Execution Memory"] for metric in metrics) / 1e6,
        "spilled_mb": sum(metric["Disk Bytes Spilled"] for metric in metrics) / 1e6,
    }


def median_of(runs: list[dict[str, float]]) -> float:
    """Seconds of a job's rounds, their median."""
    return statistics.median(run["seconds"] for run in runs)


def jvm_peak(session: Any) -> float:
    """The JVM's high-water mark of resident memory, in MB."""
    pid = session.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
    return peak_of(f"/proc/{pid}/status")


def peak_of(status: str = "/proc/self/status") -> float:
    """A process's high-water mark of resident memory, in MB."""
    lines = Path(status).read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
