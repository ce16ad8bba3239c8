"""Reading log segments side by side: Onefold's reader and kafka-python's own iteration, over the same bytes.

    python -m benchmarks.segments [--rows 4000000] [--codec lz4] [--rounds 3]

One segment of `rows` records of about 150 bytes, a hundred per batch. `kafka-python` iterates `MemoryRecords` with its
checksums, as its consumer does; `scan` reads the headers with their checksums, as landing does; `parse` gives Arrow
columns from the chunks of that scan, as one task does; `one-core` and `two-cores` are the whole reader in Spark, into
a sink that keeps nothing. They are limited to their cores (JVM and Python workers together: a task is a thread of the
JVM and a process of Python, and would use more than a core). Their sessions are open, and their workers have run once,
before the clock starts.

Every job is a process of its own, in turn; medians and ratios are printed, and each job's peak memory (in Spark the
JVM's).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path

from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from rich.console import Console

from benchmarks.side_by_side import Found, jvm_peak, peak_of, print_medians, run_job

JOBS = ("kafka-python", "scan", "parse", "one-core", "two-cores")
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
BATCH = 100
NAME = "bench-0/00000000000000000000.log"


def write(folder: Path, rows: int, codec: str) -> None:
    """The segment."""
    path = folder / NAME
    path.parent.mkdir(parents=True)
    filler = "lorem ipsum dolor sit amet consectetur adipiscing elit sed do eiusmod tempor"
    with path.open("wb") as file:
        for base in range(0, rows, BATCH):
            made = DefaultRecordBatchBuilder(2, CODECS[codec], False, 7, 0, base, 1 << 30)
            for number in range(base, min(rows, base + BATCH)):
                value = f'{{"id":"m-{number:010d}","account":"a-{number % 99991}","note":"{filler}"}}'.encode()
                made.append(number - base, 1_772_000_000_000 + number, f"k-{number % 9973}".encode(), value, [])
            file.write(base.to_bytes(8, "big") + made.build()[8:])


def kafka_python(folder: Path) -> dict[str, float]:
    """A loop over its records."""
    data = (folder / NAME).read_bytes()
    begin, records = time.perf_counter(), 0
    batches = MemoryRecords(data)
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        for _ in batch:
            records += 1
    return {"seconds": time.perf_counter() - begin, "peak_mb": peak_of(), "records": records}


def scan(folder: Path) -> dict[str, float]:
    """The headers, as landing reads them."""
    from onefold.kafka.segment_index import scan as scan_headers
    from onefold.storage import open_storage

    store = open_storage(str(folder))
    begin = time.perf_counter()
    found = scan_headers(lambda start, end: store.read_range(NAME, start, end), (folder / NAME).stat().st_size, 0)
    records = sum(chunk.records for chunk in found.chunks)
    return {"seconds": time.perf_counter() - begin, "peak_mb": peak_of(), "records": records}


def parse(folder: Path) -> dict[str, float]:
    """The chunks of a scan as Arrow columns, one after the other."""
    from onefold.kafka.batch_records import parse as parse_batches
    from onefold.kafka.segment_index import scan as scan_headers
    from onefold.storage import open_storage

    store = open_storage(str(folder))

    def read(start: int, end: int) -> bytes:
        return store.read_range(NAME, start, end)

    chunks = scan_headers(read, (folder / NAME).stat().st_size, 0).chunks
    begin = time.perf_counter()
    records = sum(part.num_rows for chunk in chunks for part in parse_batches(read(chunk.start, chunk.end)))
    return {"seconds": time.perf_counter() - begin, "peak_mb": peak_of(), "records": records}


def _in_spark(folder: Path, cores: int) -> dict[str, float]:
    from onefold.dataset import Dataset
    from onefold.lake import Lake
    from onefold.landing.land import land_batch, plan_batch
    from onefold.records.read import count_landed, read_records
    from onefold.settings import Settings
    from onefold.spark.session import open_session

    dataset = Dataset.model_validate(
        {
            "name": "bench",
            "source": {"exports": {"path": str(folder), "layout": "segments", "origin": {"cluster": "c"}}},
            "value": {"fields": {"id": "string"}},
            "apply": {"mode": "append"},
            "target": {"table": "bench.rows"},
        }
    )
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    with tempfile.TemporaryDirectory() as own:
        lake = Lake(Settings(home=Path(own), lake=f"{own}/lake", spark_master=f"local[{cores}]"))
        manifest = land_batch(lake, dataset, plan_batch(lake, dataset).batch)
        session = open_session(lake, "bench")
        read_records(session, lake, dataset, manifest).limit(1).collect()
        begin = time.perf_counter()
        read_records(session, lake, dataset, manifest).write.format("noop").mode("overwrite").save()
        seconds = time.perf_counter() - begin
        records = count_landed(session, lake, dataset, manifest)
        return {"seconds": seconds, "peak_mb": jvm_peak(session), "records": records}


def one_core(folder: Path) -> dict[str, float]:
    """The reader on one core."""
    return _in_spark(folder, 1)


def two_cores(folder: Path) -> dict[str, float]:
    """The reader on two cores."""
    return _in_spark(folder, 2)


def main() -> int:
    """Write the segment once, run every job `rounds` times in turn, print medians, ratios and records a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000, help="records in the segment")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each job")
    parser.add_argument("--codec", choices=CODECS, default="lz4", help="how its batches are compressed")
    for name, kind in (("job", str), ("folder", Path)):
        parser.add_argument(f"--{name}", type=kind, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        print(json.dumps(globals()[args.job.replace("-", "_")](args.folder)))
        return 0
    console = Console()
    with tempfile.TemporaryDirectory(prefix="onefold-bench-") as scratch:
        folder = Path(scratch)
        write(folder, args.rows, args.codec)
        console.print(f"{(folder / NAME).stat().st_size:,} bytes, {args.codec}")
        found: Found = {job: [] for job in JOBS}
        for number in range(args.rounds):
            for job in JOBS:
                found[job].append(run_job("benchmarks.segments", job, folder))
                rate = args.rows / found[job][-1]["seconds"]
                console.print(
                    f"round {number + 1}: {job:<13} {found[job][-1]['seconds']:7.2f} s  {rate:12,.0f} a second"
                )
    if {run["records"] for runs in found.values() for run in runs} != {args.rows}:
        console.print("a job did not read every record")
        return 1
    print_medians(console, found, "kafka-python", "records", "records")
    return 0


if __name__ == "__main__":
    sys.exit(main())
