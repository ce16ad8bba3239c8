"""Dedup side by side: Onefold's step, a plain Spark job, and DuckDB, on the same bytes in one run.

`onefold` has one identity level, `all_levels` all four. These add the narrower reasons, the sequence rule of every
producer, and the search for identities that two messages share. The exit code is 1 if they take more than 1.5 times
as long.

    python -m benchmarks.dedup [--rows 10000000] [--rounds 3]
    python -m benchmarks.dedup --parts [all_levels] [--rows 1000000]

With `--parts`, the step runs to the end of each of its parts, and the output has what each part adds.

The input is a kcat export: `rows` records, 20 % of them sent twice, payloads of about 150 bytes. The plain job is
the usual solution: `from_json` of line and payload, which is not strict, the first record of each id by one
`row_number`, and an Iceberg table. DuckDB decodes the same fields, keeps the first of each id and writes Parquet.

Every job is a process of its own, in turn. The output has medians and ratios, each job's peak memory, and the shuffled
bytes and memory of Spark's tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from benchmarks.side_by_side import Found, event_log, jvm_peak, median_of, print_medians, print_tasks, run_job, watched

JOBS = ("onefold", "all_levels", "plain_spark", "duckdb")
DATASET = """
name: bench
source:
  exports: {path: export/, layout: kcat, origin: {cluster: bench, incarnation: 1}}
value:
  format: json
  fields: {id: string, account: string, seq: long, amount: "decimal(18,2)", note: string, at: timestamp}
identity: {message_id: id}
apply: {mode: append}
target: {table: bench.rows, buckets: 8}
"""
ALL_LEVELS = DATASET.replace("name: bench\n", "name: all_levels\n").replace(
    "{message_id: id}", "{producer: {name: account, sequence: seq}, message_id: id, business_key: [account, seq]}"
)
DATASETS = {"onefold": "bench", "all_levels": "all_levels"}
"""Name of the dataset by job."""
MOST = 1.5
"""The limit of all levels' time, as a multiple of one level's time."""
EVENTS = "events"
"""Spark's event logs, below the scratch folder."""
MEMORY = "3g"
"""Heap of each Spark job; with the JVM's other memory, the aim is 4 GB resident."""


def generate(folder: Path, rows: int) -> None:
    """Write the export in eight files; every fifth record is a copy of an earlier one, at a later offset."""
    folder.mkdir(parents=True)
    filler = "lorem ipsum dolor sit amet consectetur adipiscing"
    per_file = rows // 8
    for number in track(range(8), description=f"generating {rows:,} records"):
        with (folder / f"part-{number}.jsonl").open("w") as file:
            for offset in range(number * per_file, (number + 1) * per_file):
                source = (offset * 7919) % max(offset, 1) if offset % 5 == 4 else offset
                payload = (
                    f'{{\\"id\\":\\"m-{source:010d}\\",\\"account\\":\\"a-{source % 997}\\",'
                    f'\\"seq\\":{source},\\"amount\\":'
                    f'{source % 10007}.{source % 100:02d},\\"note\\":\\"{filler}\\",'
                    f'\\"at\\":\\"2026-01-01T{source % 24:02d}:{source % 60:02d}:00Z\\"}}'
                )
                file.write(
                    f'{{"topic":"bench","partition":0,"offset":{offset},"tstype":"create",'
                    f'"ts":{1767225600000 + offset},"broker":0,"key":null,"payload":"{payload}"}}\n'
                )


def onefold(folder: Path, name: str = "bench") -> dict[str, float]:
    """The dedup step as shipped, on a landed batch."""
    from onefold.dataset import load_dataset
    from onefold.landing.land import land_batch, plan_batch
    from spark_jobs import dedup

    lake, session = _session(folder, "onefold")
    dataset = load_dataset(folder / "datasets" / f"{name}.yaml")
    plan = plan_batch(lake, dataset, export=str(folder / "export"))
    land_batch(lake, dataset, plan.batch)
    staged, measured = watched(folder / EVENTS, lambda: dedup.run(session, lake, dataset, plan.batch))
    kept = session.table(staged.table).where("_survivor").count()
    return measured | {"peak_mb": jvm_peak(session), "records": staged.records, "kept": kept}


PARTS = ("read", "decode", "identify", "choose", "write")
"""The parts of the step: the envelope of each record; declared fields; identity and digests; survivors, by the one
exchange, a sort and windows; the staging table. The whole step counts that table then."""


def until(folder: Path, part: str, name: str = "bench") -> dict[str, float]:
    """The dedup step to the end of a part, whose rows are not written; `write` writes them."""
    from onefold.dataset import load_dataset
    from onefold.dedup.identity import identify
    from onefold.dedup.staging import needed, slots_for, staged_columns, write_staging
    from onefold.dedup.survivors import choose_survivors
    from onefold.landing.land import land_batch, manifest_of, plan_batch
    from onefold.records.landed_objects import objects_named
    from onefold.records.read import read_records
    from onefold.spark.codegen import sized
    from onefold.values.decode import decode

    lake, session = _session(folder, f"until-{part}")
    dataset = load_dataset(folder / "datasets" / f"{name}.yaml")
    plan = plan_batch(lake, dataset, export=str(folder / "export"))
    land_batch(lake, dataset, plan.batch)
    manifest = manifest_of(lake, dataset, plan.batch)

    def run() -> None:
        with sized(session, manifest.size), objects_named(manifest):
            records = read_records(session, lake, dataset, manifest)
            if part != "read":
                records = decode(records, dataset)
            if part in PARTS[2:]:
                records = needed(identify(records, dataset), dataset)
            if part in PARTS[3:]:
                judged = choose_survivors(records, dataset, slots_for(manifest, dataset.target.buckets))
                records = staged_columns(judged, dataset)
            if part == "write":
                write_staging(records, dataset, "bench")
            else:
                records.write.format("noop").mode("overwrite").save()

    _, measured = watched(folder / EVENTS, run)
    return measured | {"peak_mb": jvm_peak(session), "records": manifest.size, "kept": 0}


def print_parts(console: Console, found: Found) -> None:
    """Print a line per part: the seconds to its end, and those that it adds; medians."""
    table = Table(title="parts of the step, median of the rounds", title_justify="left")
    for name in ("part", "seconds to its end", "adds"):
        table.add_column(name, justify="left" if name == "part" else "right")
    before = 0.0
    for part, runs in found.items():
        median = median_of(runs)
        table.add_row(part, f"{median:.1f}", f"{median - before:.1f}")
        before = median
    console.print(table)


def all_levels(folder: Path) -> dict[str, float]:
    """The same with every identity level declared."""
    return onefold(folder, "all_levels")


def plain_spark(folder: Path) -> dict[str, float]:
    """The usual job of a user: `from_json` of line and payload, one `row_number`, an Iceberg table."""
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    from onefold.spark.iceberg_tables import ensure_namespace

    _, session = _session(folder, "plain")
    line = "topic string, partition int, offset bigint, ts bigint, payload string"
    payload = "id string, account string, seq bigint, amount decimal(18,2), note string, at timestamp"

    def plain() -> None:
        lines = session.read.text(str(folder / "export")).select(F.from_json("value", line).alias("line"))
        records = lines.select("line.*", F.from_json("line.payload", payload).alias("record"))
        order = Window.partitionBy("record.id").orderBy("ts", "topic", "partition", "offset")
        kept = records.withColumn("number", F.row_number().over(order)).where("number = 1")
        ensure_namespace(session, "bench")
        kept.select("record.*", "topic", "partition", "offset", "ts").writeTo("onefold.bench.plain").using(
            "iceberg"
        ).createOrReplace()

    _, measured = watched(folder / EVENTS, plain)
    return measured | {
        "peak_mb": jvm_peak(session),
        "records": session.read.text(str(folder / "export")).count(),
        "kept": session.table("onefold.bench.plain").count(),
    }


def duckdb(folder: Path) -> dict[str, float]:
    """The same fields and the same choice in DuckDB, written as Parquet."""
    import resource

    import duckdb as engine

    con = engine.connect()
    con.execute(f"SET memory_limit='{MEMORY}B'; SET temp_directory='{folder}/duckdb'")
    begin = time.perf_counter()
    con.execute(
        f"""
        COPY (
          SELECT payload->>'id' AS id, payload->>'account' AS account, (payload->>'amount')::decimal(18,2) AS amount,
                 payload->>'note' AS note, (payload->>'at')::timestamptz AS at, topic, "partition", "offset", ts
          FROM read_ndjson('{folder}/export/*.jsonl', columns={{topic: 'VARCHAR', "partition": 'INT',
               "offset": 'BIGINT', ts: 'BIGINT', payload: 'VARCHAR'}})
          QUALIFY row_number() OVER (PARTITION BY payload->>'id' ORDER BY ts, topic, "partition", "offset") = 1
        ) TO '{folder}/duckdb.parquet' (FORMAT parquet, COMPRESSION zstd)
        """
    )
    seconds = time.perf_counter() - begin
    kept = con.execute(f"SELECT count(*) FROM '{folder}/duckdb.parquet'").fetchone()
    lines = f"read_csv('{folder}/export/*.jsonl', delim='\x01', quote='', header=false, columns={{'l': 'VARCHAR'}})"
    records = con.execute(f"SELECT count(*) FROM {lines}").fetchone()
    assert kept is not None
    assert records is not None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mb": peak, "records": records[0], "kept": kept[0]}


def _session(folder: Path, name: str):  # type: ignore[no-untyped-def]
    from onefold.lake import Lake
    from onefold.settings import Settings
    from onefold.spark.session import open_session

    conf = {"spark.driver.memory": MEMORY} | event_log(folder / EVENTS)
    lake = Lake(Settings(home=folder, lake=f"lake-{name}", spark_conf=conf))
    return lake, open_session(lake, name)


def main() -> int:
    """Generate once, run every job `rounds` times in turn, print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="records in the export")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each job")
    parts = "how long each part of the step takes, with one level or with all"
    parser.add_argument("--parts", nargs="?", const="onefold", choices=DATASETS, help=parts)
    of_parts = (f"{part}:{job}" for job in DATASETS for part in PARTS)
    parser.add_argument("--job", choices=(*JOBS, *of_parts), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        part, _, of = args.job.partition(":")
        job = partial(until, part=part, name=DATASETS[of]) if of else globals()[part]
        print(json.dumps(job(args.folder)))
        return 0
    console = Console()
    with tempfile.TemporaryDirectory(prefix="onefold-bench-") as scratch:
        folder = Path(scratch)
        (folder / "datasets").mkdir()
        (folder / "datasets" / "bench.yaml").write_text(DATASET)
        (folder / "datasets" / "all_levels.yaml").write_text(ALL_LEVELS)
        generate(folder / "export", args.rows)
        size = sum(path.stat().st_size for path in (folder / "export").iterdir())
        console.print(f"{args.rows:,} records, {size / 1e9:.2f} GB; {os.cpu_count()} cores")
        jobs = (*(f"{part}:{args.parts}" for part in PARTS), args.parts) if args.parts else JOBS
        found: Found = {job: [] for job in jobs}
        for number in range(args.rounds):
            for job in jobs:
                found[job].append(run_job("benchmarks.dedup", job, folder))
                console.print(f"round {number + 1}: {job:<20} {found[job][-1]['seconds']:8.1f} s")
                for left in (*folder.glob("lake-*"), folder / "duckdb", folder / "duckdb.parquet"):
                    shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
    if args.parts:
        print_parts(console, found)
        return 0
    kept = {runs[0]["kept"] for runs in found.values()}
    if len(kept) != 1:
        console.print(f"the jobs disagree on the rows kept: {kept}")
        return 1
    print_medians(console, found, "plain_spark", "kept", "rows kept")
    print_medians(console, found, "duckdb", "kept", "rows kept", "the same, against DuckDB")
    print_tasks(console, found, args.rows)
    ratio = median_of(found["all_levels"]) / median_of(found["onefold"])
    console.print(f"all levels against one: {ratio:.2f} (at most {MOST})")
    return int(ratio > MOST)


if __name__ == "__main__":
    sys.exit(main())
