"""Exports that arrive at the lake of the settings: `python … DATASET=FOLDER …`; a JSON line of each.

`maintain=DATASET` removes what attempts and old snapshots have left, of any age.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Any

from onefold.dataset import find_dataset
from onefold.iceberg.state_table import StateTable
from onefold.lake import Lake
from onefold.landing.land import plan_batch
from onefold.maintenance.keep import Keep
from onefold.operations.in_process import InProcess
from onefold.operations.launcher import Launcher
from onefold.operations.run import run_batch
from onefold.settings import load_settings

AT_ONCE = Keep(attempts=timedelta(0), snapshots=timedelta(0), generations=timedelta(0))


def arrive(lake: Lake, launcher: Launcher, words: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Fold each export that `words` name, or maintain a dataset; how each ended."""
    for word in words:
        name, _, folder = word.partition("=")
        if name == "maintain":
            dataset = find_dataset(lake.settings.datasets_folder, folder)
            yield launcher.maintain(dataset, AT_ONCE, dry_run=False).model_dump(mode="json")
            continue
        dataset = find_dataset(lake.settings.datasets_folder, name)
        done = run_batch(lake, dataset, plan_batch(lake, dataset, None, folder), launcher)
        yield {
            "batch": done.batch,
            "already": done.published.already if done.published else None,
            "red": str(done.red) if done.red else None,
            "main": StateTable(lake, dataset).main.snapshot,
        }


def main(words: list[str]) -> None:
    lake = Lake(load_settings())
    spark = InProcess(lake)
    for ended in arrive(lake, spark, words):
        print(json.dumps(ended), flush=True)
    spark.close()


if __name__ == "__main__":
    main(sys.argv[1:])
