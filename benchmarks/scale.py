"""One large batch through all steps, in a bounded heap: does it end, and is every row right?

    python -m benchmarks.scale [--rows 100000000] [--memory 8g] [--buckets 64] [--folder FOLDER]

An export of log segments (lz4, four partitions): `rows` records of about 120 bytes, a fifth of them sent before,
three tenths of them with one key, each a version of its own. They are landed, folded, upserted, gated, published and
reported by one driver whose heap is `memory`; Spark's tasks spill to the folder.

The rows are compared with the generator: their number, and the sum of the versions that must win. The output has the
seconds of each step, the peak of the JVM's memory, the memory and shuffles of the tasks, and the number of files.
There is no other job to compare with: the claim is that it ends and is right, not that it is fast.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy
from kafka.record.default_records import DefaultRecordBatchBuilder
from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.side_by_side import event_log, jvm_peak, print_tasks, run_job, watched

PARTITIONS = 4
SEGMENT = 2_500_000
"""Records of a segment."""
BATCH = 500
LZ4 = 3
HOT = 2
"""Of ten numbers as many are of one key; and half of what is sent again."""
DATASET = """
name: bench
source:
  exports: {{path: export/, layout: segments, origin: {{cluster: bench, incarnation: 1}}}}
value:
  format: json
  fields: {{id: string, account: string, seq: long, amount: "decimal(18,2)", at: timestamp}}
identity: {{message_id: id}}
apply: {{mode: upsert, key: [account], version: {{from: seq}}}}
target: {{table: bench.rows, buckets: {buckets}}}
quality: {{max_duplicate_rate: 1.0}}
"""
EVENTS = "events"


def sources(start: int, end: int) -> numpy.ndarray:
    """The content of the records of a range: their own number, or for every fifth the number of an earlier record."""
    numbers = numpy.arange(start, end)
    earlier = numbers - 4 - 10 * (numbers * 7919 % 1000)
    return numpy.where((numbers % 5 == 4) & (earlier >= 0), earlier, numbers)


def accounts(of: numpy.ndarray, rows: int) -> numpy.ndarray:
    """The key of a record: key 0 has three tenths of the records, the others have about five each."""
    return numpy.where(of % 10 < HOT, 0, 1 + of * 7_368_787 % max(1, rows // 7))


def write_segment(given: tuple[Path, int, int, int]) -> int:
    """One segment of a partition; its bytes."""
    folder, partition, start, rows = given
    end = min(start + SEGMENT, rows // PARTITIONS)
    path = folder / f"bench-{partition}" / f"{start:020d}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    said = sources(partition * (rows // PARTITIONS) + start, partition * (rows // PARTITIONS) + end)
    keys = accounts(said, rows)
    with path.open("wb") as file:
        for base in range(start, end, BATCH):
            made = DefaultRecordBatchBuilder(2, LZ4, False, -1, -1, -1, 1 << 30)
            for number in range(base, min(end, base + BATCH)):
                id_ = int(said[number - start])
                value = (
                    f'{{"id":"m-{id_:010d}","account":"a-{keys[number - start]}","seq":{id_},'
                    f'"amount":"{id_ % 10007}.{id_ % 100:02d}","at":"2026-01-01T{id_ % 24:02d}:{id_ % 60:02d}:00Z"}}'
                )
                made.append(number - base, 1_772_000_000_000 + number, None, value.encode(), [])
            file.write(base.to_bytes(8, "big") + made.build()[8:])
    return path.stat().st_size


def expected(rows: int) -> tuple[int, int]:
    """The expected table: its rows, and the sum of their versions."""
    top = numpy.full(rows // 7 + 2, -1, dtype=numpy.int64)
    for start in range(0, rows, SEGMENT):
        said = numpy.sort(sources(start, min(rows, start + SEGMENT)))
        numpy.maximum.at(top, accounts(said, rows), said)
    versions = top[top >= 0]
    return len(versions), int(versions.sum())


def whole(folder: Path, memory: str) -> dict[str, float]:
    """Plan to report in one driver."""
    from onefold.dataset import load_dataset
    from onefold.iceberg.state_table import StateTable
    from onefold.lake import Lake
    from onefold.landing.land import plan_batch
    from onefold.operations.in_process import InProcess
    from onefold.operations.run import run_batch
    from onefold.settings import Settings
    from onefold.tables.names import state_table

    conf = {"spark.driver.memory": memory, "spark.local.dir": str(folder / "spilled")} | event_log(folder / EVENTS)
    lake = Lake(Settings(home=folder, lake=str(folder / "lake"), spark_conf=conf))
    dataset = load_dataset(folder / "bench.yaml")
    marks = [("plan", time.perf_counter())]

    def say(step: str) -> None:
        marks.append((step, time.perf_counter()))
        print(f"{time.strftime('%H:%M:%S')} {step}", file=sys.stderr, flush=True)

    plan = plan_batch(lake, dataset)
    spark = InProcess(lake)
    session = spark.session
    end, measured = watched(folder / EVENTS, lambda: run_batch(lake, dataset, plan, spark, say))
    say("")
    assert end.published, end.red
    totals = (
        session.table(f"onefold.{dataset.target.table}").selectExpr("count(*) AS rows", "sum(seq) AS versions").first()
    )
    assert totals is not None
    table = state_table(dataset)
    files = session.sql(f"SELECT count(*) FROM {table}.files").first()
    assert files is not None
    steps = {name: after - at for (name, at), (_, after) in pairwise(marks)}
    return measured | {
        "peak_mb": jvm_peak(session),
        "rows": totals["rows"],
        "versions": totals["versions"],
        "files": files[0],
        "table_mb": StateTable(lake, dataset).size / 1e6,
        **{f"step {name}": took for name, took in steps.items()},
    }


def main() -> int:
    """Generate, run, compare the rows with the generator."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000_000, help="records in the export")
    parser.add_argument("--memory", default="8g", help="heap of the one driver that does all the work")
    parser.add_argument("--buckets", type=int, default=64, help="of the target")
    parser.add_argument("--folder", type=Path, help="where export, lake and spilled data go [a temporary one]")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        print(json.dumps(whole(args.folder, args.memory)))
        return 0
    console = Console()
    with tempfile.TemporaryDirectory(prefix="onefold-bench-", dir=args.folder) as scratch:
        folder = Path(scratch)
        (folder / "bench.yaml").write_text(DATASET.format(buckets=args.buckets))
        parts = range(0, args.rows // PARTITIONS, SEGMENT)
        segments = [(folder / "export", number, start, args.rows) for start in parts for number in range(PARTITIONS)]
        with multiprocessing.Pool() as pool:
            written = pool.imap_unordered(write_segment, segments)
            size = sum(track(written, total=len(segments), description=f"generating {args.rows:,} records"))
        console.print(f"{args.rows:,} records, {size / 1e9:.2f} GB in {len(segments)} segments; {os.cpu_count()} cores")
        found = run_job("benchmarks.scale", "whole", folder, "--memory", args.memory, heard=True)
    table = Table(title=f"a heap of {args.memory}", title_justify="left")
    for name in ("step", "seconds"):
        table.add_column(name, justify="left" if name == "step" else "right")
    for name, took in found.items():
        if name.startswith("step "):
            table.add_row(name.removeprefix("step "), f"{took:.1f}")
    console.print(table)
    console.print(f"peak memory of the JVM {found['peak_mb']:,.0f} MB; table {found['table_mb']:,.0f} MB")
    console.print(f"{found['files']:,.0f} files of the table, {args.buckets} buckets")
    print_tasks(console, {"whole": [found]}, args.rows)
    right = (found["rows"], found["versions"]) == expected(args.rows)
    console.print(f"{found['rows']:,.0f} rows, as they must be" if right else f"wrong rows: {found}")
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
