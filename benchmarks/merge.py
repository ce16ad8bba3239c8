"""Merging a batch into a large table, side by side: Onefold's upsert, a copy-on-write MERGE, and Delta Lake's MERGE.

    python -m benchmarks.merge [--batch 1000000] [--table 10000000] [--rounds 3]
    python -m benchmarks.merge --curve 1000000 10000000 50000000 [--batch 100000]

The table has one row per key. Four fifths of the batch are newer versions of keys from the whole table, one fifth are
new keys. Every job starts with the table and with the batch as its own previous step leaves it (Onefold's staging; a
table of decoded rows with one row per key for the others), and ends when a reader could see the rows. For Onefold that
is the whole step upsert: the look-up, the actions, a verdict for every record, the accounts, the commit record and the
merge on the branch; for the others, in a Spark session with default settings, it is one guarded MERGE:

    WHEN MATCHED AND s.seq > t.seq THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *

With `--curve`, Onefold alone upserts one batch into tables of several sizes: with keys from the whole table, and
(`within`) with keys from its newest day, where `identity.within` bounds the look-up. A day has as many rows as the
batch.

Every job is a process of its own, in turn. The output has medians and ratios, each job's peak memory, and the shuffled
bytes and memory of the tasks of Onefold's upsert. Side by side each job runs twice, the second time on the same table
and batch, and both times are printed: the first includes the JVM's compilation, which on few cores is a large part of
a minute's work; the second is the merge itself. (Peak memory is that of both.)
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import track

from benchmarks.side_by_side import Found, event_log, jvm_peak, print_medians, print_tasks, run_job, watched

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

JOBS = ("onefold", "copy_on_write", "delta")
DELTA = "io.delta:delta-spark_4.1_2.13:4.4.0"
EVENTS = "events"
"""Spark's event logs, below the scratch folder."""
MEMORY = "3g"
DATASET = """
name: bench
source:
  exports: {path: export/, layout: kcat, origin: {cluster: bench, incarnation: 1}, holes: compacted}
value:
  format: json
  fields: {id: string, seq: long, amount: "decimal(18,2)", note: string, at: timestamp}
apply: {mode: upsert, key: [id], version: {from: seq}}
target: {table: bench.rows, buckets: 8}
"""
WITHIN = DATASET.replace("apply:", "identity: {within: day(at)}\napply:")
AT_ONCE = 5_000_000
"""Rows of the table that are written at once: each day has its own files."""
NOTE = 6
"""Number of digests of 32 characters in a row's note. Every row has another note, as with real payload."""
DAY = 86_400


def generate(folder: Path, batch: int, table: int, *, newest: bool) -> None:
    """The batch as an export of kcat, in eight files; `newest`: its known keys are of the last day only.

    A day has as many rows as the batch.
    """
    folder.mkdir(parents=True)
    low = table - batch if newest else 0
    known, step = batch * 4 // 5, 7_368_787  # a prime: every key occurs once
    per_file = batch // 8
    for number in track(range(8), description=f"generating {batch:,} records"):
        with (folder / f"part-{number}.jsonl").open("w") as file:
            for offset in range(number * per_file, (number + 1) * per_file):
                key = low + offset * step % (table - low) if offset < known else table + offset
                day = min(key, table - 1) // batch
                payload = (
                    f'{{\\"id\\":\\"k-{key:012d}\\",\\"seq\\":2,\\"amount\\":{key % 10007}.{key % 100:02d},'
                    f'\\"note\\":\\"{_note(key)}\\",\\"at\\":\\"{_day(day)}\\"}}'
                )
                file.write(
                    f'{{"topic":"bench","partition":0,"offset":{offset},"tstype":"create","ts":1767225600000,'
                    f'"broker":0,"key":null,"payload":"{payload}"}}\n'
                )


def _note(key: int) -> str:
    """The note of a newer version; `standing` makes those of the older versions."""
    return "".join(hashlib.md5(f"2-{part}-{key}".encode()).hexdigest() for part in range(NOTE))


def _day(number: int) -> str:
    return time.strftime("%Y-%m-%dT00:00:00Z", time.gmtime(1_767_225_600 + number * DAY))


def standing(session: SparkSession, start: int, end: int, batch: int) -> DataFrame:
    """Rows of the table before the batch, by number: the fields."""
    from pyspark.sql import functions as F

    key = F.col("id")
    day = F.floor(key / batch).cast("bigint")
    return session.range(start, end).select(
        F.concat(F.lit("k-"), F.lpad(key.cast("string"), 12, "0")).alias("id"),
        F.lit(1).cast("bigint").alias("seq"),
        ((key % 10007) + (key % 100) / 100).cast("decimal(18,2)").alias("amount"),
        F.concat(*(F.md5(F.concat_ws("-", F.lit(f"1-{part}"), key.cast("string"))) for part in range(NOTE))).alias(
            "note"
        ),
        F.timestamp_seconds(F.lit(1_767_225_600) + day * DAY).alias("at"),
    )


def onefold(folder: Path, table: int, batch: int, again: bool, name: str = "bench") -> dict[str, float]:
    """The upsert step as shipped, on a staged batch."""
    from pyspark.sql import functions as F

    from onefold.dataset import load_dataset
    from onefold.dedup.identity import identify
    from onefold.iceberg.commits import RECORD_PROPERTY, ROOT
    from onefold.landing.land import land_batch, plan_batch
    from onefold.records import envelope as E
    from onefold.spark.flat_structs import laid_flat, read_flat
    from onefold.spark.slots import in_slots
    from onefold.tables import state as S
    from onefold.tables.names import branch_table, state_table
    from onefold.upsert.state import ensure_state
    from onefold.values.decode import DELETED, FILTERED, REJECTED, TOMBSTONE
    from onefold.values.rejection import REJECTED_TYPE
    from onefold.vocabulary import RowState
    from spark_jobs import dedup, upsert

    lake, session = _session(folder, name)
    dataset = load_dataset(folder / "datasets" / f"{name}.yaml")
    plan = plan_batch(lake, dataset, export=str(folder / f"export-{name}"))
    land_batch(lake, dataset, plan.batch)
    staged = dedup.run(session, lake, dataset, plan.batch)
    ensure_state(session, lake, dataset, read_flat(session, staged.table))
    # The state after a first batch of this size, made directly.
    given = {column: F.lit(None) for column in E.ENVELOPE} | {
        E.TIMESTAMP: F.lit(0).cast("bigint"), E.CLUSTER: F.lit("bench"), E.TOPIC: F.lit("bench"),
        E.INCARNATION: F.lit(1), E.PARTITION: F.lit(1), E.OFFSET: F.monotonically_increasing_id(),
        E.FATE: F.lit(None).cast("string"),
        DELETED: F.lit(False), FILTERED: F.lit(False), TOMBSTONE: F.lit(False),
        REJECTED: F.lit(None).cast(REJECTED_TYPE), S.STATE: F.lit(RowState.LIVE),
    }  # fmt: skip
    columns = session.table(state_table(dataset)).schema
    for start in range(0, table, AT_ONCE):
        some = standing(session, start, min(table, start + AT_ONCE), batch).withColumns(given)
        rows = laid_flat(in_slots(identify(some, dataset), dataset, 1))
        known = (
            F.col(column.name) if column.name in rows.columns else F.lit(None).cast(column.dataType)
            for column in columns
        )
        written = rows.select(*(of.alias(column.name) for of, column in zip(known, columns, strict=True)))
        written.writeTo(state_table(dataset)).option(f"snapshot-property.{RECORD_PROPERTY}", ROOT).append()
    done, measured = watched(folder / EVENTS, lambda: upsert.run(session, lake, dataset, plan.batch))
    seconds = [measured["seconds"]]
    if again:  # nothing is published: another attempt finds the same base
        begin = time.perf_counter()
        done = upsert.run(session, lake, dataset, plan.batch)
        seconds.append(time.perf_counter() - begin)
    rows = session.table(branch_table(dataset, done.branch)).where("_state = 'live'")
    return measured | _measured(session, seconds, rows)


def within(folder: Path, table: int, batch: int, again: bool) -> dict[str, float]:
    """The same with `identity.within`, and a batch of one period."""
    return onefold(folder, table, batch, again, "within")


def copy_on_write(folder: Path, table: int, batch: int, again: bool) -> dict[str, float]:
    """An Iceberg table with default settings: MERGE rewrites the files in which a row changes."""
    from onefold.spark.jars import jars

    session = _plain_session(
        "copy_on_write",
        {
            "spark.jars": ",".join(str(jar) for jar in jars("spark") if "iceberg" in jar.name),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.plain": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.plain.type": "hadoop",
            "spark.sql.catalog.plain.warehouse": str(folder / "lake-iceberg"),
        },
    )

    def make() -> None:
        standing(session, 0, table, batch).writeTo("plain.bench.rows").using("iceberg").create()

    return _merged(session, folder, "plain.bench.rows", make, again)


def delta(folder: Path, table: int, batch: int, again: bool) -> dict[str, float]:
    """A Delta table with default settings."""
    session = _plain_session(
        "delta",
        {
            "spark.jars.packages": DELTA,
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.warehouse.dir": str(folder / "lake-delta"),
        },
    )

    def make() -> None:
        standing(session, 0, table, batch).write.format("delta").saveAsTable("rows")

    return _merged(session, folder, "rows", make, again)


def _plain_session(name: str, settings: dict[str, str]) -> SparkSession:
    """Spark with default settings and Onefold's amount of memory."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[*]").appName(name)
    given = {
        "spark.driver.memory": MEMORY,
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.showConsoleProgress": "false",
    }
    for key, value in (given | settings).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _merged(session: SparkSession, folder: Path, table: str, make: Callable[[], None], again: bool) -> dict[str, float]:
    """Make the table and decode the batch, untimed, then merge it, timed; `again` into a new copy of the table."""
    make()
    fields = "id string, seq bigint, amount decimal(18,2), note string, at timestamp"
    lines = session.read.json(str(folder / "export-bench"), "payload string")
    decoded = lines.selectExpr(f"from_json(payload, '{fields}') AS decoded").select("decoded.*")
    decoded.write.mode("overwrite").parquet(str(folder / "lake-decoded"))
    session.read.parquet(str(folder / "lake-decoded")).createOrReplaceTempView("batch")
    seconds = []
    for number in range(2 if again else 1):
        if number:
            session.sql(f"DROP TABLE {table}")
            make()
        begin = time.perf_counter()
        session.sql(
            f"MERGE INTO {table} t USING batch s ON t.id = s.id WHEN MATCHED AND s.seq > t.seq THEN UPDATE SET * "
            "WHEN NOT MATCHED THEN INSERT *"
        )
        seconds.append(time.perf_counter() - begin)
    return _measured(session, seconds, session.table(table))


def _measured(session: SparkSession, seconds: list[float], rows: DataFrame) -> dict[str, float]:
    totals = rows.selectExpr("count(*) AS rows", "sum(seq) AS versions").first()
    assert totals is not None
    return {
        "seconds": seconds[0],
        "again": seconds[-1],
        "peak_mb": jvm_peak(session),
        "rows": totals["rows"],
        "versions": totals["versions"],
    }


def _session(folder: Path, name: str) -> tuple[Any, Any]:
    from onefold.lake import Lake
    from onefold.settings import Settings
    from onefold.spark.session import open_session

    conf = {"spark.driver.memory": MEMORY} | event_log(folder / EVENTS)
    lake = Lake(Settings(home=folder, lake=f"lake-{name}", spark_conf=conf))
    return lake, open_session(lake, name)


def main() -> int:
    """Generate once, run every job `rounds` times in turn, print medians and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, help="records in the batch [1,000,000; with --curve 100,000]")
    parser.add_argument("--table", type=int, default=10_000_000, help="rows in the table")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each job")
    parser.add_argument("--curve", type=int, nargs="+", metavar="ROWS", help="Onefold alone, tables of these sizes")
    parser.add_argument("--job", choices=(*JOBS, "within"), help=argparse.SUPPRESS)
    parser.add_argument("--again", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.job:
        print(json.dumps(globals()[args.job](args.folder, args.table, args.batch, args.again)))
        return 0
    batch = args.batch or (100_000 if args.curve else 1_000_000)
    console = Console()
    if not args.curve:
        found = _side_by_side(console, JOBS, batch, args.table, args.rounds, again=True)
        if len({(run["rows"], run["versions"]) for runs in found.values() for run in runs}) != 1:
            console.print(f"the jobs disagree on the rows: {found}")
            return 1
        print_medians(console, found, "copy_on_write", "rows", "rows", "from a cold start, median of the rounds")
        second = {job: [run | {"seconds": run["again"]} for run in runs] for job, runs in found.items()}
        print_medians(console, second, "copy_on_write", "rows", "rows", "the same again in the same process")
        print_tasks(console, found, batch)
        return 0
    curve: Found = {}
    for size in args.curve:
        for job, runs in _side_by_side(console, ("onefold", "within"), batch, size, args.rounds).items():
            curve[f"{'random keys' if job == 'onefold' else job}, {size:,}"] = runs
    for first in list(curve)[:2]:
        print_medians(
            console, {name: runs for name, runs in curve.items() if name[0] == first[0]}, first, "rows", "rows"
        )
    print_tasks(console, curve, batch)
    return 0


def _side_by_side(
    console: Console, jobs: tuple[str, ...], batch: int, table: int, rounds: int, *, again: bool = False
) -> Found:
    with tempfile.TemporaryDirectory(prefix="onefold-bench-") as scratch:
        folder = Path(scratch)
        (folder / "datasets").mkdir()
        for name, text in (("bench", DATASET), ("within", WITHIN.replace("name: bench", "name: within"))):
            (folder / "datasets" / f"{name}.yaml").write_text(text)
        generate(folder / "export-bench", batch, table, newest=False)
        if "within" in jobs:
            generate(folder / "export-within", batch, table, newest=True)
        console.print(f"{batch:,} records into {table:,} rows; {os.cpu_count()} cores")
        found: Found = {job: [] for job in jobs}
        for number in range(rounds):
            for job in jobs:
                words = ["--table", str(table), "--batch", str(batch), *(["--again"] if again else [])]
                found[job].append(run_job("benchmarks.merge", job, folder, *words))
                measured = found[job][-1]
                second = f", again {measured['again']:.1f} s" if again else ""
                console.print(f"round {number + 1}: {job:<14} {measured['seconds']:8.1f} s{second}")
                for left in folder.glob("lake-*"):
                    shutil.rmtree(left, ignore_errors=True)
    return found


if __name__ == "__main__":
    sys.exit(main())
