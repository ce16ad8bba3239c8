"""A small batch from command to report: Onefold's whole pipeline, and a bare Spark job that only folds duplicates.

    python -m benchmarks.small_batch [--rows 1000] [--rounds 3]

Each is a process of its own, in turn, interpreter and JVM included. Onefold lands, folds, merges, gates, publishes
and reports; the bare job reads the same kcat lines, keeps the first of each id by `row_number`, and writes Parquet.
Medians, their ratio and the share of each of Onefold's steps are printed. `make classes` makes Onefold's JVM start
faster.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.side_by_side import Found, jvm_peak, print_medians, run_job
from onefold.processes import end_soon

JOBS = ("onefold", "bare")
DATASET = """
name: bench
source: {exports: {path: exports/, layout: kcat, origin: {cluster: bench, incarnation: 1}}}
value: {fields: {id: string, account: string, amount: "decimal(18,2)", at: timestamp}}
identity: {message_id: id}
apply: {mode: append}
target: {table: bench.rows, buckets: 4}
quality: {max_duplicate_rate: 1.0}
"""


def generate(folder: Path, rows: int) -> None:
    """One export object; every fifth record is a duplicate."""
    (folder / "exports").mkdir()
    (folder / "bench.yaml").write_text(DATASET)
    with (folder / "exports" / "a.jsonl").open("w") as file:
        for offset in range(rows):
            number = offset - offset % 5 // 4
            value = {"id": f"m-{number}", "account": f"a-{number % 97}", "amount": f"{number / 100:.2f}"}
            value |= {"at": f"2026-03-01T{number % 24:02}:00:00Z"}
            line = {"topic": "t", "partition": 0, "offset": offset, "tstype": "create", "ts": 1_772_323_200_000}
            file.write(json.dumps(line | {"broker": 1, "key": None, "payload": json.dumps(value)}) + "\n")


def onefold(folder: Path) -> dict[str, float]:
    """The steps of `onefold run`, with the time of each."""
    from onefold.dataset import load_dataset
    from onefold.lake import Lake
    from onefold.landing.land import plan_batch
    from onefold.operations.in_process import InProcess
    from onefold.operations.job_size import all_small
    from onefold.operations.run import run_batch
    from onefold.settings import Settings

    marks: list[tuple[str, float]] = [("plan", time.perf_counter())]

    def say(step: str) -> None:
        marks.append((step, time.perf_counter()))

    with tempfile.TemporaryDirectory(dir=folder) as own:
        lake = Lake(Settings(home=folder, lake=f"{own}/lake"))
        dataset = load_dataset(folder / "bench.yaml")
        plan = plan_batch(lake, dataset)
        say("session")
        spark = InProcess(lake, all_small(lake, dataset, [plan]))
        session = spark.session
        end = run_batch(lake, dataset, plan, spark, say)
        say("")
        assert end.published, end.red
        steps = {name: after - at for (name, at), (_, after) in pairwise(marks)}
        kept = end.published.counts["applied"]["insert"]
        return {
            "peak_mb": jvm_peak(session),
            "rows": float(kept),
            **{f"step {name}": took for name, took in steps.items()},
        }


def bare(folder: Path) -> dict[str, float]:
    """A session with Spark's own settings and one job."""
    from pyspark.sql import SparkSession, Window
    from pyspark.sql import functions as F

    session = SparkSession.builder.master("local[*]").config("spark.ui.enabled", "false").getOrCreate()
    with tempfile.TemporaryDirectory(dir=folder) as own:
        lines = session.read.json(str(folder / "exports"))
        value = F.from_json("payload", "id string, account string, amount decimal(18,2), at timestamp").alias("value")
        rows = lines.select("partition", "offset", value).select("partition", "offset", "value.*")
        first = F.row_number().over(Window.partitionBy("id").orderBy("partition", "offset")) == 1
        rows.withColumn("first", first).where("first").drop("first").write.parquet(f"{own}/out")
        return {"peak_mb": jvm_peak(session), "rows": float(session.read.parquet(f"{own}/out").count())}


def print_shares(console: Console, runs: list[dict[str, float]]) -> None:
    """The median of each step, and its share of the whole."""
    whole = statistics.median(run["seconds"] for run in runs)
    table = Table(title="where the time goes", title_justify="left")
    for name in ("step", "seconds", "share"):
        table.add_column(name, justify="left" if name == "step" else "right")
    names = [name for name in runs[0] if name.startswith("step ")]
    took = {name.removeprefix("step "): statistics.median(run[name] for run in runs) for name in names}
    for name, seconds in {**took, "start and end of the process": whole - sum(took.values())}.items():
        table.add_row(name, f"{seconds:.1f}", f"{seconds / whole:.0%}")
    console.print(table)


def main() -> int:
    """Generate once, run every job `rounds` times in turn, print medians, ratio and shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000, help="records in the export")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each job")
    for name, kind in (("job", str), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        end_soon()  # as the command does
        print(json.dumps(globals()[args.job](args.folder)))
        return 0
    console = Console()
    with tempfile.TemporaryDirectory(prefix="onefold-bench-") as scratch:
        folder = Path(scratch)
        generate(folder, args.rows)
        found: Found = {job: [] for job in JOBS}
        for number in range(args.rounds):
            for job in JOBS:
                begin = time.perf_counter()
                run = run_job("benchmarks.small_batch", job, folder)
                found[job].append(run | {"seconds": time.perf_counter() - begin})
                console.print(f"round {number + 1}: {job:<12} {found[job][-1]['seconds']:8.1f} s")
    if len({run["rows"] for runs in found.values() for run in runs}) > 1:
        console.print("the jobs do not keep the same rows")
        return 1
    print_medians(console, found, "bare", "rows", "rows")
    print_shares(console, found["onefold"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
