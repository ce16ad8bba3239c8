"""What the benchmarks share: each job a process of its own, in turn; medians and ratios of one run."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

Found = dict[str, list[dict[str, float]]]
"""Per job, what each round measured: `seconds`, `peak_mb` and figures of the benchmark's own."""


def run_job(module: str, job: str, folder: Path, *words: str) -> dict[str, float]:
    """Run one job of a benchmark; what it measured, printed by it as the last line."""
    command = [sys.executable, "-m", module, "--job", job, "--folder", str(folder), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{job} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])  # type: ignore[no-any-return]


def print_medians(console: Console, found: Found, base: str, figure: str, title: str) -> None:
    """A line a job: its median, its ratio to `base`, its highest peak, and one figure that all must agree on."""
    against = median_of(found[base])
    table = Table(title="median of the rounds", title_justify="left")
    for name in ("job", "seconds", f"against {base}", "peak memory, MB", title):
        table.add_column(name, justify="left" if name == "job" else "right")
    for job, runs in found.items():
        median = median_of(runs)
        peak = max(run["peak_mb"] for run in runs)
        table.add_row(job, f"{median:.1f}", f"{median / against:.2f}", f"{peak:,.0f}", f"{runs[0][figure]:,.0f}")
    console.print(table)


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
