"""How the ledger of messages grows: rows and bytes for each million messages.

    python -m benchmarks.messages [--rows 1000000] [--batches 4]

Updates of a tenth as many keys come in batches, each with an id of 36 letters and its offset as the version; every
twentieth is sent again. What is printed is of the published table's files: those of the ledger, and those of the rows.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import uuid
from pathlib import Path

from rich.console import Console
from rich.table import Table

from onefold.processes import end_soon

DATASET = """
name: bench
source: {exports: {path: exports/, layout: kcat, origin: {cluster: bench, incarnation: 1}}}
key: {format: string}
value: {fields: {amount: "decimal(18,2)", at: timestamp}}
identity: {message_id: header.id}
apply: {mode: upsert, key: [key], version: {from: offset}}
target: {table: bench.rows, buckets: 4}
quality: {max_duplicate_rate: 1.0}
"""


def generate(folder: Path, rows: int, batches: int) -> list[Path]:
    """An export folder a batch. The record before every twentieth one is sent again."""
    (folder / "bench.yaml").write_text(DATASET)
    folders = []
    for batch in range(batches):
        folders.append(folder / f"exports/{batch}")
        folders[-1].mkdir(parents=True)
        with (folders[-1] / "a.jsonl").open("w") as file:
            for offset in range(batch * rows // batches, (batch + 1) * rows // batches):
                number = offset - (offset % 20 == 19)
                value = {"amount": f"{number / 100:.2f}", "at": f"2026-03-01T{number % 24:02}:00:00Z"}
                headers = ["id", str(uuid.UUID(int=(number * 0x9E3779B97F4A7C15F39CC0605CEDC835) % 2**128))]
                line = {"topic": "t", "partition": 0, "offset": offset, "tstype": "create", "ts": 1_772_323_200_000}
                line |= {"broker": 1, "headers": headers, "key": f"k-{number * 7919 % (rows // 10)}"}
                file.write(json.dumps(line | {"payload": json.dumps(value)}) + "\n")
    return folders


def main() -> int:
    """Run the batches, then look at the files of the published table."""
    from onefold.dataset import load_dataset
    from onefold.iceberg.scan import EQUAL_TO
    from onefold.iceberg.state_table import StateTable
    from onefold.lake import Lake
    from onefold.landing.land import plan_batch
    from onefold.operations.in_process import InProcess
    from onefold.operations.job_size import all_small
    from onefold.operations.run import run_batch
    from onefold.settings import Settings
    from onefold.vocabulary import RowState

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="records in the exports")
    parser.add_argument("--batches", type=int, default=4)
    args = parser.parse_args()
    end_soon()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="onefold-bench-") as scratch:
        folder = Path(scratch)
        folders = generate(folder, args.rows, args.batches)
        lake, dataset = Lake(Settings(home=folder, lake=f"{scratch}/lake")), load_dataset(folder / "bench.yaml")
        plan = plan_batch(lake, dataset, export=str(folders[0]))
        spark = InProcess(lake, all_small(lake, dataset, [plan]))
        for number, export in enumerate(folders):
            end = run_batch(lake, dataset, plan_batch(lake, dataset, export=str(export)), spark)
            assert end.published, end.red
            console.print(f"batch {number + 1}: {end.published.counts}")
        table = StateTable(lake, dataset)
        shown = Table(title="files of the published table", title_justify="left")
        for name in ("", "rows", "bytes", "bytes a row"):
            shown.add_column(name, justify="right" if name else "left")
        for name, kind in (("ledger of messages", RowState.MESSAGE), ("rows", RowState.LIVE)):
            scan = table.scan(EQUAL_TO("_state", kind), ("_key",), table.main.snapshot)
            files = {task.file.file_path: task.file for task in scan.plan_files()}.values()
            rows, size = (sum(getattr(file, of) for file in files) for of in ("record_count", "file_size_in_bytes"))
            shown.add_row(name, f"{rows:,}", f"{size:,}", f"{size / max(rows, 1):.0f}")
        console.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
